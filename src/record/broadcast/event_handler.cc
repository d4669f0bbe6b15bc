#include "record/broadcast/event_handler.h"

#include <chrono>
#include <cstddef>

namespace herald {
namespace {

// How long the function is called with events before other work on the executor has a turn. That
// includes the distributor: if the function keeps up, the distributor finds the channel empty
// again and drops nothing.
constexpr std::chrono::microseconds kTurn{500};

// How many events are taken from the channel between two looks at the clock.
constexpr std::size_t kEventsAtOnce = 16;

}  // namespace

EventHandler::EventHandler(std::shared_ptr<ExecutorLease> executor, const Clock* clock,
                           std::function<void(const Event&)> function,
                           std::function<void()> on_progress)
    : executor_(std::move(executor)),
      clock_(*clock),
      strand_(executor_),
      function_(std::move(function)),
      on_progress_(std::move(on_progress)) {}

void EventHandler::Wake() {
  ++wakes_;
  Post();
}

Ticket EventHandler::RequestFlush(std::uint32_t epoch) {
  auto done = std::make_shared<std::atomic<bool>>(false);
  strand_.Post([self = shared_from_this(), epoch, done] {
    self->flushes_.emplace_back(epoch, done);
    self->CompleteFlushes();
  });
  return done;
}

void EventHandler::Post() {
  strand_.Post([self = shared_from_this()] { self->Run(); });
}

void EventHandler::Run() {
  const SteadyTime end = clock_.Steady() + kTurn;
  do {
    channel_->Take(kEventsAtOnce, &events_);
    for (const Published& published : events_) {
      if (stopped_) break;
      last_epoch_ = published.epoch;
      try {
        function_(*published.event);
      } catch (...) {  // NOLINT(bugprone-empty-catch): it affects no other listener
      }
    }
    events_.clear();
    CompleteFlushes();
    if (channel_->empty()) {
      --wakes_;
      on_progress_();
      return;
    }
  } while (clock_.Steady() < end);
  // Through the executor, because a strand runs what its own tasks post before it gives way.
  executor_->Post([self = shared_from_this()] { self->Post(); });
}

void EventHandler::CompleteFlushes() {
  if (flushes_.empty()) return;
  const bool all = channel_->empty() || stopped_;
  const auto is_done = [&](const auto& flush) { return all || flush.first < last_epoch_; };
  for (const auto& flush : flushes_) {
    if (is_done(flush)) *flush.second = true;
  }
  std::erase_if(flushes_, is_done);
  on_progress_();
}

}  // namespace herald
