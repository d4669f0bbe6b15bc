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

// A FairQueue decides which job runs next on a pool of threads. Jobs belong to flows (one
// per client), and the flows share the threads fairly:
//
//   flow A:  short | long long long --.
//   flow B:  short                  --+--> the flow that got least --slice--> executor
//   flow C:         long            --'
//
//  1. A job runs in slices. After each it goes to the back of its flow's line, so a short job
//     waits for slices and never for whole long jobs.
//  2. The next slice belongs to the flow that has been served least. Service is the cost that
//     slices report, so many cheap jobs and a few expensive ones count alike.
//  3. A flow that comes back after a pause starts level with the others: it neither saves up
//     service nor gets rid of what it used a moment ago.
//  4. Within a flow, short jobs go before long ones. A job is short for its first kShortSlices
//     slices. After every kShortInARow slices of short jobs a long one gets a slice, so that it
//     makes progress.
//  5. What waits is bounded, per flow and in all. Over the bound a job is rejected with
//     kTooManyRequests.
//
// Thread-safe. Slices run on the executor, without a lock held.
class FairQueue {
 public:
  struct Options {
    int concurrency = 2;  // slices that run at the same time
    // Jobs that wait. A user may have a read for each of the watches that one may open at once
    // (5,000) and lists besides. Each takes about 1 KB, so all of them take 24 MB.
    std::size_t max_queued = 24'000;
    std::size_t max_queued_per_flow = 6'000;
    // What a slice is expected to cost while it runs, in the unit of Step::cost.
    std::size_t slice_cost = 1;
  };

  // What a slice did.
  struct Step {
    std::size_t cost = 0;
    bool done = true;  // false: it is called again when it is its turn
  };
  using Slice = std::function<Step()>;

  enum class Kind : std::uint8_t { kShort, kLong };

  // The executor is borrowed, and must have stopped before this is destroyed. Jobs that wait
  // by then are destroyed without having run.
  FairQueue(Executor* executor, Options options);
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  // Queues a job; kTooManyRequests where too many wait. One that is known to be long is kLong
  // from the start. REQUIRES: slice is not empty
  Status Add(std::uint64_t flow, Kind kind, Slice slice) EXCLUDES(mu_);

  // Jobs that wait now.
  std::size_t queued() const EXCLUDES(mu_);

 private:
  static constexpr int kShortSlices = 4;
  static constexpr int kShortInARow = 8;
  // Idle flows whose recent service is remembered. Without a bound, a client that changes its
  // name for each job could make the map grow.
  static constexpr std::size_t kMaxIdleFlows = 4'096;

  struct Job {
    Slice slice;
    int short_slices = 0;  // how many more it may run before it is long
  };
  struct Flow {
    std::deque<Job> short_jobs;
    std::deque<Job> long_jobs;
    std::uint64_t service = 0;  // attained, on the scale of now_
    int short_in_a_row = 0;
    int running = 0;

    std::size_t queued() const { return short_jobs.size() + long_jobs.size(); }
  };
  using ByService = std::set<std::pair<std::uint64_t, std::uint64_t>>;  // service, flow

  void RunOne() EXCLUDES(mu_);
  // The next job to run and its flow. REQUIRES: queued_ > 0
  std::pair<std::uint64_t, Job> Pick() REQUIRES(mu_);
  static void Enqueue(Flow& flow, Job job);
  // Changes the service of a flow and files it where it belongs.
  void Charge(std::uint64_t id, Flow& flow, std::uint64_t service) REQUIRES(mu_);
  void ForgetIdle() REQUIRES(mu_);

  Executor* const executor_;
  const Options options_;

  mutable Mutex mu_;  // a leaf
  std::unordered_map<std::uint64_t, Flow> flows_ GUARDED_BY(mu_);
  ByService waiting_ GUARDED_BY(mu_);  // flows with jobs that wait
  ByService idle_ GUARDED_BY(mu_);     // flows without jobs, ahead of now_
  // The service of the flow that was picked last: where a new flow starts.
  std::uint64_t now_ GUARDED_BY(mu_) = 0;
  std::size_t queued_ GUARDED_BY(mu_) = 0;
  int runners_ GUARDED_BY(mu_) = 0;  // tasks on the executor
};

}  // namespace herald
