#include "http/client/http1.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <limits>
#include <utility>

#include "base/check.h"

namespace herald::http {
namespace {

namespace beast = boost::beast;

// Maximum number of interim responses (100 Continue, 103 Early Hints) before the final one. Real
// servers send one or two; a server that sends them for ever would not be detected otherwise.
constexpr int kMaxInterimResponses = 16;

constexpr std::string_view kStatusLine = "HTTP/1.";
constexpr int kMinStatus = 100;  // RFC 9110, 15
constexpr std::size_t kLastChunkBytes = std::string_view("0\r\n\r\n").size();

// Beast asserts that it never gets less of the last chunk than its five bytes. So bytes that may be
// the begin of the last chunk wait for more; other chunks do not wait, because their data may
// arrive in smaller pieces.
bool MayBeLastChunk(std::string_view bytes) {
  constexpr std::string_view kEndOfPreviousChunk = "\r\n";
  if (bytes.size() >= kLastChunkBytes) return false;
  if (bytes.starts_with(kEndOfPreviousChunk)) bytes.remove_prefix(kEndOfPreviousChunk.size());
  return bytes.starts_with('0');
}

bool HasBody(const Request& request) {
  return !request.body.empty() || request.method == "POST" || request.method == "PUT" ||
         request.method == "PATCH";
}

std::string RequestHead(const Request& request) {
  std::size_t size = request.method.size() + request.target.size() + request.authority.size() + 96;
  for (const Headers::Field& field : request.headers)
    size += field.name.size() + field.value.size() + 4;
  std::string head;
  head.reserve(size);
  head.append(request.method).append(" ").append(request.target).append(" HTTP/1.1\r\nhost: ");
  head.append(request.authority).append("\r\n");
  for (const Headers::Field& field : request.headers)
    head.append(field.name).append(": ").append(field.value).append("\r\n");
  if (HasBody(request))
    head.append("content-length: ").append(std::to_string(request.body.size())).append("\r\n");
  head.append("\r\n");
  return head;
}

std::string Lower(beast::string_view name) {
  std::string out(name.data(), name.size());
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

}  // namespace

// Passes what Beast's parser finds to the events. One per response.
class Http1Client::Parser final : public beast::http::basic_parser<false> {
 public:
  Parser(const ClientCodecEvents& events, std::uint64_t exchange, std::size_t max_header_bytes,
         bool expect_no_body)
      : events_(events), exchange_(exchange) {
    eager(true);
    body_limit(boost::none);  // the receiver of the body limits it
    header_limit(static_cast<std::uint32_t>(
        std::min<std::size_t>(max_header_bytes, std::numeric_limits<std::uint32_t>::max())));
    skip(expect_no_body);
  }

  int status() const { return head_.status; }
  bool interim() const { return status() / 100 == 1 && status() != 101; }

 private:
  void on_request_impl(beast::http::verb, beast::string_view, beast::string_view, int,
                       beast::error_code&) override {}
  void on_response_impl(int code, beast::string_view, int, beast::error_code& error) override {
    head_.status = code;
    if (code < kMinStatus) error = beast::http::error::bad_status;
  }
  void on_field_impl(beast::http::field, beast::string_view name, beast::string_view value,
                     beast::error_code&) override {
    if (head_done_) return;  // a trailer
    head_.headers.Add(Lower(name), std::string(value.data(), value.size()));
  }
  void on_header_impl(beast::error_code&) override {
    head_done_ = true;
    if (interim()) return;
    events_.head(exchange_, std::move(head_));
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, beast::error_code&) override {}
  std::size_t on_body_impl(beast::string_view body, beast::error_code&) override {
    if (!body.empty()) events_.data(exchange_, {body.data(), body.size()});
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, beast::error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view body,
                                 beast::error_code&) override {
    if (!body.empty()) events_.data(exchange_, {body.data(), body.size()});
    return body.size();
  }
  void on_finish_impl(beast::error_code&) override {}

  const ClientCodecEvents& events_;
  const std::uint64_t exchange_;
  ResponseHead head_{};
  bool head_done_ = false;
};

Http1Client::Http1Client(const ClientCodecEvents& events, std::size_t max_header_bytes)
    : events_(events), max_header_bytes_(max_header_bytes) {}

Http1Client::~Http1Client() = default;

bool Http1Client::CanStart() const { return state_ == State::kIdle && !last_; }

void Http1Client::Start(std::uint64_t exchange, const Request& request) {
  HERALD_CHECK(CanStart());
  state_ = State::kActive;
  exchange_ = exchange;
  tunnel_ = request.method == "CONNECT";
  request_ = &request;
  head_ = RequestHead(request);
  body_sent_ = 0;
  anything_sent_ = false;
  anything_received_ = false;
  interim_responses_ = 0;
  // After CONNECT the rest of the connection is the tunnel, even if the head announces a body; if
  // CONNECT failed, the connection is not used any more.
  expect_no_body_ = tunnel_ || request.method == "HEAD";
  parser_ = std::make_unique<Parser>(events_, exchange, max_header_bytes_, expect_no_body_);
}

void Http1Client::Cancel(std::uint64_t exchange) {
  if (state_ != State::kActive || exchange != exchange_) return;
  state_ = State::kFinished;
  request_ = nullptr;
  head_.clear();
}

void Http1Client::Receive(std::string_view bytes) {
  if (state_ == State::kFinished || bytes.empty()) return;
  if (state_ == State::kIdle) {
    // There is no request. Most often "408 Request Timeout" before the server closes.
    state_ = State::kFinished;
    return;
  }
  anything_received_ = true;
  std::string joined;
  if (!pending_.empty()) {
    pending_.append(bytes);
    if (parser_->is_header_done() && MayBeLastChunk(pending_)) return;
    joined = std::exchange(pending_, {});
    bytes = joined;
  }
  while (!bytes.empty()) {
    // The parser checks only whole lines. Another protocol (TLS, SSH) may never send one.
    if (!parser_->got_some() &&
        bytes.substr(0, kStatusLine.size()) !=
            kStatusLine.substr(0, std::min(bytes.size(), kStatusLine.size())))
      return Fail("the response is not valid HTTP/1.1");
    beast::error_code error;
    const std::size_t used =
        parser_->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
    bytes.remove_prefix(used);
    if (error == beast::http::error::need_more) {
      // The parser limits heads, but not the line before a chunk.
      if (bytes.size() > max_header_bytes_)
        return Fail(fmt::format("the response has a head or a chunk header larger than {} bytes",
                                max_header_bytes_));
      pending_ = bytes;
      return;
    }
    if (error == beast::http::error::header_limit)
      return Fail(
          fmt::format("the head of the response is larger than {} bytes", max_header_bytes_));
    if (error) return Fail(fmt::format("the response is not valid HTTP/1.1: {}", error.message()));
    if (!parser_->is_done()) continue;
    if (parser_->interim()) {
      if (++interim_responses_ > kMaxInterimResponses) return Fail("too many interim responses");
      parser_ = std::make_unique<Parser>(events_, exchange_, max_header_bytes_, expect_no_body_);
      continue;
    }
    if (tunnel_) pending_ = bytes;
    // Bytes after the response: the connection is in an unknown state.
    if (tunnel_ || !bytes.empty()) last_ = true;
    return Finish({});
  }
}

void Http1Client::ReceiveEnd(bool clean, std::string_view cause) {
  if (state_ == State::kFinished) return;
  if (state_ == State::kIdle) {
    state_ = State::kFinished;
    return;
  }
  if (clean && parser_->got_some()) {
    beast::error_code error;
    parser_->put_eof(error);
    if (!error && parser_->is_done() && !parser_->interim()) {
      last_ = true;
      return Finish({});
    }
  }
  if (!anything_sent_) {
    state_ = State::kFinished;
    return Finish({ExchangeEnd::Outcome::kNotProcessed, std::string(cause)});
  }
  if (!clean) return Fail(std::string(cause));
  Fail(anything_received_ ? "the server closed the connection before the response was complete"
                          : "the server closed the connection without sending a response");
}

void Http1Client::Send(std::string* out, std::size_t limit) {
  if (state_ != State::kActive || request_ == nullptr) return;
  anything_sent_ = true;
  if (!head_.empty()) {
    out->append(head_);
    head_.clear();
  }
  const std::string& body = request_->body;
  if (out->size() < limit) {
    const std::size_t piece = std::min(limit - out->size(), body.size() - body_sent_);
    out->append(body, body_sent_, piece);
    body_sent_ += piece;
  }
}

void Http1Client::Shutdown() {
  last_ = true;
  if (state_ == State::kIdle) state_ = State::kFinished;
}

void Http1Client::Finish(ExchangeEnd end) {
  const bool request_sent = head_.empty() && body_sent_ == request_->body.size();
  // If the response is complete before the request was sent, the connection is in the middle of the
  // request body.
  if (end.outcome != ExchangeEnd::Outcome::kWhole || !request_sent || !parser_->keep_alive())
    last_ = true;
  state_ = last_ ? State::kFinished : State::kIdle;
  request_ = nullptr;
  head_.clear();
  events_.end(exchange_, std::move(end));
}

void Http1Client::Fail(std::string cause) {
  Finish({ExchangeEnd::Outcome::kBroken, std::move(cause)});
}

}  // namespace herald::http
