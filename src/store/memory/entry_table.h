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

// Makes the page that a query asks for out of entries in its order: filters, cuts, counts.
// Thread-confined. Borrows the query.
class PageMaker {
 public:
  PageMaker(const Query& query, Revision at);
  // `value` is what an index has found it by. False where it needs no more.
  bool Take(Entry entry, std::string_view value = {});
  Page Finish();

 private:
  bool at_limit() const { return query_.limit > 0 && page_.entries.size() >= query_.limit; }

  const Query& query_;
  Page page_;
  std::size_t bytes_ = 0;  // of the values of the page
};

// An EntryTable keeps entries in memory as they are and as they were: every version of a
// key, what each can be found by, and the changes that led from one to the next.
//
//   (compacted, revision]   reads at these revisions, and changes after them, can be had;
//                           older versions go with the changes that replaced them
//
// Several changes may share a revision, as they do where one transaction of etcd deletes
// all keys of a lease; they are applied one after the other, and no key is among them twice.
//
// MemoryStore is one with a clock; the store on etcd keeps one as its cache.
//
// Not thread-safe: its owner's lock guards it. A read takes chunk after chunk, so that a list
// of everything does not hold up writers; the owner pins the revision for as long.
class EntryTable {
 public:
  // What the owner knows about one value.
  struct Facts {
    std::vector<IndexEntry> index{};
    WallTime written{};
    WallTime expires{};
  };

  // One key from one write to the next.
  struct Version {
    Revision revision = 0;
    Bytes value{};  // null: deleted
    WallTime written{};
    WallTime expires{};
  };

  // A place in a read: where the next chunk starts.
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

  // Empty, as of that revision: what came before is not known.
  explicit EntryTable(Revision revision = 0) : revision_(revision), compacted_(revision) {}
  EntryTable(const EntryTable&) = delete;  // its parts point to each other
  EntryTable& operator=(const EntryTable&) = delete;

  Revision revision() const { return revision_; }
  Revision compacted() const { return compacted_; }
  std::size_t entries() const { return entries_; }
  std::uint64_t live_bytes() const { return live_bytes_; }  // keys and values that are there
  std::uint64_t watch_window_bytes() const {
    return watch_window_bytes_;
  }  // and of those that were
  // What all of it takes in memory, roughly.
  std::uint64_t memory_bytes() const;

  // What is there now; null where the key does not exist.
  const Version* Newest(std::string_view key) const;

  // The change that a write at a revision would make, the last one of it or not.
  // REQUIRES: where value is null, the key exists
  std::shared_ptr<const Change> MakeChange(const std::string& key, Bytes value, Revision revision,
                                           bool last = true) const;
  // Makes a change; `facts` of a deletion are when it was. One of a key that is not there
  // any more only moves the revision. REQUIRES: its revision is not before revision()
  void Apply(std::shared_ptr<const Change> change, Facts facts);
  // Puts an entry there that was written at some time up to revision(), without old versions.
  // REQUIRES: the key is not there, and nothing was applied yet
  void Load(Entry entry, Facts facts);
  // Nothing happened up to there.
  void Advance(Revision revision);

  // Live entries whose time is over, soonest first, at most `max`.
  std::vector<Entry> Due(WallTime now, std::size_t max) const;
  // Live entries from a key on, at most `max`; for looking at all of them, part by part.
  std::vector<std::pair<std::string, Version>> Live(std::string_view from, std::size_t max) const;
  // Another end of its time for a version, if it still is the newest.
  void SetExpiry(const std::string& key, Revision revision, WallTime expires);

  // kBadRequest for the future, kExpired for what is no longer kept.
  Status CheckRevision(Revision at) const;
  // Keeps all versions from there on. REQUIRES: CheckRevision(at)
  void Pin(Revision at);
  void Unpin(Revision at);
  // Keys, or rows of an index, that one call of Read() looks at, so that a list of everything
  // does not hold up writers for longer than tens of microseconds.
  static constexpr std::size_t kRowsAtOnce = 256;
  // An entry and, in a read by an index, the value that it was found by.
  struct Found {
    Entry entry{};
    std::string value{};
  };
  // The next entries of a query as it stood at a revision, unfiltered; perhaps none although there
  // are more. REQUIRES: `at` is pinned, !cursor.done()
  std::vector<Found> Read(const Query& query, Revision at, Cursor& cursor) const;

  // Changes of keys with that prefix after `after`, about `max` and whole revisions; see
  // WatchHub::Reader.
  Result<Watch::Batch> ReadLog(std::string_view prefix, Revision after, std::size_t max) const;

  // Forgets changes from before `keep_from`, or as many as make more than `max_bytes` of old
  // versions, and the versions that ended with them. A part of them: call it until it gives none
  // back, and destroy what it gives without the lock.
  std::vector<std::shared_ptr<const Change>> Compact(WallTime keep_from, std::uint64_t max_bytes);

 private:
  // One index entry of one version, live or not: a read at a revision takes those whose
  // version was the one that stood then.
  struct IndexRow {
    std::uint8_t index = 0;
    std::string value{};
    const std::string* key = nullptr;  // that of keys_
    Revision revision = 0;
  };
  // Where a row is, in the order in which a query gives them.
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
  // Live entries by the time they are due. The keys are those of keys_.
  using DueTimes = std::multimap<WallTime, const std::string*>;

  // A version, and where it is listed besides.
  struct Kept : Version {
    std::vector<Index::const_iterator> rows{};
    DueTimes::iterator due{};  // while it lives
  };
  // The last one is the state now; those before are old versions.
  using Versions = std::map<Revision, Kept>;
  using Keys = std::map<std::string, Versions, std::less<>>;

  struct Logged {
    std::shared_ptr<const Change> change{};
    WallTime written{};
    std::size_t bytes = 0;  // that go when it is compacted
  };

  void Insert(Keys::value_type& key, Version version, std::vector<IndexEntry> index);
  void TakeAway(const std::string& key, const Kept& version);
  // The version of a key that stood at a revision; null where it did not exist.
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
  std::deque<Logged> log_;
  std::size_t entries_ = 0;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t watch_window_bytes_ = 0;
  // Revisions at which a read is under way; versions from there on stay.
  std::multiset<Revision> pinned_;
};

}  // namespace herald::store
