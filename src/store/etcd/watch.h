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

// The end of the range of all keys with the prefix: the first key after them, or "\0" (etcd's "no
// end").
std::string EtcdPrefixEnd(std::string prefix);

// An EtcdWatcher is one watch over a sequence of streams. It opens a stream and delivers its
// changes. When the stream ends or falls silent, it opens another one after the last delivered
// revision.
//
//   waiting --token, endpoint--> open --"created"--> live
//      ^                           |                  |
//      `--- ended, rejected, silent: a short delay that grows, then another endpoint
//
// A stream starts at `after` itself, not at the next revision: etcd 3.6 and newer answer a progress
// request only after they have reached the first revision of a watch, which on a quiet store would
// never happen. Changes that were delivered before are dropped here.
//
// etcd sends a response for each change. Changes that arrive together are delivered as one batch,
// so that the cost of a batch is paid once.
//
// etcd may split a response into fragments at any change. The changes of the last revision in a
// fragment wait for the next fragment, so that no one sees a part of a transaction.
//
// Thread-safe. Owned by the user's handle and by the open stream.
class EtcdWatcher final : public std::enable_shared_from_this<EtcdWatcher> {
 public:
  using Callback = std::function<void(Result<EtcdWatchBatch>)>;

  EtcdWatcher(EtcdRpc* rpc, std::string prefix, Revision after, Callback callback);
  ~EtcdWatcher();
  EtcdWatcher(const EtcdWatcher&) = delete;
  EtcdWatcher& operator=(const EtcdWatcher&) = delete;

  void Start();
  // After this there are no callbacks, and `rpc` is not used, unless it is called from the callback
  // itself. Idempotent.
  void Stop();
  void RequestProgress();

 private:
  class Stream;

  void Open();
  void RetryOpenLater();
  void OpenStream();
  void Tick();
  void ScheduleTick();
  // Both are called on the thread of the stream. OnResponse() returns whether to continue reading.
  bool OnResponse(Stream& stream, etcdserverpb::WatchResponse& response);
  void OnStreamEnded(Stream& stream, const EtcdErrorInfo* error_info);
  void RequestVersion() REQUIRES(mu_);
  void OnVersion(std::uint64_t serial, std::optional<bool> sound);
  bool OnCancelled(Stream& stream, const etcdserverpb::WatchResponse& response);
  EtcdWatchBatch TakeChanges(etcdserverpb::WatchResponse& response) REQUIRES(mu_);
  // Called on the thread of the stream.
  void AddToPending(EtcdWatchBatch batch);
  void DeliverPending();
  void Deliver(Result<EtcdWatchBatch> batch);

  EtcdRpc* const rpc_;
  const std::string prefix_;
  const std::chrono::nanoseconds keepalive_;

  EtcdWatchBatch pending_;  // received, not delivered yet; used by the stream's thread only

  // Guards all below. Acquired before EtcdRpc's lock. The callback runs without it.
  Mutex mu_;
  CondVar callback_done_;
  bool stopped_ GUARDED_BY(mu_) = false;
  Callback callback_ GUARDED_BY(mu_);
  std::thread::id delivering_ GUARDED_BY(mu_){};  // the thread that runs the callback
  Revision delivered_revision_ GUARDED_BY(mu_);
  Backoff backoff_ GUARDED_BY(mu_);
  bool request_progress_later_ GUARDED_BY(mu_) = false;  // requested, but not possible yet
  StatusReason logged_cancel_reason_ GUARDED_BY(mu_) = StatusReason::kOk;  // avoids repeated logs

  EtcdEndpoints::Set avoid_ GUARDED_BY(mu_) = 0;  // where the last stream ended
  std::uint64_t serial_ GUARDED_BY(mu_) = 0;      // of the last stream

  // The open stream.
  std::shared_ptr<Stream> stream_ GUARDED_BY(mu_);
  SteadyTime opened_at_ GUARDED_BY(mu_){};
  bool version_requested_ GUARDED_BY(mu_) = false;
  bool created_ GUARDED_BY(mu_) = false;
  enum class ProgressSound : std::uint8_t { kUnknown, kNo, kYes };
  ProgressSound progress_sound_ GUARDED_BY(mu_) = ProgressSound::kUnknown;
  SteadyTime last_response_at_ GUARDED_BY(mu_){};
  SteadyTime progress_requested_at_
      GUARDED_BY(mu_){};  // because the stream was silent; epoch: not requested
  std::vector<std::shared_ptr<const Change>> incomplete_revision_
      GUARDED_BY(mu_);  // changes whose revision continues in the next fragment
};

}  // namespace herald::store
