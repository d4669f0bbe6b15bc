#include "record/delivery/flush_tracker.h"

#include <algorithm>
#include <utility>

namespace herald {

void FlushTracker::BeginTaken(std::uint32_t epoch) {
  taken_epoch_ = epoch;
  latest_epoch_ = std::max(latest_epoch_, epoch);
  ++open_[epoch].work;
}

std::uint32_t FlushTracker::BeginOther(std::uint64_t count) {
  open_[latest_epoch_].work += count;
  return latest_epoch_;
}

void FlushTracker::EndWork(std::uint32_t epoch) {
  const auto open = open_.find(epoch);
  --open->second.work;
  EraseIfEnded(open);
}

void FlushTracker::WorkBecomesCounted(std::uint32_t epoch) {
  Open& open = open_.find(epoch)->second;
  --open.work;
  ++open.counted;
}

void FlushTracker::EndCounted(const CountedEvents& counted) {
  for (const auto& [epoch, count] : counted.by_epoch) {
    const auto open = open_.find(epoch);
    open->second.counted -= count;
    EraseIfEnded(open);
  }
}

void FlushTracker::EraseIfEnded(OpenByEpoch::iterator open) {
  if (open->second.work == 0 && open->second.counted == 0) open_.erase(open);
}

void FlushTracker::Add(std::uint32_t epoch, std::shared_ptr<std::atomic<bool>> done) {
  latest_epoch_ = std::max(latest_epoch_, epoch + 1);
  flushes_.push_back({.done = std::move(done), .epoch = epoch});
}

bool FlushTracker::IsOpen(std::uint32_t last_epoch, std::uint64_t Open::* kind) const {
  return std::any_of(open_.begin(), open_.upper_bound(last_epoch),
                     [&](const auto& open) { return open.second.*kind > 0; });
}

bool FlushTracker::WantsCounts(bool all_taken) {
  bool wanted = false;
  for (PendingFlush& flush : flushes_) {
    flush.all_taken = flush.all_taken || all_taken || taken_epoch_ > flush.epoch;
    if (!flush.all_taken || flush.counts_asked || IsOpen(flush.epoch, &Open::work)) continue;
    flush.counts_asked = true;
    wanted = wanted || IsOpen(flush.epoch, &Open::counted);
  }
  return wanted;
}

bool FlushTracker::CompleteDone() {
  return std::erase_if(flushes_, [&](const PendingFlush& flush) {
           if (!flush.counts_asked || IsOpen(flush.epoch, &Open::work) ||
               IsOpen(flush.epoch, &Open::counted)) {
             return false;
           }
           *flush.done = true;
           return true;
         }) > 0;
}

void FlushTracker::CompleteAll() {
  for (const PendingFlush& flush : flushes_) *flush.done = true;
  flushes_.clear();
  open_.clear();
}

}  // namespace herald
