// What an operator does with a data directory: copy it, put a copy back, see whether it is whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "herald/base/status.h"
#include "store/store.h"

namespace herald::store {

// Copies a store that no process has open to a directory that does not exist yet. The copy
// is a store itself. On one file system its tables are links to the same files, which never
// change; elsewhere they are copied. For a store that is open, see RocksStore::Backup().
Status BackupStore(const std::filesystem::path& directory, const std::filesystem::path& target);

// Copies a backup to `directory`, which must be empty or missing. Checks the backup first: one that
// is damaged is not restored. After a failure the directory is as it was.
Status RestoreStore(const std::filesystem::path& backup, const std::filesystem::path& directory);

struct CheckReport {
  std::uint64_t files = 0;
  std::uint64_t entries = 0;
  std::uint64_t versions = 0;
  std::uint64_t log_rows = 0;
  std::uint64_t index_rows = 0;
  std::uint64_t expiry_rows = 0;
  // What is wrong: a sentence each, with the file or the key. Empty: the store is whole. Only
  // the first kMaxFaults are told; `fault_count` has them all.
  static constexpr std::size_t kMaxFaults = 100;
  std::vector<std::string> faults{};
  std::uint64_t fault_count = 0;

  bool ok() const { return fault_count == 0; }
};

// Reads all of a store that no process has open, and changes nothing: the checksums of files and
// rows, and whether versions, heads, log, index, expiry and the counters say the
// same. An error where it cannot be opened at all. Without `schema.index` the index is
// compared with nothing.
Result<CheckReport> CheckStore(const std::filesystem::path& directory, const Schema& schema);

}  // namespace herald::store
