// The revision mark: a small file in the data directory, ACKNOWLEDGED, which holds a revision that
// was acknowledged to a client.
//
// The write-ahead log alone cannot show that its end is missing: a log that was deleted or
// truncated looks like one to which nothing more was written. The mark is outside of the log, so a
// store that recovers fewer revisions than it marked has lost some. doc/store_format.md says what
// stays undetected.
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

// REQUIRES: the revision is durable, and not below the one that is marked
Status WriteRevisionMark(rocksdb::Env* env, const std::filesystem::path& directory,
                         Revision revision);

// Nothing where the directory has no mark: it is new, or was made by a version without marks.
// kCorruption where the file is not what was written.
Result<std::optional<Revision>> ReadRevisionMark(rocksdb::Env* env,
                                                 const std::filesystem::path& directory);

// Compares the mark with the latest revision that was found in the store. kCorruption, with what
// an operator can do, where acknowledged writes are missing or the mark is damaged.
Status CheckRevisionMark(rocksdb::Env* env, const std::filesystem::path& directory,
                         Revision recovered);

}  // namespace herald::store
