#include "store/rocks/database.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/table_properties_collectors.h>
#include <rocksdb/write_batch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "store/rocks/revision_mark.h"
#include "store/rocks/tsan_suppressions.h"

namespace herald::store {
namespace {

constexpr std::array kColumnFamilies = {"default", "heads", "versions", "log", "index", "expiry"};

// With ten bits per key, one lookup in a hundred reads a file that does not have the key.
constexpr double kBloomBits = 10;

// Reports RocksDB's events to the functions of the options. Thread-safe if those are.
class EventReporter final : public rocksdb::EventListener {
 public:
  EventReporter(std::function<void(const Status&)> on_error, std::function<void()> on_log_rolled)
      : on_error_(std::move(on_error)), on_log_rolled_(std::move(on_log_rolled)) {}

  void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* status) override {
    if (on_error_) on_error_(FromRocks(*status));
  }
  // A new write-ahead log begins with the next memtable.
  void OnMemTableSealed(const rocksdb::MemTableInfo&) override {
    if (on_log_rolled_) on_log_rolled_();
  }

 private:
  const std::function<void(const Status&)> on_error_;
  const std::function<void()> on_log_rolled_;
};

// The file LOG with RocksDB's messages. A message that cannot be written is dropped. (RocksDB's own
// logger asserts that nothing is logged after a write has failed, and Debian's library is built
// with its assertions: a full disk would end the process.)
//
// Thread-confined.
class LogFile {
 public:
  // Limit on the size of the file. The previous file is kept as LOG.old.
  LogFile(const std::filesystem::path& path, std::size_t max_bytes)
      : path_(path.string()), max_bytes_(max_bytes) {
    Begin();
  }
  ~LogFile() { Close(); }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  void Write(std::string_view message) {
    if (bytes_ > max_bytes_) Begin();
    if (file_ < 0) return;
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    std::array<char, 32> time{};
    const std::size_t size = std::strftime(time.data(), time.size(), "%Y-%m-%dT%H:%M:%SZ ", &parts);
    std::string line(time.data(), size);
    line.append(message);
    if (!line.ends_with('\n')) line += '\n';
    bytes_ += line.size();
    [[maybe_unused]] const ssize_t written = ::write(file_, line.data(), line.size());
  }

 private:
  void Begin() {
    Close();
    std::error_code ignored;
    std::filesystem::rename(path_, path_ + ".old", ignored);
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    bytes_ = 0;
  }
  void Close() {
    if (file_ >= 0) ::close(file_);
    file_ = -1;
  }

  const std::string path_;
  const std::size_t max_bytes_;
  int file_ = -1;
  std::size_t bytes_ = 0;
};

// Writes RocksDB's messages to a file, and keeps its message about a write-ahead log that it cannot
// read, because its Status does not name the file. Thread-safe.
class InfoLog final : public rocksdb::Logger {
 public:
  // An empty path: writes to no file.
  InfoLog(const std::filesystem::path& file, std::size_t max_bytes)
      : Logger(rocksdb::InfoLogLevel::INFO_LEVEL) {
    if (!file.empty()) file_.emplace(file, max_bytes);
  }

  using Logger::Logv;
  void Logv(const char* format, std::va_list arguments) override {
    std::array<char, 1'000> text{};
    std::vsnprintf(text.data(), text.size(), format, arguments);
    const std::string_view line = text.data();
    MutexLock lock(mu_);
    if (line.find(".log: dropping") != std::string_view::npos) damage_ = line;
    if (file_) file_->Write(line);
  }

  std::string damage() const {
    MutexLock lock(mu_);
    return damage_;
  }

 private:
  mutable Mutex mu_;
  std::optional<LogFile> file_ GUARDED_BY(mu_);
  std::string damage_ GUARDED_BY(mu_);
};

// The common prefix of all versions of a key, so that a file's filter can exclude a key.
class VersionPrefix final : public rocksdb::SliceTransform {
 public:
  const char* Name() const override { return "herald.VersionPrefix"; }
  rocksdb::Slice Transform(const rocksdb::Slice& row_key) const override {
    return ToSlice(PrefixOfVersionKey(ToView(row_key)));
  }
  bool InDomain(const rocksdb::Slice& row_key) const override { return row_key.size() >= 8; }
};

rocksdb::CompressionType FastCompression() {
  const auto supported = rocksdb::GetSupportedCompressions();
  const bool lz4 =
      std::find(supported.begin(), supported.end(), rocksdb::kLZ4Compression) != supported.end();
  return lz4 ? rocksdb::kLZ4Compression : rocksdb::kNoCompression;
}

rocksdb::ColumnFamilyOptions FamilyOptions(const rocksdb::Options& base, std::string_view name,
                                           const RocksDbOptions& options) {
  rocksdb::ColumnFamilyOptions family(base);
  // Half of the memory is for versions, which contain the values. The other memtables are small,
  // because insertion is faster the fewer rows they have. Rows of the log and of expiry are
  // inserted in order and are not read soon, so theirs are the smallest.
  const std::size_t share = name == "versions" ? 2 : name == "log" || name == "expiry" ? 16 : 8;
  family.write_buffer_size = options.budget.write_buffer_bytes / share;
  if (name == "heads") {
    // Each creation of a key looks it up here, and does not find it.
    family.memtable_prefix_bloom_size_ratio = 0.05;
    family.memtable_whole_key_filtering = true;
  }
  if (name == "heads" || name == "versions") {
    // The other families are scanned, which does not use filters.
    auto table = *base.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kBloomBits));
    if (name == "versions") {
      family.prefix_extractor = std::make_shared<VersionPrefix>();
      family.memtable_prefix_bloom_size_ratio = 0.02;
      table.whole_key_filtering = false;  // the filter of prefixes is sufficient
    }
    family.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  }
  if (name == "index") {
    // Each index grows at its own place.
    family.memtable_insert_with_hint_prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(1));
  }
  if (name != "heads" && name != "versions") {
    // Rows of these families are deleted in the order of their insertion, and are scanned: a file
    // that is mostly tombstones is rewritten before scans have to step over them.
    constexpr std::size_t kWindow = 8'192;
    constexpr std::size_t kTombstones = kWindow / 2;
    family.table_properties_collector_factories.push_back(
        rocksdb::NewCompactOnDeletionCollectorFactory(kWindow, kTombstones));
  }
  return family;
}

bool IsEmptyOrMissing(const std::filesystem::path& directory) {
  std::error_code error;
  if (!std::filesystem::exists(directory, error)) return true;
  std::filesystem::directory_iterator files(directory, error);
  if (error) return false;
  // Files that file systems and an interrupted creation by RocksDB leave there.
  return std::all_of(begin(files), end(files), [](const auto& file) {
    const std::string name = file.path().filename().string();
    return name == "lost+found" || name == "LOCK" || name == "IDENTITY" || name.starts_with("LOG");
  });
}

Status CannotOpen(const std::filesystem::path& directory, const rocksdb::Status& status,
                  const std::string& damage = "") {
  const std::string text = status.ToString();
  if (status.IsIOError() && (text.find("lock hold by current process") != std::string::npos ||
                             text.find("While lock file") != std::string::npos)) {
    return Status(
        StatusReason::kServiceUnavailable,
        fmt::format("the data directory {} is in use by another process", directory.string()));
  }
  if (status.IsCorruption()) {
    return Status(StatusReason::kCorruption,
                  fmt::format("the data directory {} is damaged: {}{}{}", directory.string(), text,
                              damage.empty() ? "" : "; ", damage));
  }
  return Status(StatusReason::kServiceUnavailable,
                fmt::format("cannot open the data directory {}: {}", directory.string(), text));
}

}  // namespace

Status FromRocks(const rocksdb::Status& status) {
  if (status.ok()) return Status();
  if (status.IsCorruption()) return Status(StatusReason::kCorruption, status.ToString());
  return Status(StatusReason::kServiceUnavailable, status.ToString());
}

rocksdb::Env* EnvOf(const RocksDbOptions& options) {
  return options.env != nullptr ? options.env : rocksdb::Env::Default();
}

rocksdb::Options MakeRocksOptions(const RocksDbOptions& options) {
  rocksdb::Options rocks;
  rocks.env = EnvOf(options);
  rocks.create_if_missing = options.create;
  rocks.create_missing_column_families = true;
  // An incomplete record at the very end is a write that was not acknowledged before a crash. Any
  // other damage of the log must be reported: the default mode would open the store as it was
  // before the damage and silently drop acknowledged writes.
  rocks.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  rocks.paranoid_checks = true;
  // Recovery decides when to write again.
  rocks.max_bgerror_resume_count = 0;
  // The write-ahead log is read at the start, so its size is limited.
  rocks.max_total_wal_size = options.budget.write_buffer_bytes;
  rocks.db_write_buffer_size = options.budget.write_buffer_bytes;
  rocks.skip_stats_update_on_db_open = true;
  // One flush and one compaction. Herald shares its machine with other programs.
  rocks.max_background_jobs = 2;
  // The committer is the only writer.
  rocks.allow_concurrent_memtable_write = false;
  rocks.enable_write_thread_adaptive_yield = false;
  rocks.bytes_per_sync = 1u << 20;

  rocks.compression = FastCompression();
  rocks.level_compaction_dynamic_level_bytes = true;
  rocks.max_bytes_for_level_base = options.budget.level_base_bytes;
  rocks.target_file_size_base = options.budget.file_bytes;
  rocks.max_compaction_bytes = options.budget.compaction_bytes;
  rocks.manifest_preallocation_size = options.budget.manifest_bytes;

  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(options.cache_bytes);
  table.cache_index_and_filter_blocks = true;
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  // Partitioned: the filter of a whole file of heads has megabytes, which do not fit into a shard
  // of the cache, so that it would be read again for each key that is created.
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.partition_filters = true;
  table.block_size = 16u << 10;
  table.format_version = 5;
  rocks.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));

  if (options.on_background_error || options.on_log_rolled) {
    rocks.listeners.push_back(
        std::make_shared<EventReporter>(options.on_background_error, options.on_log_rolled));
  }
  return rocks;
}

Result<std::unique_ptr<RocksDb>> RocksDb::Open(const RocksDbOptions& options) {
  rocksdb::Options rocks = MakeRocksOptions(options);
  const std::string path = options.directory.string();
  std::error_code error;
  if (!std::filesystem::exists(options.directory / "CURRENT", error)) {
    if (!IsEmptyOrMissing(options.directory)) {
      return Status(StatusReason::kInvalid,
                    fmt::format("the directory {} is not empty and contains no store", path));
    }
    if (!options.create || options.read_only) {
      return Status(StatusReason::kNotFound, fmt::format("there is no store in {}", path));
    }
    std::filesystem::create_directories(options.directory, error);
    if (error) {
      return Status(StatusReason::kServiceUnavailable,
                    fmt::format("cannot create the data directory {}: {}", path, error.message()));
    }
  } else {
    std::vector<std::string> names;
    rocksdb::Status listed = rocksdb::DB::ListColumnFamilies(rocks, path, &names);
    if (!listed.ok()) return CannotOpen(options.directory, listed);
    for (const std::string& name : names) {
      if (std::find(kColumnFamilies.begin(), kColumnFamilies.end(), name) ==
          kColumnFamilies.end()) {
        return Status(StatusReason::kInvalid,
                      fmt::format("{} holds a RocksDB database that is not Herald's", path));
      }
    }
  }

  const auto info_log = std::make_shared<InfoLog>(
      options.read_only ? std::filesystem::path() : options.directory / "LOG",
      options.budget.info_log_bytes);
  rocks.info_log = info_log;

  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const char* name : kColumnFamilies) {
    families.emplace_back(name, FamilyOptions(rocks, name, options));
  }
  if (options.check_mark && !options.read_only) {
    const Status complete = CheckMark(options, rocks, families);
    if (!complete.ok()) return complete;
  }
  // Not make_unique: the constructor is private.
  std::unique_ptr<RocksDb> opened(new RocksDb(options.directory));
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status =
      options.read_only
          ? rocksdb::DB::OpenForReadOnly(rocks, path, families, &opened->handles_, &db)
          : rocksdb::DB::Open(rocks, path, families, &opened->handles_, &db);
  opened->db_.reset(db);
  if (!status.ok()) return CannotOpen(options.directory, status, info_log->damage());
  const Status usable = opened->ReadOrInitialise(options);
  if (!usable.ok()) return usable;
  return opened;
}

Status RocksDb::CheckMark(const RocksDbOptions& options, const rocksdb::Options& rocks,
                          const std::vector<rocksdb::ColumnFamilyDescriptor>& families) {
  const Result<std::optional<Revision>> mark = ReadRevisionMark(rocks.env, options.directory);
  if (mark && !*mark) return Status();
  // Another process may be writing, so that its mark is ahead of the state that is read here.
  rocksdb::FileLock* lock = nullptr;
  const rocksdb::Status locked = rocks.env->LockFile((options.directory / "LOCK").string(), &lock);
  if (!locked.ok()) return CannotOpen(options.directory, locked);
  Revision recovered = 0;
  bool readable = false;
  {
    RocksDb reading(options.directory);
    rocksdb::DB* db = nullptr;
    rocksdb::Status status = rocksdb::DB::OpenForReadOnly(rocks, options.directory.string(),
                                                          families, &reading.handles_, &db);
    reading.db_.reset(db);
    if (status.ok()) {
      std::string row;
      status = db->Get({}, reading.meta(), ToSlice(kStateKey), &row);
      const auto state = DecodeState(row);
      if (status.ok() && state) recovered = state->revision;
      // Without a state, the write-ahead log that contained it is missing.
      readable = status.IsNotFound() || state;
    }
  }
  rocks.env->UnlockFile(lock).PermitUncheckedError();
  // Any other fault is reported when the database is opened for writing.
  return readable ? CheckRevisionMark(rocks.env, options.directory, recovered) : Status();
}

Status RocksDb::ReadOrInitialise(const RocksDbOptions& options) {
  std::string row;
  rocksdb::Status status = db_->Get({}, meta(), ToSlice(kFormatKey), &row);
  if (status.IsNotFound()) {
    const std::unique_ptr<rocksdb::Iterator> any(db_->NewIterator({}, meta()));
    any->SeekToFirst();
    rocksdb::Env* const env = db_->GetEnv();
    const bool is_heralds = env->FileExists((directory_ / kRevisionMarkFile).string()).ok();
    // The write-ahead log that contained this row is missing, with all others.
    if (options.read_only && is_heralds && !any->Valid()) return Status();
    if (any->Valid() || options.read_only) {
      return Status(StatusReason::kInvalid,
                    fmt::format("{} holds a RocksDB database that is not Herald's",
                                options.directory.string()));
    }
    // It is new, or a crash prevented this first write.
    rocksdb::WriteBatch first;
    first.Put(meta(), ToSlice(kFormatKey), EncodeFormat(kFormatVersion));
    first.Put(meta(), ToSlice(kStateKey), EncodeState(state_));
    rocksdb::WriteOptions synced;
    synced.sync = true;
    status = db_->Write(synced, &first);
    return status.ok() ? Status() : CannotOpen(options.directory, status);
  }
  if (!status.ok()) return CannotOpen(options.directory, status);
  const auto version = DecodeFormat(row);
  if (!version) return Status(StatusReason::kCorruption, "the row \"format\" is damaged");
  if (*version != kFormatVersion) {
    return Status(StatusReason::kInvalid,
                  fmt::format("the store in {} has format {}, and this program reads format {} "
                              "only: use the program that wrote it, or another directory",
                              options.directory.string(), *version, kFormatVersion));
  }
  status = db_->Get({}, meta(), ToSlice(kStateKey), &row);
  if (!status.ok()) return CannotOpen(options.directory, status);
  const auto state = DecodeState(row);
  if (!state) return Status(StatusReason::kCorruption, "the row \"state\" is damaged");
  state_ = *state;
  // A store of an earlier release has neither row. A damaged row is ignored: both rows only save
  // work or add caution.
  if (db_->Get({}, meta(), ToSlice(kLifetimesKey), &row).ok()) lifetimes_ = DecodeLifetimes(row);
  if (db_->Get({}, meta(), ToSlice(kClockKey), &row).ok()) clock_ = DecodeClock(row);
  return Status();
}

RocksDb::~RocksDb() {
  if (!db_) return;
  for (rocksdb::ColumnFamilyHandle* handle : handles_) {
    // A failure here has no effect: all acknowledged writes were synced before.
    db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  db_->Close().PermitUncheckedError();
}

std::uint64_t DirectoryBytes(const std::filesystem::path& directory) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (auto file = std::filesystem::directory_iterator(directory, error);
       !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
    struct stat info{};
    // RocksDB may delete files during this loop.
    if (::lstat(file->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    // The blocks, because RocksDB preallocates files; or the bytes if these are more, because not
    // every file system counts blocks as soon as they are written.
    constexpr std::uint64_t kBlock = 512;
    bytes += std::max(static_cast<std::uint64_t>(info.st_size),
                      static_cast<std::uint64_t>(info.st_blocks) * kBlock);
  }
  return bytes;
}

std::uint64_t RocksDb::BytesOnDisk() const { return DirectoryBytes(directory_); }

std::uint64_t RocksDb::LiveBytes() const {
  std::uint64_t bytes = 0;
  db_->GetAggregatedIntProperty(rocksdb::DB::Properties::kLiveSstFilesSize, &bytes);
  return bytes;
}

rocksdb::Status RocksDb::FlushAll() { return db_->Flush(rocksdb::FlushOptions(), handles_); }

}  // namespace herald::store
