#pragma once

#include <atomic>
#include <optional>

#include "base/thread/mutex.h"
#include "herald/base/clock.h"
#include "store/rocks/options.h"
#include "store/rocks/published_state.h"
#include "store/store.h"

namespace herald::store {

// A RevisionMarker keeps the revision mark (see revision_mark.h) of an open store up to date.
//
// Maintenance marks each time it runs, about once a second. Where that takes longer, because it
// compacts gigabytes, and after RocksDB has begun a new write-ahead log, the committer marks. So an
// acknowledged write is unmarked for a few seconds at most.
//
// The mark never decreases, except by MarkAfterLoss().
//
// Thread-safe, except MarkIfDue(). Lock order: after Maintenance::mu_; takes PublishedState's.
class RevisionMarker {
 public:
  // Reads the mark that is there. Both are borrowed.
  RevisionMarker(const RocksStoreOptions* options, const PublishedState* published);
  RevisionMarker(const RevisionMarker&) = delete;
  RevisionMarker& operator=(const RevisionMarker&) = delete;

  // Marks the latest acknowledged revision if that is above the mark. A failure is logged once.
  void Mark() EXCLUDES(mu_);
  // Also replaces a mark that is higher, or damaged: an operator has accepted the loss.
  void MarkAfterLoss() EXCLUDES(mu_);
  // RocksDB has begun a new write-ahead log.
  void SetDue() { due_ = true; }

  // After a batch that was begun at `now`: marks if it is time. Only the committer's thread.
  void MarkIfDue(SteadyTime now) EXCLUDES(mu_);

 private:
  const RocksStoreOptions& options_;
  const PublishedState& published_;

  std::atomic<bool> due_ = false;  // a log was begun since the last mark
  // The maximum if the mark cannot be read, so that Mark() does not replace it.
  std::atomic<Revision> marked_ = 0;
  // When the first write after the last mark was committed; nothing if all is marked. The
  // committer's thread only.
  std::optional<SteadyTime> unmarked_since_;

  Mutex mu_;                             // one writer of the mark at a time
  bool failed_ GUARDED_BY(mu_) = false;  // the last Mark(), which was logged
};

}  // namespace herald::store
