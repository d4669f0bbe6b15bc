#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "record/channel/published.h"

namespace herald {

// Events that a correlator has counted, and that a later write carries. Where something repeats
// all the time they are many, so only their number is kept, by epoch, and the functions to call
// with their outcome.
struct CountedEvents {
  std::uint64_t count = 0;
  std::map<std::uint32_t, std::uint64_t> by_epoch{};
  std::vector<std::shared_ptr<const EventHandling>> to_notify{};
};

// The counted events that no write carries yet, by Correlation::key. It also knows how many
// functions wait for an outcome, here and in writes that have not ended: these are the one part
// of a counted event that takes memory, so when they become too many the counts are written
// early.
//
// Thread-confined: the sequencer of a sink owns one.
class CountedEventTable {
 public:
  // With `upstream_exact` writes are never early. Functions beyond the limit are then dropped.
  explicit CountedEventTable(bool upstream_exact) : upstream_exact_(upstream_exact) {}

  void Add(const std::string& key, Published published);
  // For a write that carries them; later ones are for a later write.
  CountedEvents Take(const std::string& key);
  std::vector<CountedEvents> TakeAll();
  // The write of what was taken is not made now.
  void PutBack(const std::string& key, CountedEvents counted);
  // What was taken has its outcome.
  void End(const CountedEvents& counted) { to_notify_ -= counted.to_notify.size(); }

  bool ShouldWriteEarly() const;

 private:
  const bool upstream_exact_;
  std::unordered_map<std::string, CountedEvents> by_key_;
  std::size_t to_notify_ = 0;  // of everything that was added and has not ended
};

}  // namespace herald
