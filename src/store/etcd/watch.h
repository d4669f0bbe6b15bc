#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/limit/backoff.h"
#include "base/thread/mutex.h"
#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "store/etcd/client.h"
#include "store/etcd/rpc.h"

namespace herald::store {

// Where a prefix ends: the first key behind all that begin with it, "\0" (etcd's "no end") where
// there is none.
std::string EtcdPrefixEnd(std::string prefix);

// An EtcdWatcher is one watch through all the streams that it takes: it opens one, hands out
// what comes, and opens another behind what it has told where one ends or falls silent.
//
//   waiting --token, endpoint--> open --"created"--> live
//      ^                           |                  |
//      `--- ended, refused, silent: a short wait that grows, then another endpoint
//
// A stream is asked for `after` itself, not for what comes next: etcd 3.6 and newer answer
// a request for progress only once they have reached the first revision of a watch, and
// on a quiet store that would be never. What has been told already is dropped here.
//
// etcd sends a response for each change. Those that have arrived together are told together: so all
// that is done for a batch is done once for them.
//
// A response may be sent in fragments, cut anywhere. The changes of the last revision in a fragment
// wait for the next one, so that nobody ever sees half of a transaction.
//
// Thread-safe. Owned by the user's handle and by the stream that is open.
class EtcdWatcher final : public std::enable_shared_from_this<EtcdWatcher> {
 public:
  using Callback = std::function<void(Result<EtcdWatchBatch>)>;

  EtcdWatcher(EtcdRpc* rpc, std::string prefix, Revision after, Callback callback);
  ~EtcdWatcher();
  EtcdWatcher(const EtcdWatcher&) = delete;
  EtcdWatcher& operator=(const EtcdWatcher&) = delete;

  void Start();
  // No callback comes after that, and `rpc` is not touched any more; except where it is called
  // from the callback itself. Idempotent.
  void Stop();
  void RequestProgress();

 private:
  class Stream;

  void Open();
  void OpenLater();
  void OpenStream();
  void Tick();
  void ScheduleTick();
  // Both on the thread of the stream. The first says whether to read on.
  bool Received(Stream& stream, etcdserverpb::WatchResponse& response);
  void Ended(Stream& stream, const EtcdVerdict* verdict);
  void AskVersion() REQUIRES(mu_);
  void VersionIs(std::uint64_t serial, std::optional<bool> sound);
  bool Cancelled(Stream& stream, const etcdserverpb::WatchResponse& response);
  EtcdWatchBatch TakeChanges(etcdserverpb::WatchResponse& response) REQUIRES(mu_);
  // All three on the thread of the stream.
  void Gather(EtcdWatchBatch batch);
  void DeliverGathered();
  void Deliver(Result<EtcdWatchBatch> batch);

  EtcdRpc* const rpc_;
  const std::string prefix_;
  const std::chrono::nanoseconds keepalive_;

  EtcdWatchBatch gathered_;  // from the open stream, not told yet; its thread's alone

  // Guards all below. Before EtcdRpc's lock, never after. The callback runs without it.
  Mutex mu_;
  CondVar delivered_;
  bool stopped_ GUARDED_BY(mu_) = false;
  Callback callback_ GUARDED_BY(mu_);
  std::thread::id delivering_ GUARDED_BY(mu_){};  // who runs the callback
  Revision told_ GUARDED_BY(mu_);
  Backoff backoff_ GUARDED_BY(mu_);
  bool want_progress_ GUARDED_BY(mu_) = false;                // asked for, and not possible yet
  StatusReason refusal_ GUARDED_BY(mu_) = StatusReason::kOk;  // that the log knows of

  EtcdEndpoints::Set avoid_ GUARDED_BY(mu_) = 0;  // where the last stream ended
  std::uint64_t serial_ GUARDED_BY(mu_) = 0;      // of the last stream

  // Of the stream that is open.
  std::shared_ptr<Stream> stream_ GUARDED_BY(mu_);
  SteadyTime opened_ GUARDED_BY(mu_){};
  bool asking_version_ GUARDED_BY(mu_) = false;
  bool created_ GUARDED_BY(mu_) = false;
  enum class Sound : std::uint8_t { kUnknown, kNo, kYes };
  Sound sound_ GUARDED_BY(mu_) = Sound::kUnknown;
  SteadyTime heard_ GUARDED_BY(mu_){};
  SteadyTime asked_ GUARDED_BY(mu_){};  // for progress, because it was silent; epoch: not
  std::vector<std::shared_ptr<const Change>> held_ GUARDED_BY(mu_);  // of a revision cut in two
};

}  // namespace herald::store
