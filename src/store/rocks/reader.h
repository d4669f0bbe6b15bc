#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "store/rocks/database.h"
#include "store/store.h"

namespace herald::store {

class RecentEntries;

// A RocksReader finds things in the rows: the state of a key, of a range, of an index, all
// at a revision, and the changes of the log. It decides nothing about what may be read: whether
// a revision is still kept is the store's to know, before and after.
//
// What a read costs follows what it returns, and not what is kept of the past: of a key that
// was written a thousand times a list looks at a few rows.
//
// Thread-safe: it has no state.
class RocksReader {
 public:
  // How far a read may go. With `cached`, one that would have to go to the disk ends with
  // kCancelled instead. `max_cost` is what one call of Read() may cost, see Slice.
  struct Effort {
    bool cached = false;
    std::size_t max_cost = 0;  // 0: any
    // A read that meets a larger value ends with kCancelled. 0: any.
    std::size_t max_value_bytes = 0;
  };

  // What a row costs whose value is read, and one that is only counted. (About half a
  // microsecond each; with a filter the former is ten times that.)
  static constexpr std::size_t kRowCost = 8;
  static constexpr std::size_t kCountCost = 1;
  // A value above this size costs one more for each kBytesPerCost: a filter decodes it, and the
  // caller encodes it.
  static constexpr std::size_t kOrdinaryValueBytes = 1024;
  static constexpr std::size_t kBytesPerCost = 128;

  // What one call of Read() has made of a query.
  struct Slice {
    Page page{};
    std::optional<Place> next{};  // set where the cost was reached: goes on behind this
    std::size_t cost = 0;
  };

  // One version of a key, or none.
  struct Standing {
    Revision revision = 0;  // 0: the key does not exist
    Revision created = 0;   // by which write the key came to be; 0 where nobody asked
    Bytes value{};
    WallTime written{};
    WallTime expires{};
  };

  // All are borrowed and outlive the reader.
  RocksReader(const RocksDb* rocks, const Schema* schema, const RecentEntries* recent)
      : rocks_(*rocks), schema_(*schema), recent_(*recent) {}

  // Which write created a key that exists; 0: it does not.
  Result<Revision> Head(std::string_view key, Effort effort) const;
  // One version. kNotFound where there is none, or only that of a deletion.
  Result<Standing> Version(std::string_view key, Revision revision, Effort effort) const;
  // The state of a key now; without `created`, or with it for more.
  Result<Standing> Newest(const std::string& key, Effort effort) const;
  Result<Standing> NewestWithCreation(const std::string& key, Effort effort) const;

  // All of one moment: with query.at 0 that is the latest revision of the page. `so_far`
  // is what the calls before have gathered for the same query, which then begins where those
  // stopped. Each call makes progress, however small its max_cost is.
  Result<Slice> Read(const Query& query, Effort effort, Page so_far = {}) const;

  // Who wrote a revision. kNotFound where the log has no such row.
  struct Logged {
    bool deleted = false;
    WallTime written{};
    Revision previous = 0;
    std::string key{};
  };
  Result<Logged> Log(Revision revision, Effort effort) const;

  // Changes of keys with that prefix in (after, until], at most `max`. kNotFound where the log
  // lacks a revision of that range: it was compacted meanwhile, or the log is damaged.
  Result<Watch::Batch> Changes(std::string_view prefix, Revision after, Revision until,
                               std::size_t max) const;

 private:
  // Of one query: what it is about, and how far it has come.
  class Reading;

  void ReadKeys(Reading& reading) const;
  // The rest of it, from a key on, found by the heads. REQUIRES: it is about the latest revision
  void ReadHeads(Reading& reading, rocksdb::Iterator& versions, const std::string& from) const;
  void ReadIndex(const Query::By& by, Reading& reading) const;
  // The state of a key at a revision: what RecentEntries has of it, or else what is found by an
  // iterator over the versions, which is asked for keys in their order or in any.
  enum class Order : bool { kAscending, kAny };
  static Result<Standing> StandingAt(rocksdb::Iterator& versions, Order order,
                                     const std::string& key, Revision at,
                                     std::optional<Standing> recent);

  const RocksDb& rocks_;
  const Schema& schema_;
  const RecentEntries& recent_;
};

}  // namespace herald::store
