#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "herald/base/status.h"

namespace herald::http {

// The URL of a server or a proxy: "https://user:pw@[::1]:6443/base". A value type.
struct Url {
  std::string scheme{};     // "http" or "https"; for a proxy also "socks5" or "socks5h"
  std::string user_info{};  // decoded, "user:pw"
  std::string host{};       // without the brackets of an IPv6 address
  std::uint16_t port = 0;   // the scheme's default if none was given
  std::string path{};       // not decoded, without a trailing slash; empty for the root

  // "host:port", or "host" if the port is the scheme's default; IPv6 addresses have brackets.
  std::string authority() const;

  bool operator==(const Url&) const = default;
};

// Whether a host is an IPv4 or IPv6 address and not a name.
bool IsAddress(const std::string& host);

// The error is kBadRequest; its message has the URL and what is wrong with it.
Result<Url> ParseUrl(std::string_view string);
// Also accepts the schemes of proxies. "socks5" and "socks5h" mean the same, as in client-go.
Result<Url> ParseProxyUrl(std::string_view string);

// %41 -> A; with `plus_is_space` also + -> space. nullopt if a % is not followed by two hex
// digits.
std::optional<std::string> PercentDecode(std::string_view encoded, bool plus_is_space = false);
// Encodes everything except letters, digits and -._~ as %XX.
std::string PercentEncode(std::string_view value);

// The parameters of a query, decoded, in their order. Pairs that cannot be decoded, or that contain
// a ';', are left out, as Go's net/url does for kube-apiserver.
using Query = std::vector<std::pair<std::string, std::string>>;
Query ParseQuery(std::string_view query);

// "/a/b?c=d" -> "/a/b" and "c=d".
std::pair<std::string_view, std::string_view> SplitTarget(std::string_view target);

}  // namespace herald::http
