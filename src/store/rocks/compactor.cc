#include "store/rocks/compactor.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace herald::store {
namespace {

// Rows of the log that one step reads at most, and rows that it deletes at most. Writes of clients
// run between the steps.
constexpr std::size_t kStepRows = 4'096;
constexpr std::uint32_t kStepDeletions = 2'000;

}  // namespace

struct Compactor::Step {
  MaintenanceWrite write{};
  bool more = false;
};

Compactor::Compactor(Parts parts)
    : parts_(parts),
      max_window_bytes_(std::min(parts.store_options->max_watch_window_bytes,
                                 parts.options->db.budget.max_watch_window_bytes)) {}

void Compactor::Compact() {
  const std::optional<WallTime> now = parts_.clock_guard->Look();
  // While the clock cannot be trusted, only the bytes count: a jump must not end every watch.
  CompactTo({.keep_from = now ? *now - parts_.store_options->watch_window : WallTime(),
             .max_bytes = max_window_bytes_});
}

void Compactor::CompactAll() { CompactTo({.all = true}); }

void Compactor::CompactTo(const Limits& limits) {
  while (!*parts_.stopping) {
    const State state = parts_.published->state();
    Step step;
    if (!ReadStep(limits, state, &step)) {
      parts_.options->Log(LogLevel::kError,
                          "a row of the log is damaged, so old versions cannot be compacted");
      return;
    }
    const Revision compacted = step.write.compacted;
    if (compacted == state.compacted) return;
    // First no read may begin there any more, then the rows are deleted.
    parts_.published->SetCompacted(compacted);
    parts_.hub->Compacted(compacted);
    reclaimable_bytes_ += step.write.watch_window_bytes;
    if (!parts_.committer->WriteAndWait(std::move(step.write)).ok()) return;
    if (!step.more) return;
  }
}

bool Compactor::ReadStep(const Limits& limits, const State& state, Step* step) const {
  const RocksDb& rocks = parts_.database->current();
  const std::string high = LogKey(state.revision + 1);
  const rocksdb::Slice upper = high;
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &upper;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> rows(rocks.db().NewIterator(options, rocks.log()));
  rocksdb::ReadOptions index_options;
  index_options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> index(
      rocks.db().NewIterator(index_options, rocks.index()));
  MaintenanceWrite& write = step->write;
  write.compacted = state.compacted;
  std::size_t visited = 0;
  for (rows->Seek(LogKey(state.compacted + 1)); rows->Valid(); rows->Next()) {
    const std::string_view row_key = ToView(rows->key());
    const auto revision = ParseLogKey(row_key);
    const auto log = DecodeLog(row_key, ToView(rows->value()));
    if (!revision || !log) return false;
    const bool too_large =
        state.watch_window_bytes - std::min(state.watch_window_bytes, write.watch_window_bytes) >
        limits.max_bytes;
    if (!limits.all && !too_large && log->written >= limits.keep_from) break;
    if (++visited > kStepRows || write.rows.Count() > kStepDeletions) {
      step->more = true;
      break;
    }
    write.compacted = *revision;
    write.watch_window_bytes += LogBytes(log->key.size());
    AddDeletions(rocks, *revision, *log, *index, &write);
  }
  return true;
}

void Compactor::AddDeletions(const RocksDb& rocks, Revision revision, const LogRow& log,
                             rocksdb::Iterator& index, MaintenanceWrite* write) const {
  if (log.previous != 0) {
    const Result<KeyState> old = parts_.database->ReaderOf(rocks).Version(log.key, log.previous);
    if (old) {
      write->watch_window_bytes += EntryBytes(log.key.size(), old->value->size());
      if (parts_.store_options->schema.index) {
        DeleteIndexRows(rocks, *old, log, revision, index, write);
      }
    } else {
      parts_.options->Log(LogLevel::kError, "a version that is to be compacted cannot be read",
                          old.error().message());
    }
    write->rows.Delete(rocks.versions(), VersionKey(log.key, log.previous));
    write->rows.Delete(rocks.log(), LogKey(log.previous));
  }
  if (log.deleted) {
    write->rows.Delete(rocks.versions(), VersionKey(log.key, revision));
    write->rows.Delete(rocks.log(), LogKey(revision));
  }
}

void Compactor::DeleteIndexRows(const RocksDb& rocks, const KeyState& previous, const LogRow& log,
                                Revision revision, rocksdb::Iterator& index,
                                MaintenanceWrite* write) const {
  const Schema& schema = parts_.store_options->schema;
  const RocksReader reader = parts_.database->ReaderOf(rocks);
  std::vector<IndexEntry> gone = schema.index(log.key, *previous.value);
  if (!log.deleted) {
    const Result<KeyState> next = reader.Version(log.key, revision);
    if (!next) {
      parts_.options->Log(LogLevel::kError,
                          "a version whose index rows are to be compacted cannot be read",
                          next.error().message());
      return;
    }
    const std::vector<IndexEntry> kept = schema.index(log.key, *next->value);
    std::erase_if(gone, [&kept](const IndexEntry& entry) {
      return std::find(kept.begin(), kept.end(), entry) != kept.end();
    });
  }
  if (gone.empty()) return;
  // If `previous` created the key, each of its index rows has its revision. Else a row may have an
  // earlier one, which has to be found. For a single row, finding out costs as much as searching.
  bool created_key = false;
  if (gone.size() > 1) {
    const Result<RocksReader::LoggedWrite> logged = reader.Log(previous.revision);
    created_key = logged && logged->previous == 0;
  }
  for (const IndexEntry& entry : gone) {
    const std::string last = IndexKey(entry.index, entry.value, log.key, previous.revision);
    if (created_key) {
      write->rows.Delete(rocks.index(), last);
      continue;
    }
    for (index.Seek(IndexKey(entry.index, entry.value, log.key, 0));
         index.Valid() && ToView(index.key()) <= last; index.Next()) {
      write->rows.Delete(rocks.index(), index.key());
    }
  }
}

bool Compactor::Reclaim() {
  reclaimable_bytes_ = 0;
  RocksDb& rocks = parts_.database->current();
  if (!rocks.FlushAll().ok()) return false;
  for (rocksdb::ColumnFamilyHandle* family : rocks.all()) {
    rocksdb::CompactRangeOptions options;
    options.exclusive_manual_compaction = false;
    // Rows that were deleted or replaced are above the last level, or are discarded when those
    // levels are merged into it. To rewrite all of the last level would take twice the room for
    // nothing.
    options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kSkip;
    if (!rocks.db().CompactRange(options, family, nullptr, nullptr).ok()) return false;
  }
  return true;
}

}  // namespace herald::store
