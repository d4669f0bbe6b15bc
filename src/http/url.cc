#include "http/url.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <array>
#include <charconv>

namespace herald::http {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool IsUnreserved(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

bool IsSocks(std::string_view scheme) { return scheme == "socks5" || scheme == "socks5h"; }

std::uint16_t DefaultPort(std::string_view scheme) {
  if (IsSocks(scheme)) return 1080;
  return scheme == "https" ? 443 : 80;
}

Status InvalidUrl(std::string_view string, std::string_view why) {
  return Status(StatusReason::kBadRequest, fmt::format("invalid URL \"{}\": {}", string, why));
}

}  // namespace

std::string Url::authority() const {
  const std::string name = host.find(':') != std::string::npos ? fmt::format("[{}]", host) : host;
  return port == DefaultPort(scheme) ? name : fmt::format("{}:{}", name, port);
}

bool IsAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address;
  return inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

Result<Url> ParseUrl(std::string_view string) {
  Result<Url> url = ParseProxyUrl(string);
  if (url && IsSocks(url->scheme)) return InvalidUrl(string, "the scheme must be http or https");
  return url;
}

Result<Url> ParseProxyUrl(std::string_view string) {
  Url url;
  const std::size_t colon = string.find("://");
  if (colon == std::string_view::npos)
    return InvalidUrl(string, "must have a scheme, such as https://");
  url.scheme = string.substr(0, colon);
  if (url.scheme != "http" && url.scheme != "https" && !IsSocks(url.scheme))
    return InvalidUrl(string, "the scheme must be http, https or socks5");
  std::string_view rest = string.substr(colon + 3);
  if (rest.find_first_of("?#") != std::string_view::npos)
    return InvalidUrl(string, "must not have a query or a fragment");

  std::string_view authority = rest.substr(0, rest.find('/'));
  rest.remove_prefix(authority.size());
  while (!rest.empty() && rest.back() == '/') rest.remove_suffix(1);
  url.path = rest;

  if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
    std::optional<std::string> user_info = PercentDecode(authority.substr(0, at));
    if (!user_info) return InvalidUrl(string, "% must be followed by two hex digits");
    url.user_info = *std::move(user_info);
    authority.remove_prefix(at + 1);
  }
  std::string_view port;
  if (authority.starts_with('[')) {
    const std::size_t close = authority.find(']');
    if (close == std::string_view::npos) return InvalidUrl(string, "missing ] after [");
    url.host = authority.substr(1, close - 1);
    port = authority.substr(close + 1);
  } else {
    const std::size_t split = std::min(authority.find(':'), authority.size());
    url.host = authority.substr(0, split);
    port = authority.substr(split);
  }
  if (url.host.empty()) return InvalidUrl(string, "must have a host");
  url.port = DefaultPort(url.scheme);
  if (!port.empty()) {
    if (port.front() != ':') return InvalidUrl(string, "] must be followed by a port or nothing");
    port.remove_prefix(1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
    if (error != std::errc() || end != port.data() + port.size() || url.port == 0)
      return InvalidUrl(string, "the port must be a number from 1 to 65535");
  }
  return url;
}

std::optional<std::string> PercentDecode(std::string_view encoded, bool plus_is_space) {
  std::string out;
  out.reserve(encoded.size());
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    if (encoded[i] == '%') {
      if (i + 2 >= encoded.size()) return std::nullopt;
      const int high = HexDigit(encoded[i + 1]);
      const int low = HexDigit(encoded[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    } else {
      out.push_back(plus_is_space && encoded[i] == '+' ? ' ' : encoded[i]);
    }
  }
  return out;
}

std::string PercentEncode(std::string_view value) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  out.reserve(value.size());
  for (const char c : value) {
    if (IsUnreserved(c)) {
      out.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

Query ParseQuery(std::string_view query) {
  Query out;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    if (pair.empty() || pair.find(';') != std::string_view::npos) continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    std::optional<std::string> name = PercentDecode(pair.substr(0, equals), true);
    std::optional<std::string> value =
        PercentDecode(pair.substr(std::min(equals + 1, pair.size())), true);
    if (name && value) out.emplace_back(*std::move(name), *std::move(value));
  }
  return out;
}

std::pair<std::string_view, std::string_view> SplitTarget(std::string_view target) {
  const std::size_t mark = target.find('?');
  if (mark == std::string_view::npos) return {target, {}};
  return {target.substr(0, mark), target.substr(mark + 1)};
}

}  // namespace herald::http
