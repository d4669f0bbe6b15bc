#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "store/rocks_db.h"
#include "store/store.h"

namespace herald::store {

// A RocksReader finds things in the rows: the state of a key, of a range, of an index, all
// at a revision, and the changes of the log. It decides nothing about what may be read: whether
// a revision is still kept is the store's to know, before and after.
//
// Thread-safe: it has no state.
class RocksReader {
 public:
  // How far a read may go. With `cached`, one that would have to go to the disk, or that
  // looks at more than `max_rows`, ends with kCancelled instead.
  struct Effort {
    bool cached = false;
    std::size_t max_rows = 0;  // 0: any number
  };

  // One version of a key, or none.
  struct Standing {
    Revision revision = 0;  // 0: the key does not exist
    Bytes value{};
    WallTime written{};
    WallTime expires{};
  };

  // The database is borrowed and outlives the reader.
  explicit RocksReader(const RocksDb* rocks) : rocks_(*rocks) {}

  // The revision of a key now; 0: it does not exist.
  Result<Revision> Head(std::string_view key, Effort effort,
                        const rocksdb::Snapshot* snapshot = nullptr) const;
  // One version. kNotFound where there is none, or only that of a deletion.
  Result<Standing> Version(std::string_view key, Revision revision, Effort effort,
                           const rocksdb::Snapshot* snapshot = nullptr) const;
  // The state of a key now. A version that went while it was looked for is looked for again.
  Result<Standing> Newest(std::string_view key, Effort effort) const;

  // `at` is what query.at stands for.
  Result<Page> Read(const Query& query, Revision at, Effort effort) const;

  // Who wrote a revision. kNotFound where the log has no such row.
  struct Logged {
    bool deleted = false;
    WallTime written{};
    Revision previous = 0;
    std::string key{};
  };
  Result<Logged> Log(Revision revision, Effort effort) const;

  // Changes of keys with that prefix in (after, until], at most `max`.
  Result<Watch::Batch> Changes(std::string_view prefix, Revision after, Revision until,
                               std::size_t max) const;

 private:
  Result<Page> ReadKeys(const Query& query, Revision at, Effort effort) const;
  Result<Page> ReadIndex(const Query& query, Revision at, Effort effort) const;

  const RocksDb& rocks_;
};

}  // namespace herald::store
