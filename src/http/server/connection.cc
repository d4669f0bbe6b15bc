#include "http/server/connection.h"

#include <sys/socket.h>

#include <cerrno>
#include <exception>
#include <utility>

#include "http/server/http1.h"
#include "http/server/http2.h"

namespace herald::http {

ConnectionContext::ConnectionContext(const ServerOptions& server_options,
                                     const Handler& request_handler,
                                     std::shared_ptr<ServerCounters> server_counters,
                                     std::shared_ptr<ReadyList> ready_list)
    : options(server_options),
      handler(request_handler),
      counters(std::move(server_counters)),
      ready(std::move(ready_list)),
      date(SystemClock()),
      input(kInputBytes) {}

Connection::Connection(ConnectionContext& context, int socket, Peer peer,
                       std::shared_ptr<const ServerTlsContext> tls, SteadyTime now)
    : context_(context),
      socket_(socket),
      peer_(std::move(peer)),
      group_(std::make_shared<ResponseGroup>(context.ready, context.counters, peer_.connection,
                                             context.options.max_queued_bytes)),
      since_(now),
      progress_(now) {
  rate_.Restart(now);
  peer_.tls = tls != nullptr;
  if (tls) tls_ = std::make_unique<ServerTlsSession>(std::move(tls));
}

Connection::~Connection() = default;

void Connection::OnReadable(SteadyTime now) {
  if (closed_) return;
  const ssize_t size = ::recv(socket_, context_.input.data(), context_.input.size(), MSG_DONTWAIT);
  if (size < 0) {
    if (errno != EAGAIN && errno != EINTR) Close();
    return;
  }
  if (size == 0) return OnEof(now);
  const std::string_view bytes(context_.input.data(), static_cast<std::size_t>(size));
  if (lingering_) {
    if (bytes.size() > linger_bytes_) return Close();
    linger_bytes_ -= bytes.size();
    return;
  }
  if (!tls_) return OnPlaintext(bytes, now);

  const bool was_open = tls_->state() != ServerTlsSession::State::kHandshake;
  if (unsent_.empty()) {
    // TLS itself may produce output, which waits from now on.
    progress_ = now;
    rate_.Restart(now);
  }
  tls_->Receive(bytes, unsent_, [&](std::string_view plaintext) { OnPlaintext(plaintext, now); });
  switch (tls_->state()) {
    case ServerTlsSession::State::kHandshake:
      break;
    case ServerTlsSession::State::kOpen:
      if (!was_open) since_ = now;
      // In HTTP/2 the server may send first.
      if (!codec_ && tls_->protocol() == "h2") UseCodec(2, now);
      break;
    case ServerTlsSession::State::kClosed:
      OnEof(now);
      break;
    case ServerTlsSession::State::kFailed:
      Log("closed connection: TLS failed", tls_->error());
      context_.counters->connections_cut.fetch_add(1, std::memory_order_relaxed);
      codec_.reset();
      BeginLinger(now);  // the client should get the alert
      break;
  }
}

void Connection::OnPlaintext(std::string_view bytes, SteadyTime now) {
  if (codec_) return codec_->Receive(bytes, now);
  const std::string_view protocol = tls_ ? tls_->protocol() : std::string_view();
  if (protocol == "h2") {
    UseCodec(2, now);
  } else if (protocol == "http/1.1") {
    UseCodec(1, now);
  } else {
    // A client that uses HTTP/2 without ALPN begins with "PRI * HTTP/2.0"; no HTTP/1.1 request
    // does.
    constexpr std::string_view kPreface = "PRI ";
    undetected_.append(bytes);
    const std::string_view begin = std::string_view(undetected_).substr(0, kPreface.size());
    if (begin != kPreface.substr(0, begin.size())) {
      UseCodec(1, now);
    } else if (begin.size() == kPreface.size()) {
      UseCodec(2, now);
    } else {
      return;
    }
    return codec_->Receive(std::exchange(undetected_, {}), now);
  }
  codec_->Receive(bytes, now);
}

void Connection::UseCodec(int http_version, SteadyTime now) {
  peer_.http_version = http_version;
  if (tls_) peer_.certificate = tls_->certificate();
  const CodecContext codec{context_.options, context_.date, *this, group_};
  // The time limit of the first head includes the time of the detection.
  const SteadyTime began = undetected_.empty() ? now : since_;
  if (http_version == 2) {
    codec_ = std::make_unique<Http2Server>(codec, began);
  } else {
    codec_ = std::make_unique<Http1Server>(codec, began);
  }
}

void Connection::OnRequest(Request request, const std::shared_ptr<PendingResponse>& response) {
  context_.counters->requests.fetch_add(1, std::memory_order_relaxed);
  std::shared_ptr<Responder> responder = MakeResponder(response);
  try {
    context_.handler(std::move(request), peer_, std::move(responder));
  } catch (const std::exception& e) {
    response->Abandon();
    Log("request handler threw an exception", e.what());
  } catch (...) {
    response->Abandon();
    Log("request handler threw an exception", "not a std::exception");
  }
}

void Connection::OnEof(SteadyTime now) {
  eof_ = true;
  if (lingering_ || !codec_) return Close();
  codec_->ReceiveEof(now);
}

void Connection::OnResponse(PendingResponse& response, SteadyTime now) {
  if (closed_ || !codec_) return;
  codec_->OnResponse(response, now);
  // The response was aborted while the client does not read: there is nothing to wait for.
  if (codec_->finished() && !unsent_.empty()) Close();
}

void Connection::Flush(SteadyTime now) {
  has_more_ = false;
  if (!closed_ && group_->overflow) return Terminate("too many bytes of unread responses");
  for (int round = 0; round < kMaxRounds; ++round) {
    const bool sent = !closed_ && SendOnce(now);
    if (closed_) return;
    has_more_ = codec_ && !lingering_ && codec_->has_more_work();
    if (!sent || has_more_) return;
  }
  has_more_ = true;
}

bool Connection::SendOnce(SteadyTime now) {
  std::string& wire = context_.wire;
  wire.assign(unsent_);
  if (codec_ && !lingering_ && wire.size() < kOutputBytes) {
    if (tls_) {
      context_.plaintext.clear();
      codec_->Produce(context_.plaintext, kOutputBytes - wire.size(), now);
      tls_->Send(context_.plaintext, wire);
    } else {
      codec_->Produce(wire, kOutputBytes, now);
    }
  }
  if (wire.empty()) {
    if (lingering_) {
      if (!std::exchange(write_closed_, true)) ::shutdown(socket_, SHUT_WR);
      if (eof_) Close();
    } else if (codec_ && codec_->finished()) {
      BeginLinger(now);
      return true;
    }
    return false;
  }
  const ssize_t sent = ::send(socket_, wire.data(), wire.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) {
    Close();
    return false;
  }
  const std::size_t taken = sent > 0 ? static_cast<std::size_t>(sent) : 0;
  if (taken > 0 || unsent_.empty()) progress_ = now;
  if (unsent_.empty()) rate_.Restart(now);
  rate_.Add(taken);
  if (taken == wire.size()) {
    std::string().swap(unsent_);  // with its memory
    return true;
  }
  unsent_.assign(wire, taken);
  return false;
}

void Connection::BeginLinger(SteadyTime now) {
  lingering_ = true;
  linger_bytes_ = kLingerBytes;
  since_ = now;
  if (codec_ && !codec_->fault().empty()) {
    linger_bytes_ = kLingerBytesAfterFault;
    Log("closed connection", codec_->fault());
    context_.counters->connections_cut.fetch_add(1, std::memory_order_relaxed);
  }
  if (tls_) tls_->Close(unsent_);
}

void Connection::Tick(SteadyTime now) {
  if (closed_) return;
  const ServerOptions& options = context_.options;
  if (lingering_) {
    if (now - since_ >= kLingerTime) Close();
  } else if (!unsent_.empty() && now - progress_ >= options.write_timeout) {
    Terminate("the client does not read responses");
  } else if (ReadsTooSlowly(now)) {
    Terminate("the client reads responses too slowly");
  } else if (codec_) {
    codec_->Tick(now);
  } else {
    const bool handshake = tls_ && tls_->state() == ServerTlsSession::State::kHandshake;
    if (now - since_ >= (handshake ? options.handshake_timeout : options.header_timeout))
      Terminate(handshake ? "TLS handshake timed out" : "no request received in time");
  }
}

bool Connection::ReadsTooSlowly(SteadyTime now) {
  if (unsent_.empty()) return false;
  // The unsent bytes may belong to a stream, whose client may be slow.
  if (group_->streams > 0) {
    rate_.Restart(now);
    return false;
  }
  const ServerOptions& options = context_.options;
  return rate_.IsTooSlow(now, options.write_timeout, options.min_read_bytes_per_second);
}

void Connection::Drain(SteadyTime now) {
  if (codec_) {
    codec_->Drain(now);
  } else {
    Close();
  }
}

bool Connection::wants_read() const {
  if (closed_ || eof_) return false;
  // While a client does not read, its requests are not read: otherwise small requests would queue
  // large responses.
  return lingering_ || (unsent_.empty() && (!codec_ || codec_->wants_input()));
}

void Connection::Terminate(std::string_view why) {
  Log("closed connection", why);
  context_.counters->connections_cut.fetch_add(1, std::memory_order_relaxed);
  Close();
}

void Connection::Log(std::string_view message, std::string_view why) const {
  if (!context_.options.log) return;
  try {
    context_.options.log({.level = LogLevel::kDebug,
                          .message = message,
                          .fields = {{"peer", peer_.address}, {"reason", why}}});
  } catch (...) {  // a log function that fails must not stop the server
  }
}

}  // namespace herald::http
