#pragma once

#include <rocksdb/db.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "herald/base/status.h"
#include "store/rocks/disk_budget.h"
#include "store/rocks/format.h"

namespace herald::store {

// Where a store is and what RocksDB may use.
struct RocksDbOptions {
  std::filesystem::path directory{};
  // Blocks, their indexes and filters share it. With the write buffers below and what RocksDB
  // and the allocator add, a store of five million events stays below 1 GB.
  std::size_t cache_bytes = 256u << 20;
  // The sizes of files, and of all memtables together, which also bounds what is read from the log
  // at the start.
  DiskBudget budget{};
  bool read_only = false;  // nothing is written, not even a lock is taken
  bool create = true;      // where the directory is empty or missing
  // Refuses a store that has lost acknowledged writes, and leaves it as it is; see
  // revision_mark.h. Not with read_only.
  bool check_mark = true;
  // Whose files those are; null: the machine's. Borrowed; for tests that let it fail.
  rocksdb::Env* env = nullptr;
  // Called when RocksDB could not write in the background; from one of its threads.
  std::function<void(const Status&)> on_background_error{};
  // Called when RocksDB begins a new write-ahead log; from any thread, must be quick.
  std::function<void()> on_log_rolled{};
};

// A RocksDb is an open RocksDB database with Herald's column families, of a format that this
// program knows. It adds nothing to RocksDB but the settings, which are all here.
//
// Thread-safe as RocksDB is. Closes the database when destroyed.
class RocksDb {
 public:
  // kServiceUnavailable where the directory is in use or cannot be written, kCorruption where
  // files are damaged or acknowledged writes are missing, kInvalid where it is not a store or of a
  // later format.
  static Result<std::unique_ptr<RocksDb>> Open(const RocksDbOptions& options);
  ~RocksDb();
  RocksDb(const RocksDb&) = delete;
  RocksDb& operator=(const RocksDb&) = delete;

  rocksdb::DB& db() const { return *db_; }
  rocksdb::ColumnFamilyHandle* meta() const { return handles_[0]; }
  rocksdb::ColumnFamilyHandle* heads() const { return handles_[1]; }
  rocksdb::ColumnFamilyHandle* versions() const { return handles_[2]; }
  rocksdb::ColumnFamilyHandle* log() const { return handles_[3]; }
  rocksdb::ColumnFamilyHandle* index() const { return handles_[4]; }
  rocksdb::ColumnFamilyHandle* expiry() const { return handles_[5]; }
  const std::vector<rocksdb::ColumnFamilyHandle*>& all() const { return handles_; }

  // As it was when the database was opened.
  const State& state() const { return state_; }
  // The rows "lifetimes" and "clock" at that time; nothing where there are none.
  const std::optional<std::uint64_t>& lifetimes() const { return lifetimes_; }
  const std::optional<ClockRecord>& clock() const { return clock_; }

  // Of all files, the write-ahead log included, and those that nobody needs any more but that are
  // still there.
  std::uint64_t BytesOnDisk() const;
  // Of the tables that make up the database now.
  std::uint64_t LiveBytes() const;
  // Writes all memtables to files, so that the write-ahead log begins anew.
  rocksdb::Status FlushAll();

 private:
  explicit RocksDb(std::filesystem::path directory) : directory_(std::move(directory)) {}
  Status ReadOrInitialise(const RocksDbOptions& options);
  // Reads the directory before it is opened for writing: that would make RocksDB forget the logs
  // that are missing, and they could not be put back.
  static Status CheckMark(const RocksDbOptions& options, const rocksdb::Options& rocks,
                          const std::vector<rocksdb::ColumnFamilyDescriptor>& families);

  const std::filesystem::path directory_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;  // owned; in the order of the accessors
  State state_;
  std::optional<std::uint64_t> lifetimes_;
  std::optional<ClockRecord> clock_;
};

// The room that the files of a directory take, without those of its subdirectories.
std::uint64_t DirectoryBytes(const std::filesystem::path& directory);

// The environment of the options, or the machine's.
rocksdb::Env* EnvOf(const RocksDbOptions& options);

// The settings that files are read with.
rocksdb::Options MakeRocksOptions(const RocksDbOptions& options);

// Converts RocksDB's status: kCorruption, or kServiceUnavailable for any other error.
Status FromRocks(const rocksdb::Status& status);

inline rocksdb::Slice ToSlice(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

}  // namespace herald::store
