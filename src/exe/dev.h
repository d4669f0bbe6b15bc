#pragma once

#include <cstdint>
#include <string>

#include "herald/base/status.h"
#include "server/daemon/daemon.h"

namespace herald {

// The directory of `heraldd dev`. Existing files are kept, so that a second start uses the data,
// the certificate and the token of the first:
//
//   DIR/data/        the events
//   DIR/certs/       CA and server certificate, created by the server unless --tls-cert-file is set
//   DIR/tokens.csv   a random token of a user in the group system:masters
//   DIR/kubeconfig   for kubectl and for Herald's own client
//
// Creates DIR and DIR/tokens.csv, and sets the paths in *options.
Status PrepareDevDirectory(const std::string& dir, server::DaemonOptions* options);

// How clients reach a server of `heraldd dev`. An ordinary value.
struct DevAccess {
  std::uint16_t port = 0;
  std::string token{};
  // The file (PEM) that contains `anchors`, for curl --cacert.
  std::string ca_file{};
  // Certificates (PEM) that clients must trust. Empty if the chain in --tls-cert-file does not
  // include its CA: clients then trust the CAs of their system.
  std::string anchors{};
  // The name in the certificate that clients must expect; empty if that is 127.0.0.1.
  std::string server_name{};
};

// For a server that was started with these options and listens on `port` of 127.0.0.1.
Result<DevAccess> FindDevAccess(const std::string& dir, const server::DaemonOptions& options,
                                std::uint16_t port);

// Writes DIR/kubeconfig. Returns false, and changes nothing, if the file exists and was edited
// after this function wrote it.
Result<bool> WriteDevKubeconfig(const std::string& dir, const DevAccess& access);

// Commands to try, printed to the terminal.
std::string DevInstructions(const std::string& dir, const DevAccess& access, bool on_etcd);

}  // namespace herald
