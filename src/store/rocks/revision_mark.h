// The revision mark: a small file in the data directory, ACKNOWLEDGED, which contains a revision
// that was acknowledged to a client.
//
// The write-ahead log alone cannot show that its end is missing: a deleted or truncated log looks
// like one to which nothing more was written. The mark is outside of the log, so a store that
// recovers fewer revisions than it marked has lost some. doc/store_format.md documents which losses
// are not detected.
//
// The file is replaced as a whole, by rename, and synced before and after: it is never half
// written. All functions are thread-safe for different directories.
#pragma once

#include <filesystem>
#include <optional>

#include "herald/base/status.h"
#include "store/store.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace herald::store {

inline constexpr const char* kRevisionMarkFile = "ACKNOWLEDGED";

// Replaces the mark. REQUIRES: the revision is durable, and not below the current mark
Status WriteRevisionMark(rocksdb::Env* env, const std::filesystem::path& directory,
                         Revision revision);

// Nothing if the directory has no mark: it is new, or was made by a version without marks.
// kCorruption if the file is damaged.
Result<std::optional<Revision>> ReadRevisionMark(rocksdb::Env* env,
                                                 const std::filesystem::path& directory);

// Compares the mark with the latest revision in the store. kCorruption if acknowledged writes are
// missing or the mark is damaged; the message names what an operator can do.
Status CheckRevisionMark(rocksdb::Env* env, const std::filesystem::path& directory,
                         Revision recovered);

}  // namespace herald::store
