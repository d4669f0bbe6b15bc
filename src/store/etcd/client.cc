#include "store/etcd/client.h"

#include <algorithm>
#include <utility>

#include "base/thread/mutex.h"
#include "store/etcd/rpc.h"
#include "store/etcd/watch.h"

namespace herald::store {
namespace {

namespace pb = etcdserverpb;

// Moves the value: values are most of the size of a list.
Bytes TakeValue(pb::KeyValue& kv) {
  return std::make_shared<const std::string>(std::move(*kv.mutable_value()));
}

EtcdPage ToPage(pb::RangeResponse& response, bool keys_only) {
  EtcdPage page{.entries = {},
                .count = response.count(),
                .more = response.more(),
                .revision = response.header().revision()};
  page.entries.reserve(static_cast<std::size_t>(response.kvs_size()));
  for (pb::KeyValue& kv : *response.mutable_kvs()) {
    page.entries.push_back({.key = std::move(*kv.mutable_key()),
                            .value = keys_only ? nullptr : TakeValue(kv),
                            .mod_revision = kv.mod_revision(),
                            .lease = kv.lease()});
  }
  return page;
}

// Compares with the expected revision, then writes, or else reads the current entry.
pb::TxnRequest ToTransaction(EtcdWrite write) {
  pb::TxnRequest request;
  if (write.expected != Write::kAny) {
    pb::Compare& compare = *request.add_compare();
    compare.set_target(pb::Compare::MOD);
    compare.set_key(write.key);
    compare.set_mod_revision(write.expected);
    request.add_failure()->mutable_request_range()->set_key(write.key);
  }
  if (write.value) {
    pb::PutRequest& put = *request.add_success()->mutable_request_put();
    put.set_key(std::move(write.key));
    put.set_value(*write.value);
    put.set_lease(write.lease);
  } else if (write.expected != 0) {
    request.add_success()->mutable_request_delete_range()->set_key(std::move(write.key));
  }
  return request;
}

Written ToWritten(pb::TxnResponse& response) {
  Written written{
      .committed = false, .revision = response.header().revision(), .current = std::nullopt};
  if (response.responses_size() == 0) return written;  // the key to delete does not exist
  pb::ResponseOp& first = *response.mutable_responses(0);
  if (response.succeeded()) {
    written.committed =
        !first.has_response_delete_range() || first.response_delete_range().deleted() > 0;
  } else if (first.mutable_response_range()->kvs_size() > 0) {
    pb::KeyValue& kv = *first.mutable_response_range()->mutable_kvs(0);
    written.current = Entry{std::move(*kv.mutable_key()), TakeValue(kv), kv.mod_revision()};
  }
  return written;
}

void StartRange(EtcdRpc& rpc, EtcdRange range, std::function<void(Result<EtcdPage>)> done) {
  pb::RangeRequest request;
  // The smallest key: etcd rejects an empty one.
  request.set_key(range.start.empty() ? std::string(1, '\0') : std::move(range.start));
  request.set_range_end(std::move(range.end));
  request.set_limit(range.limit);
  request.set_revision(range.at);
  request.set_keys_only(range.keys_only);
  request.set_count_only(range.count_only);
  rpc.Start<pb::RangeResponse>(
      {.repeatable = true}, std::move(request),
      [](EtcdConnection& connection, grpc::ClientContext* context, const pb::RangeRequest& sent) {
        return connection.kv.PrepareAsyncRange(context, sent, connection.queue);
      },
      [done = std::move(done), keys_only = range.keys_only](const auto&, const Status& status,
                                                            pb::RangeResponse& response) {
        if (status.ok()) {
          done(ToPage(response, keys_only));
        } else {
          done(status);
        }
      });
}

// For a write that etcd rejected for lack of space: etcd applies the write that exceeds the quota
// and still rejects it. Reads the key to find out. `unknown` is the status if that is not possible.
void CheckWhetherApplied(EtcdRpc& rpc, const pb::TxnRequest& sent, const Status& rejection,
                         const Status& unknown, std::function<void(Result<Written>)> done) {
  // Without an expected revision, an equal value may be from an earlier write.
  const bool puts = sent.success_size() > 0 && sent.success(0).has_request_put();
  if (!puts || sent.compare_size() == 0) return done(unknown);
  const pb::PutRequest& put = sent.success(0).request_put();
  StartRange(
      rpc, {.start = put.key()},
      [value = put.value(), expected = sent.compare(0).mod_revision(), rejection, unknown,
       done = std::move(done)](Result<EtcdPage> found) {
        if (!found) return done(unknown);
        if (found->entries.empty()) return done(rejection);
        const EtcdKeyValue& entry = found->entries.front();
        if (entry.mod_revision == expected || *entry.value != value) return done(rejection);
        done(Written{.committed = true, .revision = entry.mod_revision, .current = std::nullopt});
      });
}

EtcdClient::Condition ToCondition(const pb::StatusResponse& response) {
  EtcdClient::Condition condition{
      .bytes = response.dbsize(), .has_leader = response.leader() != 0, .alarms = {}};
  // There is a string for each alarm and member that raised it; it contains the alarm's name.
  for (const std::string_view alarm : {"NOSPACE", "CORRUPT"}) {
    if (std::any_of(response.errors().begin(), response.errors().end(),
                    [alarm](const auto& e) { return e.find(alarm) != std::string::npos; })) {
      condition.alarms.emplace_back(alarm);
    }
  }
  return condition;
}

// The user's handle of a watch.
class WatchHandle final : public EtcdWatch {
 public:
  explicit WatchHandle(std::shared_ptr<EtcdWatcher> watcher) : watcher_(std::move(watcher)) {}
  ~WatchHandle() override { watcher_->Stop(); }
  void RequestProgress() override { watcher_->RequestProgress(); }

 private:
  const std::shared_ptr<EtcdWatcher> watcher_;
};

}  // namespace

class EtcdClient::Impl {
 public:
  explicit Impl(std::unique_ptr<EtcdRpc> rpc_in) : rpc(std::move(rpc_in)) {}
  ~Impl() {
    std::vector<std::weak_ptr<EtcdWatcher>> watchers;
    {
      MutexLock lock(mu_);
      watchers.swap(watchers_);
    }
    for (const auto& weak : watchers) {
      if (const auto watcher = weak.lock()) watcher->Stop();
    }
    rpc->Stop();
  }

  void Add(const std::shared_ptr<EtcdWatcher>& watcher) {
    MutexLock lock(mu_);
    std::erase_if(watchers_, [](const auto& weak) { return weak.expired(); });
    watchers_.push_back(watcher);
  }

  const std::unique_ptr<EtcdRpc> rpc;

 private:
  Mutex mu_;
  std::vector<std::weak_ptr<EtcdWatcher>> watchers_ GUARDED_BY(mu_);
};

Result<std::unique_ptr<EtcdClient>> EtcdClient::Open(EtcdClientOptions options) {
  Result<std::unique_ptr<EtcdRpc>> rpc = EtcdRpc::Open(std::move(options));
  if (!rpc) return rpc.error();
  return std::unique_ptr<EtcdClient>(new EtcdClient(std::make_unique<Impl>(*std::move(rpc))));
}

EtcdClient::EtcdClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EtcdClient::~EtcdClient() = default;

void EtcdClient::Range(EtcdRange range, std::function<void(Result<EtcdPage>)> done) {
  StartRange(*impl_->rpc, std::move(range), std::move(done));
}

void EtcdClient::Commit(EtcdWrite write, std::function<void(Result<Written>)> done) {
  EtcdRpc* const rpc = impl_->rpc.get();
  rpc->Write(ToTransaction(std::move(write)),
             [rpc, done = std::move(done)](const auto& call, const Status& status,
                                           pb::TxnResponse& response) {
               if (status.ok()) return done(ToWritten(response));
               if (!call.error_info().out_of_space) return done(status);
               CheckWhetherApplied(*rpc, call.request(), call.error_info().status, status, done);
             });
}

void EtcdClient::GrantLease(std::chrono::seconds ttl, std::function<void(Result<Lease>)> done) {
  pb::LeaseGrantRequest request;
  request.set_ttl(ttl.count());
  impl_->rpc->Start<pb::LeaseGrantResponse>(
      // A surplus lease has no keys and expires by itself.
      {.repeatable = true}, std::move(request),
      [](EtcdConnection& connection, grpc::ClientContext* context,
         const pb::LeaseGrantRequest& sent) {
        return connection.lease.PrepareAsyncLeaseGrant(context, sent, connection.queue);
      },
      [done = std::move(done)](const auto&, const Status& status,
                               const pb::LeaseGrantResponse& response) {
        if (!status.ok()) return done(status);
        if (!response.error().empty()) {
          return done(Status(StatusReason::kInternalError, "etcd: " + response.error()));
        }
        done(Lease{.id = response.id(), .ttl = std::chrono::seconds(response.ttl())});
      });
}

void EtcdClient::Compact(Revision revision, std::function<void(Status)> done) {
  pb::CompactionRequest request;
  request.set_revision(revision);
  impl_->rpc->Start<pb::CompactionResponse>(
      {.repeatable = true}, std::move(request),
      [](EtcdConnection& connection, grpc::ClientContext* context,
         const pb::CompactionRequest& sent) {
        return connection.kv.PrepareAsyncCompact(context, sent, connection.queue);
      },
      [done = std::move(done)](const auto&, const Status& status, const pb::CompactionResponse&) {
        done(status.Is(StatusReason::kExpired) ? Status() : status);
      });
}

void EtcdClient::GetCondition(std::function<void(Result<Condition>)> done) {
  impl_->rpc->Start<pb::StatusResponse>(
      // A member without a leader answers too, so that the caller learns of it.
      {.repeatable = true, .needs_leader = false}, pb::StatusRequest(),
      [](EtcdConnection& connection, grpc::ClientContext* context, const pb::StatusRequest& sent) {
        return connection.maintenance.PrepareAsyncStatus(context, sent, connection.queue);
      },
      [done = std::move(done)](const auto&, const Status& status,
                               const pb::StatusResponse& response) {
        if (status.ok()) {
          done(ToCondition(response));
        } else {
          done(status);
        }
      });
}

std::unique_ptr<EtcdWatch> EtcdClient::Watch(std::string prefix, Revision after,
                                             std::function<void(Result<EtcdWatchBatch>)> batch) {
  auto watcher =
      std::make_shared<EtcdWatcher>(impl_->rpc.get(), std::move(prefix), after, std::move(batch));
  impl_->Add(watcher);
  watcher->Start();
  return std::make_unique<WatchHandle>(std::move(watcher));
}

bool EtcdClient::progress_is_sound() const { return impl_->rpc->progress_is_sound(); }

Status EtcdClient::Health() const { return impl_->rpc->Health(); }

}  // namespace herald::store
