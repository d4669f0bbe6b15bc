#include "record/channel.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace herald {

Channel::Channel(const Options& options, Hooks hooks)
    : options_(options), hooks_(std::move(hooks)) {}

// An event larger than the whole queue is let in when it is alone: refusing it would
// lose it for a reason that nobody can mend.
bool Channel::HasRoom(std::size_t bytes) const {
  if (queue_.size() >= options_.max_events) return false;
  return queue_.empty() || bytes_ + bytes <= options_.max_bytes;
}

bool Channel::EvictNormal(std::vector<Published>* evicted) {
  const auto normal = std::find_if(queue_.begin(), queue_.end(), [](const Published& published) {
    return published.event->type != kWarning;
  });
  if (normal == queue_.end()) return false;
  bytes_ -= normal->bytes;
  evicted->push_back(std::move(*normal));
  queue_.erase(normal);
  return true;
}

std::size_t Channel::Offer(const std::vector<Published>& batch, std::uint64_t base,
                           std::size_t from) {
  std::vector<Published> dropped;
  bool wake = false;
  std::size_t i = from;
  {
    MutexLock lock(mu_);
    if (closed_) return batch.size();
    if (base + i < options_.first_position) {
      i = std::min<std::uint64_t>(batch.size(), options_.first_position - base);
    }
    const bool was_empty = queue_.empty();
    for (; i < batch.size(); ++i) {
      const Published& published = batch[i];
      while (!HasRoom(published.bytes) && options_.prefer_warnings &&
             published.event->type == kWarning && EvictNormal(&dropped)) {
      }
      if (HasRoom(published.bytes)) {
        bytes_ += published.bytes;
        queue_.push_back(published);
      } else if (options_.when_full == WhenFull::kDrop) {
        dropped.push_back(published);
      } else {
        wants_room_ = true;
        break;
      }
    }
    dropped_ += dropped.size();
    wake = was_empty && !queue_.empty();
  }
  if (wake) {
    not_empty_.NotifyAll();
    if (hooks_.on_items) hooks_.on_items();
  }
  if (hooks_.on_drop) {
    for (const Published& published : dropped) hooks_.on_drop(published);
  }
  return i;
}

void Channel::Preload(std::vector<Published> events) {
  MutexLock lock(mu_);
  for (const Published& published : events) bytes_ += published.bytes;
  queue_.insert(queue_.begin(), std::make_move_iterator(events.begin()),
                std::make_move_iterator(events.end()));
}

std::size_t Channel::TakeLocked(std::size_t max, std::vector<Published>* out) {
  const std::size_t count = std::min(max, queue_.size());
  for (std::size_t i = 0; i < count; ++i) {
    bytes_ -= queue_.front().bytes;
    out->push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return count;
}

std::size_t Channel::Take(std::size_t max, std::vector<Published>* out) {
  std::size_t count = 0;
  bool room = false;
  {
    MutexLock lock(mu_);
    count = TakeLocked(max, out);
    room = count > 0 && std::exchange(wants_room_, false);
  }
  if (room && hooks_.on_room) hooks_.on_room();
  return count;
}

std::size_t Channel::WaitAndTake(std::size_t max, std::vector<Published>* out) {
  std::size_t count = 0;
  bool room = false;
  {
    MutexLock lock(mu_);
    not_empty_.Wait(lock, [this]() REQUIRES(mu_) { return !queue_.empty() || closed_; });
    count = TakeLocked(max, out);
    room = count > 0 && std::exchange(wants_room_, false);
  }
  if (room && hooks_.on_room) hooks_.on_room();
  return count;
}

void Channel::Close() {
  bool room = false;
  {
    MutexLock lock(mu_);
    closed_ = true;
    room = std::exchange(wants_room_, false);
  }
  not_empty_.NotifyAll();
  if (room && hooks_.on_room) hooks_.on_room();
}

void Channel::CloseAndDiscard() {
  std::deque<Published> discarded;
  {
    MutexLock lock(mu_);
    discarded.swap(queue_);
    bytes_ = 0;
  }
  Close();
  if (!hooks_.on_drop) return;
  for (const Published& published : discarded) hooks_.on_drop(published);
}

bool Channel::empty() const {
  MutexLock lock(mu_);
  return queue_.empty();
}

std::uint64_t Channel::dropped() const {
  MutexLock lock(mu_);
  return dropped_;
}

}  // namespace herald
