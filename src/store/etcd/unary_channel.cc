#include "store/etcd/unary_channel.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "http/url.h"

namespace herald::store {
namespace {

// Of gRPC over HTTP/2: a byte that says whether the message is compressed, and four of its length.
constexpr std::size_t kFrameHead = 5;

// An idle connection is kept: the next write should not have to wait for one.
constexpr std::chrono::hours kNeverIdle{24 * 365};

// grpc-message: what is not printable ASCII is percent-encoded. What is not, against the rules,
// stays as it is: a refusal must be told in any case.
std::string DecodeMessage(std::string_view text) {
  return http::PercentDecode(text).value_or(std::string(text));
}

// What a status of HTTP means where none of gRPC came: not etcd answered, but something before it.
// (gRPC's "HTTP to gRPC Status Code Mapping".)
GrpcCode FromHttp(int status) {
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

GrpcCode FromError(StatusReason reason) {
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

UnaryEnd Malformed(std::string message) { return {GrpcCode::kInternal, std::move(message)}; }

}  // namespace

std::string FrameGrpcMessage(const google::protobuf::MessageLite& message) {
  const std::size_t size = message.ByteSizeLong();
  std::string frame(kFrameHead + size, '\0');
  for (std::size_t i = 0; i < 4; ++i) frame[4 - i] = static_cast<char>(size >> (8 * i));
  message.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(&frame[kFrameHead]));
  return frame;
}

UnaryEnd ReadUnaryAnswer(const http::Response& answer, google::protobuf::MessageLite* response) {
  // A call that fails at once has its end in its head.
  const http::Headers& end =
      answer.trailers.Find("grpc-status") != nullptr ? answer.trailers : answer.headers;
  const std::string_view status = end.Get("grpc-status");
  if (status.empty()) {
    if (answer.status == 200) return Malformed("the answer has no grpc-status");
    return {FromHttp(answer.status), fmt::format("HTTP status {}", answer.status)};
  }
  std::uint8_t code = 0;
  const auto [last, error] = std::from_chars(status.data(), status.data() + status.size(), code);
  if (error != std::errc() || last != status.data() + status.size()) {
    return Malformed(fmt::format("grpc-status is no number: {}", status));
  }
  if (code != 0) return {static_cast<GrpcCode>(code), DecodeMessage(end.Get("grpc-message"))};

  if (answer.body.size() < kFrameHead) return Malformed("the answer holds no message");
  std::size_t size = 0;
  for (std::size_t i = 1; i < kFrameHead; ++i) {
    size = size << 8U | static_cast<std::uint8_t>(answer.body[i]);
  }
  if (answer.body[0] != 0) return Malformed("the answer is compressed, and nobody asked for that");
  const std::string_view message = std::string_view(answer.body).substr(kFrameHead);
  if (message.size() != size) return Malformed("the answer is not one message");
  if (!response->ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return Malformed("the answer's message cannot be read");
  }
  return {};
}

Result<std::unique_ptr<UnaryChannel>> UnaryChannel::Open(Options options) {
  http::ClientOptions http;
  http.url = options.url;
  http.tls = std::move(options.tls);
  http.plain_http2 = true;
  http.connect_timeout = options.connect_timeout;
  http.idle_timeout = kNeverIdle;
  http.ping_interval = options.ping_interval;
  http.ping_timeout = options.ping_timeout;
  http.ping_without_calls = false;
  Result<std::unique_ptr<http::Client>> client = http::Client::Open(std::move(http));
  if (!client) return client.error();
  return std::unique_ptr<UnaryChannel>(
      new UnaryChannel(std::move(options.url), *std::move(client)));
}

UnaryEnd UnaryChannel::Failed(const Status& error) const {
  // Whoever asked knows whom.
  std::string_view message = error.message();
  if (message.starts_with(url_ + ": ")) message.remove_prefix(url_.size() + 2);
  return {.code = FromError(error.reason()),
          .message = std::string(message),
          .untouched = http::IsUnprocessed(error)};
}

void UnaryChannel::Canceller::Cancel() {
  const http::Client::CallId id = id_.exchange(kCancelled);
  if (id != 0 && id != kCancelled) client_->Cancel(id);
}

void UnaryChannel::Start(const Call& call, const google::protobuf::MessageLite& request,
                         google::protobuf::MessageLite* response,
                         std::shared_ptr<Canceller> canceller, std::function<void(UnaryEnd)> done) {
  // 0 would mean that it is never given up.
  const auto timeout = std::max(call.timeout, std::chrono::milliseconds(1));
  http::Request post;
  post.method = "POST";
  post.target = call.method;
  post.headers = {{"te", "trailers"},
                  {"content-type", "application/grpc"},
                  {"accept-encoding", "identity"},
                  // The server need not go on with what nobody waits for any more.
                  {"grpc-timeout", fmt::format("{}m", timeout.count())}};
  // Members answer "no leader" instead of waiting for one.
  if (call.needs_leader) post.headers.Add("hasleader", "true");
  if (call.token) post.headers.Add("token", *call.token);
  post.body = FrameGrpcMessage(request);
  // Ours, because whoever called us may be gone when Fetch() returns.
  const std::shared_ptr<Canceller> own = std::move(canceller);
  own->client_ = client_.get();
  const http::Client::CallId id = client_->Fetch(
      std::move(post), {.timeout = timeout},
      [this, response, done = std::move(done)](const Result<http::Response>& answer) {
        done(answer ? ReadUnaryAnswer(*answer, response) : Failed(answer.error()));
      });
  if (own->id_.exchange(id) == Canceller::kCancelled) client_->Cancel(id);
}

}  // namespace herald::store
