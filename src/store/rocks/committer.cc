#include "store/rocks/committer.h"

#include <rocksdb/write_batch.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "base/thread/mutex.h"
#include "base/thread/thread_name.h"
#include "store/rocks/batch_builder.h"
#include "store/rocks/errors.h"

namespace herald::store {
namespace {

// Limit on the writes of one group. A larger group saves nothing on the sync, and its first writer
// waits for its last. The limit on its bytes is DiskBudget::batch_bytes.
constexpr std::size_t kMaxGroupWrites = 512;

Status DiskFull() {
  return Status(Status::Parts{
      .reason = StatusReason::kTooManyRequests,
      .message = "the data directory has reached its size limit; old entries are being evicted",
      .retry_after = std::chrono::seconds(1)});
}

Status CannotWrite(const Status& why) {
  return ServiceUnavailable("the store cannot write: " + why.message(), kRetryAfterFault);
}

}  // namespace

// The writes that are committed together.
struct Committer::Group {
  std::unique_ptr<BatchBuilder> batch{};
  std::vector<Result<Written>> results{};  // in the order of the writes
  std::uint64_t expired = 0;
  std::uint64_t evicted = 0;
  bool other_rules = false;   // a lifetime follows other rules than those of the stored entries
  LifetimeState lifetimes{};  // after the group
  std::size_t bytes = 0;      // of the rows
};

Committer::Committer(Parts parts) : parts_(parts) {}

Committer::~Committer() { Stop(); }

void Committer::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Committer::Stop() {
  queue_.Close();
  if (thread_.joinable()) thread_.join();
}

const State& Committer::Reload(const RocksDb& rocks) {
  state_ = rocks.state();
  parts_.lifetimes->Load(rocks);
  return state_;
}

void Committer::Commit(Write write, Store::WriteDone done) {
  if (!parts_.health->ok()) {
    const Status health = parts_.health->status();
    // Ok if Recovery has ended the outage since.
    if (!health.ok()) {
      done(CannotWrite(health));
      return;
    }
  }
  if (parts_.disk->full() && write.value) {
    done(DiskFull());
    return;
  }
  const Schema& schema = *parts_.schema;
  PendingWrite pending;
  if (write.value) {
    if (schema.index) pending.index = schema.index(write.key, *write.value);
    pending.lifetime_rules = parts_.lifetimes->CurrentRules();
    pending.lifetime =
        schema.lifetime ? schema.lifetime(write.key, *write.value) : std::chrono::seconds::max();
    // The rules are read before and after, because the lifetime may follow either.
    if (parts_.lifetimes->CurrentRules() != pending.lifetime_rules) pending.lifetime_rules = 0;
  }
  pending.bytes = write.key.size() + (write.value ? write.value->size() : 0);
  pending.write = std::move(write);
  pending.done = std::move(done);
  if (queue_.Add(pending)) return;
  pending.done(ServiceUnavailable("too many writes wait for the disk", kRetryAfterOverload));
}

Status Committer::WriteAndWait(MaintenanceWrite write) {
  std::promise<Status> done;
  write.done = [&done](const Status& status) { done.set_value(status); };
  queue_.Add(std::move(write));
  return done.get_future().get();
}

Result<std::size_t> Committer::DeleteAndWait(std::vector<Deletion> deletions, WriteCause cause) {
  if (deletions.empty()) return std::size_t{0};
  struct Progress {
    Mutex mu;
    Status failure GUARDED_BY(mu);
    std::size_t left GUARDED_BY(mu) = 0;
    std::size_t deleted GUARDED_BY(mu) = 0;
    std::promise<Result<std::size_t>> all;
  };
  Progress progress;
  {
    MutexLock lock(progress.mu);
    progress.left = deletions.size();
  }
  std::vector<PendingWrite> writes;
  writes.reserve(deletions.size());
  for (Deletion& deletion : deletions) {
    PendingWrite pending;
    pending.write = {std::move(deletion.key), nullptr, deletion.revision};
    pending.cause = cause;
    pending.expiry_row = std::move(deletion.expiry_row);
    pending.done = [&progress](const Result<Written>& written) {
      std::optional<Result<std::size_t>> result;
      {
        MutexLock lock(progress.mu);
        if (!written) progress.failure = written.error();
        if (written && written->committed) ++progress.deleted;
        if (--progress.left == 0) {
          result = progress.failure.ok() ? Result<std::size_t>(progress.deleted)
                                         : Result<std::size_t>(progress.failure);
        }
      }
      if (result) progress.all.set_value(*std::move(result));
    };
    writes.push_back(std::move(pending));
  }
  std::future<Result<std::size_t>> all = progress.all.get_future();
  queue_.AddAll(std::move(writes));
  return all.get();
}

void Committer::Run() {
  NameThisThread("herald-commit");
  std::vector<PendingWrite> group;
  std::vector<PendingWrite> waiting;  // taken from the queue, not yet in a group
  std::size_t next = 0;
  for (;;) {
    const bool idle = next == waiting.size();
    if (idle) {
      waiting.clear();
      next = 0;
    }
    std::vector<MaintenanceWrite> maintenance;
    if (!queue_.Take(/*wait=*/idle, &waiting, &maintenance)) return;
    for (MaintenanceWrite& write : maintenance) RunMaintenanceWrite(write);
    group.clear();
    std::size_t bytes = 0;
    while (next < waiting.size() && group.size() < kMaxGroupWrites &&
           bytes < parts_.options->db.budget.batch_bytes) {
      bytes += waiting[next].bytes;
      group.push_back(std::move(waiting[next++]));
    }
    const SteadyTime now = parts_.clock->Steady();
    if (!group.empty()) CommitGroup(group);
    parts_.marker->MarkIfDue(now);
  }
}

void Committer::CommitGroup(std::vector<PendingWrite>& writes) {
  std::optional<SharedDatabase::Access> access(std::in_place, parts_.database);
  if (const Status status = access->status(); !status.ok()) {
    access.reset();
    for (PendingWrite& pending : writes) pending.done(status);
    return;
  }
  Group group = Check(writes, *access);
  if (!group.batch->changes().empty()) {
    const Status status = WriteGroup(group, access->rocks());
    if (!status.ok()) {
      access.reset();
      // Also writes whose condition did not hold: it was checked against writes that failed.
      for (PendingWrite& pending : writes) pending.done(CannotWrite(status));
      return;
    }
    const WatchHub::Woken woken = Publish(group);
    access.reset();
    WatchHub::Wake(woken);
    parts_.options->ReachStep("published");
  }
  access.reset();
  for (std::size_t i = 0; i < writes.size(); ++i) {
    writes[i].done(std::move(group.results[i]));
    writes[i] = PendingWrite();  // frees what the completion holds before the next wait
  }
}

Committer::Group Committer::Check(std::vector<PendingWrite>& writes,
                                  const SharedDatabase::Access& access) {
  Group group;
  group.batch =
      std::make_unique<BatchBuilder>(&access.rocks(), access.reader(), parts_.schema, state_);
  group.lifetimes = parts_.lifetimes->state();
  group.results.reserve(writes.size());
  const WallTime now = parts_.clock->Now();
  for (PendingWrite& pending : writes) {
    const Write& write = pending.write;
    // Also for writes that were accepted before: the queue may hold more than there is room for.
    if (parts_.disk->full() && write.value) {
      group.results.emplace_back(DiskFull());
      continue;
    }
    const Result<KeyState> current = group.batch->Find(write.key);
    if (!current) {
      group.results.emplace_back(current.error());
      continue;
    }
    Written written;
    if ((write.expected != Write::kAny && write.expected != current->revision) ||
        (!write.value && current->revision == 0)) {
      written.revision = group.batch->state().revision;
      if (current->revision != 0) {
        written.current = Entry{write.key, current->value, current->revision};
      }
    } else {
      written.committed = true;
      written.revision = group.batch->Add(pending, *current, now);
      if (write.value && pending.lifetime_rules != group.lifetimes.rules) group.other_rules = true;
      if (pending.cause == WriteCause::kExpiry) ++group.expired;
      if (pending.cause == WriteCause::kEviction) ++group.evicted;
    }
    group.results.emplace_back(std::move(written));
  }
  return group;
}

Status Committer::WriteGroup(Group& group, const RocksDb& rocks) {
  parts_.database->recent().Forget(group.batch->changed_keys());
  rocksdb::WriteBatch& rows = group.batch->BuildRows();
  if (group.other_rules) group.lifetimes.AddOtherRules(rocks, &rows);
  group.bytes = rows.GetDataSize();
  return WriteRows(rocks, rows, /*sync=*/true);
}

WatchHub::Woken Committer::Publish(Group& group) {
  const BatchBuilder& batch = *group.batch;
  parts_.options->ReachStep("committed");
  state_ = batch.state();
  parts_.lifetimes->set_state(group.lifetimes);
  if (group.other_rules) parts_.lifetimes->RequestRefresh();
  parts_.expiry_cursor->Lower(batch.first_expiry_row());
  expired_ += group.expired;
  evicted_ += group.evicted;
  parts_.disk->CountWritten(group.bytes);
  parts_.database->recent().Remember(batch.changed_keys());
  parts_.published->Publish(state_);
  return parts_.hub->Append(batch.changes(), state_.revision);
}

void Committer::RunMaintenanceWrite(MaintenanceWrite& write) {
  const SharedDatabase::Access access(parts_.database);
  if (!access.status().ok()) {
    write.done(access.status());
    return;
  }
  State state = state_;
  state.compacted = std::max(state.compacted, write.compacted);
  state.watch_window_bytes -= std::min(state.watch_window_bytes, write.watch_window_bytes);
  const bool skips = write.skip_to > state.revision;
  if (skips) {
    state.revision = write.skip_to;
    state.compacted = write.skip_to;
  }
  write.rows.Put(access.rocks().meta(), ToSlice(kStateKey), EncodeState(state));
  LifetimeState lifetimes = parts_.lifetimes->state();
  if (write.refresh_begins) {
    lifetimes.BeginRefresh(*write.refresh_begins, access.rocks(), &write.rows);
  }
  if (write.refresh_ends) lifetimes.EndRefresh(access.rocks(), &write.rows);
  const Status status = WriteRows(access.rocks(), write.rows, /*sync=*/skips);
  if (status.ok()) {
    state_ = state;
    parts_.lifetimes->set_state(lifetimes);
    parts_.published->Publish(state_);
  }
  write.done(status);
}

Status Committer::WriteRows(const RocksDb& rocks, rocksdb::WriteBatch& rows, bool sync) {
  // Read once: Recovery may end an outage at any moment, and a rejection must not become an ok.
  const Status health = parts_.health->status();
  if (!health.ok()) {
    parts_.options->ReachStep("rejected");
    return health;
  }
  parts_.options->ReachStep("before write");
  rocksdb::WriteOptions options;
  options.sync = sync;
  const rocksdb::Status written = rocks.db().Write(options, &rows);
  if (!written.ok()) {
    const Status status = FromRocks(written);
    parts_.health->Fail(status);
    return status;
  }
  parts_.options->ReachStep("written");
  return Status();
}

}  // namespace herald::store
