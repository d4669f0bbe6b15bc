#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "herald/base/clock.h"
#include "record/channel/channel.h"
#include "record/channel/published.h"
#include "record/executor_lease.h"

namespace herald {

// An EventHandler calls a function with each event of a channel, one at a time and in order, on
// the executor. What the function throws is ignored. After some time it gives way to other work
// on the executor.
//
// Thread-safe. The function runs on one strand.
class EventHandler : public std::enable_shared_from_this<EventHandler> {
 public:
  // `on_progress` is called when Idle() or a ticket may have become true. The clock is the
  // executor's.
  EventHandler(std::shared_ptr<ExecutorLease> executor, const Clock* clock,
               std::function<void(const Event&)> function, std::function<void()> on_progress);

  // Sets where events come from. To be called once, before anything else.
  void Attach(std::shared_ptr<Channel> channel) { channel_ = std::move(channel); }

  // The channel has events.
  void Wake();

  // Whether the function was called with every event.
  bool Idle() const { return wakes_ == 0; }

  // For the events up to that epoch, which are in the channel by now.
  Ticket RequestFlush(std::uint32_t epoch);

  // The function is not called again: what it refers to may be destroyed soon.
  void Stop() { stopped_ = true; }

 private:
  void Post();
  void Run();
  void CompleteFlushes();

  const std::shared_ptr<ExecutorLease> executor_;
  const Clock& clock_;  // the executor's, so only its tasks read it
  LeasedStrand strand_;
  const std::function<void(const Event&)> function_;
  const std::function<void()> on_progress_;
  std::shared_ptr<Channel> channel_;  // set once, by Attach()
  std::atomic<bool> stopped_{false};
  std::atomic<int> wakes_{0};  // Wake() calls whose events are not all handled

  // The strand's.
  std::vector<Published> events_;  // empty between its tasks
  std::vector<std::pair<std::uint32_t, std::shared_ptr<std::atomic<bool>>>> flushes_;  // by epoch
  std::uint32_t last_epoch_ = 0;  // of the event that was handled last
};

}  // namespace herald
