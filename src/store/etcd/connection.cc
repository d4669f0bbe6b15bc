#include "store/etcd/connection.h"

#include <absl/synchronization/mutex.h>
#include <fmt/core.h>
#include <grpc/support/log.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "base/file.h"

namespace herald::store {
namespace {

using std::chrono::milliseconds;

// How long gRPC waits before it connects again after the first failure.
constexpr milliseconds kInitialReconnectBackoff{100};

// gRPC writes to stderr by default. Its errors are in the statuses of calls already. To debug gRPC
// itself, set GRPC_VERBOSITY.
void KeepGrpcQuiet() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  });
}

// If abseil is built with assertions, as Debian's is, it searches a graph of all of gRPC's locks
// for deadlocks. With 256 concurrent creates that took a sixth of heraldd's CPU time.
void KeepGrpcFast() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

}  // namespace

EtcdConnection::EtcdConnection(const std::shared_ptr<grpc::Channel>& channel,
                               grpc::CompletionQueue* queue_in)
    : queue(queue_in),
      kv(channel),
      watch(channel),
      lease(channel),
      maintenance(channel),
      auth(channel) {}

Result<EtcdTls> ReadEtcdTls(const EtcdClientOptions& options) {
  EtcdTls tls;
  if (options.cert_file.empty() != options.key_file.empty()) {
    return Status(StatusReason::kBadRequest,
                  "the etcd certificate and its key must be given together");
  }
  for (const auto& [path, contents] :
       {std::pair(&options.ca_file, &tls.ca), std::pair(&options.cert_file, &tls.cert),
        std::pair(&options.key_file, &tls.key)}) {
    if (path->empty()) continue;
    Result<std::string> read = ReadFile(*path);
    if (!read) return read.error();
    *contents = *std::move(read);
  }
  return tls;
}

std::shared_ptr<EtcdConnection> ConnectToEtcd(const EtcdAddress& address, const EtcdTls& tls,
                                              const EtcdClientOptions& options,
                                              grpc::CompletionQueue* queue) {
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  if (address.tls) {
    credentials = grpc::SslCredentials(
        {.pem_root_certs = tls.ca, .pem_private_key = tls.key, .pem_cert_chain = tls.cert});
  } else {
    credentials = grpc::InsecureChannelCredentials();
  }

  grpc::ChannelArguments arguments;
  // Otherwise a new channel shares the connection of the channel that it replaces.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // The size of a list is not known in advance; etcd limits the size of requests itself.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  const auto ms = [](milliseconds duration) { return static_cast<int>(duration.count()); };
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, ms(options.keepalive));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ms(options.call_timeout));
  // Otherwise gRPC stops after two pings on a watch without changes.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // EtcdRpc decides what is retried and when to reconnect.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, ms(kInitialReconnectBackoff));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, ms(options.call_timeout));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  // A proxy from the environment is for addresses outside the cluster.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);

  return std::make_shared<EtcdConnection>(
      grpc::CreateCustomChannel("dns:///" + address.host_and_port, credentials, arguments), queue);
}

Result<std::unique_ptr<UnaryChannel>> OpenWriteChannel(const EtcdAddress& address,
                                                       const EtcdClientOptions& options) {
  return UnaryChannel::Open(
      {.url = fmt::format("{}://{}", address.tls ? "https" : "http", address.host_and_port),
       .tls = [options]() -> Result<http::ClientTls> {
         Result<EtcdTls> read = ReadEtcdTls(options);
         if (!read) return read.error();
         return http::ClientTls{.ca = std::move(read->ca),
                                .certificate = std::move(read->cert),
                                .key = std::move(read->key)};
       },
       .connect_timeout = options.call_timeout,
       .ping_interval = options.keepalive,
       .ping_timeout = options.call_timeout});
}

void PrepareContext(grpc::ClientContext* context, bool needs_leader,
                    const std::shared_ptr<const std::string>& token) {
  // A member without a leader then fails the call instead of waiting for one.
  if (needs_leader) context->AddMetadata("hasleader", "true");
  if (token) context->AddMetadata("token", *token);
}

void ConfigureGrpc() {
  KeepGrpcQuiet();
  KeepGrpcFast();
}

}  // namespace herald::store
