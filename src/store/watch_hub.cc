#include "store/watch_hub.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace herald::store {
namespace {

// Limit on changes that one read of the log fetches for a lagging watch. Enough to be worth the
// read, few enough that a thousand lagging watches share a pool fairly.
constexpr std::size_t kFetch = 256;

std::size_t BytesOf(const Change& change) {
  std::size_t bytes = change.key().size();
  if (change.current().value) bytes += change.current().value->size();
  const std::optional<Entry>& previous = change.previous();
  if (previous && previous->value) bytes += previous->value->size();
  return bytes;
}

Status Expired(Revision after, Revision compacted) {
  return Status(StatusReason::kExpired, "changes after revision " + std::to_string(after) +
                                            " are no longer kept: the watch window begins at " +
                                            std::to_string(compacted));
}

}  // namespace

// One watch as the hub sees it. A watch is in exactly one state:
//
//   kReading --nothing new in the ring--> kWaiting --a change of its prefix--> kReading
//      |  ^                                                (its callback is called)
//      |  `------the task has read some----.
//      `--its position is before the ring--> kFetching --the log has nothing for it--> kWaiting
//
//   any --the next changes were compacted, or the log cannot be read--> kOver
//
// A waiting watch has seen all changes of its prefix, so it neither lags nor expires, however long
// nothing is written below its prefix.
struct WatchHub::Watcher {
  enum class State : std::uint8_t { kReading, kWaiting, kFetching, kOver };

  Watcher(std::string p, Revision after, std::function<void()> callback)
      : prefix(std::move(p)),
        ready(std::make_shared<const std::function<void()>>(std::move(callback))),
        position(after) {}

  bool Concerns(const Change& change) const {
    return change.revision() > position && change.key().starts_with(prefix);
  }

  const std::string prefix;
  const std::shared_ptr<const std::function<void()>> ready;

  // Guarded by the hub's mu_.
  State state = State::kReading;
  bool removed = false;
  Revision position;  // changes up to here were returned, or are of other prefixes
  Status why_over;    // in kOver
  // Changes that a task has read for it, and how far it has read; Next() returns them.
  std::deque<std::shared_ptr<const Change>> fetched;
  Revision fetched_to = 0;
};

class WatchHub::HubWatch final : public Watch {
 public:
  HubWatch(WatchHub* hub, std::shared_ptr<Watcher> watcher)
      : hub_(hub), watcher_(std::move(watcher)) {}
  ~HubWatch() override { hub_->Remove(watcher_); }

  Result<Batch> Next(std::size_t max) override { return hub_->Next(watcher_, max); }

 private:
  WatchHub* const hub_;
  const std::shared_ptr<Watcher> watcher_;
};

WatchHub::WatchHub(Revision head, Revision compacted, Reader reader, Options options)
    : reader_(std::move(reader)),
      options_(options),
      head_(head),
      compacted_(compacted),
      floor_(head) {}

WatchHub::~WatchHub() { HERALD_CHECK(watches() == 0, "a watch outlives its store"); }

void WatchHub::Wake(const Woken& woken) {
  for (const auto& ready : woken) (*ready)();
}

WatchHub::Woken WatchHub::Append(const std::vector<std::shared_ptr<const Change>>& changes,
                                 Revision head) {
  Woken woken;
  // Changes that leave the ring are destroyed without the lock, because that may free their values.
  std::vector<std::shared_ptr<const Change>> dropped;
  MutexLock lock(mu_);
  HERALD_CHECK(changes.empty() || changes.front()->revision() > head_,
               "all changes of a revision are appended at once");
  for (const auto& change : changes) {
    HERALD_CHECK(change->revision() >= head_, "changes must come in order");
    head_ = change->revision();
    ring_bytes_ += BytesOf(*change);
    ring_.push_back(change);
    const std::string_view key = change->key();
    for (auto length = waiting_.begin(); length != waiting_.end();) {
      const auto next = std::next(length);
      if (length->first > key.size()) break;
      ByPrefix& by_prefix = length->second;
      const auto found = by_prefix.find(key.substr(0, length->first));
      if (found != by_prefix.end()) {
        // A watch that starts at a later revision continues to wait.
        std::vector<Watcher*> concerned;
        for (Watcher* watcher : found->second) {
          if (watcher->Concerns(*change)) concerned.push_back(watcher);
        }
        for (Watcher* watcher : concerned) {
          StopWaiting(*watcher);
          watcher->state = Watcher::State::kReading;
          watcher->position = std::max(watcher->position, change->revision() - 1);
          woken.push_back(watcher->ready);
        }
      }
      length = next;
    }
  }
  head_ = std::max(head_, head);
  const std::size_t max_changes =
      watches_ > 0 ? options_.max_changes
                   : std::min(options_.max_changes, options_.max_unwatched_changes);
  while (ring_.size() > max_changes || (ring_bytes_ > options_.max_bytes && ring_.size() > 1)) {
    floor_ = ring_.front()->revision();
    ring_bytes_ -= BytesOf(*ring_.front());
    dropped.push_back(std::move(ring_.front()));
    ring_.pop_front();
  }
  lock.Unlock();
  return woken;
}

WatchHub::Woken WatchHub::Skip(Revision head) {
  Woken woken;
  std::deque<std::shared_ptr<const Change>> dropped;
  MutexLock lock(mu_);
  if (head <= head_) return woken;
  std::vector<Watcher*> behind;
  for (const auto& [length, by_prefix] : waiting_) {
    for (const auto& [prefix, watchers] : by_prefix) {
      for (Watcher* watcher : watchers) {
        if (std::max(watcher->position, head_) < head) behind.push_back(watcher);
      }
    }
  }
  for (Watcher* watcher : behind) {
    StopWaiting(*watcher);
    watcher->state = Watcher::State::kReading;
    watcher->position = std::max(watcher->position, head_);
    woken.push_back(watcher->ready);
  }
  head_ = head;
  floor_ = head;
  dropped.swap(ring_);
  ring_bytes_ = 0;
  lock.Unlock();
  return woken;
}

void WatchHub::Compacted(Revision revision) {
  std::vector<std::shared_ptr<const Change>> dropped;
  MutexLock lock(mu_);
  compacted_ = std::max(compacted_, std::min(revision, head_));
  while (!ring_.empty() && ring_.front()->revision() <= compacted_) {
    ring_bytes_ -= BytesOf(*ring_.front());
    dropped.push_back(std::move(ring_.front()));
    ring_.pop_front();
  }
  floor_ = std::max(floor_, compacted_);
  lock.Unlock();
}

Result<std::unique_ptr<Watch>> WatchHub::NewWatch(std::string prefix, Revision after,
                                                  std::function<void()> ready) {
  MutexLock lock(mu_);
  if (after == 0) after = head_;
  if (after < compacted_) return Expired(after, compacted_);
  ++watches_;
  return std::unique_ptr<Watch>(std::make_unique<HubWatch>(
      this, std::make_shared<Watcher>(std::move(prefix), after, std::move(ready))));
}

Revision WatchHub::head() const {
  MutexLock lock(mu_);
  return head_;
}

std::size_t WatchHub::watches() const {
  MutexLock lock(mu_);
  return watches_;
}

Result<Watch::Batch> WatchHub::Next(const std::shared_ptr<Watcher>& watcher, std::size_t max) {
  HERALD_CHECK(max > 0, "an empty batch means that the watch has caught up");
  Watcher& w = *watcher;
  Watch::Batch batch;
  MutexLock lock(mu_);
  for (;;) {
    switch (w.state) {
      case Watcher::State::kOver:
        return w.why_over;
      case Watcher::State::kFetching:
        batch.revision = w.position;
        return batch;
      case Watcher::State::kWaiting:
        // Called before `ready`, perhaps for a bookmark. The watch has seen all up to the head.
        w.position = std::max(w.position, head_);
        batch.revision = w.position;
        return batch;
      case Watcher::State::kReading:
        break;
    }

    if (!w.fetched.empty()) {
      TakeFetched(w, max, batch);
      return batch;
    }
    if (w.position < compacted_) {
      w.state = Watcher::State::kOver;
      w.why_over = Expired(w.position, compacted_);
      continue;
    }
    if (w.position >= floor_) {
      TakeFromRing(w, max, batch);
      if (batch.changes.empty()) StartWaiting(w);
      return batch;
    }

    // Lagging.
    if (options_.executor != nullptr) {
      w.state = Watcher::State::kFetching;
      batch.revision = w.position;
      lock.Unlock();
      options_.executor->Post([this, watcher] { Fetch(watcher); });
      return batch;
    }
    const Revision after = w.position;
    lock.Unlock();
    Result<Watch::Batch> read = reader_(w.prefix, after, max);
    lock.Lock();
    if (!read) {
      w.state = Watcher::State::kOver;
      w.why_over = read.error();
      continue;
    }
    w.position = std::max(after, read->revision);
    if (!read->changes.empty()) return read;
    // Compaction may delete the rest of the log while it is read; the loop then ends the watch.
    HERALD_CHECK(w.position > after || after < compacted_, "the reader of a log must advance");
  }
}

void WatchHub::Fetch(const std::shared_ptr<Watcher>& watcher) {
  Watcher& w = *watcher;
  MutexLock lock(mu_);
  for (;;) {
    if (w.removed) return;
    if (w.position < compacted_) {
      w.state = Watcher::State::kOver;
      w.why_over = Expired(w.position, compacted_);
      break;
    }
    // Also take from the ring, so that the callback is called only if there is something to read.
    if (w.position >= floor_) {
      const Revision before = w.position;
      Watch::Batch batch;
      TakeFromRing(w, kFetch, batch);
      if (batch.changes.empty()) {
        StartWaiting(w);
        return;
      }
      if (w.fetched.empty()) w.fetched_to = w.position;
      w.fetched.insert(w.fetched.begin(), batch.changes.begin(), batch.changes.end());
      w.position = before;
      w.state = Watcher::State::kReading;
      break;
    }
    const Revision after = w.position;
    lock.Unlock();
    Result<Watch::Batch> read = reader_(w.prefix, after, kFetch);
    lock.Lock();
    if (!read) {
      w.state = Watcher::State::kOver;
      w.why_over = read.error();
      break;
    }
    if (!read->changes.empty()) {
      w.fetched.assign(read->changes.begin(), read->changes.end());
      w.fetched_to = read->revision;
      w.state = Watcher::State::kReading;
      break;
    }
    w.position = std::max(after, read->revision);
    // As in Next(): if it did not advance, compaction has overtaken the watch.
    HERALD_CHECK(w.position > after || after < compacted_, "the reader of a log must advance");
  }
  const bool removed = w.removed;
  lock.Unlock();
  if (!removed) (*w.ready)();
}

void WatchHub::Remove(const std::shared_ptr<Watcher>& watcher) {
  std::deque<std::shared_ptr<const Change>> fetched;
  MutexLock lock(mu_);
  if (watcher->state == Watcher::State::kWaiting) StopWaiting(*watcher);
  watcher->removed = true;
  fetched.swap(watcher->fetched);
  --watches_;
  lock.Unlock();
}

void WatchHub::TakeFetched(Watcher& watcher, std::size_t max, Watch::Batch& batch) {
  while (!watcher.fetched.empty() && batch.changes.size() < max) {
    watcher.position = watcher.fetched.front()->revision();
    batch.changes.push_back(std::move(watcher.fetched.front()));
    watcher.fetched.pop_front();
  }
  if (watcher.fetched.empty()) watcher.position = std::max(watcher.position, watcher.fetched_to);
  const bool incomplete =
      !watcher.fetched.empty() && watcher.fetched.front()->revision() == watcher.position;
  batch.revision = incomplete ? watcher.position - 1 : watcher.position;
}

void WatchHub::TakeFromRing(Watcher& watcher, std::size_t max, Watch::Batch& batch) {
  auto it = std::upper_bound(ring_.begin(), ring_.end(), watcher.position,
                             [](Revision revision, const std::shared_ptr<const Change>& change) {
                               return revision < change->revision();
                             });
  // All changes of a revision, because a position cannot be inside one.
  std::size_t taken = 0;
  for (; it != ring_.end(); ++it) {
    if (taken >= max && (*it)->revision() != watcher.position) break;
    watcher.position = (*it)->revision();
    if (!(*it)->key().starts_with(watcher.prefix)) continue;
    if (++taken <= max) {
      batch.changes.push_back(*it);
    } else {
      watcher.fetched.push_back(*it);
    }
  }
  if (it == ring_.end()) watcher.position = std::max(watcher.position, head_);
  batch.revision = watcher.position;
  if (!watcher.fetched.empty()) {
    watcher.fetched_to = watcher.position;
    batch.revision = watcher.fetched.front()->revision() - 1;
  }
}

void WatchHub::StartWaiting(Watcher& watcher) {
  watcher.state = Watcher::State::kWaiting;
  waiting_[watcher.prefix.size()][watcher.prefix].insert(&watcher);
}

void WatchHub::StopWaiting(Watcher& watcher) {
  const auto length = waiting_.find(watcher.prefix.size());
  HERALD_CHECK(length != waiting_.end());
  ByPrefix& by_prefix = length->second;
  const auto found = by_prefix.find(watcher.prefix);
  HERALD_CHECK(found != by_prefix.end());
  found->second.erase(&watcher);
  if (found->second.empty()) by_prefix.erase(found);
  if (by_prefix.empty()) waiting_.erase(length);
}

}  // namespace herald::store
