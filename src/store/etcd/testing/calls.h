#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/thread/mutex.h"
#include "store/etcd/client.h"

namespace herald::store {

// How long a test waits for something that must happen. Never a measure of how long it takes.
inline constexpr std::chrono::seconds kTestTimeout{60};

// Polls until the predicate is true; returns false on timeout.
template <typename Predicate>
bool Eventually(Predicate predicate) {
  const auto end = std::chrono::steady_clock::now() + kTestTimeout;
  while (!predicate()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// Makes one call and waits for its result: Await<Result<Written>>([&](auto done) { ... done ... }).
template <typename T, typename Start>
T Await(Start start) {
  auto promise = std::make_shared<std::promise<T>>();
  auto future = promise->get_future();
  start([promise](T value) { promise->set_value(std::move(value)); });
  HERALD_CHECK(future.wait_for(kTestTimeout) == std::future_status::ready, "a call never ended");
  return future.get();
}

inline std::unique_ptr<EtcdClient> Connect(EtcdClientOptions options) {
  auto client = EtcdClient::Open(std::move(options));
  HERALD_CHECK(client.has_value());
  return *std::move(client);
}
inline Result<Written> Commit(EtcdClient& client, EtcdWrite write) {
  return Await<Result<Written>>(
      [&](auto done) { client.Commit(std::move(write), std::move(done)); });
}
inline Result<Written> Put(EtcdClient& client, std::string key, std::string value,
                           Revision expected = Write::kAny, std::int64_t lease = 0) {
  return Commit(client, {.key = std::move(key),
                         .value = std::make_shared<const std::string>(std::move(value)),
                         .expected = expected,
                         .lease = lease});
}
inline Result<Written> Delete(EtcdClient& client, std::string key,
                              Revision expected = Write::kAny) {
  return Commit(client, {.key = std::move(key), .value = nullptr, .expected = expected});
}
inline Result<EtcdPage> Range(EtcdClient& client, EtcdRange range) {
  return Await<Result<EtcdPage>>(
      [&](auto done) { client.Range(std::move(range), std::move(done)); });
}
inline Result<EtcdClient::Lease> GrantLease(EtcdClient& client, std::chrono::seconds ttl) {
  return Await<Result<EtcdClient::Lease>>(
      [&](auto done) { client.GrantLease(ttl, std::move(done)); });
}
inline Status Compact(EtcdClient& client, Revision revision) {
  return Await<Status>([&](auto done) { client.Compact(revision, std::move(done)); });
}
inline Result<EtcdClient::Condition> GetCondition(EtcdClient& client) {
  return Await<Result<EtcdClient::Condition>>(
      [&](auto done) { client.GetCondition(std::move(done)); });
}

// Collects the batches of a watch. Thread-safe. Must outlive the watch.
class WatchRecorder {
 public:
  auto callback() {
    return [this](Result<EtcdWatchBatch> batch) {
      MutexLock lock(mu_);
      if (!batch) {
        error_ = batch.error();
      } else {
        HERALD_CHECK(batch->revision >= revision_, "the revision of a watch went back");
        for (auto& change : batch->changes) {
          HERALD_CHECK(change->revision() > revision_ || InLastBatchRevision(*change),
                       "a change was delivered twice or late");
          changes_.push_back(std::move(change));
        }
        revision_ = batch->revision;
        ++batches_;
      }
      changed_.NotifyAll();
    };
  }

  // Waits until `predicate`(all changes so far) is true; returns false on timeout.
  template <typename Predicate>
  bool WaitUntil(Predicate predicate) {
    MutexLock lock(mu_);
    return changed_.WaitFor(lock, kTestTimeout,
                            [&]() REQUIRES(mu_) { return predicate(changes_); });
  }
  bool WaitForCount(std::size_t count) {
    return WaitUntil([count](const auto& changes) { return changes.size() >= count; });
  }
  bool WaitForRevision(Revision revision, std::chrono::nanoseconds timeout = kTestTimeout) {
    MutexLock lock(mu_);
    return changed_.WaitFor(lock, timeout, [&]() REQUIRES(mu_) { return revision_ >= revision; });
  }
  Status WaitForError() {
    MutexLock lock(mu_);
    changed_.WaitFor(lock, kTestTimeout, [&]() REQUIRES(mu_) { return !error_.ok(); });
    return error_;
  }

  std::vector<std::shared_ptr<const Change>> changes() const {
    MutexLock lock(mu_);
    return changes_;
  }
  std::vector<std::string> keys() const {
    std::vector<std::string> keys;
    for (const auto& change : changes()) keys.push_back(change->key());
    return keys;
  }
  Revision revision() const {
    MutexLock lock(mu_);
    return revision_;
  }
  std::size_t batches() const {
    MutexLock lock(mu_);
    return batches_;
  }

 private:
  // Several changes of one revision are in one batch.
  bool InLastBatchRevision(const Change& change) const REQUIRES(mu_) {
    return !changes_.empty() && changes_.back()->revision() == change.revision() &&
           change.revision() > revision_;
  }

  mutable Mutex mu_;
  CondVar changed_;
  std::vector<std::shared_ptr<const Change>> changes_ GUARDED_BY(mu_);
  Revision revision_ GUARDED_BY(mu_) = 0;
  std::size_t batches_ GUARDED_BY(mu_) = 0;
  Status error_ GUARDED_BY(mu_);
};

// Requests progress until the watch has reached the revision.
inline bool WaitForProgress(EtcdWatch& watch, WatchRecorder& recorder, Revision revision) {
  return Eventually([&] {
    watch.RequestProgress();
    return recorder.WaitForRevision(revision, std::chrono::milliseconds(50));
  });
}

}  // namespace herald::store
