#include "api/continue_token.h"

#include <fmt/core.h>

#include <array>
#include <cstddef>
#include <utility>
#include <variant>

#include "api/json/document.h"
#include "api/json/writer.h"
#include "base/bytes/base64.h"

namespace herald {
namespace {

constexpr std::string_view kVersion = "meta.k8s.io/v1";
// The version of tokens for lists sorted by time. Kubernetes' servers reject it, because they
// cannot continue such a list.
constexpr std::string_view kTimeVersion = "herald/v1";

Status Invalid(std::string_view why) {
  return Status(StatusReason::kBadRequest,
                fmt::format("invalid continue token: continue key is not valid: {}", why));
}

std::string StringMember(const Json& document, std::string_view name) {
  const Json* const value = document.Find(name);
  const bool is_string = value != nullptr && value->type() == Json::Type::kString;
  return is_string ? value->AsString() : std::string();
}

std::int64_t IntegerMember(const Json& document, std::string_view name) {
  const Json* const value = document.Find(name);
  if (value == nullptr || value->type() != Json::Type::kNumber) return 0;
  const Json::Number number = value->AsNumber();
  const auto* const integer = std::get_if<std::int64_t>(&number);
  return integer != nullptr ? *integer : 0;
}

// Whether Go's path.Clean() would leave the path unchanged: it has no empty, "." or ".." parts,
// which could leave the list.
bool IsCleanPath(std::string_view path) {
  if (path.starts_with('/')) path.remove_prefix(1);
  while (true) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == path.size()) return true;
    path.remove_prefix(end + 1);
  }
}

}  // namespace

std::string EncodeContinueToken(const ContinueToken& token) {
  std::string json = fmt::format(R"({{"v":"{}","rv":{},"start":)",
                                 token.time ? kTimeVersion : kVersion, token.revision);
  AppendJsonString(token.start, &json);
  if (token.time) {
    json += fmt::format(R"(,"s":{},"n":{})", token.time->seconds(), token.time->nanos());
  }
  json += '}';
  return Base64UrlEncode(json);
}

Result<ContinueToken> DecodeContinueToken(std::string_view text) {
  std::size_t at = 0;
  const std::optional<std::string> bytes = Base64UrlDecode(text, &at);
  if (!bytes) return Invalid(fmt::format("illegal base64 data at input byte {}", at));
  const Result<Json> document = ParseJson(*bytes);
  if (!document) return Invalid(document.error().message());
  const std::string version = StringMember(*document, "v");
  if (version != kVersion && version != kTimeVersion) {
    return Invalid(fmt::format("server does not recognize this encoded version {}", version));
  }
  ContinueToken token;
  token.revision = IntegerMember(*document, "rv");
  if (token.revision == 0) {
    return Invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)");
  }
  token.start = StringMember(*document, "start");
  if (token.start.empty()) return Invalid("encoded start key empty (version meta.k8s.io/v1)");
  if (!IsCleanPath(token.start)) return Invalid(token.start);
  if (token.start.starts_with('/')) token.start.erase(0, 1);
  if (version == kTimeVersion) {
    const std::int64_t nanos = IntegerMember(*document, "n");
    if (nanos < 0 || nanos >= 1'000'000'000) return Invalid("incorrect encoded time");
    token.time.emplace(IntegerMember(*document, "s"), static_cast<std::int32_t>(nanos));
  }
  return token;
}

}  // namespace herald
