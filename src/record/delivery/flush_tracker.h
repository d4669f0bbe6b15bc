#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "record/delivery/counted_events.h"

namespace herald {

// A FlushTracker knows how many events of each epoch have no outcome yet, and completes the
// flushes that wait for them. The epoch of an event is the number of flushes before it, so a
// flush waits for all events of its epoch and of those before, and for no later ones.
//
// An event is open in one of two ways:
//
//   work     it waits, is under way or is held
//   counted  it is in the count of an event that was written; a later write carries it
//
// A flush waits for work first. Then, if events are counted, the caller writes the counts early
// (WantsCounts()), and the flush waits for these writes.
//
// Thread-confined: the sequencer of a sink owns one. *done may be read by any thread.
class FlushTracker {
 public:
  // An event was taken from the channel. Epochs only grow there.
  void BeginTaken(std::uint32_t epoch);
  // Work that did not come from the channel, in the latest epoch; returns that.
  std::uint32_t BeginOther(std::uint64_t count);
  void EndWork(std::uint32_t epoch);
  // An event that was work is counted from now on.
  void WorkBecomesCounted(std::uint32_t epoch);
  void EndCounted(const CountedEvents& counted);

  // Adds a flush. *done becomes true when all events up to the epoch have their outcome.
  void Add(std::uint32_t epoch, std::shared_ptr<std::atomic<bool>> done);
  bool empty() const { return flushes_.empty(); }

  // Whether a flush waits for nothing but counts, and has not asked for them yet. The caller
  // then plans the writes of all counts. `all_taken`: the channel is empty.
  bool WantsCounts(bool all_taken);
  // Completes the flushes whose events have their outcomes; returns whether there was one.
  bool CompleteDone();
  void CompleteAll();

 private:
  struct Open {
    std::uint64_t work = 0;
    std::uint64_t counted = 0;
  };
  struct PendingFlush {
    std::shared_ptr<std::atomic<bool>> done;
    std::uint32_t epoch = 0;
    bool all_taken = false;     // none of its events is in the channel
    bool counts_asked = false;  // by WantsCounts()
  };
  using OpenByEpoch = std::map<std::uint32_t, Open>;

  bool IsOpen(std::uint32_t last_epoch, std::uint64_t Open::* kind) const;
  void EraseIfEnded(OpenByEpoch::iterator open);

  OpenByEpoch open_;  // no entry is zero
  std::vector<PendingFlush> flushes_;
  std::uint32_t latest_epoch_ = 0;
  std::uint32_t taken_epoch_ = 0;  // of the event that was taken last
};

}  // namespace herald
