#include "base/thread/fair_queue.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/limit/too_many_requests.h"

namespace herald {
FairQueue::FairQueue(Executor* executor, Options options)
    : executor_(executor), options_(options) {}

Status FairQueue::Add(std::uint64_t id, Kind kind, Slice slice) {
  {
    MutexLock lock(mu_);
    if (queued_ >= options_.max_queued) return TooManyRequests();
    Flow& flow = flows_[id];
    if (flow.queued() >= options_.max_queued_per_flow) return TooManyRequests();
    idle_.erase({flow.service, id});
    const bool was_waiting = flow.queued() > 0;
    Enqueue(flow, {std::move(slice), kind == Kind::kShort ? kShortSlices : 0});
    ++queued_;
    if (!was_waiting) {
      // The same service as the others, unless the flow had more than they have.
      if (flow.running == 0) flow.service = std::max(flow.service, now_);
      waiting_.emplace(flow.service, id);
    }
    if (runners_ >= options_.concurrency) return Status();
    ++runners_;
  }
  executor_->Post([this] { RunOne(); });
  return Status();
}

std::size_t FairQueue::queued() const {
  MutexLock lock(mu_);
  return queued_;
}

void FairQueue::Enqueue(Flow& flow, Job job) {
  (job.short_slices > 0 ? flow.short_jobs : flow.long_jobs).push_back(std::move(job));
}

void FairQueue::Charge(std::uint64_t id, Flow& flow, std::uint64_t service) {
  waiting_.erase({flow.service, id});
  flow.service = service;
  if (flow.queued() > 0) {
    waiting_.emplace(service, id);
  } else if (flow.running == 0) {
    idle_.emplace(service, id);
  }
}

void FairQueue::ForgetIdle() {
  // A flow that is not above now_ is removed, because a new flow starts with now_, too. If no job
  // waits or runs, all flows are removed, because there are no others to compare with.
  const bool alone = queued_ == 0 && flows_.size() == idle_.size();
  while (!idle_.empty() &&
         (alone || idle_.begin()->first <= now_ || idle_.size() > kMaxIdleFlows)) {
    flows_.erase(idle_.begin()->second);
    idle_.erase(idle_.begin());
  }
}

std::pair<std::uint64_t, FairQueue::Job> FairQueue::Pick() {
  const std::uint64_t id = waiting_.begin()->second;
  Flow& flow = flows_.find(id)->second;
  now_ = std::max(now_, flow.service);
  const bool is_short =
      flow.long_jobs.empty() || (!flow.short_jobs.empty() && flow.short_in_a_row < kShortInARow);
  flow.short_in_a_row = is_short ? flow.short_in_a_row + 1 : 0;
  std::deque<Job>& line = is_short ? flow.short_jobs : flow.long_jobs;
  waiting_.erase(waiting_.begin());
  Job job = std::move(line.front());
  line.pop_front();
  job.short_slices = std::max(0, job.short_slices - 1);
  --queued_;
  ++flow.running;
  // Charged in advance, so that other threads take the running slice into account.
  Charge(id, flow, flow.service + options_.slice_cost);
  return {id, std::move(job)};
}

void FairQueue::RunOne() {
  std::uint64_t id = 0;
  Job job;
  {
    MutexLock lock(mu_);
    if (queued_ == 0) {
      --runners_;
      return;
    }
    std::tie(id, job) = Pick();
  }
  const Step step = job.slice();
  if (step.done) job.slice = nullptr;  // without the lock, because captured objects are destroyed
  {
    MutexLock lock(mu_);
    Flow& flow = flows_.find(id)->second;
    --flow.running;
    if (!step.done) {
      Enqueue(flow, std::move(job));
      ++queued_;
    }
    Charge(id, flow, flow.service - options_.slice_cost + step.cost);
    ForgetIdle();
    if (queued_ == 0) {
      --runners_;
      return;
    }
  }
  // Not in a loop, so that other tasks of the executor run in between.
  executor_->Post([this] { RunOne(); });
}

}  // namespace herald
