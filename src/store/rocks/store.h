#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/thread/fair_queue.h"
#include "base/thread/mutex.h"
#include "herald/base/executor.h"
#include "herald/base/log.h"
#include "herald/base/status.h"
#include "store/clock_guard.h"
#include "store/rocks/backup.h"
#include "store/rocks/database.h"
#include "store/rocks/format.h"
#include "store/rocks/reader.h"
#include "store/rocks/recent_entries.h"
#include "store/store.h"
#include "store/watch_hub.h"

namespace herald::store {

struct RocksStoreOptions {
  RocksDbOptions db{};
  // Threads for reads that have to go to the disk or are long; see below.
  int read_threads = 2;
  LogFunction log{};
  // Called at the steps that other threads can interfere with, for tests that end the process
  // there or force an order of events. Null: not called.
  //   the committer   "before write", "written", "committed" (before the store's state says so),
  //                   "published", "refused" (the store cannot write)
  //   Maintain()      "waiting to reopen" (the database is in use), "reopened" (health does not
  //                   say so yet)
  //   a read thread   "before log read" (the revision was checked, the rows were not read)
  std::function<void(std::string_view step)> at_step{};
};

// A RocksStore keeps its entries in a directory of this machine.
//
//   Commit() --queue--> committer --one synced WriteBatch--> RocksDB
//                           |                                  ^ |
//                           | hub, completions        reads ---' '--- log rows, for
//                           v                                         lagging watches
//
// Writes wait in a queue; one thread takes all that wait, checks their conditions one
// after the other against the rows and what earlier ones of the same batch did, gives
// each its revision, and writes the batch with one sync. The more writers wait, the
// less each one pays for the sync. That thread is the only one that writes, so what it checked
// still holds when it writes. The Schema is asked before, on the thread that commits.
//
// Reads are made of versions at a revision and never wait for writes. One that finds all it
// needs in memory and is short runs on the caller's thread; any other runs on a pool of
// `read_threads`, in slices and in the order that a FairQueue decides. So the caller's thread
// never waits for a disk, and a short read never waits for a long one. Reads of large values have
// one thread of their own.
//
// Expiry, eviction, compaction and the recovery from errors are Maintain(), on a thread
// of its own; what these delete goes through the committer in small portions, between
// the writes of clients.
//
// When a write fails (the disk is full, or read-only) the store says so in Health() and
// refuses writes while reads go on. Maintain() tries until the disk takes bytes again, and then
// closes and opens the database: RocksDB cannot go on writing behind half a record. Writers who
// were told of the failure do not know what became of their write, as always when an
// answer fails to come; here it is either there, and watches are told, or it never was.
//
// A cap on the size of the directory is kept by evicting the oldest entries, and by refusing new
// ones (kTooManyRequests) while clients write faster than room can be made; see DiskBudget.
//
// Thread-safe.
class RocksStore final : public Store {
 public:
  static Result<std::unique_ptr<RocksStore>> Open(StoreOptions options, RocksStoreOptions rocks);
  // Finishes the writes that were accepted. Watches must be gone.
  ~RocksStore() override;
  RocksStore(const RocksStore&) = delete;
  RocksStore& operator=(const RocksStore&) = delete;

  void Commit(Write write, WriteDone done) override EXCLUDES(mu_);
  void Get(std::string key, EntryDone done) override;
  void Read(Query query, PageDone done) override;
  void CurrentRevision(std::function<void(Result<Revision>)> done) override;
  Result<std::unique_ptr<Watch>> NewWatch(std::string prefix, Revision after,
                                          std::function<void()> ready) override;
  void RefreshLifetimes() override;
  void AcceptClock() override;
  void Maintain() override EXCLUDES(maintain_mu_, mu_);
  Status Health() override EXCLUDES(mu_);
  StoreStats Stats() override EXCLUDES(mu_);

  // Copies the store while everything goes on; see BackupDatabase(). kCancelled where the store is
  // closed, or its database must be opened again, before the copy is complete.
  Status Backup(const std::filesystem::path& target, BackupMode mode = BackupMode::kCopy);

  // Compacts all old versions and moves the latest revision to `revision`, so that the next write
  // gets the one after it. For a store that has lost writes: no revision that a client may have
  // seen is given out again, and watches that resume from one of those get kExpired. REQUIRES:
  // nobody writes
  Status SkipTo(Revision revision) EXCLUDES(maintain_mu_, mu_);

 private:
  // Why an entry is written. Only the counters differ.
  enum class Cause : std::uint8_t { kClient, kExpiry, kEviction };

  // A write that waits, with what the Schema says about it.
  struct Pending {
    Write write{};
    WriteDone done{};
    Cause cause = Cause::kClient;
    std::vector<IndexEntry> index{};
    std::chrono::seconds lifetime{};
    std::uint64_t lifetime_rules = 0;  // which `lifetime` follows; 0: they changed meanwhile
    std::size_t bytes = 0;
    std::string expiry_row{};  // goes with the entry; empty: none
  };
  // Rows that maintenance wants to have written, and what that does to the State.
  struct Chore {
    rocksdb::WriteBatch rows{};
    Revision compacted = 0;
    std::uint64_t watch_window_bytes = 0;  // to take away
    Revision skip_to = 0;                  // see SkipTo(); 0: the revision stays
    // A look at all lifetimes begins, or has seen all entries; see Refresh().
    std::optional<std::uint64_t> refresh_begins{};  // by these rules
    bool refresh_ends = false;
    std::function<void(const Status&)> done{};
  };
  // Which rules the expiry of the stored entries is from.
  //
  //   complete --a write by other rules, or a refresh begins--> not complete
  //   not complete --a refresh ends, and no write since its begin had other rules--> complete
  //
  // The row "lifetimes" is there exactly while it is complete: it is deleted in the batch of the
  // write that ends it. So whatever a crash or a change of rules interrupts, the next start finds
  // either the row of its own rules or a reason to refresh.
  struct Lifetimes {
    std::uint64_t rules = 0;
    bool complete = false;
    bool other_rules = false;  // had a write since the refresh began
  };
  class BatchInHand;
  class Access;

  RocksStore(StoreOptions options, RocksStoreOptions rocks, std::unique_ptr<RocksDb> db);
  void Start();

  // ---- the committer's thread ----
  void RunCommitter();
  void CommitBatch(std::vector<Pending>& batch);
  void RunChore(Chore& chore);
  // Looks at the size of the directory each time that enough was written.
  void CountWritten(std::size_t bytes);
  Status WriteRows(const RocksDb& rocks, rocksdb::WriteBatch& rows, bool sync);
  void Publish(const State& state) EXCLUDES(mu_);
  // After a batch that was begun at `now`: marks where the log was rolled, or maintenance is busy.
  void MarkIfDue(SteadyTime now) EXCLUDES(mark_mu_, mu_);

  // ---- any thread ----
  void AtStep(std::string_view step) const {
    if (rocks_options_.at_step) rocks_options_.at_step(step);
  }
  // Marks the latest acknowledged revision on disk, if that has grown; see revision_mark.h.
  void MarkRevision() EXCLUDES(mark_mu_, mu_);
  rocksdb::Env* env() const;
  void Submit(std::vector<Pending> writes) EXCLUDES(mu_);
  Status SubmitAndWait(Chore chore) EXCLUDES(mu_);
  // An entry that maintenance wants to delete.
  struct Doomed {
    std::string key{};
    Revision revision = 0;
    std::string expiry_row{};  // goes with it; empty: none
  };
  // Deletes those that are still at their revision; returns when it is done, with how many.
  Result<std::size_t> DeleteAndWait(std::vector<Doomed> doomed, Cause cause) EXCLUDES(mu_);
  void SetUnhealthy(const Status& why) EXCLUDES(mu_);
  // Any read may be the first to see a batch that is written but not yet published.
  void Saw(Revision revision);
  RocksReader ReaderOf(const RocksDb& rocks) const;
  Status CheckRevision(Revision at) const;
  Result<std::optional<Entry>> GetNow(const std::string& key, RocksReader::Effort effort);
  class Reading;
  using ReadingPtr = std::shared_ptr<Reading>;
  void Queue(FairQueue* queue, const ReadingPtr& reading, RocksReader::Effort effort);
  // One slice of a read; answers when it was the last. A read that meets a value that is too large
  // for the effort goes on in the slow queue.
  FairQueue::Step ReadSlice(const ReadingPtr& reading, RocksReader::Effort effort);
  Result<RocksReader::Slice> ReadAt(const Query& query, RocksReader::Effort effort, Page so_far);
  Result<Watch::Batch> ReadLog(const std::string& prefix, Revision after, std::size_t max);

  // ---- maintenance ----
  void MaintainAndCallAgain();
  bool Recover() REQUIRES(maintain_mu_);
  Status Probe() REQUIRES(maintain_mu_);
  Status Reopen() REQUIRES(maintain_mu_);
  void Refresh() REQUIRES(maintain_mu_);
  void Expire() REQUIRES(maintain_mu_);
  // A live entry that a row of the expiry index speaks of.
  struct Due {
    Revision revision = 0;
    WallTime expires{};   // by the rules of today
    WallTime next_row{};  // where the row belongs if that is yet to come
  };
  // Nothing where the entry that the row was made for is gone.
  Result<std::optional<Due>> FindDue(const RocksReader& reader, const std::string& key,
                                     Revision created, WallTime now) const;
  // Adds the deletion of index rows that speak of `previous` and of no later version.
  void DropIndexRows(const RocksReader& reader, const RocksReader::Standing& previous,
                     const LogRow& log, Revision revision, rocksdb::Iterator& index,
                     rocksdb::WriteBatch& rows) const;
  void Compact(bool everything) REQUIRES(maintain_mu_);
  void Evict() REQUIRES(maintain_mu_);
  // Lets RocksDB throw away what it can. False: it could not write.
  bool Reclaim() REQUIRES(maintain_mu_);
  void EvictBytes(std::uint64_t bytes) REQUIRES(maintain_mu_);
  // The number of the rules in force.
  std::uint64_t LifetimeRules() const;
  // Takes over what the database says about lifetimes, and sees to a refresh where it is needed.
  void ReadLifetimes();
  void RecordClock() REQUIRES(maintain_mu_);
  void Say(LogLevel level, std::string_view message, const std::string& error) const;

  const StoreOptions options_;
  const RocksStoreOptions rocks_options_;
  const Clock& clock_;

  // The database. Null only after a failure that not even reads survive. Maintenance, which alone
  // replaces it, looks at it as it likes; everyone else through an Access, which holds
  // `rocks_mu_` shared. Those who come while it is being replaced wait at `gate_`, so that
  // readers who come and go without end cannot keep it from happening. Order: gate_, rocks_mu_,
  // mu_.
  Mutex gate_;
  std::atomic<bool> replacing_ = false;
  std::shared_mutex rocks_mu_;
  std::unique_ptr<RocksDb> rocks_;
  ClockGuard clock_guard_;

  // What a read may ask for: (compacted_, visible_]. Both only grow. compacted_ moves before
  // rows are deleted, visible_ after they are written, so a read that checks compacted_ once
  // it has its iterator has seen whole states.
  std::atomic<Revision> visible_;
  std::atomic<Revision> compacted_;
  std::atomic<bool> healthy_ = true;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> refresh_ = false;
  // The directory is so near its cap that no new entry is taken; see DiskBudget.
  std::atomic<bool> no_room_ = false;
  std::atomic<bool> evicting_soon_ = false;
  std::atomic<std::uint64_t> expired_ = 0;
  std::atomic<std::uint64_t> evicted_ = 0;

  // One Maintain() at a time. Before mu_.
  Mutex maintain_mu_;
  // Rows of the expiry index before this one were dealt with, so that a scan does not step
  // over all that RocksDB has not yet forgotten; the same for the log and its age.
  std::atomic<WallTime> due_from_{WallTime()};
  Revision oldest_from_ GUARDED_BY(maintain_mu_) = 0;
  // Bytes of old versions that were deleted since RocksDB was last made to throw away what it can.
  std::uint64_t reclaimable_ GUARDED_BY(maintain_mu_) = 0;

  // The log was rolled since the last mark.
  std::atomic<bool> mark_due_ = false;
  // When the first write after the last mark was published, as the committer saw it; nothing where
  // all is marked. The committer's own.
  std::optional<SteadyTime> unmarked_since_;
  // One writer of the mark at a time.
  Mutex mark_mu_ ACQUIRED_AFTER(maintain_mu_);
  // What is marked. Beyond every revision where that cannot be read: only SkipTo(), by which an
  // operator accepts a loss, may replace a mark by a lower one, or a damaged one.
  std::atomic<Revision> marked_ = 0;
  bool mark_failed_ GUARDED_BY(mark_mu_) = false;  // the last time, and that was logged

  // Guards all below. A leaf.
  mutable Mutex mu_ ACQUIRED_AFTER(maintain_mu_, mark_mu_);
  CondVar work_;
  std::vector<Pending> queue_ GUARDED_BY(mu_);
  std::size_t queue_bytes_ GUARDED_BY(mu_) = 0;
  std::vector<Chore> chores_ GUARDED_BY(mu_);
  bool closed_ GUARDED_BY(mu_) = false;
  Status health_ GUARDED_BY(mu_);
  State published_ GUARDED_BY(mu_);

  // Written by the committer, and emptied by Reopen().
  RecentEntries recent_;

  // As last written: the committer's own, and Reopen()'s, while the committer is kept out.
  State state_;
  Lifetimes lifetimes_;                   // as state_
  std::uint64_t written_since_look_ = 0;  // the committer's own

  // For Read(), Get() and lagging watches; for Maintain(), where that runs by itself.
  std::unique_ptr<Executor> readers_;
  std::unique_ptr<FairQueue> read_queue_;       // of readers_, for Read()
  std::unique_ptr<Executor> slow_reader_;       // one thread
  std::unique_ptr<FairQueue> slow_read_queue_;  // of slow_reader_
  std::unique_ptr<Executor> maintenance_;
  std::unique_ptr<WatchHub> hub_;
  std::thread committer_;
};

}  // namespace herald::store
