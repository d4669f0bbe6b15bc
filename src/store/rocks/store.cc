#include "store/rocks/store.h"

#include <fmt/core.h>
#include <rocksdb/env.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <future>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/thread/thread_name.h"
#include "store/rocks/revision_mark.h"

namespace herald::store {
namespace {

// Keys whose state is kept in memory. Most events are written once and looked at by nobody; one
// that was written again will be once more.
constexpr RecentEntries::Limits kRecent{.created = 8'192, .rewritten = 16'384, .bytes = 16u << 20};

// What one WriteBatch may hold. Beyond this a larger batch saves nothing on the sync, and
// the first writer in it waits for the last. Its bytes are DiskBudget::batch_bytes.
constexpr std::size_t kMaxBatchWrites = 512;

// What may wait for the committer. At 20,000 writes a second, a second's worth; writers
// who come later are better told so than kept.
constexpr std::size_t kMaxQueuedWrites = 20'000;
constexpr std::size_t kMaxQueuedBytes = 128u << 20;

// How often maintenance looks. Entries expire within this of their time.
constexpr std::chrono::seconds kMaintenanceInterval{1};

// How old an acknowledged write may become before its revision is marked. Maintenance marks each
// time it looks; where that takes longer, because it compacts gigabytes, the committer does it.
constexpr std::chrono::seconds kMaxUnmarked{5};

// Entries that maintenance deletes at once. A client's write waits behind one such
// portion at most, about two milliseconds.
constexpr std::size_t kPortion = 128;

// Rows of the log that one step of compaction looks at, and rows that it deletes at most.
constexpr std::size_t kCompactRows = 4'096;
constexpr std::uint32_t kCompactDeletes = 2'000;

// A read takes place where it holds up nobody:
//   on the caller's thread  a few rows of what is cached, some tens of microseconds' worth; the
//                           caller may be an event loop
//   on the pool             in slices of about 2 ms; another read waits for one such slice per
//                           thread at most
//   on the slow thread      whatever has a large value: to decode and to encode an event of 3 MiB
//                           takes 100 ms, and nothing interrupts that
// Rows cost more with a filter, which decodes each value.
constexpr std::size_t kInlineRows = 100;
constexpr std::size_t kInlineFilteredRows = 20;
constexpr RocksReader::Effort kInline{
    .cached = true, .max_cost = kInlineRows * RocksReader::kRowCost, .max_value_bytes = 16 * 1024};
constexpr RocksReader::Effort kInlineFiltered{
    .cached = true,
    .max_cost = kInlineFilteredRows * RocksReader::kRowCost,
    .max_value_bytes = kInline.max_value_bytes};
constexpr std::size_t kSliceRows = 400;
constexpr RocksReader::Effort kOneSlice{
    .cached = false, .max_cost = kSliceRows * RocksReader::kRowCost, .max_value_bytes = 64 * 1024};
constexpr RocksReader::Effort kOneSlowSlice{.cached = false, .max_cost = kOneSlice.max_cost};
constexpr RocksReader::Effort kThorough{};

Status NoRoom() {
  return Status(
      Status::Parts{.reason = StatusReason::kTooManyRequests,
                    .message = "the data directory has reached its size limit; room is being made",
                    .retry_after = std::chrono::seconds(1)});
}

// When a client should try again. A disk is full, or read-only, until somebody does something about
// it: the same as for a full etcd. A queue of writes is shorter a moment later.
constexpr std::chrono::seconds kRetryAfterFault{30};
constexpr std::chrono::seconds kRetryAfterOverload{1};

Status ServiceUnavailable(std::string message, std::chrono::seconds retry_after) {
  Status::Parts parts;
  parts.reason = StatusReason::kServiceUnavailable;
  parts.message = std::move(message);
  parts.retry_after = retry_after;
  return Status(std::move(parts));
}

Status Unavailable(const Status& why) {
  return ServiceUnavailable("the store cannot write: " + why.message(), kRetryAfterFault);
}

}  // namespace

// The database, for as long as this lives.
class RocksStore::Access {
 public:
  explicit Access(RocksStore* store) : store_(*store) {
    if (store->replacing_) {
      MutexLock wait(store->gate_);
    }
    lock_ = std::shared_lock(store->rocks_mu_);
    rocks_ = store->rocks_.get();
  }

  // Why there is none.
  Status status() const {
    if (rocks_ != nullptr) return Status();
    return ServiceUnavailable("the data directory cannot be read", kRetryAfterFault);
  }
  // REQUIRES: status().ok()
  const RocksDb& rocks() const { return *rocks_; }
  RocksReader reader() const { return store_.ReaderOf(*rocks_); }

 private:
  const RocksStore& store_;
  std::shared_lock<std::shared_mutex> lock_;
  const RocksDb* rocks_ = nullptr;
};

// A query on its way through its slices. Answers when it is dropped unanswered.
class RocksStore::Reading {
 public:
  Reading(Query q, PageDone done)
      : query(std::move(q)),
        start_(query.start),
        by_(query.by),
        is_of_latest_(query.at == 0),
        done_(std::move(done)) {}
  ~Reading() {
    if (done_) Answer(Status(StatusReason::kCancelled, "the store was closed"));
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  void Answer(Result<Page> answer) { std::exchange(done_, nullptr)(std::move(answer)); }
  // Keeps what a slice has read. Whether there is more to read.
  bool Take(RocksReader::Slice slice) {
    page = std::move(slice.page);
    if (!slice.next) return false;
    query.at = page.revision;
    query.GoOnBehind(*slice.next);
    return true;
  }
  // Whoever asks for the latest state is not to be told that it is too old, so a read that was
  // overtaken by compaction begins again.
  bool RestartIfExpired(const Status& error) {
    if (!is_of_latest_ || !error.Is(StatusReason::kExpired)) return false;
    Restart();
    return true;
  }
  void Restart() {
    if (is_of_latest_) query.at = 0;
    query.start = start_;
    query.by = by_;
    page = Page();
  }

  Query query;  // for what is not read yet
  Page page;    // what is

 private:
  const std::string start_;
  const std::optional<Query::By> by_;
  const bool is_of_latest_;
  PageDone done_;
};

Result<std::unique_ptr<RocksStore>> RocksStore::Open(StoreOptions options,
                                                     RocksStoreOptions rocks) {
  // RocksDB's threads may report a failure before there is a store to hear of it; the
  // next write then tells.
  auto listening = std::make_shared<std::atomic<RocksStore*>>(nullptr);
  rocks.db.on_background_error = [listening](const Status& status) {
    if (RocksStore* store = listening->load()) store->SetUnhealthy(status);
  };
  rocks.db.on_log_rolled = [listening] {
    if (RocksStore* store = listening->load()) store->mark_due_ = true;
  };
  if (options.max_bytes > 0) rocks.db.budget = DiskBudget(options.max_bytes);
  Result<std::unique_ptr<RocksDb>> db = RocksDb::Open(rocks.db);
  if (!db) return db.error();
  // Not make_unique: the constructor is private.
  std::unique_ptr<RocksStore> store(
      new RocksStore(std::move(options), std::move(rocks), std::move(*db)));
  *listening = store.get();
  store->Start();
  return store;
}

RocksStore::RocksStore(StoreOptions options, RocksStoreOptions rocks, std::unique_ptr<RocksDb> db)
    : options_(std::move(options)),
      rocks_options_(std::move(rocks)),
      clock_(options_.clock != nullptr ? *options_.clock : SystemClock()),
      rocks_(std::move(db)),
      clock_guard_(&clock_, ReadBootId(), rocks_->clock(), rocks_options_.log),
      visible_(rocks_->state().revision),
      compacted_(rocks_->state().compacted),
      published_(rocks_->state()),
      recent_(kRecent),
      state_(rocks_->state()) {
  ReadLifetimes();
  no_room_ = rocks_->BytesOnDisk() > rocks_options_.db.budget.refuse_above;
}

void RocksStore::Start() {
  const Result<std::optional<Revision>> mark = ReadRevisionMark(env(), rocks_options_.db.directory);
  marked_ = mark ? mark->value_or(0) : std::numeric_limits<Revision>::max();
  readers_ = std::make_unique<Executor>(
      Executor::Options{.threads = std::max(1, rocks_options_.read_threads)});
  FairQueue::Options queue;
  queue.concurrency = readers_->threads();
  queue.slice_cost = kOneSlice.max_cost;
  read_queue_ = std::make_unique<FairQueue>(readers_.get(), queue);
  slow_reader_ = std::make_unique<Executor>(Executor::Options{.threads = 1});
  queue.concurrency = 1;
  slow_read_queue_ = std::make_unique<FairQueue>(slow_reader_.get(), queue);
  WatchHub::Options hub;
  hub.executor = readers_.get();
  hub_ = std::make_unique<WatchHub>(
      visible_, compacted_,
      [this](const std::string& prefix, Revision after, std::size_t max) {
        return ReadLog(prefix, after, max);
      },
      hub);
  committer_ = std::thread([this] { RunCommitter(); });
  if (options_.background) {
    maintenance_ = std::make_unique<Executor>();
    maintenance_->Post([this] { MaintainAndCallAgain(); });
  }
}

RocksStore::~RocksStore() {
  stopping_ = true;
  if (maintenance_) maintenance_->Stop();
  {
    MutexLock lock(mu_);
    closed_ = true;
  }
  work_.NotifyAll();
  committer_.join();
  readers_->Stop();
  slow_reader_->Stop();
  read_queue_.reset();
  slow_read_queue_.reset();
  // The next start then has no log to read. A failure costs only that time.
  if (healthy_ && rocks_) rocks_->FlushAll().PermitUncheckedError();
  if (healthy_) MarkRevision();
  // Now, because its threads may still report to us.
  rocks_.reset();
}

// ---- writes ----

void RocksStore::Commit(Write write, WriteDone done) {
  if (!healthy_) {
    const Status health = Health();
    // Ok where Maintain() has ended the outage since.
    if (!health.ok()) {
      done(Unavailable(health));
      return;
    }
  }
  if (no_room_ && write.value) {
    done(NoRoom());
    return;
  }
  Pending pending;
  if (write.value) {
    if (options_.schema.index) pending.index = options_.schema.index(write.key, *write.value);
    pending.lifetime_rules = LifetimeRules();
    pending.lifetime = options_.schema.lifetime ? options_.schema.lifetime(write.key, *write.value)
                                                : std::chrono::seconds::max();
    // Before and after, because either may be what the lifetime was asked under.
    if (LifetimeRules() != pending.lifetime_rules) pending.lifetime_rules = 0;
  }
  pending.bytes = write.key.size() + (write.value ? write.value->size() : 0);
  pending.write = std::move(write);
  pending.done = std::move(done);
  bool first = false;
  {
    MutexLock lock(mu_);
    if (!closed_ && queue_.size() < kMaxQueuedWrites && queue_bytes_ < kMaxQueuedBytes) {
      first = queue_.empty();
      queue_bytes_ += pending.bytes;
      queue_.push_back(std::move(pending));
      done = nullptr;
    } else {
      done = std::move(pending.done);
    }
  }
  if (first) work_.NotifyOne();
  if (done) done(ServiceUnavailable("too many writes wait for the disk", kRetryAfterOverload));
}

void RocksStore::Submit(std::vector<Pending> writes) {
  {
    MutexLock lock(mu_);
    HERALD_CHECK(!closed_, "maintenance goes on after its end");
    for (Pending& pending : writes) {
      queue_bytes_ += pending.bytes;
      queue_.push_back(std::move(pending));
    }
  }
  work_.NotifyOne();
}

Status RocksStore::SubmitAndWait(Chore chore) {
  std::promise<Status> done;
  chore.done = [&done](const Status& status) { done.set_value(status); };
  {
    MutexLock lock(mu_);
    HERALD_CHECK(!closed_, "maintenance goes on after its end");
    chores_.push_back(std::move(chore));
  }
  work_.NotifyOne();
  return done.get_future().get();
}

Result<std::size_t> RocksStore::DeleteAndWait(std::vector<Doomed> doomed, Cause cause) {
  if (doomed.empty()) return std::size_t{0};
  struct Outcome {
    Mutex mu;
    Status failed GUARDED_BY(mu);
    std::size_t left GUARDED_BY(mu) = 0;
    std::size_t deleted GUARDED_BY(mu) = 0;
    std::promise<Result<std::size_t>> all;
  };
  Outcome outcome;
  {
    MutexLock lock(outcome.mu);
    outcome.left = doomed.size();
  }
  std::vector<Pending> writes;
  for (Doomed& entry : doomed) {
    Pending pending;
    pending.write = {std::move(entry.key), nullptr, entry.revision};
    pending.cause = cause;
    pending.expiry_row = std::move(entry.expiry_row);
    pending.done = [&outcome](const Result<Written>& written) {
      std::optional<Result<std::size_t>> over;
      {
        MutexLock lock(outcome.mu);
        if (!written) outcome.failed = written.error();
        if (written && written->committed) ++outcome.deleted;
        if (--outcome.left == 0) {
          over = outcome.failed.ok() ? Result<std::size_t>(outcome.deleted)
                                     : Result<std::size_t>(outcome.failed);
        }
      }
      if (over) outcome.all.set_value(*std::move(over));
    };
    writes.push_back(std::move(pending));
  }
  std::future<Result<std::size_t>> all = outcome.all.get_future();
  Submit(std::move(writes));
  return all.get();
}

void RocksStore::RunCommitter() {
  NameThisThread("herald-commit");
  std::vector<Pending> batch;
  std::vector<Pending> waiting;  // taken from the queue, not yet in a batch
  std::size_t next = 0;
  for (;;) {
    std::vector<Chore> chores;
    {
      MutexLock lock(mu_);
      if (next == waiting.size()) {
        work_.Wait(lock, [this]() REQUIRES(mu_) {
          return !queue_.empty() || !chores_.empty() || closed_;
        });
        if (queue_.empty() && chores_.empty()) return;
        waiting.clear();
        next = 0;
        waiting.swap(queue_);
        queue_bytes_ = 0;
      }
      chores.swap(chores_);
    }
    for (Chore& chore : chores) RunChore(chore);
    batch.clear();
    std::size_t bytes = 0;
    while (next < waiting.size() && batch.size() < kMaxBatchWrites &&
           bytes < rocks_options_.db.budget.batch_bytes) {
      bytes += waiting[next].bytes;
      batch.push_back(std::move(waiting[next++]));
    }
    const SteadyTime now = clock_.Steady();
    if (!batch.empty()) CommitBatch(batch);
    MarkIfDue(now);
  }
}

void RocksStore::MarkIfDue(SteadyTime now) {
  // Not state_, which Reopen() may replace: nothing here keeps it out.
  if (marked_ >= visible_) {
    unmarked_since_.reset();
    return;
  }
  if (!unmarked_since_) unmarked_since_ = now;
  if (!mark_due_ && now - *unmarked_since_ < kMaxUnmarked) return;
  MarkRevision();
  unmarked_since_ = now;  // where it failed, the next try waits as long
}

rocksdb::Env* RocksStore::env() const {
  return rocks_options_.db.env != nullptr ? rocks_options_.db.env : rocksdb::Env::Default();
}

void RocksStore::MarkRevision() {
  MutexLock lock(mark_mu_);
  mark_due_ = false;
  Revision revision = 0;
  {
    MutexLock state_lock(mu_);
    revision = published_.revision;
  }
  if (revision <= marked_) return;
  const Status status = WriteRevisionMark(env(), rocks_options_.db.directory, revision);
  if (status.ok()) {
    marked_ = revision;
    mark_failed_ = false;
  } else if (!std::exchange(mark_failed_, true)) {
    Say(LogLevel::kWarn, "cannot mark the latest acknowledged revision", status.message());
  }
}

// The rows of one batch as they come together, and the states of the keys that it has
// changed so far.
class RocksStore::BatchInHand {
 public:
  BatchInHand(const Access& access, const Schema& schema, const State& state)
      : rocks_(access.rocks()),
        schema_(schema),
        reader_(access.reader()),
        before_(state.revision),
        state_(state) {}

  // The state of a key after the writes before this one.
  Result<RocksReader::Standing> Find(const std::string& key) const {
    const auto changed = changed_.find(key);
    if (changed != changed_.end()) return changed->second;
    return reader_.NewestWithCreation(key, kThorough);
  }

  // Adds a write whose condition holds; returns its revision.
  Revision Add(Pending& pending, const RocksReader::Standing& old, WallTime now) {
    const std::string& key = pending.write.key;
    const Bytes& value = pending.write.value;
    const Revision revision = ++state_.revision;

    RocksReader::Standing fresh;
    if (value) {
      fresh = {revision, old.revision != 0 ? old.created : revision, value, now,
               AddLifetime(now, pending.lifetime)};
    }

    std::string version_key = VersionKey(key, revision);
    std::string version =
        EncodeVersion(version_key, {value == nullptr, now, fresh.expires,
                                    value ? std::string_view(*value) : std::string_view()});
    versions_.push_back({std::move(version_key), std::move(version)});
    const std::string log_key = LogKey(revision);
    rows_.Put(rocks_.log(), log_key,
              EncodeLog(log_key, {value == nullptr, now, old.revision, key}));
    state_.watch_window_bytes += LogBytes(key.size());

    if (old.revision != 0) {
      const std::uint64_t bytes = EntryBytes(key.size(), old.value->size());
      state_.live_bytes -= bytes;
      state_.watch_window_bytes += bytes;
      --state_.entries;
    }
    if (value) {
      AddIndexRows(pending, old, revision);
      AddExpiryRow(key, old, fresh, now);
      state_.live_bytes += EntryBytes(key.size(), value->size());
      ++state_.entries;
    } else {
      DeleteExpiryRows(old, pending.expiry_row);
      if (pending.cause == Cause::kEviction) {
        state_.complete_since = std::max(state_.complete_since, old.written);
      }
    }

    std::optional<Entry> previous;
    if (old.revision != 0) previous = Entry{key, old.value, old.revision};
    changes_.push_back(std::make_shared<const Change>(Entry{key, value, revision},
                                                      std::move(previous), value == nullptr));
    changed_[key] = std::move(fresh);
    return revision;
  }

  // All rows of the batch. Those that come in no order are sorted, because a row is put
  // beside the last one into RocksDB's skip lists for half of what it costs elsewhere, and that is
  // most of what a write costs.
  rocksdb::WriteBatch& Finish() {
    std::vector<const std::pair<const std::string, RocksReader::Standing>*> heads;
    heads.reserve(changed_.size());
    for (const auto& changed : changed_) {
      const RocksReader::Standing& standing = changed.second;
      if (standing.revision == 0 || standing.created > before_) heads.push_back(&changed);
    }
    std::sort(heads.begin(), heads.end(),
              [](const auto* a, const auto* b) { return a->first < b->first; });
    for (const auto* head : heads) {
      if (head->second.revision == 0) {
        rows_.Delete(rocks_.heads(), head->first);
      } else {
        rows_.Put(rocks_.heads(), head->first, EncodeHead(head->second.created));
      }
    }
    for (auto* rows : {&versions_, &index_}) {
      std::sort(rows->begin(), rows->end(),
                [](const Row& a, const Row& b) { return a.key < b.key; });
    }
    for (const Row& row : versions_) rows_.Put(rocks_.versions(), row.key, row.value);
    for (const Row& row : index_) rows_.Put(rocks_.index(), row.key, row.value);
    rows_.Put(rocks_.meta(), ToSlice(kStateKey), EncodeState(state_));
    return rows_;
  }
  const State& state() const { return state_; }
  const RecentEntries::Standings& changed() const { return changed_; }
  const std::vector<std::shared_ptr<const Change>>& changes() const { return changes_; }
  WallTime first_due() const { return first_due_; }

 private:
  struct Row {
    std::string key;
    std::string value;
  };

  // Only what the entry could not be found by before: a row says since when.
  void AddIndexRows(const Pending& pending, const RocksReader::Standing& old, Revision revision) {
    const std::string& key = pending.write.key;
    std::vector<IndexEntry> before;
    if (old.revision != 0 && schema_.index) before = schema_.index(key, *old.value);
    for (const IndexEntry& entry : pending.index) {
      if (std::find(before.begin(), before.end(), entry) != before.end()) continue;
      index_.push_back({IndexKey(entry.index, entry.value, key, revision), {}});
    }
  }

  // An entry that exists has a row that is early enough for what it was. That one is moved
  // when it comes due, so an entry that is written again and again costs one row in each lifetime.
  void AddExpiryRow(const std::string& key, const RocksReader::Standing& old,
                    const RocksReader::Standing& fresh, WallTime now) {
    const bool has_row = old.revision != 0 && old.expires > now && old.expires <= fresh.expires;
    if (has_row || fresh.expires == WallTime::max()) return;
    const std::string row = ExpiryKey(fresh.expires, fresh.created);
    rows_.Put(rocks_.expiry(), row, EncodeExpiry(row, key));
    first_due_ = std::min(first_due_, fresh.expires);
  }

  // The one that maintenance has come by, and the one that is there if the entry was written once.
  // Another may be left behind, until it comes due.
  void DeleteExpiryRows(const RocksReader::Standing& old, const std::string& known) {
    if (!known.empty()) rows_.Delete(rocks_.expiry(), known);
    if (old.expires == WallTime::max()) return;
    const std::string row = ExpiryKey(old.expires, old.created);
    if (row != known) rows_.Delete(rocks_.expiry(), row);
  }

  const RocksDb& rocks_;
  const Schema& schema_;
  const RocksReader reader_;
  const Revision before_;  // what this batch began with
  State state_;
  rocksdb::WriteBatch rows_;
  std::vector<Row> versions_;
  std::vector<Row> index_;
  RecentEntries::Standings changed_;  // also the new heads
  std::vector<std::shared_ptr<const Change>> changes_;
  WallTime first_due_ = WallTime::max();
};

void RocksStore::CommitBatch(std::vector<Pending>& batch) {
  // Kept until the state and the hub agree with the database: Reopen() reads both. Released before
  // completions and watches are called, which may call any method of the store.
  auto access = std::make_unique<const Access>(this);
  if (const Status status = access->status(); !status.ok()) {
    access.reset();
    for (Pending& pending : batch) pending.done(status);
    return;
  }
  BatchInHand hand(*access, options_.schema, state_);
  std::vector<Result<Written>> answers;
  answers.reserve(batch.size());
  std::uint64_t expired = 0;
  std::uint64_t evicted = 0;
  bool other_rules = false;
  const WallTime now = clock_.Now();
  for (Pending& pending : batch) {
    // Also those that were queued before: the queue may hold more than there is room for.
    if (no_room_ && pending.write.value) {
      answers.emplace_back(NoRoom());
      continue;
    }
    const Result<RocksReader::Standing> current = hand.Find(pending.write.key);
    if (!current) {
      answers.emplace_back(current.error());
      continue;
    }
    Written written;
    if ((pending.write.expected != Write::kAny && pending.write.expected != current->revision) ||
        (!pending.write.value && current->revision == 0)) {
      written.revision = hand.state().revision;
      if (current->revision != 0) {
        written.current = Entry{pending.write.key, current->value, current->revision};
      }
    } else {
      written.committed = true;
      written.revision = hand.Add(pending, *current, now);
      if (pending.write.value && pending.lifetime_rules != lifetimes_.rules) other_rules = true;
      if (pending.cause == Cause::kExpiry) ++expired;
      if (pending.cause == Cause::kEviction) ++evicted;
    }
    answers.emplace_back(std::move(written));
  }

  if (!hand.changes().empty()) {
    recent_.Forget(hand.changed());
    rocksdb::WriteBatch& rows = hand.Finish();
    if (other_rules && lifetimes_.complete) {
      rows.Delete(access->rocks().meta(), ToSlice(kLifetimesKey));
    }
    const Status status = WriteRows(access->rocks(), rows, /*sync=*/true);
    if (!status.ok()) {
      access.reset();
      // Also those whose condition did not hold: what it was checked against may not be.
      for (Pending& pending : batch) pending.done(Unavailable(status));
      return;
    }
    AtStep("committed");
    state_ = hand.state();
    if (other_rules) {
      lifetimes_.complete = false;
      lifetimes_.other_rules = true;
      refresh_ = true;
    }
    if (hand.first_due() < due_from_.load()) due_from_ = hand.first_due();
    expired_ += expired;
    evicted_ += evicted;
    CountWritten(rows.GetDataSize());
    recent_.Remember(hand.changed());
    Publish(state_);
    const WatchHub::Woken woken = hub_->Append(hand.changes(), state_.revision);
    access.reset();
    WatchHub::Wake(woken);
    AtStep("published");
  }
  access.reset();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch[i].done(std::move(answers[i]));
    batch[i] = Pending();  // what the completion holds is let go before the next wait
  }
}

void RocksStore::RunChore(Chore& chore) {
  const Access access(this);
  if (!access.status().ok()) {
    chore.done(access.status());
    return;
  }
  State state = state_;
  state.compacted = std::max(state.compacted, chore.compacted);
  state.watch_window_bytes -= std::min(state.watch_window_bytes, chore.watch_window_bytes);
  const bool skips = chore.skip_to > state.revision;
  if (skips) {
    state.revision = chore.skip_to;
    state.compacted = chore.skip_to;
  }
  chore.rows.Put(access.rocks().meta(), ToSlice(kStateKey), EncodeState(state));
  Lifetimes lifetimes = lifetimes_;
  if (chore.refresh_begins) {
    lifetimes = {.rules = *chore.refresh_begins};
    chore.rows.Delete(access.rocks().meta(), ToSlice(kLifetimesKey));
  }
  if (chore.refresh_ends && lifetimes.rules != 0 && !lifetimes.other_rules) {
    lifetimes.complete = true;
    chore.rows.Put(access.rocks().meta(), ToSlice(kLifetimesKey), EncodeLifetimes(lifetimes.rules));
  }
  // Deletions are not synced: if they are lost, they are done again.
  const Status status = WriteRows(access.rocks(), chore.rows, /*sync=*/skips);
  if (status.ok()) {
    state_ = state;
    lifetimes_ = lifetimes;
    Publish(state_);
  }
  chore.done(status);
}

Status RocksStore::WriteRows(const RocksDb& rocks, rocksdb::WriteBatch& rows, bool sync) {
  // Read once: Maintain() may end an outage at any moment, and a refusal must not become an ok.
  const Status health = Health();
  if (!health.ok()) {
    AtStep("refused");
    return health;
  }
  AtStep("before write");
  rocksdb::WriteOptions options;
  options.sync = sync;
  const rocksdb::Status written = rocks.db().Write(options, &rows);
  if (!written.ok()) {
    const Status status = FromRocks(written);
    SetUnhealthy(status);
    return status;
  }
  AtStep("written");
  return Status();
}

void RocksStore::CountWritten(std::size_t bytes) {
  const DiskBudget& budget = rocks_options_.db.budget;
  written_since_look_ += bytes;
  if (written_since_look_ < budget.look_every) return;
  written_since_look_ = 0;
  const std::uint64_t used = DirectoryBytes(rocks_options_.db.directory);
  if (used > budget.refuse_above) no_room_ = true;
  // Not at the next regular look: within a second a small cap would be used up.
  if (used > budget.evict_above && maintenance_ && !evicting_soon_.exchange(true)) {
    maintenance_->Post([this] { Maintain(); });
  }
}

void RocksStore::Publish(const State& state) {
  Saw(state.revision);
  MutexLock lock(mu_);
  published_ = state;
}

void RocksStore::Saw(Revision revision) {
  Revision visible = visible_.load();
  while (visible < revision && !visible_.compare_exchange_weak(visible, revision)) {
  }
}

// ---- health ----

void RocksStore::SetUnhealthy(const Status& why) {
  {
    MutexLock lock(mu_);
    if (!health_.ok()) return;
    health_ = why;
    healthy_ = false;
  }
  Say(LogLevel::kError, "the store cannot write", why.message());
}

Status RocksStore::Health() {
  MutexLock lock(mu_);
  return health_;
}

bool RocksStore::Recover() {
  if (healthy_) return true;
  // Damaged files do not heal by trying again.
  if (Health().Is(StatusReason::kCorruption)) return false;
  // While the disk takes nothing, the database that reads what is there must stay open.
  if (!Probe().ok()) return false;
  const Status reopened = Reopen();
  if (!reopened.ok()) {
    Say(LogLevel::kError, "the store cannot be opened again", reopened.message());
    return false;
  }
  AtStep("reopened");
  {
    MutexLock lock(mu_);
    health_ = Status();
    healthy_ = true;
  }
  Say(LogLevel::kInfo, "the store can write again", "");
  return true;
}

Status RocksStore::Probe() {
  // Enough that opening the database, which writes less, is likely to work, too.
  constexpr std::size_t kProbeBytes = 1u << 20;
  const std::string name = (rocks_options_.db.directory / "probe.tmp").string();
  const rocksdb::Status status =
      rocksdb::WriteStringToFile(env(), std::string(kProbeBytes, '\0'), name, /*should_sync=*/true);
  env()->DeleteFile(name).PermitUncheckedError();
  return FromRocks(status);
}

Status RocksStore::Reopen() {
  WatchHub::Woken woken;
  {
    MutexLock gate(gate_);
    replacing_ = true;
    std::unique_lock lock(rocks_mu_, std::try_to_lock);
    if (!lock) {
      AtStep("waiting to reopen");
      lock.lock();
    }
    replacing_ = false;  // whoever comes now waits for the lock itself
    rocks_.reset();
    Result<std::unique_ptr<RocksDb>> opened = RocksDb::Open(rocks_options_.db);
    if (!opened) {
      RocksDbOptions read_only = rocks_options_.db;
      read_only.read_only = true;
      read_only.check_mark = false;  // what is there can be read
      Result<std::unique_ptr<RocksDb>> readable = RocksDb::Open(read_only);
      if (readable) rocks_ = std::move(*readable);
      return opened.error();
    }
    rocks_ = std::move(*opened);
    state_ = rocks_->state();
    ReadLifetimes();
    recent_.Clear();
    // A batch whose writers were told of a failure may have reached the log whole.
    std::vector<std::shared_ptr<const Change>> changes;
    Revision told = hub_->head();
    while (told < state_.revision) {
      Result<Watch::Batch> batch =
          ReaderOf(*rocks_).Changes("", told, state_.revision, kMaxBatchWrites);
      if (!batch) return batch.error();
      told = batch->revision;
      changes.insert(changes.end(), batch->changes.begin(), batch->changes.end());
    }
    Publish(state_);
    if (!changes.empty()) woken = hub_->Append(changes, state_.revision);
  }
  WatchHub::Wake(woken);
  return Status();
}

void RocksStore::Say(LogLevel level, std::string_view message, const std::string& error) const {
  if (!rocks_options_.log) return;
  LogEntry entry{level, message, {}};
  if (!error.empty()) entry.fields.emplace_back("error", error);
  rocks_options_.log(entry);
}

// ---- reads ----

RocksReader RocksStore::ReaderOf(const RocksDb& rocks) const {
  return RocksReader(&rocks, &options_.schema, &recent_);
}

Status RocksStore::CheckRevision(Revision at) const {
  const Revision compacted = compacted_.load();
  if (at >= compacted) return Status();
  return Status(
      StatusReason::kExpired,
      fmt::format("revision {} is no longer kept: the watch window begins at {}", at, compacted));
}

Result<std::optional<Entry>> RocksStore::GetNow(const std::string& key,
                                                RocksReader::Effort effort) {
  const Access access(this);
  if (!access.status().ok()) return access.status();
  Result<RocksReader::Standing> standing = access.reader().Newest(key, effort);
  if (!standing) return standing.error();
  if (standing->revision == 0) return std::optional<Entry>();
  Saw(standing->revision);
  return std::optional<Entry>(Entry{key, std::move(standing->value), standing->revision});
}

void RocksStore::Get(std::string key, EntryDone done) {
  Result<std::optional<Entry>> entry = GetNow(key, kInline);
  if (entry || !entry.error().Is(StatusReason::kCancelled)) {
    done(std::move(entry));
    return;
  }
  readers_->Post(
      [this, key = std::move(key), done = std::move(done)] { done(GetNow(key, kThorough)); });
}

Result<RocksReader::Slice> RocksStore::ReadAt(const Query& query, RocksReader::Effort effort,
                                              Page so_far) {
  const Access access(this);
  if (!access.status().ok()) return access.status();
  if (query.at != 0) {
    const Revision visible = visible_.load();
    if (query.at > visible) {
      return Status(StatusReason::kBadRequest,
                    fmt::format("revision {} is yet to come: the latest is {}", query.at, visible));
    }
    const Status before = CheckRevision(query.at);
    if (!before.ok()) return before;
  }
  Result<RocksReader::Slice> slice = access.reader().Read(query, effort, std::move(so_far));
  if (query.at != 0) {
    // Compaction may have begun between the look at the revision and the moment of the read.
    const Status after = CheckRevision(query.at);
    if (!after.ok()) return after;
  } else if (slice) {
    Saw(slice->page.revision);
  }
  return slice;
}

FairQueue::Step RocksStore::ReadSlice(const ReadingPtr& reading, RocksReader::Effort effort) {
  if (reading->query.is_cancelled()) {
    reading->Answer(Status(StatusReason::kCancelled, "the read was cancelled"));
    return {};
  }
  Result<RocksReader::Slice> slice =
      ReadAt(reading->query, effort, std::exchange(reading->page, Page()));
  // In one go this time, which compaction cannot interrupt.
  if (!slice && reading->RestartIfExpired(slice.error())) {
    slice = ReadAt(reading->query, kThorough, {});
  }
  if (!slice && slice.error().Is(StatusReason::kCancelled) && effort.max_value_bytes > 0) {
    reading->Restart();
    Queue(slow_read_queue_.get(), reading, kOneSlowSlice);
    return {.cost = effort.max_cost};
  }
  if (!slice) {
    reading->Answer(slice.error());
    return {};
  }
  const std::size_t cost = slice->cost;
  const bool done = !reading->Take(*std::move(slice));
  if (done) reading->Answer(std::move(reading->page));
  return {.cost = cost, .done = done};
}

void RocksStore::Queue(FairQueue* queue, const ReadingPtr& reading, RocksReader::Effort effort) {
  const Query& query = reading->query;
  const Status rejected =
      queue->Add(query.flow, query.background ? FairQueue::Kind::kLong : FairQueue::Kind::kShort,
                 [this, reading, effort] { return ReadSlice(reading, effort); });
  if (!rejected.ok()) reading->Answer(rejected);
}

void RocksStore::Read(Query query, PageDone done) {
  const auto reading = std::make_shared<Reading>(std::move(query), std::move(done));
  if (!reading->query.background) {
    Result<RocksReader::Slice> slice =
        ReadAt(reading->query, reading->query.filter ? kInlineFiltered : kInline, {});
    if (slice) {
      if (!reading->Take(*std::move(slice))) return reading->Answer(std::move(reading->page));
    } else if (!slice.error().Is(StatusReason::kCancelled)) {
      return reading->Answer(slice.error());
    }
  }
  Queue(read_queue_.get(), reading, kOneSlice);
}

void RocksStore::CurrentRevision(std::function<void(Result<Revision>)> done) {
  done(visible_.load());
}

Result<std::unique_ptr<Watch>> RocksStore::NewWatch(std::string prefix, Revision after,
                                                    std::function<void()> ready) {
  // What a read has seen is not new, even where the hub has yet to hear of it.
  return hub_->NewWatch(std::move(prefix), after == 0 ? visible_.load() : after, std::move(ready));
}

Result<Watch::Batch> RocksStore::ReadLog(const std::string& prefix, Revision after,
                                         std::size_t max) {
  const Access access(this);
  if (!access.status().ok()) return access.status();
  const Status before = CheckRevision(after);
  if (!before.ok()) return before;
  AtStep("before log read");
  Result<Watch::Batch> batch = access.reader().Changes(prefix, after, visible_.load(), max);
  if (batch) return batch;
  // A row that is missing is damage, unless compaction took it meanwhile.
  const Status gone = CheckRevision(after);
  if (!gone.ok()) return gone;
  if (!batch.error().Is(StatusReason::kNotFound)) return batch;
  return Status(StatusReason::kCorruption, batch.error().message());
}

StoreStats RocksStore::Stats() {
  StoreStats stats;
  {
    MutexLock lock(mu_);
    stats.entries = published_.entries;
    stats.complete_since = published_.complete_since;
  }
  stats.revision = visible_;
  stats.compacted = compacted_;
  stats.expired = expired_;
  stats.evicted = evicted_;
  stats.watches = hub_->watches();
  stats.clock_jumps = clock_guard_.jumps();
  stats.expiry_held = clock_guard_.held();
  const Access access(this);
  if (access.status().ok()) stats.bytes_on_disk = access.rocks().BytesOnDisk();
  return stats;
}

// ---- maintenance ----

void RocksStore::MaintainAndCallAgain() {
  Maintain();
  maintenance_->PostAt(maintenance_->clock().Steady() + kMaintenanceInterval,
                       [this] { MaintainAndCallAgain(); });
}

void RocksStore::RefreshLifetimes() {
  refresh_ = true;
  if (maintenance_) maintenance_->Post([this] { Maintain(); });
}

std::uint64_t RocksStore::LifetimeRules() const {
  constexpr std::uint64_t kRulesThatNeverChange = 1;
  return options_.schema.lifetime_rules ? options_.schema.lifetime_rules() : kRulesThatNeverChange;
}

void RocksStore::ReadLifetimes() {
  lifetimes_ = {.rules = rocks_->lifetimes().value_or(0),
                .complete = rocks_->lifetimes().has_value()};
  if (!lifetimes_.complete || lifetimes_.rules != LifetimeRules()) refresh_ = true;
}

void RocksStore::AcceptClock() {
  clock_guard_.Accept();
  if (maintenance_) maintenance_->Post([this] { Maintain(); });
}

void RocksStore::RecordClock() {
  const std::optional<ClockRecord> record = clock_guard_.TakeRecord();
  if (!record) return;
  Chore chore;
  chore.rows.Put(rocks_->meta(), ToSlice(kClockKey), EncodeClock(*record));
  // If it is lost, the next one comes in a minute.
  (void)SubmitAndWait(std::move(chore));
}

void RocksStore::Maintain() {
  MutexLock lock(maintain_mu_);
  if (!Recover()) return;
  MarkRevision();
  Refresh();
  Expire();
  RecordClock();
  Compact(/*everything=*/false);
  Evict();
}

// An entry's time is what its version says, or an earlier or later row of the expiry
// index that this makes: when a row comes due, the lifetime is asked for again, so a
// row that is too early costs one look, and each entry has one that is not too late.
void RocksStore::Refresh() {
  if (!refresh_.exchange(false)) return;
  // Asked before any lifetime, so that rules which change meanwhile are found to be others.
  Chore begin;
  begin.refresh_begins = LifetimeRules();
  if (!SubmitAndWait(std::move(begin)).ok()) {
    refresh_ = true;  // when it can write again
    return;
  }
  // Entries between two looks at what is due already.
  constexpr std::size_t kSlice = 20'000;
  const RocksReader reader = ReaderOf(*rocks_);
  const WallTime now = clock_.Now();
  std::string from;
  std::string seen;
  for (;;) {
    Chore chore;
    WallTime first_due = WallTime::max();
    std::size_t visited = 0;
    {
      rocksdb::ReadOptions options;
      options.fill_cache = false;
      options.total_order_seek = true;
      const std::unique_ptr<rocksdb::Iterator> rows(
          rocks_->db().NewIterator(options, rocks_->versions()));
      for (rows->Seek(from); rows->Valid() && visited < kSlice && !stopping_; rows->Next()) {
        ++visited;
        const std::string_view row_key = ToView(rows->key());
        from.assign(row_key);
        from += '\0';
        const auto parsed = ParseVersionKey(row_key);
        if (!parsed || parsed->key == seen) continue;
        seen = parsed->key;
        const auto version = DecodeVersion(row_key, ToView(rows->value()));
        // Damage is found and named by whoever needs the entry.
        if (!version || version->deleted) continue;
        const WallTime expires =
            options_.schema.ExpiryOf(parsed->key, version->value, version->written);
        // Its row is at its old time at the latest. Where it came due and was found too early it is
        // at the time of the rules of that day.
        const bool has_row = version->expires > now && version->expires <= expires;
        if (has_row || expires == WallTime::max()) continue;
        const Result<Revision> created = reader.Head(parsed->key, kThorough);
        if (!created || *created == 0) continue;
        const std::string row = ExpiryKey(expires, *created);
        chore.rows.Put(rocks_->expiry(), row, EncodeExpiry(row, parsed->key));
        first_due = std::min(first_due, expires);
      }
      if (!rows->status().ok()) {
        // The next start tries again.
        Say(LogLevel::kError, "the rules cannot be applied to all entries",
            rows->status().ToString());
        return;
      }
    }
    if (stopping_) return;
    if (chore.rows.Count() > 0) {
      if (!SubmitAndWait(std::move(chore)).ok()) {
        refresh_ = true;  // when it can write again
        return;
      }
      if (first_due < due_from_.load()) due_from_ = first_due;
      Expire();
    }
    if (visited < kSlice) break;
  }
  Chore end;
  end.refresh_ends = true;
  if (!SubmitAndWait(std::move(end)).ok()) refresh_ = true;
}

void RocksStore::Expire() {
  const std::optional<WallTime> looked = clock_guard_.Look();
  if (!looked) return;
  const WallTime now = *looked;
  const RocksReader reader = ReaderOf(*rocks_);
  const WallTime from = due_from_.load();
  // What the next look must begin with: now, unless a row has to stay where it is.
  WallTime next_from = now;
  std::string low = ExpiryKey(from, 0);
  const std::string high = ExpiryKey(now + std::chrono::nanoseconds(1), 0);
  for (bool more = true; more && !stopping_;) {
    std::vector<Doomed> due;
    WallTime first_due = now;
    Chore chore;
    {
      const rocksdb::Slice lower = low;
      const rocksdb::Slice upper = high;
      rocksdb::ReadOptions options;
      options.iterate_lower_bound = &lower;
      options.iterate_upper_bound = &upper;
      const std::unique_ptr<rocksdb::Iterator> rows(
          rocks_->db().NewIterator(options, rocks_->expiry()));
      std::size_t visited = 0;
      std::string last;
      for (rows->SeekToFirst(); rows->Valid() && visited < kPortion; rows->Next(), ++visited) {
        last.assign(ToView(rows->key()));
        const auto row = ParseExpiryKey(last);
        const auto key = DecodeExpiry(last, ToView(rows->value()));
        if (!row || !key) {
          Say(LogLevel::kError, "a row of the expiry index is damaged", "");
          chore.rows.Delete(rocks_->expiry(), last);
          continue;
        }
        const Result<std::optional<Due>> result =
            FindDue(reader, std::string(*key), row->created, now);
        if (!result) {
          // It stays, for whoever repairs it, and must not stop the others.
          Say(LogLevel::kError, "an entry that is due cannot be read", result.error().message());
          next_from = std::min(next_from, row->when);
          continue;
        }
        const std::optional<Due>& found = *result;
        if (found && found->expires <= now) {
          first_due = std::min(first_due, row->when);
          due.push_back({std::string(*key), found->revision, last});
          continue;
        }
        chore.rows.Delete(rocks_->expiry(), last);
        if (found && found->next_row != WallTime::max()) {
          const std::string moved = ExpiryKey(found->next_row, row->created);
          chore.rows.Put(rocks_->expiry(), moved, EncodeExpiry(moved, *key));
        }
      }
      more = visited == kPortion;
      low = last + '\0';
    }
    const std::size_t count = due.size();
    const Result<std::size_t> deleted = DeleteAndWait(std::move(due), Cause::kExpiry);
    if (!deleted) return;
    // Someone was faster and wrote it again: its row stays where it is, and is looked at once more.
    if (*deleted < count) next_from = std::min(next_from, first_due);
    if (chore.rows.Count() > 0 && !SubmitAndWait(std::move(chore)).ok()) return;
  }
  // Someone may have put an earlier row there meanwhile, by a clock that was set back.
  WallTime expected = from;
  if (!stopping_) due_from_.compare_exchange_strong(expected, next_from);
}

Result<std::optional<RocksStore::Due>> RocksStore::FindDue(const RocksReader& reader,
                                                           const std::string& key, Revision created,
                                                           WallTime now) const {
  const Result<RocksReader::Standing> standing = reader.NewestWithCreation(key, kThorough);
  if (!standing) return standing.error();
  if (standing->revision == 0 || standing->created != created) return std::optional<Due>();
  Due due{.revision = standing->revision,
          .expires = options_.schema.ExpiryOf(key, *standing->value, standing->written)};
  // Not behind the time that the version itself says: whoever writes the entry again relies on it.
  due.next_row = standing->expires > now ? std::min(due.expires, standing->expires) : due.expires;
  return std::optional<Due>(due);
}

void RocksStore::DropIndexRows(const RocksReader& reader, const RocksReader::Standing& previous,
                               const LogRow& log, Revision revision, rocksdb::Iterator& index,
                               rocksdb::WriteBatch& rows) const {
  std::vector<IndexEntry> gone = options_.schema.index(log.key, *previous.value);
  if (!log.deleted) {
    const Result<RocksReader::Standing> next = reader.Version(log.key, revision, kThorough);
    if (!next) {
      Say(LogLevel::kError, "a version whose index rows are to be compacted cannot be read",
          next.error().message());
      return;
    }
    const std::vector<IndexEntry> kept = options_.schema.index(log.key, *next->value);
    std::erase_if(gone, [&kept](const IndexEntry& entry) {
      return std::find(kept.begin(), kept.end(), entry) != kept.end();
    });
  }
  if (gone.empty()) return;
  // Where the version created the key, all its rows are its own. Else they say since when.
  const Result<RocksReader::Logged> logged =
      gone.size() > 1 ? reader.Log(previous.revision, kThorough)
                      : Result<RocksReader::Logged>(Status(StatusReason::kNotFound, "not needed"));
  const bool all_its_own = logged && logged->previous == 0;
  for (const IndexEntry& entry : gone) {
    const std::string last = IndexKey(entry.index, entry.value, log.key, previous.revision);
    if (all_its_own) {
      rows.Delete(rocks_->index(), last);
      continue;
    }
    for (index.Seek(IndexKey(entry.index, entry.value, log.key, 0));
         index.Valid() && ToView(index.key()) <= last; index.Next()) {
      rows.Delete(rocks_->index(), index.key());
    }
  }
}

void RocksStore::Compact(bool everything) {
  const RocksReader reader = ReaderOf(*rocks_);
  const std::optional<WallTime> now = clock_guard_.Look();
  // Without a clock that can be believed, only the bytes count: a jump must not end every watch.
  const WallTime keep_from = now ? *now - options_.watch_window : WallTime();
  const std::uint64_t max_watch_window_bytes =
      std::min(options_.max_watch_window_bytes, rocks_options_.db.budget.max_watch_window_bytes);
  while (!stopping_) {
    State state;
    {
      MutexLock lock(mu_);
      state = published_;
    }
    Chore chore;
    chore.compacted = state.compacted;
    std::size_t visited = 0;
    bool more = false;
    {
      const std::string high = LogKey(state.revision + 1);
      const rocksdb::Slice upper = high;
      rocksdb::ReadOptions options;
      options.iterate_upper_bound = &upper;
      options.fill_cache = false;
      const std::unique_ptr<rocksdb::Iterator> rows(
          rocks_->db().NewIterator(options, rocks_->log()));
      rocksdb::ReadOptions index_options;
      index_options.fill_cache = false;
      const std::unique_ptr<rocksdb::Iterator> index(
          rocks_->db().NewIterator(index_options, rocks_->index()));
      for (rows->Seek(LogKey(state.compacted + 1)); rows->Valid(); rows->Next()) {
        const std::string_view row_key = ToView(rows->key());
        const auto revision = ParseLogKey(row_key);
        const auto log = DecodeLog(row_key, ToView(rows->value()));
        if (!revision || !log) {
          Say(LogLevel::kError, "a row of the log is damaged, so old versions cannot be compacted",
              std::string());
          return;
        }
        const bool too_large =
            state.watch_window_bytes > max_watch_window_bytes + chore.watch_window_bytes;
        if (!everything && !too_large && log->written >= keep_from) break;
        if (++visited > kCompactRows || chore.rows.Count() > kCompactDeletes) {
          more = true;
          break;
        }
        chore.compacted = *revision;
        chore.watch_window_bytes += LogBytes(log->key.size());
        if (log->previous != 0) {
          const Result<RocksReader::Standing> old =
              reader.Version(log->key, log->previous, kThorough);
          if (old) {
            chore.watch_window_bytes += EntryBytes(log->key.size(), old->value->size());
            if (options_.schema.index) {
              DropIndexRows(reader, *old, *log, *revision, *index, chore.rows);
            }
          } else {
            Say(LogLevel::kError, "a version that is to be compacted cannot be read",
                old.error().message());
          }
          chore.rows.Delete(rocks_->versions(), VersionKey(log->key, log->previous));
          chore.rows.Delete(rocks_->log(), LogKey(log->previous));
        }
        if (log->deleted) {
          chore.rows.Delete(rocks_->versions(), VersionKey(log->key, *revision));
          chore.rows.Delete(rocks_->log(), row_key);
        }
      }
    }
    if (chore.compacted == state.compacted) return;
    // First nobody may read it any more, then it goes.
    compacted_ = chore.compacted;
    hub_->Compacted(chore.compacted);
    reclaimable_ += chore.watch_window_bytes;
    if (!SubmitAndWait(std::move(chore)).ok()) return;
    if (!more) return;
  }
}

Status RocksStore::SkipTo(Revision revision) {
  MutexLock lock(maintain_mu_);
  Compact(/*everything=*/true);
  {
    MutexLock state_lock(mu_);
    if (published_.compacted != published_.revision) {
      return Status(StatusReason::kCorruption, "old versions cannot be compacted");
    }
    revision = std::max(revision, published_.revision);
  }
  Chore chore;
  chore.skip_to = revision;
  const Status skipped = SubmitAndWait(std::move(chore));
  if (!skipped.ok()) return skipped;
  compacted_ = revision;
  WatchHub::Wake(hub_->Skip(revision));
  hub_->Compacted(revision);
  marked_ = 0;
  MarkRevision();
  return Status();
}

bool RocksStore::Reclaim() {
  reclaimable_ = 0;
  if (!rocks_->FlushAll().ok()) return false;
  for (rocksdb::ColumnFamilyHandle* family : rocks_->all()) {
    rocksdb::CompactRangeOptions options;
    options.exclusive_manual_compaction = false;
    // What has been deleted or replaced is in levels above the last, or goes when these are merged
    // into it. To write all of the last one anew would take twice the room for nothing.
    options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kSkip;
    if (!rocks_->db().CompactRange(options, family, nullptr, nullptr).ok()) return false;
  }
  return true;
}

void RocksStore::Evict() {
  if (options_.max_bytes == 0) return;
  evicting_soon_ = false;
  const DiskBudget& budget = rocks_options_.db.budget;
  // Each round deletes a share of the entries; more than a few are needed only where estimates
  // are far off.
  constexpr int kMaxRounds = 5;
  for (int round = 0; round < kMaxRounds && !stopping_; ++round) {
    if (rocks_->BytesOnDisk() <= budget.evict_above) break;
    // What RocksDB has yet to throw away counts as used. Where that is much, first let it: it
    // costs as much as the eviction.
    if (reclaimable_ > budget.evict_to / 16) {
      if (!Reclaim()) return;
      if (rocks_->BytesOnDisk() <= budget.evict_above) break;
    }
    // The rest are files that somebody still reads, and the log. No eviction makes these go.
    const std::uint64_t live = rocks_->LiveBytes();
    if (live <= budget.evict_to) {
      if (!rocks_->FlushAll().ok()) return;
      break;
    }
    State state;
    {
      MutexLock lock(mu_);
      state = published_;
    }
    if (state.entries == 0) break;
    const double share = 1 - static_cast<double>(budget.evict_to) / static_cast<double>(live);
    const auto all = static_cast<double>(state.live_bytes + state.watch_window_bytes);
    EvictBytes(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(share * all)));
    // The old versions of evicted entries takes the room that it should have made.
    Compact(/*everything=*/true);
    if (!Reclaim()) return;
  }
  no_room_ = rocks_->BytesOnDisk() > budget.refuse_above;
}

void RocksStore::EvictBytes(std::uint64_t bytes) {
  const RocksReader reader = ReaderOf(*rocks_);
  std::uint64_t evicted = 0;
  while (evicted < bytes && !stopping_) {
    std::vector<Doomed> oldest;
    std::size_t visited = 0;
    {
      rocksdb::ReadOptions options;
      options.fill_cache = false;
      const std::unique_ptr<rocksdb::Iterator> rows(
          rocks_->db().NewIterator(options, rocks_->log()));
      for (rows->Seek(LogKey(oldest_from_)); rows->Valid() && evicted < bytes; rows->Next()) {
        if (++visited > kCompactRows || oldest.size() >= kPortion) break;
        const auto revision = ParseLogKey(ToView(rows->key()));
        const auto log = DecodeLog(ToView(rows->key()), ToView(rows->value()));
        if (!revision || !log) continue;
        oldest_from_ = *revision + 1;
        const std::string key(log->key);
        const Result<RocksReader::Standing> standing = reader.Newest(key, kThorough);
        if (!standing || standing->revision != *revision) continue;
        evicted += EntryBytes(key.size(), standing->value->size());
        oldest.push_back({key, *revision, {}});
      }
    }
    if (visited == 0 || !DeleteAndWait(std::move(oldest), Cause::kEviction)) return;
  }
}

// ---- backup ----

Status RocksStore::Backup(const std::filesystem::path& target, BackupMode mode) {
  const Access access(this);
  if (!access.status().ok()) return access.status();
  // Whoever replaces the database waits for this access, and everyone else for that.
  return BackupDatabase(&access.rocks().db(), target, mode,
                        [this] { return stopping_ || replacing_; });
}

}  // namespace herald::store
