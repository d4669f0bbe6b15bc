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

// A position in the order of all writes. The first write is 1; 0 means "none" or
// "the latest", as the context says.
using Revision = std::int64_t;

// Bytes are shared, not copied: one value may be on its way to a thousand watchers.
using Bytes = std::shared_ptr<const std::string>;

// One key as it stood at some revision.
struct Entry {
  std::string key{};
  Bytes value{};
  Revision revision = 0;  // of the write that made it so
};

// One entry of one index: `index` says which, `value` is what the key can be found by.
struct IndexEntry {
  std::uint8_t index = 0;
  std::string value{};

  bool operator==(const IndexEntry&) const = default;
};

// What the store must be told about its values, for it knows nothing of their meaning.
// All must be pure: the same bytes give the same answer for ever, except that the
// lifetime may change before a call of RefreshLifetimes(). They must not throw, and
// they are called from any thread. Values that they cannot read get no index entries
// and the default lifetime of their own choice.
struct Schema {
  // What the value can be found by. Null: nothing.
  std::function<std::vector<IndexEntry>(std::string_view key, std::string_view value)> index{};
  // How long an entry lives after the write that made it; at least a second. Null: for ever.
  std::function<std::chrono::seconds(std::string_view key, std::string_view value)> lifetime{};
  // Identifies the rules that `lifetime` follows at the moment. The same rules have the same
  // number, in later processes, too, so a store on disk can tell whether its entries were written
  // under others. 0: they are changing, ask again. Null: the rules never change.
  std::function<std::uint64_t()> lifetime_rules{};
  // When it was written, as far as the value itself can tell; the end of time where it does not
  // say, nothing where it cannot be read. For stores that others write to as well, and
  // that therefore do not know. Null: now.
  std::function<std::optional<WallTime>(std::string_view key, std::string_view value)> written{};

  // When the time of an entry is over that has been there since then.
  WallTime ExpiryOf(std::string_view key, std::string_view value, WallTime since) const;
};

// `lifetime` after something was written, which is at least a second; the end of time where that
// is more than time can say.
WallTime AddLifetime(WallTime written, std::chrono::seconds lifetime);

// A write of one key, done if the key is as expected when its turn comes.
struct Write {
  static constexpr Revision kAny = -1;  // whatever is there, or nothing

  std::string key{};
  Bytes value{};             // null: delete
  Revision expected = kAny;  // 0: the key must not exist; else it must be at that revision
};

// What became of it. `committed` is false where the key was not as expected, or where
// there was nothing to delete; `current`, which is set in that case only, is what is
// there instead.
struct Written {
  bool committed = false;
  Revision revision = 0;           // of this write; where not committed, the latest one
  std::optional<Entry> current{};  // null: the key does not exist
};

// Which entries of an index to read.
struct IndexRange {
  std::uint8_t index = 0;
  // Values in [from, to): for one value alone, from = v and to = v + '\0'. The order
  // is that of the values, and of the keys among equal ones; or just the opposite.
  std::string from{};
  std::string to{};
  bool descending = false;
  // Where an earlier page ended: goes on behind that entry. Empty at first.
  std::string after_value{};
  std::string after_key{};
};

struct Page;

// Where a read stopped: the last key that was looked at and, in a read by an index, the value
// that it was found by.
struct Place {
  std::string value{};
  std::string key{};
};

// Which entries to read. Keys in [start, end), in the order of the keys; or, with
// `by`, those that the index gives, and of these only keys in [start, end).
struct Query {
  using By = IndexRange;

  // How many of the remaining entries are counted at most. Counting reads their keys, which
  // takes about 5 ms for this many; a page of ten entries should not cost more than that.
  static constexpr std::int64_t kMaxCounted = 10'000;

  std::string start{};
  std::string end{};          // exclusive; empty: no end
  Revision at = 0;            // as it stood at that revision; 0: now
  std::size_t limit = 0;      // entries; 0: all
  std::size_t max_bytes = 0;  // the page ends with the value that reaches this size; 0: no bound
  // Also count the entries that `limit` cut off, up to kMaxCounted.
  bool count_remaining = false;
  std::optional<By> by{};
  // If set, only entries for which it is true are returned and count against `limit`.
  // Called on whatever thread reads; pure.
  std::function<bool(const Entry&)> filter{};

  // Whose read this is. A store with a queue of reads serves the flows in turn, so that one
  // flow with many or long reads does not delay the others. The value itself has no meaning.
  std::uint64_t flow = 0;
  // A part of a long read: it lets short reads of the same flow pass.
  bool background = false;
  // A read that is not finished when this becomes true may end with kCancelled. Null: never.
  std::shared_ptr<const std::atomic<bool>> cancelled{};

  bool is_cancelled() const { return cancelled && cancelled->load(std::memory_order_relaxed); }
  // Makes this the query for what comes behind a place.
  void ContinueAfter(const Place& place);
  // Makes this the query for what follows the page, as of the same revision. REQUIRES: page.more
  void ContinueAfter(const Page& page);
};

struct Page {
  // More than Query::kMaxCounted remain.
  static constexpr std::int64_t kManyRemain = -1;

  std::vector<Entry> entries{};
  Revision revision = 0;       // what was read: `at`, or the latest at that moment
  bool more = false;           // `limit` or `max_bytes` was reached and there may be more
  std::int64_t remaining = 0;  // what `limit` cut off, where asked for; or kManyRemain
  Place last{};                // where `more`: what Query::ContinueAfter() goes on behind
};

// One change, as a watcher sees it. Shared by all watchers and never changed; what a
// server makes of it (decoded, encoded in some representation) may be kept with it.
class Change {
 public:
  // `last` of its revision: where one transaction makes several changes, all but one are not.
  Change(Entry current, std::optional<Entry> previous, bool deleted, bool last = true)
      : current_(std::move(current)),
        previous_(std::move(previous)),
        deleted_(deleted),
        last_(last) {}

  const std::string& key() const { return current_.key; }
  Revision revision() const { return current_.revision; }
  // Where a watcher that has seen no change after this one can go on without missing any.
  Revision resume_revision() const { return last_ ? revision() : revision() - 1; }
  bool deleted() const { return deleted_; }
  // The new state; where deleted, without a value.
  const Entry& current() const { return current_; }
  // What was there before; null for a new key.
  const std::optional<Entry>& previous() const { return previous_; }

  // A place for whoever encodes changes to keep the result, so that a change is
  // encoded once for all its watchers. Whoever comes first wins. Thread-safe.
  std::shared_ptr<void> attachment() const;
  std::shared_ptr<void> Attach(std::shared_ptr<void> attachment) const;  // returns the winner

 private:
  const Entry current_;
  const std::optional<Entry> previous_;
  const bool deleted_;
  const bool last_;
  mutable std::shared_ptr<void> attachment_;  // by std::atomic_load and friends only
};

// A reader of changes that goes at its own pace: it asks for more when its client has
// taken what it got, so a slow client costs a position in the log and no memory.
//
// Confined to one thread at a time. `ready` (see Store::NewWatch) comes from any thread.
class Watch {
 public:
  virtual ~Watch() = default;

  struct Batch {
    std::vector<std::shared_ptr<const Change>> changes{};
    // All changes up to here have been given out, so a bookmark may say so.
    Revision revision = 0;
  };
  // The next changes, at most `max`; none where there are no more yet: `ready` is then called
  // once, when there are. kExpired when what comes next was compacted away: the watch is over.
  //
  // May be asked at any time, also before `ready` came: `revision` then says how far a quiet
  // watch has seen. Does not block: a watch that has to read from disk says "none yet" and
  // calls `ready` when it has read. REQUIRES: max > 0
  virtual Result<Batch> Next(std::size_t max) = 0;
};

struct StoreStats {
  Revision revision = 0;   // the latest
  Revision compacted = 0;  // changes up to here are gone
  std::uint64_t entries = 0;
  std::uint64_t bytes_on_disk = 0;  // 0 in memory
  std::uint64_t expired = 0;        // entries whose time was over, since the start
  std::uint64_t evicted = 0;        // entries that had to go for the cap on size, since the start
  std::uint64_t watches = 0;
  std::uint64_t clock_jumps = 0;  // of the wall clock, since the start; see ClockGuard
  bool expiry_held = false;       // nothing expires at the moment because of one
  // All entries written after this moment are still there, or were deleted by clients
  // or by their lifetime. Later than the epoch only after evictions.
  WallTime complete_since{};
};

// A Store keeps entries, remembers the order of all writes, tells watchers of each
// and forgets entries when their time is over. It knows keys, bytes, revisions, index
// entries and times, and nothing of Kubernetes.
//
// 1. Revisions only grow. On an embedded store they have no gaps: every committed write,
//    expiry and eviction included, is one revision.
// 2. A write is durable (it survives power loss) before its completion is called.
// 3. A read at the latest revision sees every write whose completion was called before
//    the read began.
// 4. A watch gives every change after its start once, in order, or kExpired.
// 5. An expiry is an ordinary deletion, with a revision of its own; on etcd, where a lease takes
//    several entries with it, with one that these share.
//
// Completions are called exactly once, on a thread of the store or before the call
// returns; they must not block. Errors: kServiceUnavailable where the store cannot write
// at the moment (disk full, no leader; reads may go on), kTooManyRequests where too many reads
// wait already or entries must be evicted before it takes another, kExpired where `at` was
// compacted away,
// kTimeout with cause ResourceVersionTooLarge is the caller's to make: for `at` beyond the latest
// revision it is kBadRequest here. kCorruption where stored bytes are not what was written.
//
// Thread-safe. Four implementations stand behind it: in memory, on RocksDB, on etcd, and
// the fault-injecting one of the tests. store_suite.h says what each must do.
class Store {
 public:
  virtual ~Store() = default;

  using WriteDone = std::function<void(Result<Written>)>;
  using PageDone = std::function<void(Result<Page>)>;
  using EntryDone = std::function<void(Result<std::optional<Entry>>)>;

  virtual void Commit(Write write, WriteDone done) = 0;
  virtual void Get(std::string key, EntryDone done) = 0;  // the latest
  // What this store has at hand under that key, which may not be the latest; none where it would
  // have to ask. Does not block. For those whose write expects just that.
  virtual std::optional<Entry> Recall(const std::string& /*key*/) { return std::nullopt; }
  virtual void Read(Query query, PageDone done) = 0;

  // The latest revision that a read would see now.
  virtual void CurrentRevision(std::function<void(Result<Revision>)> done) = 0;

  // Changes of keys with that prefix, after `after`; 0: after now. kExpired where that was
  // compacted away. A revision of the future is waited for. The watch must not outlive the store.
  // `ready` comes without any lock held, so it may call Next(), or destroy the watch. One that
  // was under way when the watch was destroyed may still come: it must own what it needs.
  virtual Result<std::unique_ptr<Watch>> NewWatch(std::string prefix, Revision after,
                                                  std::function<void()> ready) = 0;

  // Looks at the lifetimes of all entries anew, after the rules have changed. Entries
  // whose time is now over go soon; others may live longer. Runs in the background.
  virtual void RefreshLifetimes() = 0;

  // Believes the wall clock, after a jump because of which nothing expires; see ClockGuard.
  virtual void AcceptClock() = 0;

  // Deletes what is due and compacts what is old enough, as the store's own thread does from
  // time to time. For tests with a FakeClock; returns when it is done.
  virtual void Maintain() = 0;

  // Ok where writes can be expected to work.
  virtual Status Health() = 0;
  virtual StoreStats Stats() = 0;
};

// What embedded stores are opened with.
struct StoreOptions {
  Schema schema{};
  const Clock* clock = nullptr;  // borrowed; null: SystemClock()
  // Whether the store's own thread calls Maintain(); tests say no.
  bool background = true;
  // The watch window: old versions for watches and paged lists, kept at least this long
  // (kube-apiserver: 5 to 10 minutes), and at most this much.
  std::chrono::seconds watch_window{5 * 60};
  std::uint64_t max_watch_window_bytes = 512ull << 20;
  // Of all data on disk, oldest entries go first; 0: no cap. On RocksDB see DiskBudget.
  std::uint64_t max_bytes = 0;
};

}  // namespace herald::store
