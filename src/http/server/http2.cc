#include "http/server/http2.h"

#include <fmt/core.h>
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/check.h"
#include "http/server/http2_internal.h"

namespace herald::http {

namespace {

nghttp2_nv Field(std::string_view name, std::string_view value) {
  // nghttp2 copies both and changes neither, although its interface has no const.
  return {const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(name.data())),
          const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(value.data())),
          name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

Http2Server::Http2Server(const CodecContext& context, SteadyTime now)
    : context_(context),
      now_(now),
      idle_since_(now),
      guard_({.max_continuations = kMaxContinuations,
              .max_block_bytes = kMaxHeadFactor * context.options.max_header_bytes}) {
  rate_.Restart(now);
  HERALD_CHECK(
      nghttp2_session_server_new2(&session_, Callbacks::All(), this, Callbacks::Options()) == 0,
      "out of memory");
  const std::array<nghttp2_settings_entry, 3> settings = {{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, context_.options.max_streams},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
       static_cast<std::uint32_t>(context_.options.max_header_bytes)},
      // Clients do not use RFC 7540's tree of priorities, and it costs time for each stream.
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  }};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindowBytes);
}

Http2Server::~Http2Server() {
  Http2Server::Abandon();
  nghttp2_session_del(session_);
}

void Http2Server::Receive(std::string_view bytes, SteadyTime now) {
  now_ = now;
  if (abandoned_ || !fault_.empty()) return;
  const std::optional<Http2FrameGuard::Violation> violation = guard_.Check(bytes, now);
  if (violation) bytes = bytes.substr(0, violation->at);
  const ssize_t used = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (used == NGHTTP2_ERR_BAD_CLIENT_MAGIC) {
    Terminate(NGHTTP2_PROTOCOL_ERROR, "invalid HTTP/2 connection preface");
  } else if (used < 0) {
    // One of nghttp2's own limits: unread acknowledgements of SETTINGS and PING, or entries of
    // SETTINGS.
    Terminate(NGHTTP2_ENHANCE_YOUR_CALM, nghttp2_strerror(static_cast<int>(used)));
  }
  if (violation) Terminate(violation->code, violation->fault);
}

void Http2Server::ReceiveEof(SteadyTime now) {
  now_ = now;
  Abandon();
}

Http2Server::Stream* Http2Server::Find(std::int32_t id) {
  const auto found = streams_.find(id);
  return found != streams_.end() ? found->second.get() : nullptr;
}

void Http2Server::BeginRequest(std::int32_t id) {
  if (!fault_.empty()) return;
  if (goaway_received_) {
    // nghttp2 reads it only if it came with the GOAWAY or if other streams are open.
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
    return;
  }
  streams_.emplace(id, std::make_unique<Stream>(id));
}

bool Http2Server::CountField(std::string_view name, std::string_view value) {
  constexpr std::size_t kFieldOverhead = 32;  // as RFC 9113 counts SETTINGS_MAX_HEADER_LIST_SIZE
  block_bytes_ += name.size() + value.size() + kFieldOverhead;
  if (block_bytes_ <= kMaxHeadFactor * context_.options.max_header_bytes) return true;
  Terminate(NGHTTP2_ENHANCE_YOUR_CALM, "header block far too large");
  return false;
}

void Http2Server::AddField(Stream& stream, std::string_view name, std::string_view value) {
  const ServerOptions& options = context_.options;
  if (block_bytes_ > options.max_header_bytes || ++stream.fields > options.max_header_fields) {
    stream.rejection = 431;
    stream.request = {};
    return;
  }
  Request& request = stream.request;
  if (name == ":method") {
    request.method = value;
    stream.is_head = value == "HEAD";
    if (value == "CONNECT") stream.rejection = 501;
  } else if (name == ":path") {
    request.target = value;
  } else if (name == ":authority" || (name == "host" && request.authority.empty())) {
    request.authority = value;
  } else if (name == "content-length") {
    std::size_t length = 0;
    // nghttp2 has checked that this is a number.
    std::from_chars(value.data(), value.data() + value.size(), length);
    stream.length = length;
  } else if (name == "expect") {
    stream.expects_continue = value == "100-continue";
  } else if (!name.starts_with(':') && !IsConnectionField(name)) {
    request.headers.Add(std::string(name), std::string(value));
  }
}

void Http2Server::EndHead(Stream& stream, bool end_stream) {
  stream.ended = end_stream;
  if (stream.rejection != 0) return Reject(stream, stream.rejection);
  if (!fault_.empty()) return;
  // Dispatched later: the bytes that came with it may contain a reset, and then the request causes
  // no work.
  waiting_.push_back(stream.id);
}

void Http2Server::Dispatch(Stream& stream) {
  stream.response = std::make_shared<PendingResponse>(context_.group, stream.id);
  if (draining_) stream.response->Drain();
  stream.response->Hold();
  context_.receiver.OnRequest(std::move(stream.request), stream.response);
  UpdateFromHandler(stream);
}

void Http2Server::UpdateFromHandler(Stream& stream) {
  stream.response->Acknowledge();
  if (stream.body_state == Stream::Body::kUndecided && stream.response->wants_body())
    BeginBody(stream);
  if (!stream.submitted) SubmitResponse(stream);
}

void Http2Server::BeginBody(Stream& stream) {
  PendingResponse& response = *stream.response;
  const std::size_t known = stream.ended ? stream.body.size() : stream.length.value_or(0);
  if (!response.ReserveBody(known) || !response.GrowBody(stream.body.size()))
    return DropBody(stream);
  stream.body_state = Stream::Body::kReading;
  stream.began = now_;
  Consume(stream);
  if (stream.ended) return EndRequest(stream);
  if (stream.expects_continue && stream.body.empty()) {
    const nghttp2_nv status = Field(":status", "100");
    nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, stream.id, nullptr, &status, 1, nullptr);
  }
}

void Http2Server::AddBody(Stream& stream, std::string_view bytes) {
  stream.unconsumed += bytes.size();
  switch (stream.body_state) {
    case Stream::Body::kUndecided:
      stream.body.append(bytes);
      return;
    case Stream::Body::kReading:
      if (!stream.response->GrowBody(stream.body.size() + bytes.size())) return DropBody(stream);
      stream.body.append(bytes);
      return Consume(stream);
    case Stream::Body::kDone:
      return DropBody(stream);
  }
}

void Http2Server::Consume(Stream& stream) {
  const std::size_t bytes = std::exchange(stream.unconsumed, 0);
  if (bytes == 0) return;
  nghttp2_session_consume_connection(session_, bytes);
  nghttp2_session_consume_stream(session_, stream.id, bytes);
}

void Http2Server::DropBody(Stream& stream) {
  stream.body_state = Stream::Body::kDone;
  stream.body = {};
  // The window of the stream stays closed, so that the client sends little more of it. The window
  // of the connection is opened for the other streams.
  if (const std::size_t bytes = std::exchange(stream.unconsumed, 0); bytes > 0)
    nghttp2_session_consume_connection(session_, bytes);
}

void Http2Server::EndRequest(Stream& stream) {
  stream.ended = true;
  if (stream.body_state != Stream::Body::kReading) return;
  stream.body_state = Stream::Body::kDone;
  stream.response->Hold();
  stream.response->GiveBody(std::move(stream.body));
  UpdateFromHandler(stream);
}

bool Http2Server::HasRoom() const {
  const ResponseGroup& group = *context_.group;
  return group.whole_bytes + group.streamed_bytes <= group.max_queued_bytes;
}

bool Http2Server::DispatchWaiting(int* budget) {
  bool dispatched = false;
  while (!waiting_.empty() && *budget > 0 && fault_.empty() && HasRoom()) {
    const std::int32_t id = waiting_.front();
    waiting_.pop_front();
    if (Stream* stream = Find(id); stream != nullptr && !stream->response) {
      Dispatch(*stream);
      dispatched = true;
      --*budget;
    }
  }
  return dispatched;
}

void Http2Server::Reject(Stream& stream, int status) {
  if (stream.response) return;
  stream.request = {};
  DropBody(stream);
  stream.response = std::make_shared<PendingResponse>(context_.group, stream.id);
  stream.response->Send(PlainResponse(status, ReasonPhrase(status)));
  SubmitResponse(stream);
}

void Http2Server::OnResponse(PendingResponse& response, SteadyTime now) {
  now_ = now;
  Stream* stream = Find(response.stream());
  if (stream == nullptr || stream->response.get() != &response) return;
  if (!stream->submitted) return UpdateFromHandler(*stream);
  response.Acknowledge();
  if (response.Read(nullptr, 0).aborted) {
    // At once, and not only when the client opens its window.
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_INTERNAL_ERROR);
  } else if (stream->deferred) {
    stream->deferred = false;
    stream->progress = now;
    stream->rate.Restart(now);
    nghttp2_session_resume_data(session_, stream->id);
  }
}

void Http2Server::SubmitResponse(Stream& stream) {
  std::optional<PendingResponse::Head> head = stream.response->TakeHead();
  if (!head) {
    if (stream.response->Read(nullptr, 0).aborted)
      nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_INTERNAL_ERROR);
    return;
  }
  // The handler responds without the body, or before all of it was read.
  DropBody(stream);
  stream.response->DropBody();
  MakeSendable(head->status, head->headers);
  const bool has_body = !IsBodiless(head->status) && !stream.is_head;
  const std::string status = fmt::format("{}", head->status);
  const std::string length = fmt::format("{}", head->body_bytes);

  std::vector<nghttp2_nv> fields;
  fields.reserve(head->headers.size() + 3);
  fields.push_back(Field(":status", status));
  for (const Headers::Field& field : head->headers)
    fields.push_back(Field(field.name, field.value));
  if (head->headers.Find("date") == nullptr) fields.push_back(Field("date", context_.date.Get()));
  if (head->whole && !IsBodiless(head->status)) fields.push_back(Field("content-length", length));

  stream.submitted = true;
  stream.finite = head->finite;
  stream.progress = now_;
  stream.rate.Restart(now_);
  nghttp2_data_provider body{};
  body.source.ptr = &stream;
  body.read_callback = Callbacks::ReadBody;
  const bool empty = !has_body || (head->whole && head->body_bytes == 0);
  nghttp2_submit_response(session_, stream.id, fields.data(), fields.size(),
                          empty ? nullptr : &body);
}

void Http2Server::Produce(std::string& out, std::size_t limit, SteadyTime now) {
  now_ = now;
  if (abandoned_) return;
  int budget = kMaxDispatches;
  do {
    while (out.size() < limit) {
      const std::uint8_t* data = nullptr;
      const ssize_t size = nghttp2_session_mem_send(session_, &data);
      if (size < 0) Terminate(NGHTTP2_INTERNAL_ERROR, "nghttp2 cannot produce output");
      if (size <= 0) break;
      out.append(View(data, static_cast<std::size_t>(size)));
    }
    for (const std::shared_ptr<PendingResponse>& response : read_) response->NotifyDrained();
    read_.clear();
    // Responses that the handler sends within the call must be sent now: nothing else triggers it.
  } while (DispatchWaiting(&budget));
  if (context_.group->whole_bytes == 0) rate_.Restart(now);
}

bool Http2Server::IsBlocked(const Stream& stream) const {
  return nghttp2_session_get_stream_remote_window_size(session_, stream.id) <= 0;
}

void Http2Server::CloseStream(std::int32_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  const std::unique_ptr<Stream> stream = std::move(found->second);
  streams_.erase(found);
  idle_since_ = now_;
  DropBody(*stream);
  if (stream->response) stream->response->Release();
}

void Http2Server::Tick(SteadyTime now) {
  now_ = now;
  if (abandoned_ || !fault_.empty()) return;
  const ServerOptions& options = context_.options;
  if (!settings_received_ && now - idle_since_ >= options.header_timeout)
    return Terminate(NGHTTP2_SETTINGS_TIMEOUT, "no SETTINGS frame received in time");
  if (guard_.in_block() && now - guard_.block_since() >= options.header_timeout)
    return Terminate(NGHTTP2_ENHANCE_YOUR_CALM, "timed out while reading a header block");
  if (streams_.empty() && now - idle_since_ >= options.idle_timeout) Drain(now);

  std::vector<Stream*> late;
  std::vector<std::int32_t> unwanted;
  const auto is_too_slow = [&](ReadRate& rate) {
    return rate.IsTooSlow(now, options.write_timeout, options.min_read_bytes_per_second);
  };
  bool connection_waits = false;  // a finite response is delayed, and not by its stream
  for (const auto& [id, stream] : streams_) {
    const bool slow_body =
        stream->body_state == Stream::Body::kReading && now - stream->began >= options.body_timeout;
    const bool waits = stream->submitted && !stream->deferred && stream->response->queued() > 0;
    const bool unread = waits && now - stream->progress >= options.write_timeout;
    const bool slow_read = waits && stream->finite && is_too_slow(stream->rate);
    const bool blocked = waits && stream->finite && IsBlocked(*stream);
    if (waits && stream->finite && !blocked) connection_waits = true;
    if (slow_body || unread || (slow_read && blocked)) late.push_back(stream.get());
    if (now - stream->answered.value_or(now) >= kResetDelay) unwanted.push_back(id);
  }
  if (!connection_waits) {
    rate_.Restart(now);
  } else if (is_too_slow(rate_)) {
    return Terminate(NGHTTP2_ENHANCE_YOUR_CALM, "the client reads responses too slowly");
  }
  for (const std::int32_t id : unwanted)
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
  for (Stream* stream : late) {
    if (stream->submitted) {
      nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
    } else {
      DropBody(*stream);
      stream->response->GiveBody(
          Status(StatusReason::kTimeout, "timed out while reading the request body"));
    }
  }
}

void Http2Server::Drain(SteadyTime now) {
  now_ = now;
  if (abandoned_ || std::exchange(draining_, true)) return;
  // nghttp2 ignores requests after this. The client knows from the last stream id in GOAWAY that it
  // may retry them on another connection.
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                        nullptr, 0);
  std::vector<std::shared_ptr<PendingResponse>> responses;
  for (const auto& [id, stream] : streams_)
    if (stream->response) responses.push_back(stream->response);
  for (const std::shared_ptr<PendingResponse>& response : responses) response->Drain();
}

void Http2Server::Abandon() {
  abandoned_ = true;
  // Removed from the map first, because Release() calls callbacks, which must find it consistent.
  const auto streams = std::exchange(streams_, {});
  for (const auto& [id, stream] : streams)
    if (stream->response) stream->response->Release();
  read_.clear();
}

bool Http2Server::finished() const {
  if (abandoned_) return true;
  if (nghttp2_session_want_write(session_) != 0) return false;
  return nghttp2_session_want_read(session_) == 0 || (draining_ && streams_.empty());
}

void Http2Server::Charge(TokenBucket& bucket, const TokenBucket::Limits& limits,
                         std::string_view fault) {
  if (!bucket.TryTake(limits, now_)) Terminate(NGHTTP2_ENHANCE_YOUR_CALM, fault);
}

void Http2Server::Terminate(std::uint32_t code, std::string_view fault) {
  if (!fault_.empty()) return;
  fault_ = fault;
  nghttp2_session_terminate_session(session_, code);
}

}  // namespace herald::http
