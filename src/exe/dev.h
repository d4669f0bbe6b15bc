#pragma once

#include <cstdint>
#include <string>

#include "herald/base/status.h"
#include "server/daemon.h"

namespace herald {

// What `heraldd dev` needs in its folder, made where it is missing and kept otherwise, so
// that a second start finds the data, the certificate and the token of the first:
//
//   DIR/data/        the events
//   DIR/certs/       certificate and key, made by the server
//   DIR/tokens.csv   one random token, for a user who may do everything
//   DIR/kubeconfig   for kubectl and for Herald's own client
//
// Sets the paths in *options and makes all but the kubeconfig.
Status PrepareDevFolder(const std::string& folder, server::DaemonOptions* options);

// Writes DIR/kubeconfig for a server that listens on that port of 127.0.0.1.
Status WriteDevKubeconfig(const std::string& folder, std::uint16_t port);

}  // namespace herald
