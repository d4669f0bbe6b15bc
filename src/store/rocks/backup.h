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
  // Every file is copied and synced. Takes as long and as much space as the store is large; no
  // damage to the store's files can reach the backup afterwards.
  kCopy,
  // Table files, which never change, become hard links where source and target are on one file
  // system. Takes seconds and no space at first, but both share the same blocks on disk: a block
  // that goes bad is bad in both. It protects against mistakes, not against a failing disk.
  kHardLink,
};

// Copies an open database of Herald's, as it is at one moment, to a directory that does not exist
// yet; reads and writes go on meanwhile. The copy is a store, with a revision mark of its own.
//
// The target appears under its name only when it is complete and synced; until then it is
// `<target>.partial`, which a failure removes. The database deletes no files before this returns,
// so compactions need space meanwhile.
//
// `cancelled` is called between portions of about a megabyte; once it returns true, the backup is
// given up with kCancelled. Null: never. Thread-safe.
Status BackupDatabase(rocksdb::DB* db, const std::filesystem::path& target, BackupMode mode,
                      const std::function<bool()>& cancelled = {});

}  // namespace herald::store
