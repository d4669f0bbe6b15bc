#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/thread/fair_queue.h"
#include "herald/base/executor.h"
#include "herald/base/status.h"
#include "store/rocks/options.h"
#include "store/rocks/published_state.h"
#include "store/rocks/reader.h"
#include "store/rocks/shared_database.h"
#include "store/store.h"

namespace herald::store {

// A ReadScheduler runs each read on a thread where it delays no other:
//
//   caller's thread  a few rows that are in memory, some tens of microseconds; the caller may be
//                    an event loop
//        | not in memory, or not finished
//        v
//   read pool        slices of about 2 ms, in the order of a FairQueue; a short read waits for one
//                    slice per thread at most, never for a whole long read
//        | a large value
//        v
//   slow thread      one thread: to decode and encode an event of 3 MiB takes 100 ms, which nothing
//                    can interrupt
//
// Reads use versions at a revision and never wait for writes. A read of the latest revision that
// compaction overtakes between two slices starts again at the new latest revision.
//
// Thread-safe.
class ReadScheduler {
 public:
  // All are borrowed.
  ReadScheduler(const RocksStoreOptions* options, SharedDatabase* database,
                PublishedState* published);
  // Stops.
  ~ReadScheduler();
  ReadScheduler(const ReadScheduler&) = delete;
  ReadScheduler& operator=(const ReadScheduler&) = delete;

  // Ends the threads. Reads that wait end with kCancelled. Idempotent.
  void Stop();

  // See Store.
  void Get(std::string key, Store::EntryDone done);
  void Read(Query query, Store::PageDone done);

  // Reads changes from the log, for watches that lag; see WatchHub::Reader. May block on the disk.
  Result<Watch::Batch> ReadLog(const std::string& prefix, Revision after, std::size_t max);
  // The read pool.
  Executor* executor() { return &pool_; }

 private:
  class ScheduledRead;
  using ScheduledReadPtr = std::shared_ptr<ScheduledRead>;

  Result<KeyState> FindNewest(const std::string& key);
  // Nothing if it is not in memory.
  Result<std::optional<KeyState>> FindNewestIfCached(const std::string& key);
  void Queue(FairQueue* queue, const ScheduledReadPtr& read, RocksReader::Effort effort);
  // Runs one slice of a read. Completes the read if it was the last one, or moves it to the slow
  // thread.
  FairQueue::Step RunSlice(const ScheduledReadPtr& read, RocksReader::Effort effort);
  Result<RocksReader::Slice> ReadSlice(const Query& query, RocksReader::Effort effort, Page so_far);

  const RocksStoreOptions& options_;
  SharedDatabase& database_;
  PublishedState& published_;

  Executor pool_;
  Executor slow_thread_;
  std::unique_ptr<FairQueue> queue_;       // of pool_
  std::unique_ptr<FairQueue> slow_queue_;  // of slow_thread_
};

}  // namespace herald::store
