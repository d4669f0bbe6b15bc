#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/clock.h"
#include "herald/base/status.h"

namespace herald::store {

// A position in the order of all writes. The first write has revision 1. 0 means "none" or "the
// latest", as documented at each use.
using Revision = std::int64_t;

// Shared, not copied: one value may be on its way to a thousand watches.
using Bytes = std::shared_ptr<const std::string>;

// A key with its value at some revision.
struct Entry {
  std::string key{};
  Bytes value{};
  Revision revision = 0;  // of the write that stored this value
};

// One entry of an index: the key can be found by `value` in the index with the number `index`.
struct IndexEntry {
  std::uint8_t index = 0;
  std::string value{};

  bool operator==(const IndexEntry&) const = default;
};

// A Schema describes values to the store, which does not interpret them itself.
//
// All functions must be pure: the same arguments always give the same result, except that the
// lifetime may change before a call of RefreshLifetimes(). They must not throw, and they are called
// from any thread. For a value that cannot be decoded, `index` returns nothing and `lifetime` a
// default of its choice.
struct Schema {
  // The index entries of a value. Null: none.
  std::function<std::vector<IndexEntry>(std::string_view key, std::string_view value)> index{};
  // How long an entry lives after the write that stored it; at least a second. Null: forever.
  std::function<std::chrono::seconds(std::string_view key, std::string_view value)> lifetime{};
  // Identifies the rules that `lifetime` follows now. Equal rules have equal numbers, also in later
  // processes, so a store on disk can detect that its entries were written under other rules. 0:
  // the rules are changing, call again. Null: the rules never change.
  std::function<std::uint64_t()> lifetime_rules{};
  // When the value was written, as far as the value contains it. The end of time if it does not
  // contain it, nothing if the value cannot be decoded. For stores with other writers, which do not
  // know the time of each write. Null: now.
  std::function<std::optional<WallTime>(std::string_view key, std::string_view value)> written{};

  // When an entry expires that was written at that time.
  WallTime ExpiryOf(std::string_view key, std::string_view value, WallTime written_at) const;
};

// `written` plus the lifetime, which counts as a second if it is less. The end of time if the sum
// is out of range.
WallTime AddLifetime(WallTime written, std::chrono::seconds lifetime);

// A write of one key. It is committed only if the key is as expected when it is executed.
struct Write {
  static constexpr Revision kAny = -1;  // any state, including that the key does not exist

  std::string key{};
  Bytes value{};             // null: delete
  Revision expected = kAny;  // 0: the key must not exist; else: it must be at this revision
};

// The result of a Write. `committed` is false if the key was not as expected, or if there was
// nothing to delete.
struct Written {
  bool committed = false;
  Revision revision = 0;           // of this write; if not committed, the latest one
  std::optional<Entry> current{};  // only if not committed: the key; nothing if it does not exist
};

// Which entries of an index to read.
struct IndexRange {
  std::uint8_t index = 0;
  // Values in [from, to): for a single value v, from = v and to = v + '\0'. Results are ordered by
  // value, then by key; with `descending`, in reverse.
  std::string from{};
  std::string to{};
  bool descending = false;
  // The last entry of the page before: the read starts after it. Empty for the first page.
  std::string after_value{};
  std::string after_key{};
};

struct Page;

// Where a read stopped: the last key that was read and, in a read by an index, the value that it
// was found by.
struct Place {
  std::string value{};
  std::string key{};
};

// Which entries to read: keys in [start, end), in the order of the keys. With `by`: entries of that
// index whose keys are in [start, end), in the order of the index.
struct Query {
  using By = IndexRange;

  // Limit on the remaining entries that are counted. Counting reads their keys, about 5 ms for this
  // many; a page of ten entries should not cost more.
  static constexpr std::int64_t kMaxCounted = 10'000;

  std::string start{};
  std::string end{};          // exclusive; empty: no end
  Revision at = 0;            // the state at this revision; 0: the latest
  std::size_t limit = 0;      // number of entries; 0: no limit
  std::size_t max_bytes = 0;  // the page ends with the value that reaches this size; 0: no limit
  // Also count the entries that `limit` cut off, up to kMaxCounted.
  bool count_remaining = false;
  std::optional<By> by{};
  // If set, only entries for which it returns true are returned, and count against `limit`. Must
  // be pure. Called on the thread that reads.
  std::function<bool(const Entry&)> filter{};

  // Identifies the client. A store with a queue of reads serves the flows in turn, so that one flow
  // with many or long reads does not delay the others. The value itself has no meaning.
  std::uint64_t flow = 0;
  // Part of a long read: short reads of the same flow are served first.
  bool background = false;
  // A read that is not complete when this becomes true may end with kCancelled. Null: never.
  std::shared_ptr<const std::atomic<bool>> cancelled{};

  bool is_cancelled() const { return cancelled && cancelled->load(std::memory_order_relaxed); }
  // Changes this query to start after a place.
  void ContinueAfter(const Place& place);
  // Changes this query to read the next page, at the same revision. REQUIRES: page.more
  void ContinueAfter(const Page& page);
};

struct Page {
  // More than Query::kMaxCounted remain.
  static constexpr std::int64_t kManyRemain = -1;

  std::vector<Entry> entries{};
  Revision revision = 0;       // that was read: `at`, or the latest at that moment
  bool more = false;           // `limit` or `max_bytes` was reached and there may be more entries
  std::int64_t remaining = 0;  // with `count_remaining`: entries beyond `limit`, or kManyRemain
  Place last{};                // if `more`: where this page ended
};

// One committed write, as watches see it. All watches share it.
//
// Immutable, except that a server may attach what it derives from it (the decoded event, its
// encodings). Thread-safe.
class Change {
 public:
  // `last`: whether this is the last change of its revision. A transaction may make several.
  Change(Entry current, std::optional<Entry> previous, bool deleted, bool last = true)
      : current_(std::move(current)),
        previous_(std::move(previous)),
        deleted_(deleted),
        last_(last) {}

  const std::string& key() const { return current_.key; }
  Revision revision() const { return current_.revision; }
  // Where a watch that has seen this change, but none after it, can resume without missing any.
  Revision resume_revision() const { return last_ ? revision() : revision() - 1; }
  bool deleted() const { return deleted_; }
  // The new state; if deleted, without a value.
  const Entry& current() const { return current_; }
  // The state before; nothing for a new key.
  const std::optional<Entry>& previous() const { return previous_; }

  // A place to keep the encoded change, so that it is encoded once for all watches. Null if nothing
  // was attached.
  std::shared_ptr<void> attachment() const;
  // The first call wins. Returns the attachment of the change.
  std::shared_ptr<void> Attach(std::shared_ptr<void> attachment) const;

 private:
  const Entry current_;
  const std::optional<Entry> previous_;
  const bool deleted_;
  const bool last_;
  mutable std::shared_ptr<void> attachment_;  // only through std::atomic_load() and the like
};

// A Watch reads changes at its own pace: its owner calls Next() when the client has taken the
// changes before. So a slow client costs a position in the log and no memory.
//
// Thread-confined, to one thread at a time. `ready` (see Store::NewWatch) is called from any
// thread.
class Watch {
 public:
  virtual ~Watch() = default;

  struct Batch {
    std::vector<std::shared_ptr<const Change>> changes{};
    // All changes up to here were returned, so a bookmark may contain this revision.
    Revision revision = 0;
  };
  // Returns the next changes, at most `max`. If there are none yet, returns none, and `ready` is
  // called once when there are. kExpired if the next changes were compacted: the watch is over.
  //
  // May be called at any time, also before `ready`: `revision` then is how far a watch without
  // changes has seen. Does not block: a watch that has to read from disk returns none and calls
  // `ready` when it has read. REQUIRES: max > 0
  virtual Result<Batch> Next(std::size_t max) = 0;
};

struct StoreStats {
  Revision revision = 0;   // the latest
  Revision compacted = 0;  // changes up to here were deleted
  std::uint64_t entries = 0;
  std::uint64_t bytes_on_disk = 0;  // 0 in memory
  std::uint64_t expired = 0;        // entries deleted by their lifetime, since the start
  std::uint64_t evicted = 0;        // entries deleted by the limit on size, since the start
  std::uint64_t watches = 0;
  std::uint64_t clock_jumps = 0;  // of the wall clock, since the start; see ClockGuard
  bool expiry_held = false;       // because of a clock jump, nothing expires now
  // No entry that was written after this time was evicted. Later than the epoch only after
  // evictions.
  WallTime complete_since{};
};

// A Store keeps entries, orders all writes by revision, sends each change to watches and deletes
// entries when their lifetime is over. It handles keys, bytes, revisions, index entries and times;
// it does not know Kubernetes.
//
// 1. Revisions only grow. In an embedded store they have no gaps: every committed write, including
//    expiry and eviction, is one revision.
// 2. A write is durable (it survives power loss) before its completion is called.
// 3. A read at the latest revision sees every write whose completion was called before the read
//    began.
// 4. A watch returns every change after its start once, in order, or kExpired.
// 5. An expiry is an ordinary deletion with a revision of its own. On etcd, where a lease may
//    delete several entries, these share one revision.
//
// Completions are called exactly once, on a thread of the store or before the call returns. They
// must not block.
//
// Errors:
//   kServiceUnavailable  the store cannot write now (disk full, no leader); reads may still work
//   kTooManyRequests     too many reads wait, or entries must be evicted before another is accepted
//   kExpired             the revision was compacted
//   kBadRequest          `at` is above the latest revision (the caller makes Kubernetes' kTimeout
//                        with cause ResourceVersionTooLarge of it)
//   kCorruption          stored bytes are not those that were written
//   kCancelled           Query::cancelled was set, or the store was closed
//
// Thread-safe. There are four implementations: in memory, on RocksDB, on etcd, and the
// fault-injecting one of the tests. testing/suite.h specifies what each must do.
class Store {
 public:
  virtual ~Store() = default;

  using WriteDone = std::function<void(Result<Written>)>;
  using PageDone = std::function<void(Result<Page>)>;
  using EntryDone = std::function<void(Result<std::optional<Entry>>)>;

  virtual void Commit(Write write, WriteDone done) = 0;
  virtual void Get(std::string key, EntryDone done) = 0;  // at the latest revision
  // The entry that this store has in memory, which may not be the latest; nothing if it would have
  // to ask another server. Does not block. For a write that expects the revision of this entry.
  virtual std::optional<Entry> Recall(const std::string& /*key*/) { return std::nullopt; }
  virtual void Read(Query query, PageDone done) = 0;

  // The latest revision that a read would see now.
  virtual void CurrentRevision(std::function<void(Result<Revision>)> done) = 0;

  // A watch of keys with that prefix, for changes after `after`; 0: after the latest revision.
  // kExpired if changes after it were compacted. A revision in the future is waited for. The watch
  // must not outlive the store.
  //
  // `ready` is called without a lock held, so it may call Next() or destroy the watch. A call that
  // is under way when the watch is destroyed still completes, so `ready` must own what it uses.
  virtual Result<std::unique_ptr<Watch>> NewWatch(std::string prefix, Revision after,
                                                  std::function<void()> ready) = 0;

  // Applies changed lifetime rules to all entries, in the background: entries whose lifetime is now
  // over are deleted soon, others may live longer.
  virtual void RefreshLifetimes() = 0;

  // Trusts the wall clock again, after a jump has stopped expiry; see ClockGuard.
  virtual void AcceptClock() = 0;

  // Deletes expired entries and compacts old versions, as the store's own thread does regularly.
  // For tests with a FakeClock. Returns when it is done.
  virtual void Maintain() = 0;

  // Ok if writes are expected to work.
  virtual Status Health() = 0;
  virtual StoreStats Stats() = 0;
};

// Options of embedded stores.
struct StoreOptions {
  Schema schema{};
  const Clock* clock = nullptr;  // borrowed; null: SystemClock()
  // Whether the store's own thread calls Maintain(); false in tests.
  bool background = true;
  // The watch window: how far back watches and paged lists may begin. Old versions are kept at
  // least this long (kube-apiserver: 5 to 10 minutes), unless they take more than so many bytes.
  std::chrono::seconds watch_window{5 * 60};
  std::uint64_t max_watch_window_bytes = 512ull << 20;
  // Limit on all data on disk; the oldest entries are evicted first. 0: no limit. On RocksDB see
  // DiskBudget.
  std::uint64_t max_bytes = 0;
};

}  // namespace herald::store
