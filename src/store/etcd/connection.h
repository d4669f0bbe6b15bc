#pragma once

// clang-format off: before gRPC, whose absl defines macros of the same names and meaning
#include "base/thread/mutex.h"
// clang-format on

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "herald/base/status.h"
#include "store/etcd/client.h"
#include "store/etcd/endpoints.h"
#include "store/etcd/etcd.grpc.pb.h"
#include "store/etcd/unary_channel.h"

namespace herald::store {

// One connection to one member, for everything except writes. Calls over it complete on `queue`.
// The queue's single thread also serves the socket. Thread-safe, like gRPC's stubs.
struct EtcdConnection {
  EtcdConnection(const std::shared_ptr<grpc::Channel>& channel, grpc::CompletionQueue* queue_in);

  grpc::CompletionQueue* const queue;
  etcdserverpb::KV::Stub kv;
  etcdserverpb::Watch::Stub watch;
  etcdserverpb::Lease::Stub lease;
  etcdserverpb::Maintenance::Stub maintenance;
  etcdserverpb::Auth::Stub auth;
};

// The contents of the PEM files in EtcdClientOptions.
struct EtcdTls {
  std::string ca{};
  std::string cert{};
  std::string key{};

  bool operator==(const EtcdTls&) const = default;
};
Result<EtcdTls> ReadEtcdTls(const EtcdClientOptions& options);

// Returns at once; gRPC connects when the first call is made.
std::shared_ptr<EtcdConnection> ConnectToEtcd(const EtcdAddress& address, const EtcdTls& tls,
                                              const EtcdClientOptions& options,
                                              grpc::CompletionQueue* queue);

// The channel for writes. It reads the PEM files again for each new connection.
Result<std::unique_ptr<UnaryChannel>> OpenWriteChannel(const EtcdAddress& address,
                                                       const EtcdClientOptions& options);

// Adds the metadata that etcd's calls carry.
void PrepareContext(grpc::ClientContext* context, bool needs_leader,
                    const std::shared_ptr<const std::string>& token);

// Process-wide settings of gRPC. Idempotent, thread-safe.
void ConfigureGrpc();

}  // namespace herald::store
