#include "record/event/event_pool.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/bytes/prefetch.h"
#include "base/thread/mutex.h"

namespace herald {
namespace {

// How many unused events are kept: the default capacity of a broadcaster's queue.
constexpr std::size_t kMaxKept = 1024;

// How many a thread takes or returns at once, so that it rarely waits for others.
constexpr std::size_t kHandful = 32;

// An event with a longer message, or with annotations, is not kept: it takes too much memory.
constexpr std::size_t kMaxKeptMessage = 1024;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kPooled = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kPooled = false;
#else
constexpr bool kPooled = true;
#endif
#else
constexpr bool kPooled = true;
#endif

// An event, and the memory that std::shared_ptr needs to count its owners.
struct Slot {
  static constexpr std::size_t kCounterBytes = 64;

  Event event;
  std::uint64_t maker = 0;  // the maker that used it last; 0: none
  alignas(std::max_align_t) std::byte counter[kCounterBytes];
};

using Slots = std::vector<std::unique_ptr<Slot>>;

// Moves up to `count` slots from the end of one to the end of the other.
void Move(std::size_t count, Slots* from, Slots* to) {
  const auto begin = from->end() - static_cast<std::ptrdiff_t>(std::min(count, from->size()));
  std::move(begin, from->end(), std::back_inserter(*to));
  from->erase(begin, from->end());
}

// The slots that all threads share. Thread-safe.
//
// No thread waits for its lock: if it is locked, the thread allocates or frees memory instead. That
// is as fast; and after a fork() while another thread had the lock, it would stay locked forever.
class Depot {
 public:
  void Fetch(Slots* slots) EXCLUDES(mu_) {
    if (!mu_.TryLock()) return;
    Move(kHandful, &kept_, slots);
    mu_.Unlock();
  }

  // Slots that do not fit stay with the caller.
  void Bring(std::size_t count, Slots* slots) EXCLUDES(mu_) {
    if (!mu_.TryLock()) return;
    Move(std::min(count, kMaxKept - kept_.size()), slots, &kept_);
    mu_.Unlock();
  }

 private:
  Mutex mu_;  // a leaf
  Slots kept_ GUARDED_BY(mu_);
};

// Never destroyed: an event may be released after main() has returned.
Depot& TheDepot() {
  static Depot& depot = *new Depot();
  return depot;
}

// Set when the slots of this thread are destroyed at its end. It has no destructor, so it can be
// read until the very end.
thread_local bool thread_ends = false;

// The slots of one thread. Thread-confined.
struct Hand {
  Hand() { slots.reserve(2 * kHandful); }
  ~Hand() {
    thread_ends = true;
    TheDepot().Bring(slots.size(), &slots);
  }

  Slots slots;
};
thread_local Hand hand;

void GiveBack(std::unique_ptr<Slot> slot) {
  const Event& event = slot->event;
  if (!kPooled || thread_ends || event.message.capacity() > kMaxKeptMessage ||
      !event.metadata.annotations.empty()) {
    return;
  }
  Slots& slots = hand.slots;
  slots.push_back(std::move(slot));
  if (slots.size() < 2 * kHandful) return;
  TheDepot().Bring(kHandful, &slots);
  if (slots.size() > kHandful) slots.resize(kHandful);
}

// Another thread used the slot last, so it is probably in the cache of another processor. It is
// fetched while the slot before it is filled in.
void Prefetch(const Slot* slot) {
  constexpr std::size_t kCacheLine = 64;
  const auto* const bytes = reinterpret_cast<const std::byte*>(slot);
  for (std::size_t at = 0; at < sizeof(Slot); at += kCacheLine) {
    PrefetchForWrite(bytes + at);
  }
}

std::unique_ptr<Slot> TakeSlot() {
  if (thread_ends) return std::make_unique<Slot>();
  Slots& slots = hand.slots;
  if (slots.empty()) TheDepot().Fetch(&slots);
  if (slots.empty()) return std::make_unique<Slot>();
  std::unique_ptr<Slot> slot = std::move(slots.back());
  slots.pop_back();
  if (!slots.empty()) Prefetch(slots.back().get());
  return slot;
}

// Puts the control block of a shared_ptr into the slot, and returns the slot to the pool when the
// control block is freed, after the last weak pointer.
template <typename T>
struct SlotAllocator {
  using value_type = T;

  explicit SlotAllocator(Slot* owned) : slot(owned) {}
  template <typename U>
  SlotAllocator(const SlotAllocator<U>& other) : slot(other.slot) {}  // NOLINT: allocators convert

  T* allocate(std::size_t /*one*/) {
    static_assert(sizeof(T) <= Slot::kCounterBytes && alignof(T) <= alignof(std::max_align_t));
    return reinterpret_cast<T*>(slot->counter);
  }
  void deallocate(T* /*counter*/, std::size_t /*one*/) { GiveBack(std::unique_ptr<Slot>(slot)); }

  template <typename U>
  bool operator==(const SlotAllocator<U>& other) const {
    return slot == other.slot;
  }

  Slot* slot;
};

}  // namespace

bool EventsArePooled() { return kPooled; }

PooledEvent TakePooledEvent(std::uint64_t maker) {
  Slot* const slot = TakeSlot().release();
  const bool is_makers = std::exchange(slot->maker, maker) == maker;
  return {{&slot->event, [](Event*) {}, SlotAllocator<Event>(slot)}, is_makers};
}

std::uint64_t MakeMakerId() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace herald
