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

// The durations have client-go's meaning and defaults.
struct LeaderElectionOptions {
  std::string namespace_ = "default";  // of the Lease
  std::string name{};                  // of the Lease; it is created if it does not exist
  std::string identity{};              // of this candidate; must be unique

  // How long candidates wait after the last renewal that they saw before they take over. Whole
  // seconds, because the Lease stores seconds.
  std::chrono::seconds lease_duration{15};
  // How long a leader continues without a successful renewal. Less than lease_duration, so that
  // it has stopped before another one starts.
  std::chrono::milliseconds renew_deadline{10'000};
  // The delay between attempts. Candidates wait a random time of 1 to 2.2 times this value.
  std::chrono::milliseconds retry_period{2'000};

  // All callbacks run on the RestClient's thread and must not block.
  std::function<void()> on_started_leading{};
  // The lease is lost: the program must stop at once what only a leader may do.
  std::function<void()> on_stopped_leading{};
  // Called once per change of the leader, also if this candidate is the new leader.
  std::function<void(const std::string& identity)> on_new_leader{};

  Recorder recorder{};  // records an event about the Lease when we become leader; default: none
  LogFunction log{};
  std::uint64_t seed = 0;  // of the jitter, for tests; 0: random
};

// A LeaderElector lets one of several copies of a program work while the others wait. The leader
// holds a Lease (coordination.k8s.io/v1) and renews it. Programs that use client-go's
// tools/leaderelection may compete for the same Lease.
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
// kEnded is final: a program that has lost its lease should exit and be restarted, so that it
// keeps no old state in memory.
//
// Durations are measured with the local monotonic clock, from the time at which a change of the
// Lease was seen here. Times that others write into the Lease are not used. So wall clocks may
// differ, as long as they run at the same speed. Requests that a leader sent before it lost the
// lease may still arrive at the server later.
//
// Thread-safe. No callback runs after Stop() or Resign() has returned.
class HERALD_EXPORT LeaderElector {
 public:
  using StatusDone = std::function<void(const Status&)>;

  // An error if the options are invalid.
  static Result<std::unique_ptr<LeaderElector>> Open(std::shared_ptr<RestClient> rest,
                                                     LeaderElectionOptions options);
  // Stops.
  ~LeaderElector();
  LeaderElector(const LeaderElector&) = delete;
  LeaderElector& operator=(const LeaderElector&) = delete;

  // REQUIRES: not called before
  void Start();
  // Ends the election and does not change the Lease: the others wait until it expires. Idempotent.
  void Stop();
  // Stops, and releases the Lease if we hold it, so that the others need not wait.
  // REQUIRES: the program has stopped all that only a leader may do. The first form must not be
  // called from a callback; the second calls back on the RestClient's thread.
  Status Resign();
  void Resign(StatusDone done);

  // Whether we lead and the last renewal is not older than renew_deadline. Correct even if the
  // RestClient's thread is blocked.
  bool IsLeader() const;
  // The identity of the last leader that was seen; empty at first, and if there is no leader.
  std::string leader() const;

 private:
  class Core;
  explicit LeaderElector(std::shared_ptr<Core> core);
  // Shared with the requests and timers under way.
  const std::shared_ptr<Core> core_;
};

}  // namespace herald
