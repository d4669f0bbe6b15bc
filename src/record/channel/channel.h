#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "herald/record/broadcaster.h"
#include "record/channel/published.h"

namespace herald {

// A Channel is the queue between the broadcaster and one of its listeners. It is
// bounded by count and by bytes, and it is where a listener that does not keep up
// meets the broadcaster's WhenFull.
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
    std::function<void()> on_items{};  // there is something to take, where there was nothing
    std::function<void()> on_room{};   // there is room again, after an Offer() found none
    std::function<void(const Published&)> on_drop{};  // an event will never be taken
  };

  Channel(const Options& options, Hooks hooks);

  // Puts the events of `batch` from index `from` on into the queue; the first of the
  // batch has position `base`. Returns the index of the first that it did not take:
  // smaller than the batch only under kWait, and then on_room will be called. A closed
  // channel drops them all.
  std::size_t Offer(const std::vector<Published>& batch, std::uint64_t base, std::size_t from)
      EXCLUDES(mu_);

  // The same for the last listener that needs this batch: it gets the events themselves,
  // and the whole batch, which has `bytes`, with a single swap if that can be.
  std::size_t OfferLast(std::vector<Published>* batch, std::uint64_t base, std::size_t from,
                        std::size_t bytes) EXCLUDES(mu_);

  // Puts events before everything else, whatever the bounds say.
  void Preload(std::vector<Published> events) EXCLUDES(mu_);

  // Moves up to `max` events to the end of *out; returns how many.
  std::size_t Take(std::size_t max, std::vector<Published>* out) EXCLUDES(mu_);

  // The same, but waits while there is nothing and the channel is open.
  std::size_t WaitAndTake(std::size_t max, std::vector<Published>* out) EXCLUDES(mu_);

  // No event is taken in after this; what is queued can still be taken.
  void Close() EXCLUDES(mu_);
  // The same, and what is queued is dropped.
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
  // Makes room for a Warning by taking out the oldest Normal, if there is one.
  bool EvictNormal(std::vector<Published>* evicted) REQUIRES(mu_);
  bool SwapIn(std::vector<Published>* batch, std::size_t bytes) EXCLUDES(mu_);
  void TellOfItems();
  // Puts all of them into the queue at once, which is faster than one by one, if they fit.
  template <typename Iterator>
  bool AppendAll(Iterator first, Iterator last) REQUIRES(mu_);
  // `batch` moves its events or copies them.
  template <typename Iterator>
  std::size_t OfferEach(Iterator batch, std::size_t size, std::uint64_t base, std::size_t from)
      EXCLUDES(mu_);
  void CloseAndMaybe(bool discard) EXCLUDES(mu_);
  std::size_t TakeLocked(std::size_t max, std::vector<Published>* out) REQUIRES(mu_);

  const Options options_;
  const Hooks hooks_;

  mutable Mutex mu_;
  CondVar not_empty_;
  // The events that wait, after taken_ empty ones. In one piece, so that a listener can
  // take all of them with a single swap.
  std::vector<Published> queue_ GUARDED_BY(mu_);
  std::size_t taken_ GUARDED_BY(mu_) = 0;
  std::size_t bytes_ GUARDED_BY(mu_) = 0;
  std::uint64_t dropped_ GUARDED_BY(mu_) = 0;
  bool closed_ GUARDED_BY(mu_) = false;
  bool wants_room_ GUARDED_BY(mu_) = false;  // an Offer() stopped half-way
  bool took_many_ GUARDED_BY(mu_) = false;   // the last WaitAndTake()
};

}  // namespace herald
