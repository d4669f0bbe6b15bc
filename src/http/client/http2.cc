#include "http/client/http2.h"

#include <fmt/core.h>
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"

namespace herald::http {
namespace {

// Flow-control windows. For a stream, enough for a fast network (1 MiB per 1 ms is 1 GB/s); for the
// connection, enough that one slow reader of a large response does not delay the others.
constexpr std::int32_t kStreamWindowBytes = 1 << 20;
constexpr std::int32_t kConnectionWindowBytes = 4 << 20;

// Maximum number of concurrent streams before the server has sent its limit, and an upper limit for
// the value of the server: each stream costs memory on both sides, and more are not faster.
constexpr std::uint32_t kInitialMaxStreams = 100;  // RFC 9113, 6.5.2 recommends no less
constexpr std::uint32_t kMaxStreams = 1000;

constexpr int kMinStatus = 100;  // RFC 9110, 15

// Overhead of a header field in addition to its name and value: RFC 9113, 6.5.2.
constexpr std::size_t kFieldOverheadBytes = 32;

// How much of the debug data of a GOAWAY is put into an error message.
constexpr std::size_t kMaxDebugDataBytes = 200;

std::string_view View(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

nghttp2_nv Field(std::string_view name, std::string_view value) {
  // nghttp2 copies both and writes to neither.
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
          value.size(), NGHTTP2_NV_FLAG_NONE};
}

std::string Printable(std::string_view bytes) {
  std::string out(bytes.substr(0, kMaxDebugDataBytes));
  for (char& c : out)
    if (c < ' ' || c > '~') c = '?';
  return out;
}

}  // namespace

// All get the codec as user data. noexcept, because no exception may pass through C code.
struct Http2Client::Callbacks {
  static Http2Client& Self(void* user) { return *static_cast<Http2Client*>(user); }
  static Stream* Find(nghttp2_session* session, std::int32_t id) {
    return static_cast<Stream*>(nghttp2_session_get_stream_user_data(session, id));
  }

  static int OnHeader(nghttp2_session* session, const nghttp2_frame* frame,
                      const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                      std::size_t value_size, std::uint8_t, void* user) noexcept {
    Stream* stream = Find(session, frame->hd.stream_id);
    if (stream == nullptr) return 0;
    const std::size_t limit = Self(user).max_header_bytes_;
    stream->header_bytes += name_size + value_size + kFieldOverheadBytes;
    if (stream->header_bytes > limit) {
      stream->error = fmt::format("the head of the response is larger than {} bytes", limit);
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    if (stream->request == nullptr) return 0;
    const std::string_view field = View(name, name_size);
    const std::string_view content = View(value, value_size);
    if (stream->head_received) {
      stream->trailers.Add(std::string(field), std::string(content));
    } else if (field == ":status") {
      // Three digits: nghttp2 has checked it.
      std::from_chars(content.data(), content.data() + content.size(), stream->head.status);
      if (stream->head.status < kMinStatus) {
        stream->error = fmt::format("the response has the invalid status {}", content);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
      }
    } else {
      stream->head.headers.Add(std::string(field), std::string(content));
    }
    return 0;
  }

  static int OnData(nghttp2_session* session, std::uint8_t, std::int32_t id,
                    const std::uint8_t* bytes, std::size_t size, void* user) noexcept {
    Http2Client& self = Self(user);
    const Stream* stream = Find(session, id);
    if (stream != nullptr && stream->request != nullptr && size > 0)
      self.events_.data(stream->exchange, View(bytes, size));
    // Only after the callback, so that the server cannot send more than the window meanwhile.
    nghttp2_session_consume(session, id, size);
    return 0;
  }

  static int OnFrameReceived(nghttp2_session* session, const nghttp2_frame* frame,
                             void* user) noexcept {
    Http2Client& self = Self(user);
    if (frame->hd.type == NGHTTP2_GOAWAY) {
      const nghttp2_goaway& goaway = frame->goaway;
      if (goaway.error_code != NGHTTP2_NO_ERROR) {
        self.error_ = fmt::format("the server closed the connection with {}",
                                  nghttp2_http2_strerror(goaway.error_code));
        if (goaway.opaque_data_len > 0)
          self.error_ +=
              fmt::format(" ({})", Printable(View(goaway.opaque_data, goaway.opaque_data_len)));
      }
      return 0;
    }
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    Stream* stream = Find(session, frame->hd.stream_id);
    if (stream == nullptr || stream->request == nullptr) return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && !stream->head_received) {
      if (stream->head.status / 100 == 1) {
        stream->head = {};  // an interim response
      } else {
        stream->head_received = true;
        self.events_.head(stream->exchange, std::move(stream->head));
      }
    }
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      // A response may be complete before the request is, for example if it rejects the request.
      if (!stream->all_sent)
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
      self.End(*stream, {.outcome = ExchangeEnd::Outcome::kWhole,
                         .cause = {},
                         .trailers = std::move(stream->trailers)});
    }
    return 0;
  }

  static int OnInvalidFrame(nghttp2_session*, const nghttp2_frame*, int error,
                            void* user) noexcept {
    Self(user).error_ =
        fmt::format("the response is not valid HTTP/2: {}", nghttp2_strerror(error));
    return 0;
  }

  static int OnError(nghttp2_session*, int, const char* message, std::size_t size,
                     void* user) noexcept {
    Self(user).error_ =
        fmt::format("the response is not valid HTTP/2: {}", Printable({message, size}));
    return 0;
  }

  static int OnFrameSent(nghttp2_session* session, const nghttp2_frame* frame, void*) noexcept {
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    Stream* stream = Find(session, frame->hd.stream_id);
    if (stream == nullptr) return 0;
    stream->head_sent = true;
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) stream->all_sent = true;
    return 0;
  }

  static int OnFrameNotSent(nghttp2_session* session, const nghttp2_frame* frame, int error,
                            void* user) noexcept {
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    Http2Client& self = Self(user);
    for (auto it = self.streams_.begin(); it != self.streams_.end(); ++it) {
      if (it->second.id != frame->hd.stream_id) continue;
      // nghttp2 may close the stream next, or may never have opened it.
      nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, nullptr);
      self.End(it->second, {ExchangeEnd::Outcome::kNotProcessed, nghttp2_strerror(error)});
      self.streams_.erase(it);
      break;
    }
    return 0;
  }

  static int OnStreamClose(nghttp2_session* session, std::int32_t id, std::uint32_t error,
                           void* user) noexcept {
    Http2Client& self = Self(user);
    Stream* stream = Find(session, id);
    if (stream == nullptr) return 0;
    if (stream->request != nullptr) {
      // The server's REFUSED_STREAM, or its GOAWAY with a smaller last stream.
      const bool refused = error == NGHTTP2_REFUSED_STREAM && !stream->head_received;
      std::string cause = std::move(stream->error);
      if (cause.empty() && !refused) cause = self.error_;
      if (cause.empty())
        cause = fmt::format("the stream was reset with {}", nghttp2_http2_strerror(error));
      self.End(*stream,
               {refused ? ExchangeEnd::Outcome::kNotProcessed : ExchangeEnd::Outcome::kBroken,
                std::move(cause)});
    }
    self.streams_.erase(stream->exchange);
    return 0;
  }

  static ssize_t ReadBody(nghttp2_session*, std::int32_t, std::uint8_t* out, std::size_t size,
                          std::uint32_t* flags, nghttp2_data_source* source, void*) noexcept {
    Stream& stream = *static_cast<Stream*>(source->ptr);
    if (stream.request == nullptr) return NGHTTP2_ERR_DEFERRED;  // it is being reset
    const std::string& body = stream.request->body;
    const std::size_t piece = std::min(size, body.size() - stream.body_sent);
    std::memcpy(out, body.data() + stream.body_sent, piece);
    stream.body_sent += piece;
    if (stream.body_sent == body.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(piece);
  }
};

Http2Client::Http2Client(const ClientCodecEvents& events, std::size_t max_header_bytes, bool https)
    : events_(events), max_header_bytes_(max_header_bytes), https_(https) {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* option = nullptr;
  HERALD_CHECK(nghttp2_session_callbacks_new(&callbacks) == 0);
  HERALD_CHECK(nghttp2_option_new(&option) == 0);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, Callbacks::OnHeader);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, Callbacks::OnData);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, Callbacks::OnFrameReceived);
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks,
                                                               Callbacks::OnInvalidFrame);
  nghttp2_session_callbacks_set_error_callback2(callbacks, Callbacks::OnError);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, Callbacks::OnFrameSent);
  nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, Callbacks::OnFrameNotSent);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Callbacks::OnStreamClose);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_peer_max_concurrent_streams(option, kInitialMaxStreams);
  HERALD_CHECK(nghttp2_session_client_new2(&session_, callbacks, this, option) == 0);
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(callbacks);

  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindowBytes},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
       static_cast<std::uint32_t>(std::min<std::size_t>(max_header_bytes, 1U << 31))},
  };
  HERALD_CHECK(
      nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings)) == 0);
  HERALD_CHECK(nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0,
                                                     kConnectionWindowBytes) == 0);
}

Http2Client::~Http2Client() { nghttp2_session_del(session_); }

bool Http2Client::CanStart() const {
  if (draining()) return false;
  const std::uint32_t peers =
      nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
  return streams_.size() < std::min(peers, kMaxStreams);
}

void Http2Client::Start(std::uint64_t exchange, const Request& request) {
  HERALD_CHECK(CanStart());
  const auto [it, inserted] = streams_.try_emplace(exchange);
  HERALD_CHECK(inserted);
  Stream& stream = it->second;
  stream.exchange = exchange;
  stream.request = &request;
  ++exchanges_;

  std::vector<nghttp2_nv> fields;
  fields.reserve(request.headers.size() + 5);
  fields.push_back(Field(":method", request.method));
  fields.push_back(Field(":scheme", https_ ? "https" : "http"));
  fields.push_back(Field(":authority", request.authority));
  fields.push_back(Field(":path", request.target));
  for (const Headers::Field& field : request.headers)
    fields.push_back(Field(field.name, field.value));
  char length[24];
  nghttp2_data_provider body{};
  if (!request.body.empty()) {
    const auto [end, error] = std::to_chars(length, length + sizeof(length), request.body.size());
    fields.push_back(Field("content-length", {length, static_cast<std::size_t>(end - length)}));
    body.source.ptr = &stream;
    body.read_callback = Callbacks::ReadBody;
  }
  stream.id = nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(),
                                     request.body.empty() ? nullptr : &body, &stream);
  if (stream.id < 0) {
    End(stream, {ExchangeEnd::Outcome::kNotProcessed, nghttp2_strerror(stream.id)});
    streams_.erase(it);
  }
}

void Http2Client::Cancel(std::uint64_t exchange) {
  const auto it = streams_.find(exchange);
  if (it == streams_.end() || it->second.request == nullptr) return;
  it->second.request = nullptr;
  --exchanges_;
  if (!finished_)
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, it->second.id, NGHTTP2_CANCEL);
}

void Http2Client::Receive(std::string_view bytes) {
  if (finished_) return;
  const ssize_t used = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (used < 0) {
    if (error_.empty())
      error_ = fmt::format("the response is not valid HTTP/2: {}",
                           nghttp2_strerror(static_cast<int>(used)));
    nghttp2_session_terminate_session(session_, NGHTTP2_PROTOCOL_ERROR);
    EndAll(error_);
    return;
  }
  CheckFinished();
}

void Http2Client::ReceiveEnd(bool clean, std::string_view cause) {
  if (finished_) return;
  if (!error_.empty())
    EndAll(error_);
  else
    EndAll(clean ? "the server closed the connection" : cause);
}

void Http2Client::Send(std::string* out, std::size_t limit) {
  while (out->size() < limit) {
    const std::uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
    if (size < 0) {
      EndAll(nghttp2_strerror(static_cast<int>(size)));
      return;
    }
    if (size == 0) break;
    out->append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  }
  CheckFinished();
}

bool Http2Client::draining() const {
  return finished_ || shutting_down_ || nghttp2_session_check_request_allowed(session_) == 0;
}

void Http2Client::Shutdown() {
  if (shutting_down_ || finished_) return;
  shutting_down_ = true;
  nghttp2_session_terminate_session(session_, NGHTTP2_NO_ERROR);
}

void Http2Client::Ping() {
  if (!finished_) nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
}

void Http2Client::End(Stream& stream, ExchangeEnd end) {
  if (stream.request == nullptr) return;
  stream.request = nullptr;
  --exchanges_;
  events_.end(stream.exchange, std::move(end));
}

void Http2Client::EndAll(std::string_view cause) {
  finished_ = true;
  for (auto& [exchange, stream] : streams_)
    End(stream,
        {stream.head_sent ? ExchangeEnd::Outcome::kBroken : ExchangeEnd::Outcome::kNotProcessed,
         std::string(cause)});
}

void Http2Client::CheckFinished() {
  if (finished_ || nghttp2_session_want_read(session_) != 0 ||
      nghttp2_session_want_write(session_) != 0)
    return;
  EndAll(error_.empty() ? "the connection was closed" : error_);
}

}  // namespace herald::http
