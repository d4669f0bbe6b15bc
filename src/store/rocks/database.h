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

// Where a store is, and the resources that RocksDB may use.
struct RocksDbOptions {
  std::filesystem::path directory{};
  // For blocks, their indexes and filters. With the write buffers and the overhead of RocksDB and
  // the allocator, a store of five million events uses less than 1 GB of memory.
  std::size_t cache_bytes = 256u << 20;
  // The sizes of files, and of all memtables together, which also limits how much of the
  // write-ahead log is read at the start.
  DiskBudget budget{};
  bool read_only = false;  // writes nothing and takes no lock
  bool create = true;      // if the directory is empty or missing
  // Rejects a store that has lost acknowledged writes, and leaves it as it is; see
  // revision_mark.h. Ignored with read_only.
  bool check_mark = true;
  // The file system; null: the machine's. Borrowed; for tests that make it fail.
  rocksdb::Env* env = nullptr;
  // Called when a background write of RocksDB has failed; from one of its threads.
  std::function<void(const Status&)> on_background_error{};
  // Called when RocksDB begins a new write-ahead log; from any thread, must be quick.
  std::function<void()> on_log_rolled{};
};

// A RocksDb is an open RocksDB database with Herald's column families, in the format of this
// program. It contains all settings of RocksDB.
//
// Thread-safe as RocksDB is. Closes the database when destroyed.
class RocksDb {
 public:
  // kServiceUnavailable if the directory is in use or cannot be written, kCorruption if files are
  // damaged or acknowledged writes are missing, kInvalid if it is not a store or has another
  // format, kNotFound if there is no store and none may be created.
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
  // The rows "lifetimes" and "clock" at that time; nothing if there are none.
  const std::optional<std::uint64_t>& lifetimes() const { return lifetimes_; }
  const std::optional<ClockRecord>& clock() const { return clock_; }

  // Size of all files, including the write-ahead log and obsolete files that are not deleted yet.
  std::uint64_t BytesOnDisk() const;
  // Size of the tables that the database consists of now.
  std::uint64_t LiveBytes() const;
  // Writes all memtables to files, so that a new write-ahead log begins.
  rocksdb::Status FlushAll();

 private:
  explicit RocksDb(std::filesystem::path directory) : directory_(std::move(directory)) {}
  Status ReadOrInitialise(const RocksDbOptions& options);
  // Compares the revision mark with the directory before that is opened for writing: RocksDB would
  // then forget which logs are missing, and an operator could not put them back.
  static Status CheckMark(const RocksDbOptions& options, const rocksdb::Options& rocks,
                          const std::vector<rocksdb::ColumnFamilyDescriptor>& families);

  const std::filesystem::path directory_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;  // owned; in the order of the accessors
  State state_;
  std::optional<std::uint64_t> lifetimes_;
  std::optional<ClockRecord> clock_;
};

// The size of the files in a directory, without its subdirectories.
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
