#pragma once

#include <atomic>
#include <cstdint>

#include "store/rocks/database.h"
#include "store/store.h"

namespace rocksdb {
class WriteBatch;
}  // namespace rocksdb

namespace herald::store {

// Which lifetime rules (Schema::lifetime_rules) the expiry of the stored entries follows. A value.
//
//   complete --a write by other rules, or a refresh begins--> not complete
//   not complete --a refresh ends, and no write since its begin had other rules--> complete
//
// The row "lifetimes" exists exactly while it is complete: it is deleted in the batch of the write
// that ends it. So after a crash or a change of rules, the next start finds either the row of its
// own rules or a reason to refresh.
struct LifetimeState {
  std::uint64_t rules = 0;
  bool complete = false;
  bool other_rules = false;  // a write since the refresh began had other rules

  // Each adds to `rows` what makes the row "lifetimes" agree with the new state.
  void BeginRefresh(std::uint64_t new_rules, const RocksDb& rocks, rocksdb::WriteBatch* rows);
  void EndRefresh(const RocksDb& rocks, rocksdb::WriteBatch* rows);
  void AddOtherRules(const RocksDb& rocks, rocksdb::WriteBatch* rows);
};

// A LifetimeTracker keeps the LifetimeState of an open store, and whether a refresh is requested,
// which applies the current rules to all entries (see Expirer::Refresh()).
//
// Thread-safe, except state() and set_state().
class LifetimeTracker {
 public:
  // The schema is borrowed.
  explicit LifetimeTracker(const Schema* schema) : schema_(*schema) {}
  LifetimeTracker(const LifetimeTracker&) = delete;
  LifetimeTracker& operator=(const LifetimeTracker&) = delete;

  // The number of the rules in force.
  std::uint64_t CurrentRules() const;

  void RequestRefresh() { refresh_requested_ = true; }
  bool TakeRefreshRequest() { return refresh_requested_.exchange(false); }

  // As last written. REQUIRES: the caller is the committer, or keeps it out with Replace()
  const LifetimeState& state() const { return state_; }
  void set_state(const LifetimeState& state) { state_ = state; }
  // Takes over the state of a database that was just opened, and requests a refresh if its entries
  // follow other rules. REQUIRES: as above
  void Load(const RocksDb& rocks);

 private:
  const Schema& schema_;
  std::atomic<bool> refresh_requested_ = false;
  LifetimeState state_;
};

}  // namespace herald::store
