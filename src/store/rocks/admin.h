// Operations on a data directory for operators: back it up, restore a backup, check it, continue
// after a loss.
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

// Copies the files of a store to `target`, which must be empty or missing, and syncs them. No
// process may change the store at the same time. The copy is a store itself and shares nothing with
// the original. An incomplete copy cannot be opened. After a failure the target is as before, apart
// from parent directories. `still_whole`, if given, is called after all files were read, and
// returns whether the source had all of its files until then.
Status CopyStore(const std::filesystem::path& source, const std::filesystem::path& target,
                 const std::function<bool()>& still_whole = {});

// Copies a store that no process has open to a directory that does not exist yet; see
// BackupDatabase(). For a store that is open, see RocksStore::Backup().
Status BackupStore(const std::filesystem::path& directory, const std::filesystem::path& target,
                   BackupMode mode = BackupMode::kCopy);

// Copies a backup to a directory; see CopyStore(). Checks the backup first, and does not restore a
// damaged one.
Status RestoreStore(const std::filesystem::path& backup, const std::filesystem::path& directory);

struct CheckReport {
  std::uint64_t files = 0;
  std::uint64_t entries = 0;
  std::uint64_t versions = 0;
  std::uint64_t log_rows = 0;
  std::uint64_t index_rows = 0;
  std::uint64_t expiry_rows = 0;
  // One sentence for each fault, with the file or the key; at most kMaxFaults. `fault_count` counts
  // all of them.
  static constexpr std::size_t kMaxFaults = 100;
  std::vector<std::string> faults{};
  std::uint64_t fault_count = 0;

  bool ok() const { return fault_count == 0; }
};

// Reads all of a store that no process has open, and checks
//   - the checksums of files and rows
//   - that versions, heads, log, index, expiry and counters are consistent
//   - that all writes up to the revision mark are there
// Changes nothing, so the file system may be read-only. Returns an error if the store cannot be
// opened at all. Without `schema.index` the index is not compared with the versions.
Result<CheckReport> CheckStore(const std::filesystem::path& directory, const Schema& schema);

// Result of AcceptLoss().
struct AcceptedLoss {
  Revision recovered = 0;     // all writes up to here are there
  Revision acknowledged = 0;  // the revision mark; 0 if it was damaged
  Revision continues_at = 0;  // the latest revision now
};

// Makes a store usable again that cannot be opened because it has lost acknowledged writes. These
// stay lost. Its revisions continue beyond every lost one, and its old versions are compacted, so
// clients that have seen a lost write get kExpired and list again. kInvalid if no loss is known.
// `schema` must be the one that the store was written with.
Result<AcceptedLoss> AcceptLoss(const std::filesystem::path& directory, const Schema& schema);

}  // namespace herald::store
