#include "record/channel/channel.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

namespace herald {
namespace {

// A listener that has just taken kManyEvents will soon get more. Checking a few times with a yield
// is cheaper than to sleep and be woken.
constexpr std::size_t kManyEvents = 64;
constexpr int kLooks = 20;

}  // namespace

Channel::Channel(const Options& options, Hooks hooks)
    : options_(options), hooks_(std::move(hooks)) {}

// An event that is larger than the whole queue is queued if it is alone, or it could never be
// delivered.
bool Channel::HasRoom(std::size_t bytes) const {
  if (Waiting() >= options_.max_events) return false;
  return Waiting() == 0 || bytes_ + bytes <= options_.max_bytes;
}

bool Channel::EvictNormal(std::vector<Published>* evicted) {
  const auto normal = std::find_if(First(), queue_.end(), [](const Published& published) {
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
  return OfferEach(batch.begin(), batch.size(), base, from);
}

std::size_t Channel::OfferLast(std::vector<Published>* batch, std::uint64_t base, std::size_t from,
                               std::size_t bytes) {
  const std::size_t size = batch->size();
  if (from == 0 && base >= options_.first_position && SwapIn(batch, bytes)) return size;
  return OfferEach(std::make_move_iterator(batch->begin()), size, base, from);
}

bool Channel::SwapIn(std::vector<Published>* batch, std::size_t bytes) {
  {
    MutexLock lock(mu_);
    if (closed_ || Waiting() > 0 || batch->empty()) return false;
    if (batch->size() > options_.max_events || bytes > options_.max_bytes) return false;
    queue_.clear();
    taken_ = 0;
    queue_.swap(*batch);
    bytes_ = bytes;
  }
  NotifyItems();
  return true;
}

void Channel::NotifyItems() {
  not_empty_.NotifyAll();
  if (hooks_.on_items) hooks_.on_items();
}

template <typename Iterator>
bool Channel::AppendAll(Iterator first, Iterator last) {
  std::size_t bytes = 0;
  for (Iterator each = first; each != last; ++each) bytes += each->bytes;
  const auto count = static_cast<std::size_t>(last - first);
  if (Waiting() + count > options_.max_events || bytes_ + bytes > options_.max_bytes) return false;
  queue_.insert(queue_.end(), first, last);
  bytes_ += bytes;
  return true;
}

template <typename Iterator>
std::size_t Channel::OfferEach(Iterator batch, std::size_t size, std::uint64_t base,
                               std::size_t from) {
  std::vector<Published> dropped;
  bool wake = false;
  std::size_t i = from;
  if (base + i < options_.first_position) {
    i = std::min<std::uint64_t>(size, options_.first_position - base);
  }
  const auto at = [batch](std::size_t index) { return batch + static_cast<std::ptrdiff_t>(index); };
  {
    MutexLock lock(mu_);
    const bool was_empty = Waiting() == 0;
    if (closed_) {
      dropped.assign(at(i), at(size));
      i = size;
    } else if (AppendAll(at(i), at(size))) {
      i = size;
    }
    for (; i < size; ++i) {
      const Published& published = *at(i);
      while (!HasRoom(published.bytes) && options_.prefer_warnings &&
             published.event->type == kWarning && EvictNormal(&dropped)) {
      }
      if (HasRoom(published.bytes)) {
        bytes_ += published.bytes;
        queue_.push_back(*at(i));
      } else if (options_.when_full == WhenFull::kDrop) {
        dropped.push_back(*at(i));
      } else {
        wants_room_ = true;
        break;
      }
    }
    if (!closed_) dropped_ += dropped.size();
    wake = was_empty && Waiting() > 0;
  }
  if (wake) NotifyItems();
  if (hooks_.on_drop) {
    for (const Published& published : dropped) hooks_.on_drop(published);
  }
  return i;
}

void Channel::Preload(std::vector<Published> events) {
  MutexLock lock(mu_);
  for (const Published& published : events) bytes_ += published.bytes;
  queue_.insert(First(), std::make_move_iterator(events.begin()),
                std::make_move_iterator(events.end()));
}

std::size_t Channel::TakeLocked(std::size_t max, std::vector<Published>* out) {
  const std::size_t count = std::min(max, Waiting());
  if (count == queue_.size() && out->empty()) {
    // All events are taken: swaps the queue with the vector of the listener. A listener that takes
    // events in a loop passes a vector with memory; reserve() allocates it for the others.
    bytes_ = 0;
    out->reserve(std::min(count, options_.max_events));
    queue_.swap(*out);
    return count;
  }
  const auto end = First() + static_cast<std::ptrdiff_t>(count);
  for (auto taken = First(); taken != end; ++taken) bytes_ -= taken->bytes;
  out->insert(out->end(), std::make_move_iterator(First()), std::make_move_iterator(end));
  taken_ += count;
  // Erases taken entries only when they are the greater part, so that no event is moved twice.
  if (2 * taken_ >= queue_.size()) {
    queue_.erase(queue_.begin(), First());
    taken_ = 0;
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
    for (int i = 0; i < kLooks && took_many_ && Waiting() == 0 && !closed_; ++i) {
      lock.Unlock();
      std::this_thread::yield();
      lock.Lock();
    }
    not_empty_.Wait(lock, [this]() REQUIRES(mu_) { return Waiting() > 0 || closed_; });
    count = TakeLocked(max, out);
    took_many_ = count >= kManyEvents;
    room = count > 0 && std::exchange(wants_room_, false);
  }
  if (room && hooks_.on_room) hooks_.on_room();
  return count;
}

void Channel::Close() { CloseAndMaybe(/*discard=*/false); }

void Channel::CloseAndDiscard() { CloseAndMaybe(/*discard=*/true); }

void Channel::CloseAndMaybe(bool discard) {
  std::vector<Published> discarded;
  bool room = false;
  {
    MutexLock lock(mu_);
    closed_ = true;
    room = std::exchange(wants_room_, false);
    if (discard) {
      TakeLocked(Waiting(), &discarded);
    }
  }
  not_empty_.NotifyAll();
  if (room && hooks_.on_room) hooks_.on_room();
  if (!hooks_.on_drop) return;
  for (const Published& published : discarded) hooks_.on_drop(published);
}

std::size_t Channel::size() const {
  MutexLock lock(mu_);
  return Waiting();
}

std::uint64_t Channel::dropped() const {
  MutexLock lock(mu_);
  return dropped_;
}

}  // namespace herald
