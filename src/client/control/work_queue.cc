#include "herald/client/work_queue.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/string_hash.h"
#include "base/thread/mutex.h"

namespace herald {
namespace {

template <typename Value>
using ByKey = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;
using KeySet = std::unordered_set<std::string, StringHash, std::equal_to<>>;

// Limits the exponent, so that the delay stays finite.
constexpr int kMaxDoublings = 60;

}  // namespace

// Thread-safe.
class WorkQueue::Impl {
 public:
  explicit Impl(WorkQueueOptions options)
      : options_(options), clock_(options.clock != nullptr ? *options.clock : SystemClock()) {}

  void Add(std::string_view key) {
    const MutexLock lock(mu_);
    AddLocked(std::string(key));
  }

  void AddAfter(std::string_view key, std::chrono::nanoseconds delay) {
    const MutexLock lock(mu_);
    AddAfterLocked(key, delay);
  }

  void AddRateLimited(std::string_view key) {
    const MutexLock lock(mu_);
    AddAfterLocked(key, std::max(FailureDelay(key), BucketDelay()));
  }

  void Forget(std::string_view key) {
    const MutexLock lock(mu_);
    if (const auto it = failures_.find(key); it != failures_.end()) failures_.erase(it);
  }

  int Failures(std::string_view key) const {
    const MutexLock lock(mu_);
    const auto it = failures_.find(key);
    return it != failures_.end() ? it->second : 0;
  }

  std::optional<std::string> Get(const std::stop_token& stop) {
    const std::stop_callback wake(stop, [this] {
      const MutexLock lock(mu_);
      changed_.NotifyAll();
    });
    MutexLock lock(mu_);
    for (;;) {
      if (stop.stop_requested()) return std::nullopt;
      if (std::optional<std::string> key = TakeLocked()) return key;
      if (shut_down_) return std::nullopt;
      if (later_.empty()) {
        changed_.Wait(lock);
      } else {
        const SteadyTime next = later_.begin()->first;
        changed_.WaitFor(lock, next - clock_.Steady(), [&]() REQUIRES(mu_) {
          return stop.stop_requested() || shut_down_ || !ready_.empty() || later_.empty() ||
                 later_.begin()->first < next;
        });
      }
    }
  }

  std::optional<std::string> TryGet() {
    const MutexLock lock(mu_);
    return TakeLocked();
  }

  void Done(std::string_view key) {
    const MutexLock lock(mu_);
    const auto it = working_.find(key);
    if (it == working_.end()) return;
    working_.erase(it);
    if (dirty_.find(key) != dirty_.end()) {
      ready_.emplace_back(key);
      changed_.NotifyOne();
    }
    if (working_.empty()) idle_.NotifyAll();
  }

  void ShutDown() {
    const MutexLock lock(mu_);
    shut_down_ = true;
    later_.clear();
    due_.clear();
    changed_.NotifyAll();
    idle_.NotifyAll();
  }

  void WaitIdle() {
    MutexLock lock(mu_);
    idle_.Wait(lock, [this]() REQUIRES(mu_) { return working_.empty() && ready_.empty(); });
  }

  std::size_t size() const {
    const MutexLock lock(mu_);
    return ready_.size();
  }
  std::size_t waiting() const {
    const MutexLock lock(mu_);
    return later_.size();
  }

 private:
  void AddLocked(std::string key) REQUIRES(mu_) {
    if (shut_down_ || !dirty_.insert(key).second) return;
    if (working_.find(key) != working_.end()) return;  // Done() adds it
    ready_.push_back(std::move(key));
    changed_.NotifyOne();
  }

  void AddAfterLocked(std::string_view key, std::chrono::nanoseconds delay) REQUIRES(mu_) {
    if (shut_down_) return;
    if (delay.count() <= 0) return AddLocked(std::string(key));
    const SteadyTime when = clock_.Steady() + delay;
    const auto it = due_.find(key);
    if (it != due_.end()) {
      if (it->second <= when) return;
      later_.erase({it->second, it->first});
      it->second = when;
    } else {
      due_.emplace(key, when);
    }
    later_.emplace(when, std::string(key));
    // Threads in Get() may have to wake up earlier now.
    if (later_.begin()->second == key) changed_.NotifyAll();
  }

  std::chrono::nanoseconds FailureDelay(std::string_view key) REQUIRES(mu_) {
    auto it = failures_.find(key);
    if (it == failures_.end()) it = failures_.emplace(std::string(key), 0).first;
    const int doublings = std::min(it->second++, kMaxDoublings);
    const double delay = std::ldexp(static_cast<double>(options_.base_delay.count()), doublings);
    if (delay >= static_cast<double>(options_.max_delay.count())) return options_.max_delay;
    return std::chrono::nanoseconds(static_cast<std::int64_t>(delay));
  }

  // Takes a token and returns the time until it is available. The number of tokens may become
  // negative.
  std::chrono::nanoseconds BucketDelay() REQUIRES(mu_) {
    if (options_.qps <= 0) return std::chrono::nanoseconds(0);
    const SteadyTime now = clock_.Steady();
    const double earned = std::chrono::duration<double>(now - last_).count() * options_.qps;
    tokens_ = first_ ? options_.burst : std::min<double>(options_.burst, tokens_ + earned);
    first_ = false;
    last_ = now;
    tokens_ -= 1;
    if (tokens_ >= 0) return std::chrono::nanoseconds(0);
    return std::chrono::nanoseconds(static_cast<std::int64_t>(-tokens_ / options_.qps * 1e9));
  }

  std::optional<std::string> TakeLocked() REQUIRES(mu_) {
    const SteadyTime now = clock_.Steady();
    while (!later_.empty() && later_.begin()->first <= now) {
      auto node = later_.extract(later_.begin());
      due_.erase(node.value().second);
      AddLocked(std::move(node.value().second));
    }
    if (ready_.empty()) return std::nullopt;
    std::string key = std::move(ready_.front());
    ready_.pop_front();
    dirty_.erase(key);
    working_.insert(key);
    return key;
  }

  const WorkQueueOptions options_;
  const Clock& clock_;

  mutable Mutex mu_;
  CondVar changed_;  // a key is ready, or the first delayed key is due earlier
  CondVar idle_;
  bool shut_down_ GUARDED_BY(mu_) = false;
  // A key in dirty_ is also in ready_, unless it is in working_.
  std::deque<std::string> ready_ GUARDED_BY(mu_);
  KeySet dirty_ GUARDED_BY(mu_);
  KeySet working_ GUARDED_BY(mu_);
  std::set<std::pair<SteadyTime, std::string>> later_ GUARDED_BY(mu_);
  ByKey<SteadyTime> due_ GUARDED_BY(mu_);  // when the keys in later_ are due
  ByKey<int> failures_ GUARDED_BY(mu_);
  double tokens_ GUARDED_BY(mu_) = 0;
  bool first_ GUARDED_BY(mu_) = true;
  SteadyTime last_ GUARDED_BY(mu_);
};

WorkQueue::WorkQueue(WorkQueueOptions options) : impl_(std::make_unique<Impl>(options)) {}
WorkQueue::~WorkQueue() = default;

void WorkQueue::Add(std::string_view key) { impl_->Add(key); }
void WorkQueue::AddAfter(std::string_view key, std::chrono::nanoseconds delay) {
  impl_->AddAfter(key, delay);
}
void WorkQueue::AddRateLimited(std::string_view key) { impl_->AddRateLimited(key); }
void WorkQueue::Forget(std::string_view key) { impl_->Forget(key); }
int WorkQueue::Failures(std::string_view key) const { return impl_->Failures(key); }
std::optional<std::string> WorkQueue::Get(const std::stop_token& stop) { return impl_->Get(stop); }
std::optional<std::string> WorkQueue::TryGet() { return impl_->TryGet(); }
void WorkQueue::Done(std::string_view key) { impl_->Done(key); }
void WorkQueue::ShutDown() { impl_->ShutDown(); }
void WorkQueue::ShutDownAndDrain() {
  impl_->ShutDown();
  impl_->WaitIdle();
}
std::size_t WorkQueue::size() const { return impl_->size(); }
std::size_t WorkQueue::waiting() const { return impl_->waiting(); }

}  // namespace herald
