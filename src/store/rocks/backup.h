#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "herald/base/status.h"

namespace rocksdb {
class DB;
}  // namespace rocksdb

namespace herald::store {

enum class BackupMode : std::uint8_t {
  // Every file is copied and synced. Takes time and space in proportion to the store. Later damage
  // to the store's files does not affect the backup.
  kCopy,
  // Table files, which never change, become hard links if source and target are on one file
  // system. Takes seconds and no space at first, but both share the same blocks on disk: a damaged
  // block is damaged in both. It protects against mistakes, not against a failing disk.
  kHardLink,
};

// Copies an open database of Herald, as it is at one moment, to a directory that does not exist
// yet. Reads and writes continue during the copy. The copy is a store, with a revision mark of its
// own.
//
// The target appears under its name only when it is complete and synced; until then it is
// `<target>.partial`, which is removed after a failure. The database deletes no files before this
// returns, so compactions need extra space during that time.
//
// `cancelled` is called between portions of about a megabyte. When it returns true, the backup ends
// with kCancelled. Null: never. Thread-safe.
Status BackupDatabase(rocksdb::DB* db, const std::filesystem::path& target, BackupMode mode,
                      const std::function<bool()>& cancelled = {});

}  // namespace herald::store
