#include "store/etcd/unary_channel.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "http/url.h"

namespace herald::store {
namespace {

// gRPC over HTTP/2: one byte for the compression flag and four for the length of the message.
constexpr std::size_t kFrameHeaderBytes = 5;

// Idle connections stay open, so that the next write does not wait for a new one.
constexpr std::chrono::hours kIdleTimeout{24 * 365};

// Decodes grpc-message, which is percent-encoded. An invalid encoding is kept as it is, so that the
// error is reported in any case.
std::string DecodeGrpcMessage(std::string_view encoded) {
  return http::PercentDecode(encoded).value_or(std::string(encoded));
}

// The code for an HTTP response without a gRPC status. It comes from a proxy, not from etcd (gRPC's
// "HTTP to gRPC Status Code Mapping").
GrpcCode CodeForHttpStatus(int status) {
  switch (status) {
    case 400:
      return GrpcCode::kInternal;
    case 401:
      return GrpcCode::kUnauthenticated;
    case 403:
      return GrpcCode::kPermissionDenied;
    case 404:
      return GrpcCode::kUnimplemented;
    case 429:
    case 502:
    case 503:
    case 504:
      return GrpcCode::kUnavailable;
    default:
      return GrpcCode::kUnknown;
  }
}

GrpcCode CodeForReason(StatusReason reason) {
  switch (reason) {
    case StatusReason::kTimeout:
      return GrpcCode::kDeadlineExceeded;
    case StatusReason::kCancelled:
      return GrpcCode::kCancelled;
    case StatusReason::kUnreachable:
      return GrpcCode::kUnavailable;
    case StatusReason::kRequestEntityTooLarge:
      return GrpcCode::kResourceExhausted;
    default:
      return GrpcCode::kInternal;
  }
}

UnaryResult Malformed(std::string message) { return {GrpcCode::kInternal, std::move(message)}; }

}  // namespace

std::string FrameGrpcMessage(const google::protobuf::MessageLite& message) {
  const std::size_t size = message.ByteSizeLong();
  std::string frame(kFrameHeaderBytes + size, '\0');
  for (std::size_t i = 0; i < 4; ++i) frame[4 - i] = static_cast<char>(size >> (8 * i));
  message.SerializeWithCachedSizesToArray(
      reinterpret_cast<std::uint8_t*>(&frame[kFrameHeaderBytes]));
  return frame;
}

UnaryResult ParseUnaryResponse(const http::Response& answer,
                               google::protobuf::MessageLite* response) {
  // A call that fails at once has its status in the headers.
  const http::Headers& end =
      answer.trailers.Find("grpc-status") != nullptr ? answer.trailers : answer.headers;
  const std::string_view status = end.Get("grpc-status");
  if (status.empty()) {
    if (answer.status == 200) return Malformed("the response has no grpc-status");
    return {CodeForHttpStatus(answer.status), fmt::format("HTTP status {}", answer.status)};
  }
  std::uint8_t code = 0;
  const auto [last, error] = std::from_chars(status.data(), status.data() + status.size(), code);
  if (error != std::errc() || last != status.data() + status.size()) {
    return Malformed(fmt::format("invalid grpc-status \"{}\"", status));
  }
  if (code != 0) return {static_cast<GrpcCode>(code), DecodeGrpcMessage(end.Get("grpc-message"))};

  if (answer.body.size() < kFrameHeaderBytes) return Malformed("the response has no message");
  std::size_t size = 0;
  for (std::size_t i = 1; i < kFrameHeaderBytes; ++i) {
    size = size << 8U | static_cast<std::uint8_t>(answer.body[i]);
  }
  if (answer.body[0] != 0) return Malformed("the response is compressed without being requested");
  const std::string_view message = std::string_view(answer.body).substr(kFrameHeaderBytes);
  if (message.size() != size) return Malformed("the response must have exactly one message");
  if (!response->ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return Malformed("cannot parse the message of the response");
  }
  return {};
}

Result<std::unique_ptr<UnaryChannel>> UnaryChannel::Open(Options options) {
  http::ClientOptions http;
  http.url = options.url;
  http.tls = std::move(options.tls);
  http.plain_http2 = true;
  http.connect_timeout = options.connect_timeout;
  http.idle_timeout = kIdleTimeout;
  http.ping_interval = options.ping_interval;
  http.ping_timeout = options.ping_timeout;
  http.ping_without_calls = false;
  Result<std::unique_ptr<http::Client>> client = http::Client::Open(std::move(http));
  if (!client) return client.error();
  return std::unique_ptr<UnaryChannel>(
      new UnaryChannel(std::move(options.url), *std::move(client)));
}

UnaryResult UnaryChannel::FailedResult(const Status& error) const {
  // The caller adds the endpoint itself.
  std::string_view message = error.message();
  if (message.starts_with(url_ + ": ")) message.remove_prefix(url_.size() + 2);
  return {.code = CodeForReason(error.reason()),
          .message = std::string(message),
          .unprocessed = http::IsUnprocessed(error)};
}

void UnaryChannel::Canceller::Cancel() {
  const http::Client::CallId id = id_.exchange(kCancelled);
  if (id != 0 && id != kCancelled) client_->Cancel(id);
}

void UnaryChannel::Start(const Call& call, const google::protobuf::MessageLite& request,
                         google::protobuf::MessageLite* response,
                         std::shared_ptr<Canceller> canceller,
                         std::function<void(UnaryResult)> done) {
  // 0 would mean no timeout.
  const auto timeout = std::max(call.timeout, std::chrono::milliseconds(1));
  http::Request post;
  post.method = "POST";
  post.target = call.method;
  post.headers = {{"te", "trailers"},
                  {"content-type", "application/grpc"},
                  {"accept-encoding", "identity"},
                  // Lets the server stop when the caller no longer waits for the response.
                  {"grpc-timeout", fmt::format("{}m", timeout.count())}};
  // A member without a leader then fails the call instead of waiting for one.
  if (call.needs_leader) post.headers.Add("hasleader", "true");
  if (call.token) post.headers.Add("token", *call.token);
  post.body = FrameGrpcMessage(request);
  // A copy, because the caller may be destroyed when Fetch() returns.
  const std::shared_ptr<Canceller> own = std::move(canceller);
  own->client_ = client_.get();
  const http::Client::CallId id = client_->Fetch(
      std::move(post), {.timeout = timeout},
      [this, response, done = std::move(done)](const Result<http::Response>& answer) {
        done(answer ? ParseUnaryResponse(*answer, response) : FailedResult(answer.error()));
      });
  if (own->id_.exchange(id) == Canceller::kCancelled) client_->Cancel(id);
}

}  // namespace herald::store
