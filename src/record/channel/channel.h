#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/thread/mutex.h"
#include "herald/record/broadcaster.h"
#include "record/channel/published.h"

namespace herald {

// A Channel is the queue between the broadcaster and one of its listeners. It is limited by count
// and by bytes. When it is full, WhenFull decides what happens.
//
// Thread-safe. One distributor offers, one listener takes.
class Channel {
 public:
  struct Options {
    std::size_t max_events = 1000;
    std::size_t max_bytes = 16 << 20;
    WhenFull when_full = WhenFull::kDrop;
    bool prefer_warnings = false;
    // Events before this position were recorded before the listener was added.
    std::uint64_t first_position = 0;
  };
  // Called without locks held.
  struct Hooks {
    std::function<void()> on_items{};                 // the channel was empty and is not any more
    std::function<void()> on_room{};                  // there is room, after an Offer() found none
    std::function<void(const Published&)> on_drop{};  // an event was dropped
  };

  Channel(const Options& options, Hooks hooks);

  // Queues the events of `batch` from index `from` on. The first event of the batch has position
  // `base`. Returns the index of the first event that was not queued. This is less than the size of
  // the batch only under kWait, and then on_room will be called. A closed channel drops all events.
  std::size_t Offer(const std::vector<Published>& batch, std::uint64_t base, std::size_t from)
      EXCLUDES(mu_);

  // As Offer(), for the last listener that needs this batch: the events are moved, by a single swap
  // of the whole batch if possible. The batch has `bytes` bytes.
  std::size_t OfferLast(std::vector<Published>* batch, std::uint64_t base, std::size_t from,
                        std::size_t bytes) EXCLUDES(mu_);

  // Queues events before all others, even beyond the limits.
  void Preload(std::vector<Published> events) EXCLUDES(mu_);

  // Moves up to `max` events to the end of *out, and returns their number.
  std::size_t Take(std::size_t max, std::vector<Published>* out) EXCLUDES(mu_);

  // As Take(), but waits while the channel is empty and open.
  std::size_t WaitAndTake(std::size_t max, std::vector<Published>* out) EXCLUDES(mu_);

  // Later events are dropped. Queued events can still be taken.
  void Close() EXCLUDES(mu_);
  // As Close(), and drops queued events.
  void CloseAndDiscard() EXCLUDES(mu_);

  bool empty() const { return size() == 0; }
  std::size_t size() const EXCLUDES(mu_);
  std::uint64_t dropped() const EXCLUDES(mu_);

 private:
  std::size_t Waiting() const REQUIRES(mu_) { return queue_.size() - taken_; }
  std::vector<Published>::iterator First() REQUIRES(mu_) {
    return queue_.begin() + static_cast<std::ptrdiff_t>(taken_);
  }
  bool HasRoom(std::size_t bytes) const REQUIRES(mu_);
  // Removes the oldest Normal event to make room for a Warning. False if there is none.
  bool EvictNormal(std::vector<Published>* evicted) REQUIRES(mu_);
  bool SwapIn(std::vector<Published>* batch, std::size_t bytes) EXCLUDES(mu_);
  void NotifyItems();
  // Queues all of them at once, which is faster than one by one. False if they do not fit.
  template <typename Iterator>
  bool AppendAll(Iterator first, Iterator last) REQUIRES(mu_);
  // Dereferencing the iterator moves or copies the event.
  template <typename Iterator>
  std::size_t OfferEach(Iterator batch, std::size_t size, std::uint64_t base, std::size_t from)
      EXCLUDES(mu_);
  void CloseAndMaybe(bool discard) EXCLUDES(mu_);
  std::size_t TakeLocked(std::size_t max, std::vector<Published>* out) REQUIRES(mu_);

  const Options options_;
  const Hooks hooks_;

  mutable Mutex mu_;
  CondVar not_empty_;
  // The first taken_ entries are empty, the others are queued events. One vector, so that a
  // listener can take all events with a single swap.
  std::vector<Published> queue_ GUARDED_BY(mu_);
  std::size_t taken_ GUARDED_BY(mu_) = 0;
  std::size_t bytes_ GUARDED_BY(mu_) = 0;
  std::uint64_t dropped_ GUARDED_BY(mu_) = 0;
  bool closed_ GUARDED_BY(mu_) = false;
  bool wants_room_ GUARDED_BY(mu_) = false;  // an Offer() did not queue all events
  bool took_many_ GUARDED_BY(mu_) = false;   // the last WaitAndTake()
};

}  // namespace herald
