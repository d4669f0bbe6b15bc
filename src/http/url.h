#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "herald/base/status.h"

namespace herald::http {

// Where a server is: "https://user:pw@[::1]:6443/base".
struct Url {
  std::string scheme{};     // "http" or "https"; of a proxy "socks5" or "socks5h", too
  std::string user_info{};  // decoded, "user:pw"
  std::string host{};       // without the brackets of an IPv6 address
  std::uint16_t port = 0;   // the scheme's own where none was given
  std::string path{};       // as it stands, without a trailing slash; empty for the root

  // "host:port", or "host" where the port is the scheme's own; with brackets where needed.
  std::string authority() const;

  bool operator==(const Url&) const = default;
};

// Whether a host is an address of IPv4 or IPv6 and not a name.
bool IsAddress(const std::string& host);

// A refusal (kBadRequest) says what is wrong with which text.
Result<Url> ParseUrl(std::string_view text);
// Where a proxy is. "socks5" and "socks5h" mean the same here, as they do for client-go.
Result<Url> ParseProxyUrl(std::string_view text);

// %41 -> A; with `plus_is_space` also + -> space. Nothing where a % is not followed by
// two hex digits.
std::optional<std::string> PercentDecode(std::string_view text, bool plus_is_space = false);
// Everything but letters, digits and -._~ becomes %XX.
std::string PercentEncode(std::string_view text);

// The parameters of a query, decoded, in their order. Pairs that cannot be decoded, or
// that hold a ';', are left out, as Go's net/url does behind kube-apiserver.
using Query = std::vector<std::pair<std::string, std::string>>;
Query ParseQuery(std::string_view query);

// "/a/b?c=d" -> "/a/b" and "c=d".
std::pair<std::string_view, std::string_view> SplitTarget(std::string_view target);

}  // namespace herald::http
