#include "store/rocks/maintenance.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "store/rocks/format.h"

namespace herald::store {
namespace {

// How often maintenance runs. Entries expire at most this long after their time.
constexpr std::chrono::seconds kInterval{1};

}  // namespace

void Maintenance::Start() {
  executor_ = std::make_unique<Executor>();
  executor_->Post([this] { RunAndRepeat(); });
}

void Maintenance::Stop() {
  if (executor_) executor_->Stop();
}

void Maintenance::RunAndRepeat() {
  Run();
  executor_->PostAt(executor_->clock().Steady() + kInterval, [this] { RunAndRepeat(); });
}

void Maintenance::RequestRun() {
  if (executor_) executor_->Post([this] { Run(); });
}

void Maintenance::Run() {
  MutexLock lock(mu_);
  if (!parts_.recovery->Recover()) return;
  parts_.marker->Mark();
  parts_.expirer->Refresh();
  parts_.expirer->Expire();
  SaveClockRecord();
  parts_.compactor->Compact();
  if (parts_.evictor != nullptr) parts_.evictor->Evict();
}

void Maintenance::SaveClockRecord() {
  const std::optional<ClockRecord> record = parts_.clock_guard->TakeRecord();
  if (!record) return;
  MaintenanceWrite write;
  write.rows.Put(parts_.database->current().meta(), ToSlice(kClockKey), EncodeClock(*record));
  // If it is lost, the next one follows in a minute.
  (void)parts_.committer->WriteAndWait(std::move(write));
}

Status Maintenance::SkipTo(Revision revision) {
  MutexLock lock(mu_);
  parts_.compactor->CompactAll();
  const State state = parts_.published->state();
  if (state.compacted != state.revision) {
    return Status(StatusReason::kCorruption, "old versions cannot be compacted");
  }
  revision = std::max(revision, state.revision);
  MaintenanceWrite write;
  write.skip_to = revision;
  const Status skipped = parts_.committer->WriteAndWait(std::move(write));
  if (!skipped.ok()) return skipped;
  parts_.published->SetCompacted(revision);
  WatchHub::Wake(parts_.hub->Skip(revision));
  parts_.hub->Compacted(revision);
  parts_.marker->MarkAfterLoss();
  return Status();
}

}  // namespace herald::store
