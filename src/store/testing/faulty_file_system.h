// A file system that fails on request, for tests.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace herald::store {

// The faults of a FaultyFileSystem. Thread-safe, except before_write, which is set before use.
struct Faults {
  // A full disk: every write fails from now on, after half of its bytes.
  std::atomic<bool> disk_full = false;
  // A disk that became read-only: every write fails from now on, and changes nothing.
  std::atomic<bool> read_only = false;
  // Bytes that are not synced are lost with the process, as in a power failure: they are kept in
  // memory until Sync(). Must be set before the first file is opened.
  std::atomic<bool> lose_unsynced = false;
  // Called before each write, sync and rename; it may end the process. Null: not called.
  std::function<void()> before_write{};
};

// The machine's file system with faults. The faults are borrowed and outlive it. Thread-safe.
class FaultyFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit FaultyFileSystem(Faults* faults)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), faults_(*faults) {}

  static std::unique_ptr<rocksdb::Env> MakeEnv(Faults* faults) {
    return rocksdb::NewCompositeEnv(std::make_shared<FaultyFileSystem>(faults));
  }

  const char* Name() const override { return "FaultyFileSystem"; }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override {
    const rocksdb::IOStatus fault = Fault();
    if (!fault.ok()) return fault;
    std::unique_ptr<rocksdb::FSWritableFile> file;
    const rocksdb::IOStatus status = target()->NewWritableFile(name, options, &file, debug);
    if (status.ok()) *result = std::make_unique<File>(this, std::move(file));
    return status;
  }

  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    const rocksdb::IOStatus fault = Fault();
    return fault.ok() ? target()->RenameFile(from, to, options, debug) : fault;
  }

 private:
  class File final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(FaultyFileSystem* system, std::unique_ptr<rocksdb::FSWritableFile> file)
        : FSWritableFileOwnerWrapper(std::move(file)), system_(*system) {}

    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override {
      const rocksdb::IOStatus fault = system_.Fault();
      if (!fault.ok()) {
        if (system_.faults_.disk_full) {
          const rocksdb::Slice half(data.data(), data.size() / 2);
          target()->Append(half, options, debug).PermitUncheckedError();
        }
        return fault;
      }
      if (system_.faults_.lose_unsynced) {
        unsynced_.append(data.data(), data.size());
        return rocksdb::IOStatus::OK();
      }
      return target()->Append(data, options, debug);
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo&,
                             rocksdb::IODebugContext* debug) override {
      return Append(data, options, debug);
    }
    rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
      rocksdb::IOStatus status = system_.Fault();
      if (status.ok()) status = WriteThrough(options, debug);
      return status.ok() ? target()->Sync(options, debug) : status;
    }
    rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                            rocksdb::IODebugContext* debug) override {
      rocksdb::IOStatus status = system_.Fault();
      if (status.ok()) status = WriteThrough(options, debug);
      return status.ok() ? target()->Fsync(options, debug) : status;
    }
    rocksdb::IOStatus RangeSync(std::uint64_t offset, std::uint64_t size,
                                const rocksdb::IOOptions& options,
                                rocksdb::IODebugContext* debug) override {
      // Only a hint to the kernel.
      if (system_.faults_.lose_unsynced) return rocksdb::IOStatus::OK();
      return target()->RangeSync(offset, size, options, debug);
    }
    rocksdb::IOStatus Close(const rocksdb::IOOptions& options,
                            rocksdb::IODebugContext* debug) override {
      // The bytes are in the page cache, so a reader that opens the file now finds them.
      const rocksdb::IOStatus status = WriteThrough(options, debug);
      return status.ok() ? target()->Close(options, debug) : status;
    }
    std::uint64_t GetFileSize(const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* debug) override {
      return target()->GetFileSize(options, debug) + unsynced_.size();
    }

   private:
    rocksdb::IOStatus WriteThrough(const rocksdb::IOOptions& options,
                                   rocksdb::IODebugContext* debug) {
      if (unsynced_.empty()) return rocksdb::IOStatus::OK();
      const std::string bytes = std::exchange(unsynced_, {});
      return target()->Append(bytes, options, debug);
    }

    FaultyFileSystem& system_;
    std::string unsynced_;
  };

  rocksdb::IOStatus Fault() const {
    if (faults_.before_write) faults_.before_write();
    if (faults_.disk_full) return rocksdb::IOStatus::NoSpace("No space left on device");
    if (faults_.read_only) return rocksdb::IOStatus::IOError("Read-only file system");
    return rocksdb::IOStatus::OK();
  }

  Faults& faults_;
};

}  // namespace herald::store
