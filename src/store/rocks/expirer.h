#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "store/clock_guard.h"
#include "store/rocks/committer.h"
#include "store/rocks/expiry_cursor.h"
#include "store/rocks/lifetime_tracker.h"
#include "store/rocks/options.h"
#include "store/rocks/reader.h"
#include "store/rocks/shared_database.h"
#include "store/store.h"

namespace herald::store {

// An Expirer deletes entries whose lifetime is over.
//
// The expiry index has rows (time, created revision) -> key. When a row becomes due, the Expirer
// asks the Schema for the lifetime by the rules of today, and then deletes the entry or moves the
// row. So a row that is too early costs one lookup, and the invariant is:
//
//   each entry that expires has a row that is not later than its expiry
//
// Thread-confined: Maintenance calls it, under its lock.
class Expirer {
 public:
  // All are borrowed.
  struct Parts {
    const Schema* schema = nullptr;
    const Clock* clock = nullptr;
    const RocksStoreOptions* options = nullptr;
    SharedDatabase* database = nullptr;
    Committer* committer = nullptr;
    LifetimeTracker* lifetimes = nullptr;
    ExpiryCursor* cursor = nullptr;
    ClockGuard* clock_guard = nullptr;
    const std::atomic<bool>* stopping = nullptr;
  };
  explicit Expirer(Parts parts) : parts_(parts) {}
  Expirer(const Expirer&) = delete;
  Expirer& operator=(const Expirer&) = delete;

  // Deletes entries that are due. Does nothing while the clock cannot be trusted; see ClockGuard.
  void Expire();
  // If a refresh was requested: adds a row for each entry whose lifetime has become shorter, and
  // deletes entries that are due already.
  void Refresh();

 private:
  struct DueEntry {
    Revision revision = 0;
    WallTime expires{};   // by the rules of today
    WallTime next_row{};  // where its row belongs if it does not expire yet
  };
  // Rows of the expiry index that are handled together.
  struct Portion;

  // Reads the rows in [from, until) of one portion.
  Portion ReadPortion(const std::string& from, const std::string& until, WallTime now) const;
  // Nothing if the entry that the row was made for no longer exists.
  Result<std::optional<DueEntry>> FindDue(const RocksReader& reader, const std::string& key,
                                          Revision created, WallTime now) const;

  // Entries that a refresh reads at once.
  struct RefreshSlice;
  // Reads versions from the row `from` on. An error of the disk is returned.
  Result<RefreshSlice> ReadRefreshSlice(const std::string& from, const std::string& last_key,
                                        WallTime now) const;

  const Parts parts_;
};

}  // namespace herald::store
