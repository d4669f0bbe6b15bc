#pragma once

#include <string>
#include <string_view>

namespace herald {

// The proxy that the environment names for an https server (HTTPS_PROXY, or in small
// letters), unless NO_PROXY excludes it: by name with all below it, by address, by network
// ("10.0.0.0/8"), each with or without a port, or all ("*"). Loopback is never reached
// through a proxy. Empty: none. As Go's net/http does behind kubectl.
std::string ProxyFromEnvironment(std::string_view server_url);

}  // namespace herald
