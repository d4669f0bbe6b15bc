// What an operator does with a data directory: copy it, put a copy back, see whether it is whole,
// continue after a loss.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "herald/base/status.h"
#include "store/rocks/backup.h"
#include "store/store.h"

namespace herald::store {

// Copies the files of a store that nobody changes meanwhile to `target`, which must be empty or
// missing, and syncs them. The copy is a store itself and shares nothing with the original. A store
// that is only half there is never opened. After a failure the target is as it was, apart from
// parent directories. `still_whole`, if given, is asked when everything has been read: whether the
// source had all of its files until then.
Status CopyStore(const std::filesystem::path& source, const std::filesystem::path& target,
                 const std::function<bool()>& still_whole = {});

// Copies a store that no process has open to a directory that does not exist yet; see
// BackupDatabase(). For a store that is open, see RocksStore::Backup().
Status BackupStore(const std::filesystem::path& directory, const std::filesystem::path& target,
                   BackupMode mode = BackupMode::kCopy);

// CopyStore() of a backup. Checks the backup first: one that is damaged is not restored.
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

// Reads all of a store that no process has open, and changes nothing, so the file system may be
// read-only: the checksums of files and rows, whether versions, heads, log, index, expiry and the
// counters say the same, and whether all that was marked as acknowledged is there. An error where
// it cannot be opened at all. Without `schema.index` the index is compared with nothing.
Result<CheckReport> CheckStore(const std::filesystem::path& directory, const Schema& schema);

// What AcceptLoss() did.
struct AcceptedLoss {
  Revision recovered = 0;     // all writes up to here are there
  Revision acknowledged = 0;  // the mark; 0 where that was damaged
  Revision continues_at = 0;  // the latest revision now
};

// Makes a store usable again that is refused because it has lost acknowledged writes, which stay
// lost. Its revisions continue beyond every lost one, and its old versions are compacted, so
// clients that have seen a lost write get kExpired and list again. kInvalid where nothing is known
// to be lost. `schema` must be the one that the store was written with.
Result<AcceptedLoss> AcceptLoss(const std::filesystem::path& directory, const Schema& schema);

}  // namespace herald::store
