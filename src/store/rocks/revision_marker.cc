#include "store/rocks/revision_marker.h"

#include <chrono>
#include <limits>
#include <utility>

#include "store/rocks/revision_mark.h"

namespace herald::store {
namespace {

// How old an acknowledged write may become before the committer marks its revision.
constexpr std::chrono::seconds kMaxUnmarked{5};

}  // namespace

RevisionMarker::RevisionMarker(const RocksStoreOptions* options, const PublishedState* published)
    : options_(*options), published_(*published) {
  const Result<std::optional<Revision>> mark =
      ReadRevisionMark(EnvOf(options_.db), options_.db.directory);
  marked_ = mark ? mark->value_or(0) : std::numeric_limits<Revision>::max();
}

void RevisionMarker::Mark() {
  Status failure;
  {
    MutexLock lock(mu_);
    due_ = false;
    const Revision revision = published_.state().revision;
    if (revision <= marked_) return;
    const Status status = WriteRevisionMark(EnvOf(options_.db), options_.db.directory, revision);
    if (status.ok()) {
      marked_ = revision;
      failed_ = false;
    } else if (!std::exchange(failed_, true)) {
      failure = status;
    }
  }
  if (!failure.ok()) {
    options_.Log(LogLevel::kWarn, "cannot mark the latest acknowledged revision",
                 failure.message());
  }
}

void RevisionMarker::MarkAfterLoss() {
  marked_ = 0;
  Mark();
}

void RevisionMarker::MarkIfDue(SteadyTime now) {
  if (marked_ >= published_.visible()) {
    unmarked_since_.reset();
    return;
  }
  if (!unmarked_since_) unmarked_since_ = now;
  if (!due_ && now - *unmarked_since_ < kMaxUnmarked) return;
  Mark();
  unmarked_since_ = now;  // after a failure, the next attempt waits as long
}

}  // namespace herald::store
