#include "store/rocks/lifetime_tracker.h"

#include <rocksdb/write_batch.h>

#include "store/rocks/format.h"

namespace herald::store {

void LifetimeState::BeginRefresh(std::uint64_t new_rules, const RocksDb& rocks,
                                 rocksdb::WriteBatch* rows) {
  *this = {.rules = new_rules};
  rows->Delete(rocks.meta(), ToSlice(kLifetimesKey));
}

void LifetimeState::EndRefresh(const RocksDb& rocks, rocksdb::WriteBatch* rows) {
  if (rules == 0 || other_rules) return;
  complete = true;
  rows->Put(rocks.meta(), ToSlice(kLifetimesKey), EncodeLifetimes(rules));
}

void LifetimeState::AddOtherRules(const RocksDb& rocks, rocksdb::WriteBatch* rows) {
  if (complete) rows->Delete(rocks.meta(), ToSlice(kLifetimesKey));
  complete = false;
  other_rules = true;
}

std::uint64_t LifetimeTracker::CurrentRules() const {
  constexpr std::uint64_t kRulesThatNeverChange = 1;
  return schema_.lifetime_rules ? schema_.lifetime_rules() : kRulesThatNeverChange;
}

void LifetimeTracker::Load(const RocksDb& rocks) {
  state_ = {.rules = rocks.lifetimes().value_or(0), .complete = rocks.lifetimes().has_value()};
  if (!state_.complete || state_.rules != CurrentRules()) RequestRefresh();
}

}  // namespace herald::store
