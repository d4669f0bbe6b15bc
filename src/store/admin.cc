#include "store/admin.h"

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

#include "store/rocks_db.h"
#include "store/rocks_format.h"

namespace herald::store {
namespace {

// Keeps others from opening a store while it is read: RocksDB's own read-only mode
// does not look whether someone is writing.
class DirectoryLock {
 public:
  static Result<std::unique_ptr<DirectoryLock>> Take(const std::filesystem::path& directory) {
    rocksdb::FileLock* lock = nullptr;
    const std::string name = (directory / "LOCK").string();
    if (!rocksdb::Env::Default()->LockFile(name, &lock).ok()) {
      return Status(StatusReason::kServiceUnavailable,
                    fmt::format("the data directory {} is in use by another process, or not ours",
                                directory.string()));
    }
    return std::unique_ptr<DirectoryLock>(new DirectoryLock(lock));
  }
  ~DirectoryLock() { rocksdb::Env::Default()->UnlockFile(lock_).PermitUncheckedError(); }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  explicit DirectoryLock(rocksdb::FileLock* lock) : lock_(lock) {}
  rocksdb::FileLock* const lock_;
};

std::string Quoted(std::string_view key) {
  std::string text = "\"";
  for (const char c : key) {
    const bool plain = c >= ' ' && c < '\x7f';
    text += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return text + '"';
}

// One pass over each column family. Confined to the thread that checks.
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
      Fault(fmt::format("the rows \"{}\" cannot all be read: {}", family->GetName(),
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
    Revision newer = 0;  // the version of the same key that came before, so the one after it
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

  // An entry of the index has one row for as long as one version after the other has it.
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

  // For AnyRow(), which is asked once for each row: to make one takes longer than to use it.
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
      if (newer == 0 && HeadOf(parsed.key) != 0) Fault(name + " is a deletion, yet it has a head");
      return;
    }
    if (newer == 0) {
      ++report_.entries;
      live_bytes_ += EntryBytes(parsed.key.size(), version.value.size());
      const Revision created = HeadOf(parsed.key);
      if (created == 0) Fault(name + " is the newest, but there is no head");
      if (created > parsed.revision || !IsCreation(parsed.key, created)) {
        Fault(fmt::format("the head of {} says {}, which did not create it", Quoted(parsed.key),
                          created));
      }
      if (version.expires != WallTime::max() &&
          !std::binary_search(with_expiry_.begin(), with_expiry_.end(), created)) {
        Fault(name + " will never expire");
      }
    } else {
      history_bytes_ += EntryBytes(parsed.key.size(), version.value.size());
    }
  }

  // Whether a revision can have created a key, as far as the log still knows.
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
        history_bytes_ += LogBytes(key.size());
        const Revision before = std::max(last, state_.compacted);
        if (*revision != before + 1) {
          Fault(fmt::format("the log has no revision {}", before + 1));
        }
        if (log->previous != 0 && !Exists(rocks_.versions(), VersionKey(key, log->previous))) {
          Fault(fmt::format("version {} of {}, which revision {} replaced, is missing",
                            log->previous, Quoted(key), *revision));
        }
      } else if (log->deleted) {
        // Others stay for as long as their version does.
        Fault(fmt::format("revision {} of the log should have been compacted", *revision));
      }
      if (!Exists(rocks_.versions(), VersionKey(key, *revision))) {
        Fault(fmt::format("version {} of {}, which the log knows, is missing", *revision,
                          Quoted(key)));
      }
      last = *revision;
    });
    if (std::max(last, state_.compacted) != state_.revision) {
      Fault(
          fmt::format("the log ends at revision {}, and the latest is {}", last, state_.revision));
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
        Fault(fmt::format("index {} has {} for {} since revision {}, and no such version exists",
                          row->index, Quoted(row->value), Quoted(row->key), row->revision));
      }
    });
    if (schema_.index && report_.index_rows != expected_index_rows_) {
      Fault(fmt::format("the index has {} rows, and the versions ask for {}", report_.index_rows,
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
      Fault(fmt::format("the store counts {} entries and has {}", state_.entries, report_.entries));
    }
    if (state_.live_bytes != live_bytes_) {
      Fault(fmt::format("the store counts {} bytes of entries and has {}", state_.live_bytes,
                        live_bytes_));
    }
    if (state_.history_bytes != history_bytes_) {
      Fault(fmt::format("the store counts {} bytes of history and has {}", state_.history_bytes,
                        history_bytes_));
    }
  }

  const RocksDb& rocks_;
  const RocksDbOptions& options_;
  const Schema& schema_;
  const State state_;
  const std::unique_ptr<rocksdb::Iterator> index_rows_ = RowsOf(rocks_.index());
  const std::unique_ptr<rocksdb::Iterator> version_rows_ = RowsOf(rocks_.versions());
  CheckReport report_;
  std::vector<Revision> with_expiry_;  // sorted; eight bytes for each entry of the store
  // Of the version that came before, if that was of the same key.
  std::set<std::pair<std::uint8_t, std::string>> newer_entries_;
  std::uint64_t expected_index_rows_ = 0;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t history_bytes_ = 0;
};

Status Failed(std::string_view what, const std::filesystem::path& path, const std::string& why) {
  return Status(StatusReason::kServiceUnavailable,
                fmt::format("cannot {} {}: {}", what, path.string(), why));
}

// So that what was copied survives the power as the original did.
Status SyncPath(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Failed("open", path, std::strerror(errno));
  const bool synced = ::fsync(file) == 0;
  const int why = errno;
  ::close(file);
  return synced ? Status() : Failed("sync", path, std::strerror(why));
}

}  // namespace

Status BackupStore(const std::filesystem::path& directory, const std::filesystem::path& target) {
  RocksDbOptions options;
  options.directory = directory;
  options.create = false;
  const Result<std::unique_ptr<RocksDb>> rocks = RocksDb::Open(options);
  if (!rocks) return rocks.error();
  return (*rocks)->CopyTo(target);
}

Result<CheckReport> CheckStore(const std::filesystem::path& directory, const Schema& schema) {
  RocksDbOptions options;
  options.directory = directory;
  options.create = false;
  options.read_only = true;
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

Status RestoreStore(const std::filesystem::path& backup, const std::filesystem::path& directory) {
  std::error_code error;
  if (std::filesystem::exists(directory, error) && !std::filesystem::is_empty(directory, error)) {
    return Status(StatusReason::kInvalid,
                  fmt::format("the directory {} is not empty", directory.string()));
  }
  const Result<CheckReport> report = CheckStore(backup, Schema());
  if (!report) return report.error();
  if (!report->ok()) {
    return Status(StatusReason::kCorruption, fmt::format("the backup {} is damaged: {}",
                                                         backup.string(), report->faults.front()));
  }

  // Beside its place first, so that a store that is only half there is never opened.
  std::filesystem::path beside = directory;
  beside += ".restoring";
  std::filesystem::remove_all(beside, error);
  const auto copy = [&]() -> Status {
    std::filesystem::create_directories(beside, error);
    if (error) return Failed("make", beside, error.message());
    for (const auto& file : std::filesystem::directory_iterator(backup, error)) {
      const std::filesystem::path name = file.path().filename();
      if (name == "LOCK" || !file.is_regular_file()) continue;
      std::filesystem::copy_file(file.path(), beside / name, error);
      if (error) return Failed("write", beside / name, error.message());
      const Status synced = SyncPath(beside / name);
      if (!synced.ok()) return synced;
    }
    if (error) return Failed("read", backup, error.message());
    Status synced = SyncPath(beside);
    if (!synced.ok()) return synced;
    std::filesystem::rename(beside, directory, error);  // also onto an empty directory
    if (error) return Failed("make", directory, error.message());
    return SyncPath(std::filesystem::absolute(directory).parent_path());
  };
  Status copied = copy();
  if (!copied.ok()) std::filesystem::remove_all(beside, error);
  return copied;
}

}  // namespace herald::store
