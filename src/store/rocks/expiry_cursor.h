#pragma once

#include <atomic>

#include "herald/base/clock.h"

namespace herald::store {

// The time from which the expiry index must be scanned: all rows before it were handled. It keeps
// a scan from stepping over the rows that RocksDB has deleted but not yet discarded.
//
//   committer:  Lower(time of a row that was added)
//   Expirer:    from = get(); scan; Advance(from, how far it came)
//
// Thread-safe.
class ExpiryCursor {
 public:
  WallTime get() const { return from_.load(); }
  // A row was added at that time, and is written.
  void Lower(WallTime row) {
    WallTime from = from_.load();
    while (row < from && !from_.compare_exchange_weak(from, row)) {
    }
  }
  // Unless a row was added before `from` since that was read, by a clock that was set back.
  void Advance(WallTime from, WallTime to) { from_.compare_exchange_strong(from, to); }

 private:
  std::atomic<WallTime> from_{WallTime()};
};

}  // namespace herald::store
