#include "store/rocks/recovery.h"

#include <rocksdb/env.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace herald::store {

bool Recovery::Recover() {
  if (parts_.health->ok()) return true;
  if (parts_.health->status().Is(StatusReason::kCorruption)) return false;
  // While the disk accepts nothing, the open database must stay, for reads.
  if (!Probe().ok()) return false;
  const Status reopened = Reopen();
  if (!reopened.ok()) {
    parts_.options->Log(LogLevel::kError, "the store cannot be opened again", reopened.message());
    return false;
  }
  parts_.options->ReachStep("reopened");
  parts_.health->Restore();
  return true;
}

Status Recovery::Probe() const {
  // Opening the database writes less than this, so it is likely to work if the probe does.
  constexpr std::size_t kProbeBytes = 1u << 20;
  rocksdb::Env* const env = EnvOf(parts_.options->db);
  const std::string name = (parts_.options->db.directory / "probe.tmp").string();
  const rocksdb::Status status =
      rocksdb::WriteStringToFile(env, std::string(kProbeBytes, '\0'), name, /*should_sync=*/true);
  env->DeleteFile(name).PermitUncheckedError();
  return FromRocks(status);
}

Status Recovery::Reopen() {
  WatchHub::Woken woken;
  const Status status =
      parts_.database->Replace([this] { parts_.options->ReachStep("waiting to reopen"); },
                               [this, &woken](std::unique_ptr<RocksDb>* rocks) {
                                 const Status opened = Open(rocks);
                                 if (!opened.ok()) return opened;
                                 Result<WatchHub::Woken> published = PublishState(**rocks);
                                 if (!published) return published.error();
                                 woken = *std::move(published);
                                 return Status();
                               });
  WatchHub::Wake(woken);
  return status;
}

Status Recovery::Open(std::unique_ptr<RocksDb>* rocks) const {
  Result<std::unique_ptr<RocksDb>> opened = RocksDb::Open(parts_.options->db);
  if (opened) {
    *rocks = std::move(*opened);
    return Status();
  }
  RocksDbOptions read_only = parts_.options->db;
  read_only.read_only = true;
  read_only.check_mark = false;  // readable, even if acknowledged writes are lost
  Result<std::unique_ptr<RocksDb>> readable = RocksDb::Open(read_only);
  if (readable) *rocks = std::move(*readable);
  return opened.error();
}

Result<WatchHub::Woken> Recovery::PublishState(const RocksDb& rocks) {
  // Changes that are read at once.
  constexpr std::size_t kMaxChanges = 512;
  const State& state = parts_.committer->Reload(rocks);
  const RocksReader reader = parts_.database->ReaderOf(rocks);
  // A batch whose writers got an error may be in the log as a whole.
  std::vector<std::shared_ptr<const Change>> changes;
  Revision published = parts_.hub->head();
  while (published < state.revision) {
    Result<Watch::Batch> batch = reader.Changes("", published, state.revision, kMaxChanges);
    if (!batch) return batch.error();
    published = batch->revision;
    changes.insert(changes.end(), batch->changes.begin(), batch->changes.end());
  }
  parts_.published->Publish(state);
  if (changes.empty()) return WatchHub::Woken();
  return parts_.hub->Append(changes, state.revision);
}

}  // namespace herald::store
