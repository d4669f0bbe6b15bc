#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"

namespace herald {

// What became of an item that was offered to a BoundedQueue.
enum class PushResult : std::uint8_t {
  kAccepted,
  kFullCount,  // as many items as it may hold
  kFullBytes,  // the item's bytes would exceed what it may hold
  kClosed,     // Close() was called; no later offer will be accepted
};

// A BoundedQueue is a first-in-first-out queue between threads that is bounded
// twice: by the number of items and by the sum of their bytes. Counting alone
// does not bound memory (an event may carry a megabyte), and bytes alone do not
// bound the time that it takes to drain.
//
// The caller says how many bytes an item stands for; the queue only adds. An
// item that exceeds the byte bound by itself is refused, even by an empty queue
// and by Push(), which would otherwise wait for ever.
//
// An item that was not accepted is left as it was: the caller still has it, and
// can count it, drop it or offer it elsewhere.
//
// Thread-safe, for any number of producers and consumers. Items are moved in and
// out under the lock but never destroyed under it, and no code of the caller
// runs under it other than T's move. Nobody may be inside a call, or start one,
// once the destructor has begun; items left behind are destroyed with the queue.
//
// Storage grows by doubling up to the number of items that were ever queued at
// once and is then reused, so thousands of idle queues cost little and a busy
// one does not allocate.
template <typename T>
class BoundedQueue {
  // The lock protects moves half done only if they cannot fail half way.
  static_assert(std::is_nothrow_move_constructible_v<T>);

 public:
  // REQUIRES: max_items > 0
  BoundedQueue(std::size_t max_items, std::size_t max_bytes)
      : max_items_(max_items), max_bytes_(max_bytes) {
    HERALD_CHECK(max_items > 0);
  }
  ~BoundedQueue() NO_THREAD_SAFETY_ANALYSIS {
    while (size_ > 0) (void)TakeFront();
    if (slots_ != nullptr) std::allocator<Slot>().deallocate(slots_, slot_count_);
  }
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  // Never blocks. Moves from `item` only if it returns kAccepted. When both
  // bounds are reached, the count is the one that is named.
  PushResult TryPush(T&& item, std::size_t bytes) EXCLUDES(mu_) { return Offer(item, bytes); }

  // Waits until there is room, the queue is closed or `stop` is triggered. When
  // it was stopped, the answer names the bound that it was waiting on. Items
  // of several waiting producers are accepted in no particular order.
  PushResult Push(T&& item, std::size_t bytes, const std::stop_token& stop = {}) EXCLUDES(mu_) {
    // Most pushes find room and pay nothing for the stop token.
    PushResult result = Offer(item, bytes);
    if (!MayBecomeRoom(result, bytes)) return result;

    const std::stop_callback wake_on_stop(stop, Wake{mu_, not_full_});
    MutexLock lock(mu_);
    ++waiting_producers_;
    for (;;) {
      result = Admit(bytes);
      if (!MayBecomeRoom(result, bytes) || stop.stop_requested()) break;
      not_full_.Wait(lock);
    }
    --waiting_producers_;
    if (result != PushResult::kAccepted) return result;
    Append(std::move(item), bytes);
    lock.Unlock();
    not_empty_.NotifyOne();
    return result;
  }

  // The oldest item, or nothing if there is none now. Nothing after closed() has
  // returned true means that there will be none.
  std::optional<T> TryPop() EXCLUDES(mu_) {
    std::optional<T> item;
    bool wake = false;
    {
      MutexLock lock(mu_);
      if (size_ == 0) return item;
      item.emplace(TakeFront());
      wake = waiting_producers_ > 0;
    }
    if (wake) WakeProducers();
    return item;
  }

  // Waits for an item. Nothing means: closed and drained, or stopped while empty.
  std::optional<T> Pop(const std::stop_token& stop = {}) EXCLUDES(mu_) {
    std::optional<T> item = TryPop();
    if (item) return item;

    const std::stop_callback wake_on_stop(stop, Wake{mu_, not_empty_});
    bool wake = false;
    {
      MutexLock lock(mu_);
      if (!WaitForItem(lock, stop)) return item;
      item.emplace(TakeFront());
      wake = waiting_producers_ > 0;
    }
    if (wake) WakeProducers();
    return item;
  }

  // Appends up to `max` items to `out`, oldest first, for one lock instead of
  // `max` of them. Does not wait. Returns how many. Keep `out` between calls:
  // room for `max` items is reserved in it.
  std::size_t TryPopBatch(std::vector<T>& out, std::size_t max) EXCLUDES(mu_) {
    // Before the lock, because it may allocate.
    out.reserve(out.size() + std::min(max, max_items_));
    std::size_t taken = 0;
    bool wake = false;
    {
      MutexLock lock(mu_);
      taken = TakeBatch(out, max);
      wake = taken > 0 && waiting_producers_ > 0;
    }
    if (wake) WakeProducers();
    return taken;
  }

  // The same, but waits until there is at least one. 0 means: closed and
  // drained, or stopped while empty.
  // REQUIRES: max > 0
  std::size_t PopBatch(std::vector<T>& out, std::size_t max, const std::stop_token& stop = {})
      EXCLUDES(mu_) {
    HERALD_CHECK(max > 0, "a batch of nothing cannot be told from a closed queue");
    std::size_t taken = TryPopBatch(out, max);
    if (taken > 0) return taken;

    const std::stop_callback wake_on_stop(stop, Wake{mu_, not_empty_});
    bool wake = false;
    {
      MutexLock lock(mu_);
      if (!WaitForItem(lock, stop)) return 0;
      taken = TakeBatch(out, max);
      wake = waiting_producers_ > 0;
    }
    if (wake) WakeProducers();
    return taken;
  }

  // Refuses producers from now on, those that wait included. Consumers get what
  // is left and then nothing. Idempotent.
  void Close() EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      closed_ = true;
    }
    not_full_.NotifyAll();
    not_empty_.NotifyAll();
  }

  bool closed() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return closed_;
  }

  // Both are true for the moment of the call only.
  std::size_t size() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return size_;
  }
  std::size_t bytes() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return bytes_;
  }

  std::size_t max_items() const { return max_items_; }
  std::size_t max_bytes() const { return max_bytes_; }

 private:
  struct Slot {
    T item;
    std::size_t bytes;
  };

  // Wakes everyone who waits on `cv`; what a stop token calls. Takes the lock
  // first: a waiter is either before its question whether to stop, and will see
  // the answer, or already waits, and is woken. For the same reason the
  // std::stop_callback that holds it is made before the waiter's lock and
  // outlives it: its constructor may call this at once, and its destructor
  // waits for a call that runs.
  struct Wake {
    Mutex& mu;
    CondVar& cv;
    void operator()() const {
      {
        MutexLock lock(mu);
      }
      cv.NotifyAll();
    }
  };

  PushResult Admit(std::size_t bytes) const REQUIRES(mu_) {
    if (closed_) return PushResult::kClosed;
    if (size_ >= max_items_) return PushResult::kFullCount;
    // Written so that no sum can overflow: bytes_ <= max_bytes_ always.
    if (bytes > max_bytes_ - bytes_) return PushResult::kFullBytes;
    return PushResult::kAccepted;
  }

  // Moves from `item` only if it is accepted.
  PushResult Offer(T& item, std::size_t bytes) EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      const PushResult result = Admit(bytes);
      if (result != PushResult::kAccepted) return result;
      Append(std::move(item), bytes);
    }
    not_empty_.NotifyOne();
    return PushResult::kAccepted;
  }

  // Whether a refusal may turn into kAccepted when consumers take items.
  bool MayBecomeRoom(PushResult result, std::size_t bytes) const {
    return (result == PushResult::kFullCount || result == PushResult::kFullBytes) &&
           bytes <= max_bytes_;
  }

  // REQUIRES: Admit(bytes) == kAccepted
  void Append(T&& item, std::size_t bytes) REQUIRES(mu_) {
    if (size_ == slot_count_) Grow();
    std::construct_at(slots_ + ((head_ + size_) & (slot_count_ - 1)), Slot{std::move(item), bytes});
    ++size_;
    bytes_ += bytes;
  }

  // REQUIRES: size_ > 0
  T TakeFront() REQUIRES(mu_) {
    Slot* slot = slots_ + head_;
    T item = std::move(slot->item);
    bytes_ -= slot->bytes;
    std::destroy_at(slot);
    head_ = (head_ + 1) & (slot_count_ - 1);
    --size_;
    return item;
  }

  // REQUIRES: out has room for min(max, size_) more, so that it does not allocate
  std::size_t TakeBatch(std::vector<T>& out, std::size_t max) REQUIRES(mu_) {
    const std::size_t taken = std::min(max, size_);
    for (std::size_t i = 0; i < taken; ++i) out.push_back(TakeFront());
    return taken;
  }

  // False when there is nothing to wait for any more.
  bool WaitForItem(MutexLock& lock, const std::stop_token& stop) REQUIRES(mu_) {
    while (size_ == 0) {
      if (closed_ || stop.stop_requested()) return false;
      not_empty_.Wait(lock);
    }
    return true;
  }

  // All of them, because the one that would be woken alone may wait for more
  // bytes than are free while another's item would fit. Called without the lock,
  // so that they do not wake only to wait for it.
  void WakeProducers() EXCLUDES(mu_) { not_full_.NotifyAll(); }

  void Grow() REQUIRES(mu_) {
    // A power of two, so that positions wrap with a mask. May exceed max_items_.
    const std::size_t wider_count = slot_count_ == 0 ? kFirstSlots : 2 * slot_count_;
    Slot* wider = std::allocator<Slot>().allocate(wider_count);
    for (std::size_t i = 0; i < size_; ++i) {
      Slot* slot = slots_ + ((head_ + i) & (slot_count_ - 1));
      std::construct_at(wider + i, std::move(*slot));
      std::destroy_at(slot);
    }
    if (slots_ != nullptr) std::allocator<Slot>().deallocate(slots_, slot_count_);
    slots_ = wider;
    slot_count_ = wider_count;
    head_ = 0;
  }

  static constexpr std::size_t kFirstSlots = 8;

  const std::size_t max_items_;
  const std::size_t max_bytes_;

  // Guards all below but the condition variables. A leaf: nothing else is
  // locked, called back or destroyed under it.
  mutable Mutex mu_;
  CondVar not_empty_;
  CondVar not_full_;

  // A ring: item i is in slots_[(head_ + i) & (slot_count_ - 1)] for i < size_;
  // the other slots are raw memory.
  Slot* slots_ GUARDED_BY(mu_) = nullptr;
  std::size_t slot_count_ GUARDED_BY(mu_) = 0;
  std::size_t head_ GUARDED_BY(mu_) = 0;
  std::size_t size_ GUARDED_BY(mu_) = 0;
  std::size_t bytes_ GUARDED_BY(mu_) = 0;  // of the items that are here; <= max_bytes_

  std::size_t waiting_producers_ GUARDED_BY(mu_) = 0;
  bool closed_ GUARDED_BY(mu_) = false;
};

}  // namespace herald
