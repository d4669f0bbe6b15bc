#include "store/rocks/backup.h"

#include <fmt/core.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/metadata.h>

#include <algorithm>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "store/rocks/database.h"
#include "store/rocks/format.h"
#include "store/rocks/revision_mark.h"

namespace herald::store {
namespace {

// Bytes that are read and written at a time: enough to be fast on any disk, few enough that a
// backup can be cancelled at once.
constexpr std::size_t kCopyBytes = 1u << 20;

// Keeps the database from deleting files. Thread-confined.
class KeepFiles {
 public:
  explicit KeepFiles(rocksdb::DB* db) : db_(*db), status_(db->DisableFileDeletions()) {}
  ~KeepFiles() {
    if (status_.ok()) db_.EnableFileDeletions(/*force=*/false).PermitUncheckedError();
  }
  KeepFiles(const KeepFiles&) = delete;
  KeepFiles& operator=(const KeepFiles&) = delete;

  const rocksdb::Status& status() const { return status_; }

 private:
  rocksdb::DB& db_;
  const rocksdb::Status status_;
};

// A backup that is being made. Thread-confined.
class Backup {
 public:
  Backup(rocksdb::DB* db, const std::filesystem::path& directory, BackupMode mode,
         const std::function<bool()>& cancelled)
      : db_(*db),
        env_(*db->GetEnv()),
        directory_(directory.string()),
        mode_(mode),
        cancelled_(cancelled) {}

  rocksdb::Status Run() {
    rocksdb::Status status = env_.CreateDir(directory_);
    if (!status.ok()) return status;
    // Read before the files are listed, so that they contain all writes up to the mark.
    std::string row;
    status = db_.Get({}, db_.DefaultColumnFamily(), ToSlice(kStateKey), &row);
    if (!status.ok()) return status;
    const auto state = DecodeState(row);
    if (!state) return rocksdb::Status::Corruption("the row \"state\" is damaged");

    const KeepFiles keep(&db_);
    if (!keep.status().ok()) return keep.status();
    std::vector<rocksdb::LiveFileStorageInfo> files;
    status = db_.GetLiveFilesStorageInfo(rocksdb::LiveFilesStorageInfoOptions(), &files);
    for (const rocksdb::LiveFileStorageInfo& file : files) {
      if (!status.ok()) break;
      status = Take(file);
    }
    if (!status.ok()) return status;
    const Status marked = WriteRevisionMark(&env_, directory_, state->revision);
    if (!marked.ok()) return rocksdb::Status::IOError(marked.message());
    return SyncDirectory(directory_);
  }

  rocksdb::Status SyncDirectory(const std::string& name) {
    std::unique_ptr<rocksdb::Directory> directory;
    const rocksdb::Status status = env_.NewDirectory(name, &directory);
    return status.ok() ? directory->Fsync() : status;
  }

 private:
  rocksdb::Status Take(const rocksdb::LiveFileStorageInfo& file) {
    const std::string target = directory_ + "/" + file.relative_filename;
    if (!file.replacement_contents.empty()) {
      return rocksdb::WriteStringToFile(&env_, file.replacement_contents, target,
                                        /*should_sync=*/true);
    }
    const std::string source = file.directory + "/" + file.relative_filename;
    // Files that may still grow must not be shared.
    if (mode_ == BackupMode::kHardLink && file.file_type == rocksdb::kTableFile &&
        !file.trim_to_size) {
      const rocksdb::Status linked = env_.LinkFile(source, target);
      if (!linked.IsNotSupported()) return linked;  // another file system
    }
    return Copy(source, target, file.size);
  }

  rocksdb::Status Copy(const std::string& source, const std::string& target, std::uint64_t size) {
    std::unique_ptr<rocksdb::SequentialFile> from;
    std::unique_ptr<rocksdb::WritableFile> to;
    rocksdb::Status status = env_.NewSequentialFile(source, &from, rocksdb::EnvOptions());
    if (status.ok()) status = env_.NewWritableFile(target, &to, rocksdb::EnvOptions());
    if (!status.ok()) return status;
    const std::unique_ptr<char[]> buffer = std::make_unique<char[]>(kCopyBytes);
    while (status.ok() && size > 0) {
      if (cancelled_ && cancelled_()) status = rocksdb::Status::Aborted("the backup was cancelled");
      rocksdb::Slice bytes;
      if (status.ok()) {
        status = from->Read(std::min<std::uint64_t>(size, kCopyBytes), &bytes, buffer.get());
      }
      if (status.ok() && bytes.empty()) {
        status = rocksdb::Status::Corruption(source, "the file is shorter than it should be");
      }
      if (status.ok()) status = to->Append(bytes);
      size -= bytes.size();
    }
    if (status.ok()) status = to->Sync();
    const rocksdb::Status closed = to->Close();
    return status.ok() ? closed : status;
  }

  rocksdb::DB& db_;
  rocksdb::Env& env_;
  const std::string directory_;
  const BackupMode mode_;
  const std::function<bool()>& cancelled_;
};

}  // namespace

Status BackupDatabase(rocksdb::DB* db, const std::filesystem::path& target, BackupMode mode,
                      const std::function<bool()>& cancelled) {
  const auto fail = [&target](StatusReason reason, const std::string& why) {
    return Status(reason, fmt::format("cannot write the backup {}: {}", target.string(), why));
  };
  std::error_code error;
  if (std::filesystem::exists(target, error) || error) {
    return fail(StatusReason::kServiceUnavailable,
                error ? error.message() : std::string("it exists already"));
  }
  std::filesystem::path partial = target;
  partial += ".partial";
  std::filesystem::remove_all(partial, error);  // of a process that was killed
  Backup backup(db, partial, mode, cancelled);
  rocksdb::Status status = backup.Run();
  if (status.ok()) status = db->GetEnv()->RenameFile(partial.string(), target.string());
  if (!status.ok()) {
    std::filesystem::remove_all(partial, error);
    if (status.IsAborted()) return fail(StatusReason::kCancelled, "it was cancelled");
    return fail(FromRocks(status).reason(), status.ToString());
  }
  status = backup.SyncDirectory(std::filesystem::absolute(target).parent_path().string());
  return status.ok() ? Status() : fail(StatusReason::kServiceUnavailable, status.ToString());
}

}  // namespace herald::store
