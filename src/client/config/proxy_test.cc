#include "client/config/proxy.h"

#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): setenv() is POSIX

namespace herald {
namespace {

struct ProxyCase {
  const char* server;
  const char* https_proxy;
  const char* no_proxy;
  const char* proxy;
};

TEST(Proxy, FollowsTheEnvironmentVariables) {
  const ProxyCase cases[] = {
      {"https://10.1.2.3:6443", "", "", ""},
      {"https://10.1.2.3:6443", "http://proxy:3128", "", "http://proxy:3128"},
      {"https://10.1.2.3:6443", "proxy:3128", "", "http://proxy:3128"},
      {"http://10.1.2.3:6443", "http://proxy:3128", "", ""},
      {"https://localhost:6443", "http://proxy:3128", "", ""},
      {"https://127.0.0.2:6443", "http://proxy:3128", "", ""},
      {"https://[::1]:6443", "http://proxy:3128", "", ""},
      {"https://10.1.2.3:6443", "http://proxy:3128", "*", ""},
      {"https://10.1.2.3:6443", "http://proxy:3128", "a, 10.1.2.3 ,b", ""},
      {"https://10.1.2.3:6443", "http://proxy:3128", "10.1.2.3:6443", ""},
      {"https://10.1.2.3:6443", "http://proxy:3128", "10.1.2.3:443", "http://proxy:3128"},
      {"https://10.1.2.3:6443", "http://proxy:3128", "10.0.0.0/8", ""},
      {"https://11.1.2.3:6443", "http://proxy:3128", "10.0.0.0/8", "http://proxy:3128"},
      {"https://10.1.2.3:6443", "http://proxy:3128", "10.1.2.0/23,10.1.2.4/31", ""},
      {"https://10.1.2.3:6443", "http://proxy:3128", "10.1.2.4/31,10.0.0.0/99,x/8",
       "http://proxy:3128"},
      {"https://[fd00::5]:6443", "http://proxy:3128", "fd00::/8", ""},
      {"https://[fd00::5]:6443", "http://proxy:3128", "[fd00::5]:6443", ""},
      {"https://api.example.com", "http://proxy:3128", "example.com", ""},
      {"https://example.com", "http://proxy:3128", "example.com", ""},
      {"https://example.com", "http://proxy:3128", ".example.com", "http://proxy:3128"},
      {"https://api.example.com", "http://proxy:3128", ".example.com", ""},
      {"https://api.example.com", "http://proxy:3128", "*.example.com", ""},
      {"https://badexample.com", "http://proxy:3128", "example.com", "http://proxy:3128"},
  };
  for (const ProxyCase& c : cases) {
    SCOPED_TRACE(std::string(c.server) + " without " + c.no_proxy);
    ::setenv("HTTPS_PROXY", c.https_proxy, 1);
    ::setenv("NO_PROXY", c.no_proxy, 1);
    EXPECT_EQ(ProxyFromEnvironment(c.server), c.proxy);
  }
}

}  // namespace
}  // namespace herald
