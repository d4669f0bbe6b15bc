#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "store/rocks/database.h"
#include "store/rocks/key_state.h"
#include "store/store.h"

namespace herald::store {

class RecentEntries;

// A RocksReader finds things in the rows: the state of a key, of a range or of an index at a
// revision, and the changes of the log. It does not decide what may be read: the store checks
// before and after whether a revision is still kept.
//
// The cost of a read depends on what it returns, not on the number of old versions: for a key that
// was written a thousand times, a list looks at a few rows.
//
// Thread-safe: it has no state.
class RocksReader {
 public:
  // Limits of one call of Read().
  struct Effort {
    bool cached = false;              // read from memory only, never from the disk
    std::size_t max_cost = 0;         // see Slice::cost; 0: no limit
    std::size_t max_value_bytes = 0;  // size of a value; 0: no limit
  };

  // Cost of a row whose value is read, and of one that is only counted: about half a microsecond
  // per unit. With a filter, a value costs ten times that.
  static constexpr std::size_t kRowCost = 8;
  static constexpr std::size_t kCountCost = 1;
  // A value above this size costs one more unit per kBytesPerCost: a filter decodes it, and the
  // caller encodes it.
  static constexpr std::size_t kOrdinaryValueBytes = 1024;
  static constexpr std::size_t kBytesPerCost = 128;

  // Why a call of Read() ended.
  enum class End : std::uint8_t {
    kComplete,       // the query is answered
    kMaxCost,        // Effort::max_cost was reached; the next call continues after `next`
    kNotCached,      // with Effort::cached: a row is not in memory
    kValueTooLarge,  // a value is larger than Effort::max_value_bytes
  };
  // Result of one call of Read(). With kNotCached and kValueTooLarge it has no page: the query has
  // to be read again, from its beginning, with another effort.
  struct Slice {
    End end = End::kComplete;
    Page page{};
    Place next{};  // only with kMaxCost
    std::size_t cost = 0;
  };

  // All are borrowed and outlive the reader.
  RocksReader(const RocksDb* rocks, const Schema* schema, const RecentEntries* recent)
      : rocks_(*rocks), schema_(*schema), recent_(*recent) {}

  // The revision of the write that created a key; 0 if the key does not exist.
  Result<Revision> Head(std::string_view key) const;
  // One version of a key, without `created`. kNotFound if there is none, or it is a deletion.
  Result<KeyState> Version(std::string_view key, Revision revision) const;
  // The latest state of a key, without `created`; or with it, which costs one more lookup.
  Result<KeyState> Newest(const std::string& key) const;
  Result<KeyState> NewestWithCreation(const std::string& key) const;
  // The same as Newest(), from memory only. Nothing if it is not there.
  Result<std::optional<KeyState>> NewestIfCached(const std::string& key) const;

  // Reads the state at one revision: with query.at 0, the latest. `so_far` is the page that the
  // calls before have gathered for the same query, which then begins where those stopped. Each
  // call makes progress, however small its max_cost is.
  Result<Slice> Read(const Query& query, Effort effort, Page so_far = {}) const;

  // The row of the log for a revision. kNotFound if there is none.
  struct LoggedWrite {
    bool deleted = false;
    WallTime written{};
    Revision previous = 0;
    std::string key{};
  };
  Result<LoggedWrite> Log(Revision revision) const;

  // Changes of keys with that prefix in (after, until], at most `max`. kNotFound if the log lacks
  // a revision of that range: it was compacted at the same time, or the log is damaged.
  Result<Watch::Batch> Changes(std::string_view prefix, Revision after, Revision until,
                               std::size_t max) const;

 private:
  class SliceBuilder;

  Result<std::optional<KeyState>> FindNewest(const std::string& key, Effort effort) const;
  void ReadKeys(SliceBuilder& slice) const;
  // The rest of the read, from a key on, found by the heads.
  // REQUIRES: it reads the latest revision
  void ReadHeads(SliceBuilder& slice, rocksdb::Iterator& versions, const std::string& from) const;
  void ReadIndex(const Query::By& by, SliceBuilder& slice) const;

  const RocksDb& rocks_;
  const Schema& schema_;
  const RecentEntries& recent_;
};

}  // namespace herald::store
