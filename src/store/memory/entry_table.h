#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "store/store.h"

namespace herald::store {

// Builds the page of a query from entries in its order: filters, limits and counts them.
// Thread-confined. Borrows the query.
class PageMaker {
 public:
  PageMaker(const Query& query, Revision at);
  // `value` is the index value that the entry was found by. False: no more entries are needed.
  bool Take(Entry entry, std::string_view value = {});
  // The page. REQUIRES: called once, after all entries
  Page Finish();

 private:
  bool at_limit() const { return query_.limit > 0 && page_.entries.size() >= query_.limit; }

  const Query& query_;
  Page page_;
  std::size_t bytes_ = 0;  // of the values of the page
};

// An EntryTable keeps entries in memory with their old versions: every version of a key, its index
// entries, and the changes from one version to the next.
//
//   (compacted, revision]   revisions that can be read, with the changes after them; a version is
//                           deleted with the change that replaced it
//
// Several changes may share a revision, for example if one transaction of etcd deletes all keys of
// a lease. They are applied one after the other, and each key occurs once among them.
//
// MemoryStore adds a clock to it; the store on etcd uses one as its cache.
//
// Not thread-safe: its owner's lock guards it. A list reads it in parts, so that it does not delay
// writers; the owner pins the revision until the list is complete.
class EntryTable {
 public:
  // Properties of a value that the owner provides.
  struct Facts {
    std::vector<IndexEntry> index{};
    WallTime written{};
    WallTime expires{};
  };

  // The state of a key from one write to the next.
  struct Version {
    Revision revision = 0;
    Bytes value{};  // null: deleted
    WallTime written{};
    WallTime expires{};
  };

  // Where the next part of a read starts.
  class Cursor {
   public:
    bool done() const { return done_; }

   private:
    friend class EntryTable;
    std::string key_{};
    // A row of an index: value, key, revision.
    std::optional<std::tuple<std::string, std::string, Revision>> row_{};
    bool done_ = false;
  };

  // Empty at that revision: earlier ones are unknown.
  explicit EntryTable(Revision revision = 0) : revision_(revision), compacted_(revision) {}
  EntryTable(const EntryTable&) = delete;  // its parts point to each other
  EntryTable& operator=(const EntryTable&) = delete;

  Revision revision() const { return revision_; }
  Revision compacted() const { return compacted_; }
  std::size_t entries() const { return entries_; }
  std::uint64_t live_bytes() const { return live_bytes_; }  // of keys and values, latest versions
  // Of keys and values of old versions, and of the log.
  std::uint64_t watch_window_bytes() const { return watch_window_bytes_; }
  // An estimate of the memory that the whole table uses.
  std::uint64_t memory_bytes() const;

  // The latest version; null if the key does not exist.
  const Version* Newest(std::string_view key) const;

  // The change that a write at a revision would make. `last`: see Change.
  // REQUIRES: if value is null, the key exists
  std::shared_ptr<const Change> MakeChange(const std::string& key, Bytes value, Revision revision,
                                           bool last = true) const;
  // Applies a change. Of a deletion, `facts` contains only the time. The deletion of a key that
  // does not exist only moves the revision. REQUIRES: its revision is not before revision()
  void Apply(std::shared_ptr<const Change> change, Facts facts);
  // Adds an entry that was written at some time up to revision(), without old versions.
  // REQUIRES: the key does not exist, and no change was applied yet
  void Load(Entry entry, Facts facts);
  // Moves the revision: there were no changes up to there.
  void Advance(Revision revision);

  // Live entries whose lifetime is over, earliest first, at most `max`.
  std::vector<Entry> Due(WallTime now, std::size_t max) const;
  // Live entries from a key on, at most `max`; to visit all of them in parts.
  std::vector<std::pair<std::string, Version>> Live(std::string_view from, std::size_t max) const;
  // Changes the expiry of a version, if it still is the latest.
  void SetExpiry(const std::string& key, Revision revision, WallTime expires);

  // kBadRequest if it is above the latest revision, kExpired if it was compacted.
  Status CheckRevision(Revision at) const;
  // Keeps all versions from that revision on. REQUIRES: CheckRevision(at)
  void Pin(Revision at);
  void Unpin(Revision at);
  // Keys, or rows of an index, that one call of Read() visits: so a list of everything delays
  // writers by tens of microseconds at most.
  static constexpr std::size_t kRowsAtOnce = 256;
  // An entry and, in a read by an index, the value that it was found by.
  struct Found {
    Entry entry{};
    std::string value{};
  };
  // The next entries of a query at a revision, unfiltered; may be empty although there are more.
  // REQUIRES: `at` is pinned, !cursor.done()
  std::vector<Found> Read(const Query& query, Revision at, Cursor& cursor) const;

  // Changes of keys with that prefix after `after`; see WatchHub::Reader.
  Result<Watch::Batch> ReadLog(std::string_view prefix, Revision after, std::size_t max) const;

  // Deletes changes from before `keep_from`, and the oldest ones while the watch window has more
  // than `max_bytes`, with the versions that they replaced. Deletes a part of them: call it until
  // it returns none, and destroy the result without the lock.
  std::vector<std::shared_ptr<const Change>> Compact(WallTime keep_from, std::uint64_t max_bytes);

 private:
  // One index entry of one version, latest or old. A read at a revision uses the rows whose version
  // was the latest at that revision.
  struct IndexRow {
    std::uint8_t index = 0;
    std::string value{};
    const std::string* key = nullptr;  // that of keys_
    Revision revision = 0;
  };
  // The position of a row, in the order of results.
  struct RowPlace {
    std::uint8_t index = 0;
    std::string_view value{};
    std::string_view key{};
    Revision revision = 0;

    auto operator<=>(const RowPlace&) const = default;
  };
  struct RowOrder {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return PlaceOf(a) < PlaceOf(b);
    }
  };
  static RowPlace PlaceOf(const IndexRow& row) {
    return {row.index, row.value, *row.key, row.revision};
  }
  static const RowPlace& PlaceOf(const RowPlace& place) { return place; }

  using Index = std::set<IndexRow, RowOrder>;
  // Keys of live entries by their expiry; they point into keys_.
  using DueTimes = std::multimap<WallTime, const std::string*>;

  // A version with its places in the other containers.
  struct LinkedVersion : Version {
    std::vector<Index::const_iterator> rows{};
    DueTimes::iterator due{};  // while it is the latest version
  };
  // The last one is the latest state; those before are old versions.
  using Versions = std::map<Revision, LinkedVersion>;
  using Keys = std::map<std::string, Versions, std::less<>>;

  struct LoggedChange {
    std::shared_ptr<const Change> change{};
    WallTime written{};
    std::size_t bytes = 0;  // that compaction frees
  };

  void Insert(Keys::value_type& key, Version version, std::vector<IndexEntry> index);
  // The version is no longer the latest one of its key.
  void RemoveFromLive(const std::string& key, const LinkedVersion& version);
  // The version of a key at a revision; null if it did not exist.
  static const Version* At(const Versions& versions, Revision at);
  void ReadKeys(const Query& query, Revision at, Cursor& cursor, std::vector<Found>& out) const;
  void ReadIndex(const Query& query, const IndexRange& by, Revision at, Cursor& cursor,
                 std::vector<Found>& out) const;

  Revision revision_;
  Revision compacted_;
  Keys keys_;
  Index index_;
  DueTimes due_;
  // The changes in (compacted, revision], oldest first.
  std::deque<LoggedChange> log_;
  std::size_t entries_ = 0;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t watch_window_bytes_ = 0;
  // Revisions of the reads that are under way; versions from there on are kept.
  std::multiset<Revision> pinned_;
};

}  // namespace herald::store
