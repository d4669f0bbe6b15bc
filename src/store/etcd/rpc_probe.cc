// The probes of EtcdRpc: which members answer, and which version they run.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "store/etcd/rpc.h"

namespace herald::store {
namespace {

// etcd returns alarms as strings such as "memberID:123 alarm:CORRUPT ".
bool IsCorrupt(const etcdserverpb::StatusResponse& response) {
  const std::string member = fmt::format("memberID:{} ", response.header().member_id());
  return std::any_of(response.errors().begin(), response.errors().end(), [&](const auto& error) {
    return error.find("CORRUPT") != std::string::npos && error.find(member) != std::string::npos;
  });
}

}  // namespace

// Gets the status of one specific member. A probe for a stream uses the stream's connection, others
// use the channel for writes. Deletes itself when it ends.
class EtcdRpc::Probe final : public CompletionTag {
 public:
  Probe(EtcdRpc* rpc, StreamTarget target, VersionDone done)
      : rpc_(rpc), target_(std::move(target)), done_(std::move(done)) {}

  void Send() {
    const UnaryChannel::Call call{
        .method = "/etcdserverpb.Maintenance/Status",
        .timeout = std::chrono::duration_cast<std::chrono::milliseconds>(rpc_->probe_timeout_),
        .needs_leader = false,
        .token = target_.token};
    if (!done_) {
      rpc_->write_channels_[target_.endpoint]->Start(
          call, etcdserverpb::StatusRequest(), &response_, canceller_,
          [this](UnaryResult result) { Ended(std::move(result)); });
      return;
    }
    context_.set_deadline(std::chrono::system_clock::now() + call.timeout);
    PrepareContext(&context_, call.needs_leader, call.token);
    reader_ = target_.connection->maintenance.PrepareAsyncStatus(&context_, {},
                                                                 target_.connection->queue);
    reader_->StartCall();
    reader_->Finish(&response_, &status_, Publish());
  }
  void Cancel() {
    canceller_->Cancel();
    context_.TryCancel();
  }

 private:
  friend class EtcdRpc;
  void Run(bool) override { Ended(ToUnaryResult(status_)); }
  void Ended(UnaryResult result) {
    const std::unique_ptr<Probe> self(this);
    result_ = std::move(result);
    rpc_->OnProbeEnded(*this);
  }

  EtcdRpc* const rpc_;
  const StreamTarget target_;
  const VersionDone done_;  // null for a probe of the endpoint
  etcdserverpb::StatusResponse response_;
  UnaryResult result_;
  const std::shared_ptr<UnaryChannel::Canceller> canceller_ =
      std::make_shared<UnaryChannel::Canceller>();
  grpc::ClientContext context_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<etcdserverpb::StatusResponse>> reader_;
};

void EtcdRpc::CancelProbes() {
  for (Probe* probe : probes_) probe->Cancel();
}

void EtcdRpc::Tick() {
  std::vector<EtcdEndpoints::Index> due;
  {
    MutexLock lock(mu_);
    if (stopping_) return;
    const SteadyTime now = Now();
    for (EtcdEndpoints::Index i = 0; i < endpoints_.size(); ++i) {
      // The member may have failed with its connection, or may come back as another version.
      if (probed_[i] && !write_channels_[i]->connected()) endpoints_.Disconnected(i, now);
    }
    due = endpoints_.DueProbes(now, probe_after_silence_);
  }
  for (const EtcdEndpoints::Index endpoint : due) StartProbe(endpoint);
  executor_.PostAt(Now() + tick_, [this] { Tick(); });
}

void EtcdRpc::StartProbe(EtcdEndpoints::Index endpoint) {
  bool reconnect = false;
  {
    MutexLock lock(mu_);
    reconnect = reconnect_[endpoint];
    reconnect_[endpoint] = false;
  }
  if (reconnect) {
    write_channels_[endpoint]->Renew();
    if (addresses_[endpoint].tls) {
      Result<EtcdTls> read = ReadEtcdTls(options_);
      if (read) {
        tls_ = *std::move(read);
      } else {
        Log(LogLevel::kError, "cannot read the certificates for etcd; still using the old ones",
            {{"error", read.error().message()}});
      }
    }
    std::shared_ptr<EtcdConnection> connection =
        ConnectToEtcd(addresses_[endpoint], tls_, options_, &queue_);
    MutexLock lock(mu_);
    connections_[endpoint].swap(connection);
    lock.Unlock();  // before the old connection is closed
  }

  Probe* probe = nullptr;
  {
    MutexLock lock(mu_);
    if (stopping_) return;
    ++outstanding_;
    probe = new Probe(this, {endpoint, connections_[endpoint], token_, Now()}, nullptr);
    probes_.push_back(probe);
  }
  probe->Send();  // deletes the probe when it ends
}

void EtcdRpc::RequestVersion(const StreamTarget& target, VersionDone done) {
  Probe* probe = nullptr;
  {
    MutexLock lock(mu_);
    if (stopping_) return;
    ++outstanding_;
    probe = new Probe(this, {target.endpoint, target.connection, token_, Now()}, std::move(done));
    probes_.push_back(probe);
  }
  probe->Send();
}

void EtcdRpc::OnProbeEnded(Probe& probe) {
  const EtcdEndpoints::Index endpoint = probe.target_.endpoint;
  const etcdserverpb::StatusResponse& response = probe.response_;
  const bool ok = probe.result_.code == GrpcCode::kOk;
  bool stopping = false;
  {
    MutexLock lock(mu_);
    std::erase(probes_, &probe);
    stopping = stopping_;
    if (!stopping && ok) endpoints_.SetVersion(endpoint, response.version());
  }
  if (stopping) return OperationEnded();

  EtcdErrorInfo error_info;
  if (!ok) {
    error_info = ClassifyResult(probe.result_);
    // A member that does not even answer a probe is lost.
    if (error_info.endpoint == EtcdErrorInfo::Endpoint::kSuspect) {
      error_info.endpoint = EtcdErrorInfo::Endpoint::kLost;
    }
    if (error_info.needs_new_token) DiscardToken(probe.target_.token);
  }
  if (probe.done_) {
    // Only the stream itself knows whether it still works.
    probe.done_(ok ? std::optional(ProgressIsSound(response.version())) : std::nullopt);
    return OperationEnded();
  }
  if (!ok) {
    // Classified above.
  } else if (response.leader() == 0) {
    error_info = ClassifyEtcdError(GrpcCode::kUnavailable, "etcdserver: no leader");
  } else if (response.islearner()) {
    error_info = ClassifyEtcdError(GrpcCode::kFailedPrecondition,
                                   "etcdserver: rpc not supported for learner");
  } else if (IsCorrupt(response)) {
    error_info = ClassifyEtcdError(GrpcCode::kDataLoss, "etcdserver: corrupt cluster");
    error_info.endpoint = EtcdErrorInfo::Endpoint::kLost;
  }
  if (error_info.endpoint == EtcdErrorInfo::Endpoint::kLost) {
    OnError(endpoint, error_info, probe.target_.since);
  } else {
    OnResponse(endpoint, probe.target_.since);
    MutexLock lock(mu_);
    probed_[endpoint] = true;
    endpoints_.ProbeEnded(endpoint, Now());
  }
  OperationEnded();
}

}  // namespace herald::store
