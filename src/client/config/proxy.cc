#include "client/config/proxy.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "base/bytes/trimmed.h"
#include "http/url.h"

namespace herald {
namespace {

std::string Either(const char* name, const char* small_name) {
  // Only read when a client is opened.
  for (const char* variable : {name, small_name}) {
    const char* const value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

// An address as 16 bytes. IPv4 addresses are IPv4-mapped IPv6 addresses.
using Address = std::array<std::uint8_t, 16>;

std::optional<Address> ParseAddress(const std::string& string) {
  Address address{};
  if (inet_pton(AF_INET6, string.c_str(), address.data()) == 1) return address;
  address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  if (inet_pton(AF_INET, string.c_str(), address.data() + 12) == 1) return address;
  return std::nullopt;
}

bool IsLoopback(const Address& address) {
  constexpr Address kSix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return address == kSix || (address[10] == 0xFF && address[11] == 0xFF && address[12] == 127);
}

// Whether the first `bits` bits of both are equal.
bool SameNetwork(const Address& a, const Address& b, int bits) {
  for (std::size_t i = 0; bits > 0; ++i, bits -= 8) {
    const int mask = bits >= 8 ? 0xFF : 0xFF00 >> bits & 0xFF;
    if ((a[i] & mask) != (b[i] & mask)) return false;
  }
  return true;
}

// Whether one entry of NO_PROXY matches this host.
bool Excludes(std::string entry, const http::Url& url, const std::optional<Address>& address) {
  if (entry == "*") return true;
  if (const std::size_t slash = entry.find('/'); slash != std::string::npos && address) {
    const std::optional<Address> network = ParseAddress(entry.substr(0, slash));
    int bits = -1;
    std::from_chars(entry.data() + slash + 1, entry.data() + entry.size(), bits);
    const bool four = entry.find(':') == std::string::npos;
    if (!network || bits < 0 || bits > (four ? 32 : 128)) return false;
    return SameNetwork(*network, *address, four ? bits + 96 : bits);
  }
  // A port may follow: "host:8443", "[::1]:8443".
  const std::size_t colon = entry.rfind(':');
  const bool bracketed = entry.starts_with('[');
  if (colon != std::string::npos && (bracketed || entry.find(':') == colon)) {
    const std::string port = entry.substr(colon + 1);
    if (!port.empty() && port.find_first_not_of("0123456789") == std::string::npos) {
      if (port != std::to_string(url.port)) return false;
      entry.resize(colon);
    }
  }
  if (bracketed && entry.ends_with(']')) entry = entry.substr(1, entry.size() - 2);
  if (const std::optional<Address> other = ParseAddress(entry))
    return address && *address == *other;
  if (entry.starts_with("*.")) entry.erase(0, 1);
  // ".example.com" matches subdomains, "example.com" also the domain itself.
  if (entry.starts_with('.')) return url.host.ends_with(entry);
  return url.host == entry || url.host.ends_with("." + entry);
}

}  // namespace

std::string ProxyFromEnvironment(std::string_view server_url) {
  const auto url = http::ParseUrl(server_url);
  if (!url || url->scheme != "https") return "";
  std::string proxy = Either("HTTPS_PROXY", "https_proxy");
  if (proxy.empty()) return "";
  const std::optional<Address> address = ParseAddress(url->host);
  if (url->host == "localhost" || (address && IsLoopback(*address))) return "";
  const std::string list = Either("NO_PROXY", "no_proxy");
  for (std::size_t start = 0; start < list.size();) {
    const std::size_t end = std::min(list.find(',', start), list.size());
    const std::string entry(Trimmed(std::string_view(list).substr(start, end - start)));
    if (!entry.empty() && Excludes(entry, *url, address)) return "";
    start = end + 1;
  }
  if (proxy.find("://") == std::string::npos) proxy.insert(0, "http://");
  return proxy;
}

}  // namespace herald
