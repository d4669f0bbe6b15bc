#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace herald::store {

// A DiskBudget divides the size limit (cap) of a data directory among its parts. The limit includes
// every file of the directory, also temporary ones: the write-ahead log, and the files that a
// compaction reads while it writes their successors. So these are kept small, and the entries leave
// room for them.
//
//   0 ------------------ evict_to ---- evict_above ---- reject_above -- cap
//        entries                |           |                |
//        eviction deletes down to here      |                |
//        eviction begins -------------------'                |
//        new entries are rejected until there is room -------'
//
// Between evict_above and reject_above, clients write while entries are evicted. Above it, only
// writes that are under way are completed, so the directory stays below the cap.
//
// A value. Immutable.
struct DiskBudget {
  // With less, RocksDB's smallest useful files and its log leave too little room for entries.
  static constexpr std::uint64_t kSmallestCap = 64ull << 20;

  // The defaults are those of a store without a cap.
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
  // The directory is measured each time that so many bytes were written.
  std::uint64_t measure_every = UINT64_MAX;
  std::uint64_t max_watch_window_bytes = UINT64_MAX;

  DiskBudget() = default;
  // 0: no cap.
  explicit DiskBudget(std::uint64_t cap) {
    if (cap == 0) return;
    write_buffer_bytes = std::min<std::size_t>(write_buffer_bytes, cap / 32);
    level_base_bytes = std::min(level_base_bytes, cap / 16);
    // Each file overlaps at most compaction_bytes of the next level, and a compaction reads few
    // files at a time. It deletes the files that it has read after it has written all.
    file_bytes = std::min(file_bytes, cap / 160);
    compaction_bytes = std::min<std::uint64_t>(128u << 20, cap / 32);
    batch_bytes = std::min<std::size_t>(batch_bytes, cap / 128);
    info_log_bytes = std::min<std::size_t>(info_log_bytes, cap / 64);
    manifest_bytes = std::min<std::size_t>(manifest_bytes, cap / 256);
    measure_every = std::min<std::uint64_t>(16u << 20, cap / 128);
    // The largest compaction merges all new files with the first level. Above a few GiB it does
    // not grow with the cap.
    const std::uint64_t reserve = std::min<std::uint64_t>(1ull << 30, cap * 35 / 100);
    evict_above = cap - reserve;
    evict_to = evict_above / 4 * 3;
    reject_above = cap - reserve * 7 / 10;
    // The watch window is deleted first when room is needed, so it should be the smaller part.
    max_watch_window_bytes = cap / 4;
  }
};

}  // namespace herald::store
