#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "herald/base/export.h"
#include "herald/base/log.h"
#include "herald/base/status.h"
#include "herald/client/rest.h"
#include "herald/record/recorder.h"

namespace herald {

// Durations are client-go's defaults, and so is what they mean.
struct LeaderElectionOptions {
  std::string namespace_ = "default";  // of the Lease
  std::string name{};                  // of the Lease; it is made where it is missing
  std::string identity{};              // who we are; no two candidates may have the same

  // How long the others wait, from the last renewal that they saw, before one of them
  // takes over. Whole seconds, because a Lease says it so.
  std::chrono::seconds lease_duration{15};
  // How long a leader goes on without a renewal that worked. Less than lease_duration, so
  // that it has stopped before another starts.
  std::chrono::milliseconds renew_deadline{10'000};
  // Between two tries; candidates wait up to 2.2 times as long, each for another time.
  std::chrono::milliseconds retry_period{2'000};

  // All on the RestClient's thread; they must not block.
  std::function<void()> on_started_leading{};
  // The lease is lost: whatever only a leader may do has to end at once.
  std::function<void()> on_stopped_leading{};
  // Somebody leads, ourselves included; told once per change.
  std::function<void(const std::string& identity)> on_new_leader{};

  Recorder recorder{};  // says on the Lease who became leader; by default nobody hears it
  LogFunction log{};
  std::uint64_t seed = 0;  // of the jitter, for tests; 0: any
};

// A LeaderElector makes sure that of several copies of a program one works while the others wait,
// through a Lease of coordination.k8s.io/v1 that the leader renews. Programs that use
// client-go's tools/leaderelection may compete for the same Lease.
//
//   auto elector = LeaderElector::Open(rest, {.namespace_ = "kube-system",
//                                             .name = "my-controller",
//                                             .identity = pod_name,
//                                             .on_started_leading = [&] { ... },
//                                             .on_stopped_leading = [&] { stop.request_stop(); }});
//   (*elector)->Start();
//
//   kCandidate ──the Lease is free, expired or ours──> kLeading ──Stop(), Resign()──> kEnded
//       │  ^                                              │                             ^
//       └──┘ held by another                              └──taken by another, or not───┘
//                                                            renewed in time
//
// Once it has ended it stays so: a program that lost its lease best ends as well, and is
// started anew with nothing in its memory.
//
// Time is counted from what is seen here, by a clock that never jumps; what others write
// into the Lease as their time is not believed. So clocks may differ, as long as they run
// equally fast. Requests that a leader has sent before it lost the lease can still arrive
// after it.
//
// Thread-safe. No callback runs once Stop() or Resign() has returned.
class HERALD_EXPORT LeaderElector {
 public:
  using StatusDone = std::function<void(const Status&)>;

  // An error where the options make no sense.
  static Result<std::unique_ptr<LeaderElector>> Open(std::shared_ptr<RestClient> rest,
                                                     LeaderElectionOptions options);
  // Stops.
  ~LeaderElector();
  LeaderElector(const LeaderElector&) = delete;
  LeaderElector& operator=(const LeaderElector&) = delete;

  // At most once.
  void Start();
  // Ends it and leaves the Lease as it is: the others wait until it expires. Idempotent.
  void Stop();
  // The same, and gives the Lease back where we have it, so that the others need not wait.
  // REQUIRES: all that only a leader may do has ended. The first form must not be called
  // from a callback; the second calls back on the RestClient's thread.
  Status Resign();
  void Resign(StatusDone done);

  // Whether we lead, and the last renewal is no older than renew_deadline: right even
  // where the RestClient's thread is stuck.
  bool IsLeader() const;
  // Who leads, as far as we have seen; empty at first, and where nobody does.
  std::string leader() const;

 private:
  class Core;
  explicit LeaderElector(std::shared_ptr<Core> core);
  // Shared with what is under way.
  const std::shared_ptr<Core> core_;
};

}  // namespace herald
