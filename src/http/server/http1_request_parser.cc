#include "http/server/http1_request_parser.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/beast/http/error.hpp>
#include <limits>
#include <utility>

#include "http/response_head.h"

namespace herald::http {

namespace beast = boost::beast;

namespace {

std::string_view View(beast::string_view bytes) { return {bytes.data(), bytes.size()}; }

std::string_view Trim(std::string_view value) {
  constexpr std::string_view kSpace = " \t";
  const std::size_t begin = value.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return value.substr(begin, value.find_last_not_of(kSpace) - begin + 1);
}

std::string Lower(std::string_view value) {
  std::string lower(value);
  LowerCase(lower);
  return lower;
}

// Whether Beast has joined the value of a field from several lines (obs-fold). The value is then in
// a buffer of Beast, or it does not begin on the line of the name. Otherwise name and value are
// both views of the input, with only whitespace and the colon between them.
bool IsFolded(beast::string_view name, beast::string_view value) {
  const char* begin = name.data() + name.size() + 1;
  while (*begin == ' ' || *begin == '\t') ++begin;
  return begin != value.data();
}

// Whether a chunk extension has a character that RFC 9112 allows nowhere in it. Beast accepts
// any character in a quoted string, also a line feed, which other parsers treat as the end of the
// line.
bool HasControl(std::string_view extension) {
  constexpr unsigned char kFirstPrintable = 0x20;
  constexpr unsigned char kDelete = 0x7f;
  return std::any_of(extension.begin(), extension.end(), [](unsigned char c) {
    return (c < kFirstPrintable && c != '\t') || c == kDelete;
  });
}

// Adds the names in a "connection" field. These fields belong to the connection as well.
void AddNames(std::string_view list, std::vector<std::string>& names) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (std::string name = Lower(Trim(list.substr(0, comma))); !name.empty())
      names.push_back(std::move(name));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

}  // namespace

Http1RequestParser::Http1RequestParser(const ServerOptions& options) : options_(options) {
  // Beast's limit is per call instead of per head, so it is switched off; ours is exact.
  header_limit(std::numeric_limits<std::uint32_t>::max());
  body_limit(boost::none);  // the handler has its own limit
}

std::size_t Http1RequestParser::ParseHead(std::string_view input, ErrorCode& error) {
  const std::size_t used = put({input.data(), input.size()}, error);
  head_bytes_ += used;
  const std::size_t waiting = is_header_done() ? 0 : input.size() - used;
  if (head_bytes_ + waiting > options_.max_header_bytes &&
      (!error || error == beast::http::error::need_more)) {
    Fail(431, error);
  }
  return used;
}

void Http1RequestParser::BeginBody(PendingResponse* reader) {
  reader_ = reader;
  eager(true);
}

std::size_t Http1RequestParser::ParseBody(std::string_view input, ErrorCode& error) {
  if (input.empty()) return 0;
  // Every chunked body ends with at least "0", CRLF, CRLF. Beast 1.81 asserts that it never gets
  // less of the last chunk than that, so shorter input waits; the body cannot end before it.
  constexpr std::size_t kShortestEnd = 5;
  if (chunked() && input.size() < kShortestEnd) {
    error = beast::http::error::need_more;
    return 0;
  }
  return put({input.data(), input.size()}, error);
}

int Http1RequestParser::RejectionStatus(const ErrorCode& error) const {
  if (rejection_ != 0) return rejection_;
  if (error == beast::http::error::bad_version) return 505;
  return 400;
}

bool Http1RequestParser::OffersWebSocket() const {
  return upgrade_ == "websocket" && !http10() &&
         std::find(connection_names_.begin(), connection_names_.end(), "upgrade") !=
             connection_names_.end();
}

bool Http1RequestParser::is_discardable() const {
  return is_done() || (!chunked() && content_length_remaining().value_or(0) <= kMaxDiscardBytes);
}

Request Http1RequestParser::TakeRequest() {
  request_.websocket = OffersWebSocket();
  for (const std::string& name : connection_names_) request_.headers.Remove(name);
  return std::move(request_);
}

void Http1RequestParser::on_request_impl(beast::http::verb /*verb*/, StringView method,
                                         StringView target, int version, ErrorCode& error) {
  request_.method = View(method);
  version_ = version;
  if (version != 10 && version != 11) return Fail(505, error);
  if (request_.method == "CONNECT") return Fail(501, error);
  SetTarget(View(target), error);
}

void Http1RequestParser::SetTarget(std::string_view target, ErrorCode& error) {
  if (target.starts_with('/') || (target == "*" && request_.method == "OPTIONS")) {
    request_.target = target;
    return;
  }
  const std::size_t scheme = target.find("://");
  if (scheme == std::string_view::npos) return Fail(400, error);
  target.remove_prefix(scheme + 3);
  const std::size_t end = std::min(target.find_first_of("/?"), target.size());
  if (end == 0) return Fail(400, error);
  authority_in_target_ = true;
  request_.authority = target.substr(0, end);
  target.remove_prefix(end);
  request_.target = target.starts_with('/') ? std::string(target) : fmt::format("/{}", target);
}

void Http1RequestParser::on_field_impl(beast::http::field /*field*/, StringView name_bytes,
                                       StringView value_bytes, ErrorCode& error) {
  if (IsFolded(name_bytes, value_bytes)) return Fail(400, error);
  if (is_header_done()) return;  // trailers are not used
  const std::string_view value = View(value_bytes);
  if (++fields_ > options_.max_header_fields) return Fail(431, error);

  std::string name = Lower(View(name_bytes));
  if (name == "host") {
    if (++hosts_ > 1) return Fail(400, error);
    if (!authority_in_target_) request_.authority = value;
  } else if (name == "transfer-encoding") {
    // HTTP/1.0 does not define it, and a proxy of that version may have forwarded it without
    // having read it (RFC 9112, 6.1).
    if (http10()) return Fail(400, error);
    // Other codings would have to be decoded before the body can be used.
    if (++transfer_encodings_ > 1 || Lower(Trim(value)) != "chunked") return Fail(501, error);
  } else if (name == "expect") {
    if (Lower(Trim(value)) != "100-continue") return Fail(417, error);
    expects_continue_ = true;
  } else if (name == "upgrade") {
    upgrade_ = Lower(Trim(value));
  } else if (name == "connection") {
    AddNames(value, connection_names_);
  } else if (!IsConnectionField(name)) {
    request_.headers.Add(std::move(name), std::string(value));
  }
}

void Http1RequestParser::on_header_impl(ErrorCode& error) {
  if (hosts_ == 0 && !http10()) Fail(400, error);
}

void Http1RequestParser::on_body_init_impl(const boost::optional<std::uint64_t>& length,
                                           ErrorCode& /*error*/) {
  // A client may announce any length without sending it, so no more than this is reserved.
  constexpr std::uint64_t kMaxReserve = std::uint64_t{64} * 1024;
  if (length && reader_ != nullptr)
    body_.reserve(static_cast<std::size_t>(std::min(*length, kMaxReserve)));
}

std::size_t Http1RequestParser::on_body_impl(StringView body, ErrorCode& error) {
  if (reader_ == nullptr) return body.size();
  if (!reader_->GrowBody(body_.size() + body.size())) {
    body_rejected_ = true;
    error = beast::http::error::bad_value;
    return 0;
  }
  body_.append(body.data(), body.size());
  return body.size();
}

void Http1RequestParser::on_chunk_header_impl(std::uint64_t /*size*/, StringView extensions,
                                              ErrorCode& error) {
  if (HasControl(View(extensions))) Fail(400, error);
}

std::size_t Http1RequestParser::on_chunk_body_impl(std::uint64_t /*remain*/, StringView body,
                                                   ErrorCode& error) {
  return on_body_impl(body, error);
}

void Http1RequestParser::Fail(int status, ErrorCode& error) {
  rejection_ = status;
  error = beast::http::error::bad_value;
}

}  // namespace herald::http
