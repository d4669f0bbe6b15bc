#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace herald::store {

// What a cap on the size of a data directory leaves for its parts. The cap counts every file of the
// directory, also those that are only there for a while: the write-ahead log, and the files that
// a compaction reads while it writes their successors. So these are made small enough, and the
// entries have to leave room for them.
//
//   0 ------------------ evict_to ---- evict_above ---- reject_above -- cap
//        entries                |           |                |
//        eviction deletes down to here      |                |
//        eviction begins -------------------'                |
//        new entries are refused until there is room --------'
//
// Between evict_above and reject_above clients write while room is made. Behind it only what is
// under way is still written, so the cap holds.
//
// A value. Immutable.
struct DiskBudget {
  // Below this, RocksDB's smallest useful files and its own log leave too little for entries.
  static constexpr std::uint64_t kSmallestCap = 64ull << 20;

  // What a store without a cap has.
  std::size_t write_buffer_bytes = 48u << 20;  // also the length of the write-ahead log
  std::uint64_t file_bytes = 64u << 20;        // of a table
  std::uint64_t level_base_bytes = 256u << 20;
  std::uint64_t compaction_bytes = 25 * file_bytes;  // that one compaction reads
  std::size_t manifest_bytes = 4u << 20;             // reserved for the manifest as it grows
  std::size_t info_log_bytes = 4u << 20;             // of LOG, and of LOG.old

  std::size_t batch_bytes = 4u << 20;  // that the committer writes at once

  std::uint64_t evict_to = UINT64_MAX;
  std::uint64_t evict_above = UINT64_MAX;
  std::uint64_t reject_above = UINT64_MAX;
  // The size is looked at each time that so much has been written.
  std::uint64_t measure_every = UINT64_MAX;
  std::uint64_t max_watch_window_bytes = UINT64_MAX;

  DiskBudget() = default;
  // 0: no cap.
  explicit DiskBudget(std::uint64_t cap) {
    if (cap == 0) return;
    write_buffer_bytes = std::min<std::size_t>(write_buffer_bytes, cap / 32);
    level_base_bytes = std::min(level_base_bytes, cap / 16);
    // Files are cut so that each overlaps at most compaction_bytes of the next level, and a
    // compaction takes few of them at a time. It deletes what it has read when all is written.
    file_bytes = std::min(file_bytes, cap / 160);
    compaction_bytes = std::min<std::uint64_t>(128u << 20, cap / 32);
    batch_bytes = std::min<std::size_t>(batch_bytes, cap / 128);
    info_log_bytes = std::min<std::size_t>(info_log_bytes, cap / 64);
    manifest_bytes = std::min<std::size_t>(manifest_bytes, cap / 256);
    measure_every = std::min<std::uint64_t>(16u << 20, cap / 128);
    // The largest compaction is that of all new files with the first level. Beyond a few GiB it
    // does not grow with the cap.
    const std::uint64_t reserve = std::min<std::uint64_t>(1ull << 30, cap * 35 / 100);
    evict_above = cap - reserve;
    evict_to = evict_above / 4 * 3;
    reject_above = cap - reserve * 7 / 10;
    // The watch window is the first to go when room is needed, and should not be most of what there
    // is.
    max_watch_window_bytes = cap / 4;
  }
};

}  // namespace herald::store
