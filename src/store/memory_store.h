#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "herald/base/clock.h"
#include "herald/base/executor.h"
#include "herald/base/status.h"
#include "store/store.h"
#include "store/watch_hub.h"

namespace herald::store {

// A MemoryStore is a Store that is gone with its process: for tests, for a try-out, and
// as the plain model that the store on disk is compared with. "Durable" means nothing
// here, everything else is as store.h says.
//
// Completions run before the call returns. `max_bytes` bounds the keys and values of
// live entries, since there is no disk.
//
// Thread-safe.
class MemoryStore final : public Store {
 public:
  explicit MemoryStore(StoreOptions options);
  // Watches must be gone. Waits for the background work.
  ~MemoryStore() override;
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;

  void Commit(Write write, WriteDone done) override EXCLUDES(mu_);
  void Get(std::string key, EntryDone done) override EXCLUDES(mu_);
  void Read(Query query, PageDone done) override EXCLUDES(mu_);
  void CurrentRevision(std::function<void(Result<Revision>)> done) override EXCLUDES(mu_);
  Result<std::unique_ptr<Watch>> NewWatch(std::string prefix, Revision after,
                                          std::function<void()> ready) override;
  void RefreshLifetimes() override EXCLUDES(mu_);
  void Maintain() override EXCLUDES(mu_, maintain_mu_);
  Status Health() override { return Status(); }
  StoreStats Stats() override EXCLUDES(mu_);

 private:
  // One key from one write to the next.
  struct Version {
    Revision revision = 0;
    Bytes value{};  // null: deleted
    WallTime written{};
    WallTime expires{};
    std::vector<IndexEntry> index{};
  };
  // Oldest first. The last one is the state now; those before are history.
  using Versions = std::deque<Version>;
  using Keys = std::map<std::string, Versions, std::less<>>;

  // One index entry of one version, live or not: a read at a revision takes those whose
  // version was the one that stood then. In the order in which a query gives them.
  struct IndexRow {
    std::uint8_t index = 0;
    std::string value{};
    std::string key{};
    Revision revision = 0;

    auto operator<=>(const IndexRow&) const = default;
  };

  struct Logged {
    std::shared_ptr<const Change> change{};
    WallTime written{};
    std::size_t bytes = 0;  // that go when it is compacted
  };

  // A place in a read: where the next chunk starts.
  struct Cursor {
    std::string key{};
    std::optional<IndexRow> row{};
    bool done = false;
  };

  // Makes `value` (null: none) the state of a key, with all that hangs on it.
  // REQUIRES: where value is null, the key exists
  std::shared_ptr<const Change> Apply(const std::string& key, Bytes value,
                                      std::vector<IndexEntry> index, WallTime written,
                                      WallTime expires) REQUIRES(mu_);
  const Version* Newest(const std::string& key) const REQUIRES(mu_);
  // The version of a key that stood at a revision; null where it did not exist.
  static const Version* At(const Versions& versions, Revision at);
  WallTime ExpiryOf(const std::string& key, const std::string& value, WallTime written) const;

  Result<Watch::Batch> ReadLog(const std::string& prefix, Revision after, std::size_t max)
      EXCLUDES(mu_);
  // Up to kChunk entries of a query from the cursor on, unfiltered.
  std::vector<Entry> ReadChunk(const Query& query, Revision at, Cursor& cursor) EXCLUDES(mu_);
  void ReadChunkOfKeys(const Query& query, Revision at, Cursor& cursor, std::vector<Entry>& out)
      REQUIRES(mu_);
  void ReadChunkOfIndex(const Query& query, Revision at, Cursor& cursor, std::vector<Entry>& out)
      REQUIRES(mu_);

  void Refresh() EXCLUDES(mu_);
  void Expire() EXCLUDES(mu_);
  void Evict() EXCLUDES(mu_);
  void Compact() EXCLUDES(mu_);
  void MaintainAndCallAgain();

  const StoreOptions options_;
  const Clock& clock_;

  Mutex maintain_mu_;  // one Maintain() at a time; before mu_

  // Guards all below. Before the hub's own lock; no callback runs under it, and neither
  // does the Schema.
  mutable Mutex mu_ ACQUIRED_AFTER(maintain_mu_);
  Keys keys_ GUARDED_BY(mu_);
  std::set<IndexRow> index_ GUARDED_BY(mu_);
  // Live entries by the time they are due and by age.
  std::map<std::pair<WallTime, Revision>, std::string> due_ GUARDED_BY(mu_);
  std::map<Revision, std::string> by_age_ GUARDED_BY(mu_);
  // The changes in (compacted, revision], oldest first.
  std::deque<Logged> log_ GUARDED_BY(mu_);
  std::uint64_t log_bytes_ GUARDED_BY(mu_) = 0;
  std::uint64_t live_bytes_ GUARDED_BY(mu_) = 0;
  StoreStats stats_ GUARDED_BY(mu_);
  // Revisions at which a read is under way; history from there on stays.
  std::multiset<Revision> pinned_ GUARDED_BY(mu_);
  bool refresh_ GUARDED_BY(mu_) = false;

  WatchHub hub_;
  // Last, so that it stops first. Null without background work.
  std::unique_ptr<Executor> executor_;
};

}  // namespace herald::store
