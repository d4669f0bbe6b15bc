#pragma once

#include <string>
#include <string_view>

namespace herald {

// The proxy for an https server from the environment (HTTPS_PROXY or https_proxy); empty if there
// is none. NO_PROXY excludes servers: by domain name including subdomains, by address, by network
// ("10.0.0.0/8"), each with or without a port, or all ("*"). Loopback addresses never use a proxy.
// These are the rules of Go's net/http, which kubectl uses.
std::string ProxyFromEnvironment(std::string_view server_url);

}  // namespace herald
