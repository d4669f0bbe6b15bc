#include "server/exchange.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "api/quote.h"
#include "api/yaml/yaml.h"
#include "base/trimmed.h"
#include "base/uuid.h"
#include "herald/api/codec.h"
#include "http/websocket.h"
#include "server/authentication.h"

namespace herald::server {
namespace {

// Smaller answers are not worth the work; upstream's bound.
constexpr std::size_t kMinGzipBytes = 128 * 1024;
// The fastest, as upstream has it: most of the size goes at the first level.
constexpr int kGzipLevel = 1;

// Kubernetes' bounds on what is told in Warning headers.
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

// 299 - "text", without what would break out of a header.
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

// What goes wrong inside is told as Kubernetes tells it, and no other word leaves the house.
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
  const std::optional<Representation> accepted = Negotiate(headers, query, Offer());
  StatusBody answer;
  // Whoever accepts nothing that is there still gets to know what is wrong.
  const Representation representation = accepted.value_or(Representation{.pretty = true});
  answer.content_type = MediaTypeName(representation.media);
  if (representation.media == MediaType::kProtobuf) {
    ProtobufCodec().AppendStatus(status, &answer.body);
    return answer;
  }
  JsonCodec().AppendStatus(status, &answer.body);
  if (representation.media == MediaType::kYaml) {
    answer.body = JsonToYaml(answer.body);
  } else if (representation.pretty) {
    answer.body = IndentJson(answer.body);
  }
  return answer;
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

class Exchange::Gzip {
 public:
  Gzip() {
    constexpr int kGzipWindow = 15 + 16;  // the largest window, in gzip's format
    constexpr int kMemoryLevel = 8;       // zlib's default
    usable_ = deflateInit2(&stream_, kGzipLevel, Z_DEFLATED, kGzipWindow, kMemoryLevel,
                           Z_DEFAULT_STRATEGY) == Z_OK;
  }
  ~Gzip() {
    if (usable_) deflateEnd(&stream_);
  }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  // False where zlib has no memory.
  bool usable() const { return usable_; }

  // What comes next of the packed text; it may be nothing yet, unless this is the last piece.
  std::string Pack(const std::string& piece, bool last) {
    std::string out;
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    stream_.avail_in = static_cast<uInt>(piece.size());
    do {
      // Enough for the first round, but for what zlib still holds of the pieces before.
      const std::size_t before = out.size();
      out.resize(before + deflateBound(&stream_, static_cast<uLong>(piece.size())));
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + before);
      stream_.avail_out = static_cast<uInt>(out.size() - before);
      deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH);
    } while (stream_.avail_out == 0);
    out.resize(out.size() - stream_.avail_out);
    return out;
  }

 private:
  z_stream stream_{};
  bool usable_ = false;
};

void AddCommonHeaders(const http::Request& request, std::string_view content_type,
                      http::Headers* headers) {
  const std::string* const audit = request.headers.Find("audit-id");
  headers->Add("audit-id", audit != nullptr && !audit->empty() ? *audit : RandomUuid());
  if (headers->Find("cache-control") == nullptr) {
    headers->Add("cache-control", "no-cache, private");
  }
  if (!content_type.empty()) headers->Add("content-type", std::string(content_type));
}

Exchange::Exchange(Call call, std::shared_ptr<http::Responder> responder)
    : call_(std::move(call)),
      query_(http::ParseQuery(http::SplitTarget(call_.request.target).second)),
      responder_(std::move(responder)) {}

Exchange::~Exchange() = default;

Status Exchange::Accept(const Offer& offer) {
  if (const auto found = Negotiate(request().headers, query_, offer)) {
    representation_ = *found;
    return Status();
  }
  return Status(StatusReason::kNotAcceptable,
                "only the following media types are accepted: " + OfferedTypes(offer));
}

void Exchange::Warn(std::string text) {
  if (std::ranges::find(warnings_, text) == warnings_.end()) warnings_.push_back(std::move(text));
}

void Exchange::SetHeader(std::string name, std::string value) {
  headers_.Set(std::move(name), std::move(value));
}

http::Headers Exchange::TakeHeaders(std::string_view content_type) {
  http::Headers headers = std::move(headers_);
  AddCommonHeaders(request(), content_type, &headers);
  std::size_t runes = 0;
  for (const std::string& text : warnings_) runes += CountRunes(text);
  std::size_t left = kMaxWarningRunes;
  for (const std::string& text : warnings_) {
    const std::string shown =
        runes > kMaxWarningRunes ? CutRunes(text, kMaxRunesOfOneWarning) : text;
    const std::size_t size = CountRunes(shown);
    if (size > left) break;
    left -= size;
    headers.Add("warning", WarningHeader(shown));
  }
  return headers;
}

void Exchange::SendJson(int code, std::string json) {
  if (representation_.media == MediaType::kYaml) {
    json = JsonToYaml(json);
  } else if (representation_.pretty) {
    json = IndentJson(json);
  }
  Send(code, MediaTypeName(representation_.media), std::move(json));
}

void Exchange::Send(int code, std::string_view content_type, std::string body) {
  http::Headers headers = TakeHeaders(content_type);
  if (body.size() > kMinGzipBytes && BeginGzip(&headers)) body = gzip_->Pack(body, true);
  responder_->Send({.status = code, .headers = std::move(headers), .body = std::move(body)});
}

void Exchange::SendPiece(std::string_view content_type, std::string piece, bool last) {
  if (last && !started_) return Send(200, content_type, std::move(piece));
  if (!std::exchange(started_, true)) {
    http::Headers headers = TakeHeaders(content_type);
    BeginGzip(&headers);
    responder_->Start({.status = 200, .headers = std::move(headers), .finite = true});
  }
  if (gzip_) piece = gzip_->Pack(piece, last);
  responder_->Write(std::make_shared<const std::string>(std::move(piece)));
  if (last) responder_->End();
}

bool Exchange::BeginGzip(http::Headers* headers) {
  if (!AcceptsGzip(request().headers)) return false;
  auto gzip = std::make_unique<Gzip>();
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
  StatusBody answer = EncodeStatus(request().headers, query_, shown);
  Send(shown.code(), answer.content_type, std::move(answer.body));
}

Result<http::Headers> AcceptWebSocket(const http::Request& request) {
  const auto refuse = [](std::string why) {
    return Status(StatusReason::kBadRequest, std::move(why));
  };
  const std::string_view key = Trimmed(request.headers.Get("sec-websocket-key"));
  if (key.empty()) return refuse("a WebSocket needs Sec-WebSocket-Key");
  if (Trimmed(request.headers.Get("sec-websocket-version")) != kWebSocketVersion)
    return refuse("missing or bad WebSocket Version");
  http::Headers accepted{{"sec-websocket-accept", http::WebSocketAccept(key)}};
  const std::vector<std::string> protocols = WebSocketProtocols(request);
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

void SendStatus(const http::Request& request, const Status& status, http::Responder& responder) {
  const Status shown = ForTheWire(status);
  http::Response response{.status = shown.code(), .headers = {}, .body = {}};
  AddStatusHeaders(shown, &response.headers);
  StatusBody answer = EncodeStatus(
      request.headers, http::ParseQuery(http::SplitTarget(request.target).second), shown);
  AddCommonHeaders(request, answer.content_type, &response.headers);
  response.body = std::move(answer.body);
  responder.Send(std::move(response));
}

std::string IndentJson(std::string_view json) {
  while (json.ends_with('\n')) json.remove_suffix(1);
  std::string out;
  out.reserve(json.size() + json.size() / 2);
  std::size_t depth = 0;
  const auto new_line = [&] {
    out += '\n';
    out.append(2 * depth, ' ');
  };
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    switch (c) {
      case '"': {
        const std::size_t start = i++;
        while (i < json.size() && json[i] != '"') i += json[i] == '\\' ? 2 : 1;
        out.append(json.substr(start, i - start + 1));
        break;
      }
      case '{':
      case '[': {
        const char close = c == '{' ? '}' : ']';
        out += c;
        if (i + 1 < json.size() && json[i + 1] == close) {
          out += close;
          ++i;
        } else {
          ++depth;
          new_line();
        }
        break;
      }
      case '}':
      case ']':
        --depth;
        new_line();
        out += c;
        break;
      case ',':
        out += c;
        new_line();
        break;
      case ':':
        out += ": ";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace herald::server
