#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "record/correlate/event_key.h"

namespace herald {

// A KeyCache remembers the `capacity` values that were used last, as an LruMap, and is specialized
// for EventKeys. These are hashes already, so a lookup is a mask and nearly always at most one
// comparison. Entries are in one array and are linked by 32-bit indexes. A full cache allocates
// nothing, not even within its values: a new entry gets the value of the evicted one with its
// buffers. An event that was never seen causes three misses in full caches, and with an LruMap
// these were half of its time.
//
// Keys with the same home are chained instead of put into the next free slot: an entry is then
// replaced without a search, whose length a processor cannot predict.
//
// Thread-confined. Values move when the cache grows: a pointer is valid until the next call of
// Obtain().
template <typename Value>
class KeyCache {
 public:
  // The limit of 32-bit indexes, one of which is reserved.
  static constexpr std::size_t kMaxCapacity = 0x7fffffff;

  // REQUIRES: 0 < capacity <= kMaxCapacity
  explicit KeyCache(std::size_t capacity) : capacity_(capacity) {
    HERALD_CHECK(capacity > 0 && capacity <= kMaxCapacity);
    Rehash(kMinHomes);
  }

  // The value of a key, or null. The entry becomes the most recently used one.
  Value* Get(const EventKey& key) {
    const std::uint32_t slot = Find(key);
    if (slot == kNone) return nullptr;
    Touch(slot);
    return &slots_[slot].value;
  }

  // As Get(), but adds an entry if there is none. The value of a new entry is that of the evicted
  // one, which the caller replaces.
  struct Obtained {
    Value& value;
    bool is_new;
  };
  Obtained Obtain(const EventKey& key) {
    if (Value* const value = Get(key)) return {*value, false};
    std::uint32_t slot = 0;
    if (slots_.size() < capacity_) {
      slot = Grow();
    } else {
      slot = oldest_;
      Detach(slot);
      Unlink(slot);
    }
    slots_[slot].key = key;
    PushNewest(slot);
    Link(slot);
    return {slots_[slot].value, true};
  }

  std::size_t size() const { return slots_.size(); }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::size_t kMinHomes = 16;

  struct Slot {
    EventKey key;
    std::uint32_t newer = kNone;
    std::uint32_t older = kNone;
    std::uint32_t next = kNone;  // in the chain of slots with the same home
    Value value{};
  };

  std::uint32_t& HomeOf(const EventKey& key) {
    return homes_[static_cast<std::size_t>(key.low) & (homes_.size() - 1)];
  }

  std::uint32_t Find(const EventKey& key) {
    std::uint32_t slot = HomeOf(key);
    while (slot != kNone && slots_[slot].key != key) slot = slots_[slot].next;
    return slot;
  }

  void Link(std::uint32_t slot) {
    std::uint32_t& home = HomeOf(slots_[slot].key);
    slots_[slot].next = home;
    home = slot;
  }

  // REQUIRES: it is in the chain of its home
  void Unlink(std::uint32_t slot) {
    std::uint32_t* link = &HomeOf(slots_[slot].key);
    while (*link != slot) link = &slots_[*link].next;
    *link = slots_[slot].next;
  }

  // Adds a slot. There are at least twice as many homes as slots, so that chains are short.
  std::uint32_t Grow() {
    if (slots_.size() == slots_.capacity()) {
      slots_.reserve(std::min(capacity_, std::max<std::size_t>(8, 2 * slots_.size())));
    }
    if (2 * (slots_.size() + 1) > homes_.size()) Rehash(2 * homes_.size());
    slots_.emplace_back();
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }

  void Rehash(std::size_t homes) {
    homes_.assign(homes, kNone);
    for (std::size_t i = 0; i < slots_.size(); ++i) Link(static_cast<std::uint32_t>(i));
  }

  void Detach(std::uint32_t slot) {
    const Slot& s = slots_[slot];
    (s.newer != kNone ? slots_[s.newer].older : newest_) = s.older;
    (s.older != kNone ? slots_[s.older].newer : oldest_) = s.newer;
  }

  void PushNewest(std::uint32_t slot) {
    slots_[slot].newer = kNone;
    slots_[slot].older = newest_;
    (newest_ != kNone ? slots_[newest_].newer : oldest_) = slot;
    newest_ = slot;
  }

  void Touch(std::uint32_t slot) {
    if (slot == newest_) return;
    Detach(slot);
    PushNewest(slot);
  }

  const std::size_t capacity_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> homes_;  // the first slot of each chain; the size is a power of two
  std::uint32_t newest_ = kNone;
  std::uint32_t oldest_ = kNone;
};

}  // namespace herald
