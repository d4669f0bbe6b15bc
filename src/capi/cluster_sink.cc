#include "capi/cluster_sink.h"

#include <utility>

#include "base/thread/mutex.h"
#include "herald/client/config.h"
#include "herald/client/rest.h"
#include "herald/client/rest_sink.h"

namespace herald {
namespace {

// Forwards requests to another sink until it is closed. Thread-safe.
class ClosableSink final : public Sink {
 public:
  explicit ClosableSink(std::shared_ptr<Sink> sink) : sink_(std::move(sink)) {}

  void Send(SinkRequest request, Completion done) override {
    std::shared_ptr<Sink> sink;
    {
      const MutexLock lock(mu_);
      sink = sink_;
    }
    if (sink) return sink->Send(std::move(request), std::move(done));
    // The origin is the server, so that delivery does not retry.
    done(Status({.reason = StatusReason::kGone,
                 .message = "the sink was freed",
                 .origin = Status::Origin::kServer}));
  }

  void Close() {
    std::shared_ptr<Sink> sink;  // destroyed outside of the lock: it waits for its callbacks
    {
      const MutexLock lock(mu_);
      sink.swap(sink_);
    }
  }

 private:
  Mutex mu_;
  std::shared_ptr<Sink> sink_ GUARDED_BY(mu_);
};

}  // namespace

Result<ClusterSink> OpenClusterSink(const ClusterSinkOptions& options) {
  Result<ClientConfig> config =
      options.in_cluster ? InClusterConfig()
                         : LoadConfig({.path = options.kubeconfig, .context = options.context});
  if (!config) return config.error();
  Result<std::shared_ptr<RestClient>> rest =
      RestClient::Open(std::move(*config), {.user_agent = options.user_agent});
  if (!rest) return rest.error();
  auto sink = std::make_shared<ClosableSink>(std::make_shared<RestSink>(
      std::move(*rest),
      RestSinkOptions{.format = options.protobuf ? WireFormat::kProtobuf : WireFormat::kJson,
                      .api_choice = options.api_choice}));
  return ClusterSink{sink, [sink] { sink->Close(); }};
}

}  // namespace herald
