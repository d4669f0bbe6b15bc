#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/thread/mutex.h"
#include "herald/base/executor.h"
#include "herald/base/status.h"

namespace herald {

// A FairQueue schedules jobs on a pool of threads. Jobs belong to flows (one per client), and the
// flows share the threads fairly:
//
//   flow A:  short | long long long --.
//   flow B:  short                  --+--> the flow that got least --slice--> executor
//   flow C:         long            --'
//
//  1. A job runs in slices. After each slice it moves to the end of its flow's queue, so that a
//  short job waits for
//     slices and never for whole long jobs.
//  2. The next slice belongs to the flow with the least service. Service is the sum of the costs
//  that slices report, so
//     that many cheap jobs and a few expensive ones count the same.
//  3. A flow that returns after a pause continues with the same service as the others: it does not
//  save service during
//     the pause, and does not lose what it has just used.
//  4. Within a flow, short jobs run before long ones. A job is short for its first kShortSlices
//  slices. After
//     kShortInARow slices of short jobs a long one gets a slice, so that it makes progress.
//  5. The number of queued jobs is limited, per flow and in total. Further jobs are rejected with
//  kTooManyRequests.
//
// Thread-safe. Slices run on the executor, without a lock held.
class FairQueue {
 public:
  struct Options {
    int concurrency = 2;  // slices that run at the same time
    // The limits of queued jobs. A user may have a read for each of the 5,000 watches that it may
    // open at once, and lists. A job takes about 1 KB, so all of them take 24 MB.
    std::size_t max_queued = 24'000;
    std::size_t max_queued_per_flow = 6'000;
    // The expected cost of a slice that is running, in the unit of Step::cost.
    std::size_t slice_cost = 1;
  };

  // The result of a slice.
  struct Step {
    std::size_t cost = 0;
    bool done = true;  // false: the job needs another slice
  };
  using Slice = std::function<Step()>;

  enum class Kind : std::uint8_t { kShort, kLong };

  // The executor is not owned and must have stopped before the queue is destroyed. Jobs that are
  // still queued then are destroyed and do not run.
  FairQueue(Executor* executor, Options options);
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  // Queues a job, or returns kTooManyRequests if a limit is reached. A job that is known to be long
  // is kLong from the start. REQUIRES: slice is not empty
  Status Add(std::uint64_t flow, Kind kind, Slice slice) EXCLUDES(mu_);

  // The number of queued jobs.
  std::size_t queued() const EXCLUDES(mu_);

 private:
  static constexpr int kShortSlices = 4;
  static constexpr int kShortInARow = 8;
  // The limit of idle flows whose service is kept. Without it, a client that changes its name for
  // each job could make the map grow.
  static constexpr std::size_t kMaxIdleFlows = 4'096;

  struct Job {
    Slice slice;
    int short_slices = 0;  // slices until the job counts as long
  };
  struct Flow {
    std::deque<Job> short_jobs;
    std::deque<Job> long_jobs;
    std::uint64_t service = 0;  // received so far, in the unit of now_
    int short_in_a_row = 0;
    int running = 0;

    std::size_t queued() const { return short_jobs.size() + long_jobs.size(); }
  };
  using ByService = std::set<std::pair<std::uint64_t, std::uint64_t>>;  // service, flow

  void RunOne() EXCLUDES(mu_);
  // The next job to run and its flow. REQUIRES: queued_ > 0
  std::pair<std::uint64_t, Job> Pick() REQUIRES(mu_);
  static void Enqueue(Flow& flow, Job job);
  // Sets the service of a flow and updates waiting_ and idle_.
  void Charge(std::uint64_t id, Flow& flow, std::uint64_t service) REQUIRES(mu_);
  void ForgetIdle() REQUIRES(mu_);

  Executor* const executor_;
  const Options options_;

  mutable Mutex mu_;  // no other lock is taken under it
  std::unordered_map<std::uint64_t, Flow> flows_ GUARDED_BY(mu_);
  ByService waiting_ GUARDED_BY(mu_);  // flows with queued jobs
  ByService idle_ GUARDED_BY(mu_);     // flows without jobs whose service is above now_
  // The service of the flow that ran last. A new flow starts with it.
  std::uint64_t now_ GUARDED_BY(mu_) = 0;
  std::size_t queued_ GUARDED_BY(mu_) = 0;
  int runners_ GUARDED_BY(mu_) = 0;  // tasks on the executor
};

}  // namespace herald
