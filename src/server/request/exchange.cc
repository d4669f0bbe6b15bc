#include "server/request/exchange.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>

#include "api/json/indent.h"
#include "api/quote.h"
#include "api/yaml/yaml.h"
#include "base/bytes/trimmed.h"
#include "base/bytes/uuid.h"
#include "herald/api/codec.h"
#include "http/server/websocket.h"
#include "server/access/authentication.h"

namespace herald::server {
namespace {

// Smaller responses are not compressed; upstream's limit.
constexpr std::size_t kMinGzipBytes = 128 * 1024;
// The fastest level, as upstream uses: it saves most of the size.
constexpr int kGzipLevel = 1;

// Kubernetes' limits on Warning headers.
constexpr std::size_t kMaxWarningRunes = 4096;
constexpr std::size_t kMaxRunesOfOneWarning = 256;

bool AcceptsGzip(const http::Headers& headers) {
  for (std::string_view rest = headers.Get("accept-encoding"); !rest.empty();) {
    std::string_view token = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(token.size() + 1, rest.size()));
    token = token.substr(0, token.find(';'));
    while (token.starts_with(' ')) token.remove_prefix(1);
    while (token.ends_with(' ')) token.remove_suffix(1);
    if (token == "gzip") return true;
  }
  return false;
}

// Whether reading the body may take more than about 2 ms. JSON and protobuf take up to 0.1 ms for
// 1 KiB, patches and YAML up to 0.8 ms. A JSON patch can copy its own results, so its length is no
// measure. A typical event has 1 KiB, a typical patch less.
bool IsLongWork(const http::Request& request) {
  constexpr std::size_t kMaxInlineBytes = std::size_t{16} * 1024;
  constexpr std::size_t kMaxInlineExpensiveBytes = std::size_t{4} * 1024;
  if (request.body.empty()) return false;
  const bool is_patch = request.method == "PATCH";
  if (is_patch && BodyPatchType(request.headers) == PatchType::kJson) return true;
  const bool expensive = is_patch || BodyMediaType(request.headers) == MediaType::kYaml;
  return request.body.size() > (expensive ? kMaxInlineExpensiveBytes : kMaxInlineBytes);
}

std::string CutRunes(std::string_view text, std::size_t max) {
  std::string_view rest = text;
  for (std::size_t count = 0; count < max && !rest.empty(); ++count) TakeCodePoint(&rest);
  return std::string(text.substr(0, text.size() - rest.size()));
}

std::size_t CountRunes(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) TakeCodePoint(&text);
  return count;
}

// 299 - "message", without characters that are not allowed in a header.
std::string WarningHeader(std::string_view text) {
  std::string header = "299 - \"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      header += ' ';
    } else {
      if (c == '"' || c == '\\') header += '\\';
      header += c;
    }
  }
  return header += '"';
}

// Maps our own status reasons to InternalError, as Kubernetes reports such errors.
Status ForTheWire(const Status& status) {
  switch (status.reason()) {
    case StatusReason::kUnreachable:
    case StatusReason::kCorruption:
    case StatusReason::kCancelled: {
      Status::Parts parts;
      parts.reason = StatusReason::kInternalError;
      parts.message = "Internal error occurred: " + status.message();
      parts.details.emplace().causes.push_back({"", status.message(), ""});
      return Status(std::move(parts));
    }
    default:
      return status;
  }
}

struct StatusBody {
  std::string_view content_type;
  std::string body;
};

StatusBody EncodeStatus(const http::Headers& headers, const http::Query& query,
                        const Status& status) {
  const std::optional<ResponseFormat> accepted = Negotiate(headers, query, Offer());
  StatusBody answer;
  // A client that accepts none of our media types still gets the error, as JSON.
  const ResponseFormat format = accepted.value_or(ResponseFormat{.pretty = true});
  answer.content_type = MediaTypeName(format.media);
  if (format.media == MediaType::kProtobuf) {
    ProtobufCodec().AppendStatus(status, &answer.body);
    return answer;
  }
  JsonCodec().AppendStatus(status, &answer.body);
  if (format.media == MediaType::kYaml) {
    answer.body = JsonToYaml(answer.body);
  } else if (format.pretty) {
    answer.body = IndentJson(answer.body);
  }
  return answer;
}

// Whether an Origin header is the server's own: the same scheme, host and port. The scheme is
// always https in heraldd.
bool IsOwnOrigin(const http::Request& request, std::string_view origin) {
  const Result<http::Url> from = http::ParseUrl(origin);
  const Result<http::Url> own = http::ParseUrl("https://" + request.authority);
  if (!from || !own || !from->path.empty() || !from->user_info.empty()) return false;
  return from->scheme == own->scheme && from->port == own->port &&
         std::ranges::equal(from->host, own->host, [](unsigned char a, unsigned char b) {
           return std::tolower(a) == std::tolower(b);
         });
}

void AddStatusHeaders(const Status& status, http::Headers* headers) {
  if (status.retry_after().count() > 0) {
    headers->Set("retry-after", std::to_string(status.retry_after().count()));
  }
  if (status.code() == 403) {
    headers->Set("x-content-type-options", "nosniff");
  }
}

}  // namespace

void AddCommonHeaders(const http::Request& request, std::string_view content_type,
                      http::Headers* headers) {
  const std::string* const audit = request.headers.Find("audit-id");
  headers->Add("audit-id", audit != nullptr && !audit->empty() ? *audit : RandomUuid());
  if (headers->Find("cache-control") == nullptr) {
    headers->Add("cache-control", "no-cache, private");
  }
  if (!content_type.empty()) headers->Add("content-type", std::string(content_type));
}

Exchange::Exchange(AdmittedRequest admitted, std::shared_ptr<http::Responder> responder)
    : admitted_(std::move(admitted)),
      body_bytes_(admitted_.request.body.size()),
      is_long_work_(IsLongWork(admitted_.request)),
      responder_(std::move(responder)) {}

Exchange::~Exchange() = default;

Status Exchange::Accept(const Offer& offer) {
  if (const auto found = Negotiate(request().headers, query(), offer)) {
    response_format_ = *found;
    return Status();
  }
  return Status(StatusReason::kNotAcceptable,
                "only the following media types are accepted: " + OfferedTypes(offer));
}

void Exchange::Warn(std::string text) {
  // No more warnings than this can be sent, because each has at least one character.
  if (warnings_.size() >= kMaxWarningRunes) return;
  if (!warned_.insert(text).second) return;
  warning_runes_ += CountRunes(text);
  warnings_.push_back(std::move(text));
}

void Exchange::SetHeader(std::string name, std::string value) {
  headers_.Set(std::move(name), std::move(value));
}

http::Headers Exchange::TakeHeaders(std::string_view content_type) {
  http::Headers headers = std::move(headers_);
  AddCommonHeaders(request(), content_type, &headers);
  std::size_t left = kMaxWarningRunes;
  for (const std::string& text : warnings_) {
    const std::string shown =
        warning_runes_ > kMaxWarningRunes ? CutRunes(text, kMaxRunesOfOneWarning) : text;
    const std::size_t size = CountRunes(shown);
    if (size > left) break;
    left -= size;
    headers.Add("warning", WarningHeader(shown));
  }
  return headers;
}

void Exchange::SendJson(int code, std::string json) {
  if (response_format_.media == MediaType::kYaml) {
    json = JsonToYaml(json);
  } else if (response_format_.pretty) {
    json = IndentJson(json);
  }
  Send(code, MediaTypeName(response_format_.media), std::move(json));
}

void Exchange::Send(int code, std::string_view content_type, std::string body) {
  http::Headers headers = TakeHeaders(content_type);
  if (body.size() > kMinGzipBytes && BeginGzip(&headers)) body = gzip_->Encode(body, true);
  responder_->Send({.status = code, .headers = std::move(headers), .body = std::move(body)});
}

void Exchange::SendPiece(std::string_view content_type, std::string piece, bool last) {
  if (!std::exchange(started_, true)) {
    http::Headers headers = TakeHeaders(content_type);
    BeginGzip(&headers);
    responder_->Start({.status = 200, .headers = std::move(headers), .finite = true});
  }
  if (response_format_.pretty && response_format_.media == MediaType::kJson) {
    std::string indented;
    indenter_.Append(piece, &indented);
    piece = std::move(indented);
  }
  if (gzip_) piece = gzip_->Encode(piece, last);
  responder_->Write(std::make_shared<const std::string>(std::move(piece)));
}

void Exchange::End() { responder_->End(); }

bool Exchange::BeginGzip(http::Headers* headers) {
  if (!AcceptsGzip(request().headers)) return false;
  auto gzip = std::make_unique<http::GzipEncoder>(kGzipLevel);
  if (!gzip->usable()) return false;
  gzip_ = std::move(gzip);
  headers->Add("content-encoding", "gzip");
  headers->Add("vary", "Accept-Encoding");
  return true;
}

void Exchange::SendStatus(const Status& status) {
  if (started_) return responder_->Abort();
  const Status shown = ForTheWire(status);
  AddStatusHeaders(shown, &headers_);
  StatusBody answer = EncodeStatus(request().headers, query(), shown);
  Send(shown.code(), answer.content_type, std::move(answer.body));
}

Result<http::Headers> AcceptWebSocket(const http::Request& request, const Cors& cors) {
  const auto refuse = [](std::string why) {
    return Status(StatusReason::kBadRequest, std::move(why));
  };
  const std::string_view key = Trimmed(request.headers.Get("sec-websocket-key"));
  if (key.empty()) return refuse("a WebSocket needs Sec-WebSocket-Key");
  if (Trimmed(request.headers.Get("sec-websocket-version")) != kWebSocketVersion)
    return refuse("missing or bad WebSocket Version");
  http::Headers accepted{{"sec-websocket-accept", http::WebSocketAccept(key)}};
  const std::vector<std::string> protocols = WebSocketProtocols(request);
  for (const http::Headers::Field& field : request.headers) {
    if (field.name == "origin" && !IsOwnOrigin(request, field.value) && !cors.Allows(field.value))
      return Status(
          StatusReason::kForbidden,
          fmt::format("origin {} is not allowed to open a WebSocket", Quoted(field.value)));
  }
  if (protocols.size() > 1) return refuse("a watch has one subprotocol at most");
  if (!protocols.empty()) accepted.Add("sec-websocket-protocol", protocols.front());
  return accepted;
}

void Exchange::StartWebSocket(http::Headers accepted) {
  responder_->Start({.status = 101, .headers = std::move(accepted)});
}

void Exchange::StartStream(std::string_view content_type) {
  responder_->Start({.status = 200, .headers = TakeHeaders(content_type)});
}

void SendStatus(const http::Request& request, const http::Query& query, const Status& status,
                http::Responder& responder, http::Headers headers) {
  const Status shown = ForTheWire(status);
  http::Response response{.status = shown.code(), .headers = std::move(headers), .body = {}};
  AddStatusHeaders(shown, &response.headers);
  StatusBody answer = EncodeStatus(request.headers, query, shown);
  AddCommonHeaders(request, answer.content_type, &response.headers);
  response.body = std::move(answer.body);
  responder.Send(std::move(response));
}

}  // namespace herald::server
