#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "record/event_key.h"

namespace herald {

// A KeyCache remembers the `capacity` values that were used last, as an LruMap does,
// and is made for EventKeys: they are hashes already, so a lookup is a mask and, nearly
// always, one comparison. Entries live side by side in one array and point to one
// another with 32 bits. Once full it allocates nothing, not even within its values: the
// entry that goes is handed to the one that comes, buffers and all. An event that was
// never seen costs three misses in full caches, and with an LruMap they were half of
// its time.
//
// Thread-confined. Values move when the cache grows: a pointer is good until the next
// call of Obtain().
template <typename Value>
class KeyCache {
 public:
  // What 32 bits can count, with room for a mark.
  static constexpr std::size_t kMaxCapacity = 0x7fffffff;

  // REQUIRES: 0 < capacity <= kMaxCapacity
  explicit KeyCache(std::size_t capacity) : capacity_(capacity) {
    HERALD_CHECK(capacity > 0 && capacity <= kMaxCapacity);
    Rehash(kMinTable);
  }

  // The value of a key, or null. The entry is now the one that was used last.
  Value* Get(const EventKey& key) {
    const std::uint32_t slot = Find(key);
    if (slot == kNone) return nullptr;
    Touch(slot);
    return &slots_[slot].value;
  }

  // The same, but with an entry where there was none. A new one starts with whatever
  // the entry that had to go for it left behind, for the caller to replace.
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
      Forget(slot);
    }
    slots_[slot].key = key;
    PushNewest(slot);
    Remember(slot);
    return {slots_[slot].value, true};
  }

  std::size_t size() const { return slots_.size(); }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::size_t kMinTable = 16;

  struct Slot {
    EventKey key;
    std::uint32_t newer = kNone;
    std::uint32_t older = kNone;
    Value value{};
  };
  // Where a key is. The tag is a part of the key: enough to know its home, and nearly
  // always that it is another's, without a look at the slot.
  struct Place {
    std::uint32_t slot = kNone;
    std::uint32_t tag = 0;
  };

  static std::uint32_t TagOf(const EventKey& key) { return static_cast<std::uint32_t>(key.low); }
  std::size_t HomeOf(std::uint32_t tag) const { return tag & (table_.size() - 1); }
  std::size_t After(std::size_t place) const { return (place + 1) & (table_.size() - 1); }

  std::uint32_t Find(const EventKey& key) const {
    const std::uint32_t tag = TagOf(key);
    for (std::size_t at = HomeOf(tag);; at = After(at)) {
      const Place& place = table_[at];
      if (place.slot == kNone) return kNone;
      if (place.tag == tag && slots_[place.slot].key == key) return place.slot;
    }
  }

  void Remember(std::uint32_t slot) {
    const std::uint32_t tag = TagOf(slots_[slot].key);
    std::size_t at = HomeOf(tag);
    while (table_[at].slot != kNone) at = After(at);
    table_[at] = {slot, tag};
  }

  // Closes the gap, so that nobody behind it is out of reach. REQUIRES: it is there
  void Forget(std::uint32_t slot) {
    const std::size_t mask = table_.size() - 1;
    std::size_t gap = HomeOf(TagOf(slots_[slot].key));
    while (table_[gap].slot != slot) gap = After(gap);
    for (std::size_t at = After(gap); table_[at].slot != kNone; at = After(at)) {
      // Whoever passed the gap on the way from home to here may move into it.
      if (((at - HomeOf(table_[at].tag)) & mask) < ((at - gap) & mask)) continue;
      table_[gap] = table_[at];
      gap = at;
    }
    table_[gap] = {};
  }

  // A new slot. The table stays at most half full.
  std::uint32_t Grow() {
    if (slots_.size() == slots_.capacity()) {
      slots_.reserve(std::min(capacity_, std::max<std::size_t>(8, 2 * slots_.size())));
    }
    if (2 * (slots_.size() + 1) > table_.size()) Rehash(2 * table_.size());
    slots_.emplace_back();
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }

  void Rehash(std::size_t size) {
    table_.assign(size, Place{});
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      Remember(static_cast<std::uint32_t>(i));
    }
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
  std::vector<Place> table_;  // open addressing; its size is a power of two
  std::uint32_t newest_ = kNone;
  std::uint32_t oldest_ = kNone;
};

}  // namespace herald
