#include "store/rocks/evictor.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/rocks/format.h"
#include "store/rocks/reader.h"

namespace herald::store {
namespace {

// Entries that are deleted together. A client's write waits for one such portion at most, about two
// milliseconds.
constexpr std::size_t kPortionEntries = 128;
// Rows of the log that are read for one portion.
constexpr std::size_t kPortionRows = 4'096;

}  // namespace

void Evictor::Evict() {
  parts_.disk->StartEviction();
  if (!MakeRoom()) return;
  parts_.disk->SetUsed(parts_.database->current().BytesOnDisk());
}

bool Evictor::MakeRoom() {
  RocksDb& rocks = parts_.database->current();
  const DiskBudget& budget = parts_.options->db.budget;
  // Each round deletes a share of the entries. More than a few are needed only if the estimates are
  // far off.
  constexpr int kMaxRounds = 5;
  for (int round = 0; round < kMaxRounds && !*parts_.stopping; ++round) {
    if (rocks.BytesOnDisk() <= budget.evict_above) break;
    // Deleted rows that RocksDB has not discarded yet count as used. If there are many, discard
    // them first: it costs as much as the eviction.
    if (parts_.compactor->reclaimable_bytes() > budget.evict_to / 16) {
      if (!parts_.compactor->Reclaim()) return false;
      if (rocks.BytesOnDisk() <= budget.evict_above) break;
    }
    // The rest are files that are still being read, and the write-ahead log. Eviction cannot
    // remove these.
    const std::uint64_t live = rocks.LiveBytes();
    if (live <= budget.evict_to) {
      if (!rocks.FlushAll().ok()) return false;
      break;
    }
    const State state = parts_.published->state();
    if (state.entries == 0) break;
    const double share = 1 - static_cast<double>(budget.evict_to) / static_cast<double>(live);
    const auto all = static_cast<double>(state.live_bytes + state.watch_window_bytes);
    EvictBytes(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(share * all)));
    // Otherwise the old versions of the evicted entries would keep the room.
    parts_.compactor->CompactAll();
    if (!parts_.compactor->Reclaim()) return false;
  }
  return true;
}

void Evictor::EvictBytes(std::uint64_t bytes) {
  const RocksDb& rocks = parts_.database->current();
  const RocksReader reader = parts_.database->ReaderOf(rocks);
  std::uint64_t evicted = 0;
  while (evicted < bytes && !*parts_.stopping) {
    std::vector<Committer::Deletion> oldest;
    std::size_t visited = 0;
    {
      rocksdb::ReadOptions options;
      options.fill_cache = false;
      const std::unique_ptr<rocksdb::Iterator> rows(rocks.db().NewIterator(options, rocks.log()));
      for (rows->Seek(LogKey(oldest_from_)); rows->Valid() && evicted < bytes; rows->Next()) {
        if (++visited > kPortionRows || oldest.size() >= kPortionEntries) break;
        const auto revision = ParseLogKey(ToView(rows->key()));
        const auto log = DecodeLog(ToView(rows->key()), ToView(rows->value()));
        if (!revision || !log) continue;
        oldest_from_ = *revision + 1;
        std::string key(log->key);
        const Result<KeyState> state = reader.Newest(key);
        if (!state || state->revision != *revision) continue;
        evicted += EntryBytes(key.size(), state->value->size());
        oldest.push_back({std::move(key), *revision, {}});
      }
    }
    if (visited == 0) return;
    if (!parts_.committer->DeleteAndWait(std::move(oldest), WriteCause::kEviction)) return;
  }
}

}  // namespace herald::store
