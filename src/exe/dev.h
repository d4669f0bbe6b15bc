#pragma once

#include <cstdint>
#include <string>

#include "herald/base/status.h"
#include "server/daemon/daemon.h"

namespace herald {

// What `heraldd dev` needs in its folder, made where it is missing and kept otherwise, so
// that a second start finds the data, the certificate and the token of the first:
//
//   DIR/data/        the events
//   DIR/certs/       CA and server certificate, made by the server unless one is given
//   DIR/tokens.csv   one random token, for a user who may do everything
//   DIR/kubeconfig   for kubectl and for Herald's own client
//
// Sets the paths in *options and makes all but the kubeconfig.
Status PrepareDevFolder(const std::string& folder, server::DaemonOptions* options);

// How clients reach a server of `heraldd dev`.
struct DevAccess {
  std::uint16_t port = 0;
  std::string token{};
  // The file (PEM) that has `anchors`, for curl --cacert.
  std::string ca_file{};
  // Certificates (PEM) that clients must trust. Empty where the certificate that the server was
  // given does not include its CA: clients then trust the CAs of their system.
  std::string anchors{};
  // The name in the certificate that clients must expect, where that is not 127.0.0.1.
  std::string server_name{};
};

// For a server that was started with these options and listens on that port of 127.0.0.1.
Result<DevAccess> FindDevAccess(const std::string& folder, const server::DaemonOptions& options,
                                std::uint16_t port);

// Writes DIR/kubeconfig. False where there is one that was not written by this function: it is
// left as it is.
Result<bool> WriteDevKubeconfig(const std::string& folder, const DevAccess& access);

// What to try, for the terminal.
std::string DevInstructions(const std::string& folder, const DevAccess& access, bool on_etcd);

}  // namespace herald
