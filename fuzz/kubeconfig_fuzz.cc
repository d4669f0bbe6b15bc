// Any bytes are parsed as a kubeconfig or rejected with a reason. The same holds for the output of
// exec plugins.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "client/config/exec_plugin.h"
#include "herald/client/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto config = herald::ParseKubeconfig(input, {}, "/nonexistent");
  if (config ? config->server.empty() : config.error().message().empty()) std::abort();
  const auto credential = herald::ParseExecCredential(input, "client.authentication.k8s.io/v1");
  if (credential) {
    if (credential->token.empty() && credential->certificate.empty()) std::abort();
  } else if (credential.error().message().empty()) {
    std::abort();
  }
  return 0;
}
