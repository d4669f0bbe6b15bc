#include "record/delivery/counted_events.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace herald {
namespace {

// How many functions may wait. Those of one batch of events may exceed it.
constexpr std::size_t kMaxToNotify = 1000;

}  // namespace

void CountedEventTable::Add(const std::string& key, Published published) {
  CountedEvents& counted = by_key_[key];
  ++counted.count;
  ++counted.by_epoch[published.epoch];
  if (!published.handling || !published.handling->HasOutcomeFunction()) return;
  if (upstream_exact_ && to_notify_ >= kMaxToNotify) return;
  counted.to_notify.push_back(std::move(published.handling));
  ++to_notify_;
}

CountedEvents CountedEventTable::Take(const std::string& key) {
  auto counted = by_key_.extract(key);
  return counted ? std::move(counted.mapped()) : CountedEvents();
}

std::vector<CountedEvents> CountedEventTable::TakeAll() {
  std::vector<CountedEvents> all;
  for (auto& [key, counted] : by_key_) all.push_back(std::move(counted));
  by_key_.clear();
  return all;
}

void CountedEventTable::PutBack(const std::string& key, CountedEvents counted) {
  CountedEvents& kept = by_key_[key];
  kept.count += counted.count;
  for (const auto& [epoch, count] : counted.by_epoch) kept.by_epoch[epoch] += count;
  std::ranges::move(counted.to_notify, std::back_inserter(kept.to_notify));
}

bool CountedEventTable::ShouldWriteEarly() const {
  return !upstream_exact_ && to_notify_ >= kMaxToNotify;
}

}  // namespace herald
