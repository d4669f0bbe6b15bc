#include "store/rocks/admin.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <rocksdb/sst_file_reader.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "store/rocks/database.h"
#include "store/rocks/format.h"
#include "store/rocks/revision_mark.h"
#include "store/rocks/store.h"

namespace herald::store {
namespace {

// How far revisions move beyond the mark when a loss is accepted. More than a store writes between
// two marks (seconds, at some ten thousand writes a second), so no lost revision is used again.
constexpr Revision kLossMargin = 1'000'000;

Status Failed(std::string_view what, const std::filesystem::path& path, const std::string& why) {
  return Status(StatusReason::kServiceUnavailable,
                fmt::format("cannot {} {}: {}", what, path.string(), why));
}

// Keeps other processes from opening a store while it is read: RocksDB's own read-only mode does
// not check whether another process writes.
//
// On a read-only file system a lock cannot be taken and is not needed. A process that has mounted
// the same directory writable is detected if it holds its lock already. Thread-confined.
class DirectoryLock {
 public:
  static Result<std::unique_ptr<DirectoryLock>> Take(const std::filesystem::path& directory) {
    const std::filesystem::path file = directory / "LOCK";
    rocksdb::FileLock* lock = nullptr;
    const rocksdb::Status status = rocksdb::Env::Default()->LockFile(file.string(), &lock);
    if (!status.ok()) {
      // Do not open the file: closing it would release a lock that this process holds on it.
      const bool exists = ::faccessat(AT_FDCWD, file.c_str(), F_OK, AT_EACCESS) == 0;
      const std::filesystem::path& written = exists ? file : directory;
      const int why = ::faccessat(AT_FDCWD, written.c_str(), W_OK, AT_EACCESS) == 0 ? 0 : errno;
      if (why == EROFS && (!exists || !IsLockedByOther(file))) {
        return std::unique_ptr<DirectoryLock>(new DirectoryLock(nullptr));
      }
      if (why != 0 && why != EROFS) return Failed("lock", file, std::strerror(why));
      return Status(
          StatusReason::kServiceUnavailable,
          fmt::format("the data directory {} is in use by another process", directory.string()));
    }
    return std::unique_ptr<DirectoryLock>(new DirectoryLock(lock));
  }
  ~DirectoryLock() {
    if (lock_ != nullptr) rocksdb::Env::Default()->UnlockFile(lock_).PermitUncheckedError();
  }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  explicit DirectoryLock(rocksdb::FileLock* lock) : lock_(lock) {}

  static bool IsLockedByOther(const std::filesystem::path& file) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    struct flock wanted{};
    wanted.l_type = F_WRLCK;
    wanted.l_whence = SEEK_SET;
    const bool locked = ::fcntl(fd, F_GETLK, &wanted) == 0 && wanted.l_type != F_UNLCK;
    ::close(fd);
    return locked;
  }

  rocksdb::FileLock* const lock_;  // null: of a read-only file system
};

std::string Quoted(std::string_view key) {
  std::string quoted = "\"";
  for (const char c : key) {
    const bool plain = c >= ' ' && c < '\x7f';
    quoted += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return quoted + '"';
}

// Checks a store in one pass over each column family. Thread-confined.
class Checker {
 public:
  Checker(const RocksDb& rocks, const RocksDbOptions& options, const Schema& schema)
      : rocks_(rocks), options_(options), schema_(schema), state_(rocks.state()) {}

  CheckReport Run() {
    CheckFiles();
    CollectExpiry();
    CheckVersions();
    CheckLog();
    CheckIndex();
    CheckCounters();
    CheckMark();
    return std::move(report_);
  }

 private:
  void Fault(std::string what) {
    ++report_.fault_count;
    if (report_.faults.size() < CheckReport::kMaxFaults) report_.faults.push_back(std::move(what));
  }

  // Calls `row(key, value)` for each row of a family.
  template <typename Row>
  void ForEach(rocksdb::ColumnFamilyHandle* family, Row row) {
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    options.verify_checksums = true;
    options.total_order_seek = true;
    const std::unique_ptr<rocksdb::Iterator> rows(rocks_.db().NewIterator(options, family));
    for (rows->SeekToFirst(); rows->Valid(); rows->Next()) {
      row(ToView(rows->key()), ToView(rows->value()));
    }
    if (!rows->status().ok()) {
      Fault(fmt::format("some rows of \"{}\" cannot be read: {}", family->GetName(),
                        rows->status().ToString()));
    }
  }

  bool Exists(rocksdb::ColumnFamilyHandle* family, const std::string& key) const {
    rocksdb::PinnableSlice value;
    return rocks_.db().Get({}, family, key, &value).ok();
  }
  Revision HeadOf(const std::string& key) const {
    rocksdb::PinnableSlice value;
    if (!rocks_.db().Get({}, rocks_.heads(), key, &value).ok()) return 0;
    return DecodeHead(ToView(value)).value_or(0);
  }

  void CheckFiles() {
    std::vector<rocksdb::LiveFileMetaData> files;
    rocks_.db().GetLiveFilesMetaData(&files);
    report_.files = files.size();
    const rocksdb::Options reading = MakeRocksOptions(options_);
    for (const rocksdb::LiveFileMetaData& file : files) {
      rocksdb::SstFileReader reader(reading);
      rocksdb::Status status = reader.Open(file.db_path + file.name);
      if (status.ok()) status = reader.VerifyChecksum();
      if (!status.ok()) {
        Fault(
            fmt::format("the file {} is damaged: {}", file.db_path + file.name, status.ToString()));
      }
    }
  }

  void CollectExpiry() {
    ForEach(rocks_.expiry(), [this](std::string_view key, std::string_view value) {
      ++report_.expiry_rows;
      const auto row = ParseExpiryKey(key);
      if (!row || !DecodeExpiry(key, value)) {
        Fault(fmt::format("the row {} of the expiry index is damaged", Quoted(key)));
      } else {
        with_expiry_.push_back(row->created);
      }
    });
    std::sort(with_expiry_.begin(), with_expiry_.end());
  }

  void CheckVersions() {
    std::string key;
    Revision newer = 0;  // the next newer version of the same key; 0: this one is the latest
    ForEach(rocks_.versions(), [&](std::string_view row_key, std::string_view row) {
      ++report_.versions;
      const auto parsed = ParseVersionKey(row_key);
      if (!parsed) {
        Fault(fmt::format("the key {} of a version is damaged", Quoted(row_key)));
        return;
      }
      const auto version = DecodeVersion(row_key, row);
      if (!version) {
        Fault(fmt::format("version {} of {} is damaged", parsed->revision, Quoted(parsed->key)));
        return;
      }
      const bool newest = report_.versions == 1 || parsed->key != key;
      if (newest) newer = 0;
      CheckVersion(*parsed, *version, newer);
      CountIndexRows(*parsed, *version, newest);
      key = parsed->key;
      newer = parsed->revision;
    });
    expected_index_rows_ += newer_entries_.size();
  }

  // An index entry that successive versions have in common has one row.
  void CountIndexRows(const ParsedVersionKey& parsed, const VersionRow& version, bool newest) {
    if (!schema_.index) return;
    std::set<std::pair<std::uint8_t, std::string>> entries;
    if (!version.deleted) {
      for (IndexEntry& entry : schema_.index(parsed.key, version.value)) {
        entries.emplace(entry.index, std::move(entry.value));
      }
    }
    for (const auto& entry : newer_entries_) {
      if (newest || !entries.contains(entry)) ++expected_index_rows_;
    }
    for (const auto& [index, value] : entries) {
      if (!AnyRow(*index_rows_, IndexKey(index, value, parsed.key, 0),
                  IndexKey(index, value, parsed.key, parsed.revision))) {
        Fault(fmt::format("version {} of {} is not in index {}", parsed.revision,
                          Quoted(parsed.key), index));
      }
    }
    newer_entries_ = std::move(entries);
  }

  // For AnyRow(), which is called for each row: to create an iterator takes longer than to use it.
  std::unique_ptr<rocksdb::Iterator> RowsOf(rocksdb::ColumnFamilyHandle* family) const {
    rocksdb::ReadOptions options;
    options.total_order_seek = true;
    return std::unique_ptr<rocksdb::Iterator>(rocks_.db().NewIterator(options, family));
  }
  // Whether there is a row in [first, last].
  static bool AnyRow(rocksdb::Iterator& rows, const std::string& first, const std::string& last) {
    rows.Seek(first);
    return rows.Valid() && ToView(rows.key()) <= last;
  }

  void CheckVersion(const ParsedVersionKey& parsed, const VersionRow& version, Revision newer) {
    const std::string name = fmt::format("version {} of {}", parsed.revision, Quoted(parsed.key));
    if (newer != 0 && newer <= state_.compacted) {
      Fault(name + " should have been compacted");
    }
    if (!Exists(rocks_.log(), LogKey(parsed.revision))) Fault(name + " is not in the log");
    if (version.deleted) {
      if (parsed.revision <= state_.compacted) Fault(name + " should have been compacted");
      if (newer == 0 && HeadOf(parsed.key) != 0)
        Fault(name + " is a deletion, but the key has a head");
      return;
    }
    if (newer == 0) {
      ++report_.entries;
      live_bytes_ += EntryBytes(parsed.key.size(), version.value.size());
      const Revision created = HeadOf(parsed.key);
      if (created == 0) Fault(name + " is the latest, but the key has no head");
      if (created > parsed.revision || !IsCreation(parsed.key, created)) {
        Fault(fmt::format("the head of {} names revision {}, which did not create it",
                          Quoted(parsed.key), created));
      }
      if (version.expires != WallTime::max() &&
          !std::binary_search(with_expiry_.begin(), with_expiry_.end(), created)) {
        Fault(name + " has no row in the expiry index and never expires");
      }
    } else {
      watch_window_bytes_ += EntryBytes(parsed.key.size(), version.value.size());
    }
  }

  // Whether a revision can have created a key, as far as the log still contains it.
  bool IsCreation(const std::string& key, Revision revision) const {
    if (revision == 0 || revision <= state_.compacted) return true;
    const std::string row_key = LogKey(revision);
    rocksdb::PinnableSlice row;
    if (!rocks_.db().Get({}, rocks_.log(), row_key, &row).ok()) return false;
    const auto log = DecodeLog(row_key, ToView(row));
    return log && !log->deleted && log->previous == 0 && log->key == key;
  }

  void CheckLog() {
    Revision last = 0;
    ForEach(rocks_.log(), [&](std::string_view row_key, std::string_view row) {
      ++report_.log_rows;
      const auto revision = ParseLogKey(row_key);
      const auto log = DecodeLog(row_key, row);
      if (!revision || !log) {
        Fault(fmt::format("the row {} of the log is damaged",
                          revision ? std::to_string(*revision) : Quoted(row_key)));
        return;
      }
      const std::string key(log->key);
      if (*revision > state_.compacted) {
        watch_window_bytes_ += LogBytes(key.size());
        const Revision before = std::max(last, state_.compacted);
        if (*revision != before + 1) {
          Fault(fmt::format("the log has no revision {}", before + 1));
        }
        if (log->previous != 0 && !Exists(rocks_.versions(), VersionKey(key, log->previous))) {
          Fault(fmt::format("version {} of {}, which revision {} replaced, is missing",
                            log->previous, Quoted(key), *revision));
        }
      } else if (log->deleted) {
        // Other rows are kept as long as their version.
        Fault(fmt::format("revision {} of the log should have been compacted", *revision));
      }
      if (!Exists(rocks_.versions(), VersionKey(key, *revision))) {
        Fault(fmt::format("version {} of {}, which is in the log, is missing", *revision,
                          Quoted(key)));
      }
      last = *revision;
    });
    if (std::max(last, state_.compacted) != state_.revision) {
      Fault(
          fmt::format("the log ends at revision {}, but the latest is {}", last, state_.revision));
    }
  }

  void CheckIndex() {
    ForEach(rocks_.index(), [this](std::string_view key, std::string_view) {
      ++report_.index_rows;
      const auto row = ParseIndexKey(key);
      if (!row) {
        Fault(fmt::format("the row {} of the index is damaged", Quoted(key)));
      } else if (!AnyRow(*version_rows_, VersionKey(row->key, INT64_MAX),
                         VersionKey(row->key, row->revision))) {
        Fault(fmt::format("index {} has {} for {} since revision {}, but there is no such version",
                          row->index, Quoted(row->value), Quoted(row->key), row->revision));
      }
    });
    if (schema_.index && report_.index_rows != expected_index_rows_) {
      Fault(fmt::format("the index has {} rows, but the versions need {}", report_.index_rows,
                        expected_index_rows_));
    }
  }

  void CheckCounters() {
    std::uint64_t heads = 0;
    ForEach(rocks_.heads(), [&heads](std::string_view, std::string_view) { ++heads; });
    if (heads != report_.entries) {
      Fault(fmt::format("there are {} heads and {} entries", heads, report_.entries));
    }
    if (state_.entries != report_.entries) {
      Fault(
          fmt::format("the store counts {} entries, but has {}", state_.entries, report_.entries));
    }
    if (state_.live_bytes != live_bytes_) {
      Fault(fmt::format("the store counts {} bytes of entries, but has {}", state_.live_bytes,
                        live_bytes_));
    }
    if (state_.watch_window_bytes != watch_window_bytes_) {
      Fault(fmt::format("the store counts {} bytes in the watch window, but has {}",
                        state_.watch_window_bytes, watch_window_bytes_));
    }
  }

  void CheckMark() {
    const Status status =
        CheckRevisionMark(rocks_.db().GetEnv(), options_.directory, state_.revision);
    if (!status.ok()) Fault(status.message());
  }

  const RocksDb& rocks_;
  const RocksDbOptions& options_;
  const Schema& schema_;
  const State state_;
  const std::unique_ptr<rocksdb::Iterator> index_rows_ = RowsOf(rocks_.index());
  const std::unique_ptr<rocksdb::Iterator> version_rows_ = RowsOf(rocks_.versions());
  CheckReport report_;
  std::vector<Revision> with_expiry_;  // sorted; eight bytes for each entry of the store
  // Index entries of the next newer version of the same key.
  std::set<std::pair<std::uint8_t, std::string>> newer_entries_;
  std::uint64_t expected_index_rows_ = 0;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t watch_window_bytes_ = 0;
};

// Makes a copied file as durable as the original.
Status SyncPath(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Failed("open", path, std::strerror(errno));
  const bool synced = ::fsync(file) == 0;
  const int why = errno;
  ::close(file);
  return synced ? Status() : Failed("sync", path, std::strerror(why));
}

// Directory where a copy is made before it is moved to its place; see CopyStore().
constexpr std::string_view kStage = "copying.tmp";

// Whether there is nothing but what file systems and interrupted copies leave.
bool IsEmpty(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::directory_iterator files(directory, error);
  if (error) return false;
  return std::all_of(begin(files), end(files), [](const auto& file) {
    const std::string name = file.path().filename().string();
    return name == "lost+found" || name == kStage;
  });
}

// Whether a file of a data directory is part of the store: not the lock, RocksDB's info log, or a
// file that was not completed.
bool BelongsToStore(std::string_view name) {
  return name != "LOCK" && name != "LOG" && name != "LOG.old" && !name.ends_with(".tmp");
}

}  // namespace

Status CopyStore(const std::filesystem::path& source, const std::filesystem::path& target,
                 const std::function<bool()>& still_whole) {
  std::error_code error;
  if (!std::filesystem::exists(source / "CURRENT", error)) {
    return Status(StatusReason::kNotFound, fmt::format("there is no store in {}", source.string()));
  }
  // Without trailing slash, dots and symbolic links.
  std::filesystem::path directory =
      std::filesystem::weakly_canonical(std::filesystem::absolute(target, error), error);
  if (error) return Failed("find", target, error.message());
  if (!directory.has_filename()) directory = directory.parent_path();
  const bool existed = std::filesystem::exists(directory, error);
  if (existed && !std::filesystem::is_directory(directory, error)) {
    return Status(StatusReason::kInvalid, fmt::format("{} is not a directory", target.string()));
  }
  if (existed && !IsEmpty(directory)) {
    return Status(StatusReason::kInvalid,
                  fmt::format("the directory {} is not empty", target.string()));
  }
  // All files are copied to a directory within the target first and then moved, CURRENT last: a
  // store without that file cannot be opened. Not to a directory beside it, because the target may
  // be a file system of its own.
  const std::filesystem::path stage = directory / kStage;
  std::filesystem::remove_all(stage, error);
  std::vector<std::filesystem::path> names;
  std::size_t moved = 0;
  const auto copy = [&]() -> Status {
    std::filesystem::create_directories(stage, error);
    if (error) return Failed("make", directory, error.message());
    for (const auto& file : std::filesystem::directory_iterator(source, error)) {
      const std::filesystem::path name = file.path().filename();
      if (!file.is_regular_file() || !BelongsToStore(name.string())) continue;
      std::filesystem::copy_file(file.path(), stage / name, error);
      if (error) return Failed("copy", file.path(), error.message());
      const Status synced = SyncPath(stage / name);
      if (!synced.ok()) return synced;
      names.push_back(name);
    }
    if (error) return Failed("read", source, error.message());
    const auto current = std::find(names.begin(), names.end(), "CURRENT");
    if (current == names.end() || (still_whole && !still_whole())) {
      return Failed("copy", source, "its files were removed during the copy");
    }
    std::iter_swap(current, names.end() - 1);
    for (const std::filesystem::path& name : names) {
      if (name == "CURRENT") {
        const Status synced = SyncPath(directory);
        if (!synced.ok()) return synced;
      }
      std::filesystem::rename(stage / name, directory / name, error);
      if (error) return Failed("make", directory / name, error.message());
      ++moved;
    }
    std::filesystem::remove(stage, error);
    Status synced = SyncPath(directory);
    return synced.ok() ? SyncPath(directory.parent_path()) : synced;
  };
  Status copied = copy();
  if (copied.ok()) return copied;
  // CURRENT first, for the same reason.
  for (; moved > 0; --moved) std::filesystem::remove(directory / names[moved - 1], error);
  std::filesystem::remove_all(stage, error);
  if (!existed) std::filesystem::remove(directory, error);
  return copied;
}

Status BackupStore(const std::filesystem::path& directory, const std::filesystem::path& target,
                   BackupMode mode) {
  RocksDbOptions options;
  options.directory = directory;
  options.create = false;
  const Result<std::unique_ptr<RocksDb>> rocks = RocksDb::Open(options);
  if (!rocks) return rocks.error();
  return BackupDatabase(&(*rocks)->db(), target, mode);
}

Result<CheckReport> CheckStore(const std::filesystem::path& directory, const Schema& schema) {
  RocksDbOptions options;
  options.directory = directory;
  options.create = false;
  options.read_only = true;
  options.check_mark = false;  // the Checker reports it with everything else
  std::error_code error;
  if (!std::filesystem::exists(directory / "CURRENT", error)) {
    return Status(StatusReason::kNotFound,
                  fmt::format("there is no store in {}", directory.string()));
  }
  const auto lock = DirectoryLock::Take(directory);
  if (!lock) return lock.error();
  const Result<std::unique_ptr<RocksDb>> rocks = RocksDb::Open(options);
  if (!rocks) return rocks.error();
  return Checker(**rocks, options, schema).Run();
}

Result<AcceptedLoss> AcceptLoss(const std::filesystem::path& directory, const Schema& schema) {
  RocksStoreOptions rocks;
  rocks.db.directory = directory;
  rocks.db.create = false;
  rocks.db.check_mark = false;
  StoreOptions options;
  options.schema = schema;
  options.background = false;
  rocksdb::Env* const env = rocksdb::Env::Default();
  // Read before the store is opened, because closing it writes a new mark.
  const Result<std::optional<Revision>> mark = ReadRevisionMark(env, directory);
  if (!mark && !mark.error().Is(StatusReason::kCorruption)) return mark.error();
  Result<std::unique_ptr<RocksStore>> store = RocksStore::Open(std::move(options), rocks);
  if (!store) return store.error();
  AcceptedLoss loss;
  loss.recovered = (*store)->Stats().revision;
  loss.acknowledged = mark ? mark->value_or(0) : 0;
  if (mark && loss.acknowledged <= loss.recovered) {
    return Status(StatusReason::kInvalid,
                  fmt::format("no acknowledged event is known to be missing in {}: it ends at "
                              "revision {}, and revision {} is marked as acknowledged",
                              directory.string(), loss.recovered, loss.acknowledged));
  }
  loss.continues_at = std::max(loss.recovered, loss.acknowledged) + kLossMargin;
  const Status skipped = (*store)->SkipTo(loss.continues_at);
  if (!skipped.ok()) return skipped;
  return loss;
}

Status RestoreStore(const std::filesystem::path& backup, const std::filesystem::path& directory) {
  std::error_code error;
  if (std::filesystem::exists(directory, error) && !IsEmpty(directory)) {
    return Status(StatusReason::kInvalid,
                  fmt::format("the directory {} is not empty", directory.string()));
  }
  const Result<CheckReport> report = CheckStore(backup, Schema());
  if (!report) return report.error();
  if (!report->ok()) {
    return Status(StatusReason::kCorruption, fmt::format("the backup {} is damaged: {}",
                                                         backup.string(), report->faults.front()));
  }
  return CopyStore(backup, directory);
}

}  // namespace herald::store
