#include <algorithm>
#include <utility>

#include "base/check.h"
#include "http/server/http2_internal.h"

namespace herald::http {

namespace {

// Whether a stream is reset because of what the client did, and not for a reason of our own.
bool IsClientError(std::uint32_t code) {
  return code != NGHTTP2_NO_ERROR && code != NGHTTP2_INTERNAL_ERROR && code != NGHTTP2_CANCEL;
}

}  // namespace

int Http2Server::Callbacks::OnBeginFrame(nghttp2_session* /*session*/, const nghttp2_frame_hd* head,
                                         void* user_data) {
  Http2Server& self = Self(user_data);
  if (std::exchange(self.block_ignored_, head->type == NGHTTP2_HEADERS))
    self.Charge(self.resets_, kResets, "too many HEADERS frames on closed streams");
  switch (head->type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_CONTINUATION:  // counted by the guard
      break;
    case NGHTTP2_DATA:
      if (head->length == 0 && (head->flags & NGHTTP2_FLAG_END_STREAM) == 0)
        self.Charge(self.controls_, kControls, "too many empty DATA frames");
      break;
    case NGHTTP2_RST_STREAM:
      self.Charge(self.resets_, kResets, "too many streams reset by the client");
      break;
    case NGHTTP2_WINDOW_UPDATE:
      if (--self.updates_left_ < 0)
        self.Terminate(NGHTTP2_ENHANCE_YOUR_CALM, "too many WINDOW_UPDATE frames");
      break;
    case NGHTTP2_SETTINGS:
      self.Charge(self.controls_, kControls, "too many SETTINGS frames");
      break;
    case NGHTTP2_PING:
      self.Charge(self.controls_, kControls, "too many PING frames");
      break;
    default:
      self.Charge(self.controls_, kControls, "too many PRIORITY frames");
      break;
  }
  return 0;
}

int Http2Server::Callbacks::OnInvalidFrame(nghttp2_session* /*session*/, const nghttp2_frame* frame,
                                           int /*error*/, void* user_data) {
  Http2Server& self = Self(user_data);
  if (frame->hd.type == NGHTTP2_HEADERS) {
    self.block_ignored_ = false;  // counted when RST_STREAM is sent for it
  } else {
    self.Charge(self.controls_, kControls, "too many invalid frames");
  }
  return 0;
}

int Http2Server::Callbacks::OnBeginHeaders(nghttp2_session* /*session*/, const nghttp2_frame* frame,
                                           void* user_data) {
  Http2Server& self = Self(user_data);
  self.block_ignored_ = false;
  self.block_bytes_ = 0;
  if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) self.BeginRequest(frame->hd.stream_id);
  return 0;
}

int Http2Server::Callbacks::OnHeader(nghttp2_session* /*session*/, const nghttp2_frame* frame,
                                     const std::uint8_t* name, std::size_t name_size,
                                     const std::uint8_t* value, std::size_t value_size,
                                     std::uint8_t /*flags*/, void* user_data) {
  Http2Server& self = Self(user_data);
  // The error keeps nghttp2 from decoding the rest of the frame.
  if (!self.CountField(View(name, name_size), View(value, value_size)))
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;  // trailers are not used
  if (Stream* stream = self.Find(frame->hd.stream_id))
    self.AddField(*stream, View(name, name_size), View(value, value_size));
  return 0;
}

int Http2Server::Callbacks::OnFrame(nghttp2_session* /*session*/, const nghttp2_frame* frame,
                                    void* user_data) {
  Http2Server& self = Self(user_data);
  if (frame->hd.type == NGHTTP2_SETTINGS) self.settings_received_ = true;
  if (frame->hd.type == NGHTTP2_GOAWAY) self.goaway_received_ = true;
  if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
  Stream* stream = self.Find(frame->hd.stream_id);
  if (stream == nullptr) return 0;
  if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
    self.EndHead(*stream, (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0);
  if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) self.EndRequest(*stream);
  return 0;
}

int Http2Server::Callbacks::OnData(nghttp2_session* session, std::uint8_t /*flags*/,
                                   std::int32_t id, const std::uint8_t* data, std::size_t size,
                                   void* user_data) {
  Http2Server& self = Self(user_data);
  if (Stream* stream = self.Find(id)) {
    self.AddBody(*stream, View(data, size));
  } else {
    nghttp2_session_consume_connection(session, size);
  }
  return 0;
}

int Http2Server::Callbacks::OnStreamClose(nghttp2_session* /*session*/, std::int32_t id,
                                          std::uint32_t /*code*/, void* user_data) {
  Self(user_data).CloseStream(id);
  return 0;
}

int Http2Server::Callbacks::OnFrameSent(nghttp2_session* /*session*/, const nghttp2_frame* frame,
                                        void* user_data) {
  Http2Server& self = Self(user_data);
  if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR &&
      self.fault_.empty()) {
    self.fault_ = "protocol error";
  }
  if (frame->hd.type == NGHTTP2_RST_STREAM && IsClientError(frame->rst_stream.error_code))
    self.Charge(self.resets_, kResets, "too many stream errors");
  if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
  self.updates_left_ = std::min(self.updates_left_ + kUpdatesPerFrame, kUpdatesInAdvance);
  if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
    if (Stream* stream = self.Find(frame->hd.stream_id)) stream->answered = self.now_;
  }
  return 0;
}

ssize_t Http2Server::Callbacks::ReadBody(nghttp2_session* /*session*/, std::int32_t /*id*/,
                                         std::uint8_t* buffer, std::size_t size,
                                         std::uint32_t* flags, nghttp2_data_source* source,
                                         void* user_data) {
  Http2Server& self = Self(user_data);
  auto& stream = *static_cast<Stream*>(source->ptr);
  const PendingResponse::Piece piece = stream.response->Read(reinterpret_cast<char*>(buffer), size);
  if (piece.aborted) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;  // becomes RST_STREAM
  if (piece.end) *flags |= NGHTTP2_DATA_FLAG_EOF;
  if (piece.bytes == 0 && !piece.end) {
    stream.deferred = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  stream.progress = self.now_;
  stream.rate.Add(piece.bytes);
  self.rate_.Add(piece.bytes);
  self.read_.push_back(stream.response);
  return static_cast<ssize_t>(piece.bytes);
}

const nghttp2_session_callbacks* Http2Server::Callbacks::All() {
  static nghttp2_session_callbacks* const all = [] {
    nghttp2_session_callbacks* callbacks = nullptr;
    HERALD_CHECK(nghttp2_session_callbacks_new(&callbacks) == 0, "out of memory");
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, OnBeginFrame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, OnInvalidFrame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, OnBeginHeaders);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, OnFrame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnData);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnStreamClose);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, OnFrameSent);
    return callbacks;
  }();
  return all;
}

const nghttp2_option* Http2Server::Callbacks::Options() {
  static nghttp2_option* const options = [] {
    nghttp2_option* made = nullptr;
    HERALD_CHECK(nghttp2_option_new(&made) == 0, "out of memory");
    nghttp2_option_set_no_auto_window_update(made, 1);
    nghttp2_option_set_no_closed_streams(made, 1);
    // Our own limits apply instead. nghttp2 measures resets with the system's clock, not with the
    // time that we pass, and it counts a CONTINUATION once for each piece in which its frame header
    // arrives (1.52), so it would reject valid ones.
    constexpr std::uint64_t kNever = std::uint64_t{1} << 40;
    nghttp2_option_set_stream_reset_rate_limit(made, kNever, kNever);
    nghttp2_option_set_max_continuations(made, kNever);
    return made;
  }();
  return options;
}

}  // namespace herald::http
