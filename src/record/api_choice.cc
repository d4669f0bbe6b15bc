#include "herald/record/api_choice.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/lru_map.h"
#include "base/thread/mutex.h"

namespace herald {
namespace {

// An entry takes some 100 bytes. Clusters have hundreds of namespaces, and accounts are
// forbidden one API in few of them.
constexpr std::size_t kMaxNamespaces = 1024;

}  // namespace

class ApiChoice::Impl {
 public:
  explicit Impl(const Clock* clock)
      : clock_(clock == nullptr ? SystemClock() : *clock), namespaces_(kMaxNamespaces) {}

  std::optional<EventApi> Get(std::string_view namespace_) const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (api_ != EventApi::kEventsV1 || !has_fallbacks_) return api_;
    const SteadyTime now = clock_.Steady();
    const SteadyTime* const until = namespace_.empty() ? nullptr : namespaces_.Get(namespace_);
    const bool avoided = (all_until_ && now < *all_until_) || (until != nullptr && now < *until);
    return avoided ? EventApi::kCoreV1 : EventApi::kEventsV1;
  }

  void Set(EventApi api) EXCLUDES(mu_) {
    Functions functions;
    {
      MutexLock lock(mu_);
      api_ = api;
      all_until_.reset();
      namespaces_.Clear();
      has_fallbacks_ = false;
      functions.swap(functions_);
    }
    for (const auto& function : functions) function();
  }

  // Without a namespace: for all.
  bool FallBack(const std::optional<std::string_view>& namespace_) EXCLUDES(mu_) {
    Functions functions;
    bool is_news = false;
    {
      MutexLock lock(mu_);
      const SteadyTime until = clock_.Steady() + kFallbackTime;
      if (namespace_) {
        is_news = namespaces_.Peek(*namespace_) == nullptr;
        namespaces_.Put(std::string(*namespace_), until);
      } else {
        is_news = !std::exchange(all_until_, until).has_value();
      }
      has_fallbacks_ = true;
      if (!api_) api_ = EventApi::kEventsV1;
      functions.swap(functions_);
    }
    for (const auto& function : functions) function();
    return is_news;
  }

  bool fell_back() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (api_ != EventApi::kEventsV1 || !has_fallbacks_) return false;
    const SteadyTime now = clock_.Steady();
    return (all_until_ && now < *all_until_) ||
           std::any_of(namespaces_.begin(), namespaces_.end(),
                       [&](const auto& entry) { return now < entry.value; });
  }

  void WhenSet(std::function<void()> function) EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      if (!api_) {
        functions_.push_back(std::move(function));
        return;
      }
    }
    function();
  }

 private:
  using Functions = std::vector<std::function<void()>>;

  const Clock& clock_;
  mutable Mutex mu_;
  // What Set() chose. Fallbacks are exceptions to kEventsV1.
  std::optional<EventApi> api_ GUARDED_BY(mu_);
  // Until when v1 is used. Those in the past say that the fallback is not news.
  std::optional<SteadyTime> all_until_ GUARDED_BY(mu_);
  mutable LruMap<std::string, SteadyTime> namespaces_ GUARDED_BY(mu_);  // a lookup is a use
  bool has_fallbacks_ GUARDED_BY(mu_) = false;
  // For WhenSet(); empty once api_ is set. Called without the lock: they may ask for the choice.
  Functions functions_ GUARDED_BY(mu_);
};

ApiChoice::ApiChoice(const Clock* clock) : impl_(std::make_unique<Impl>(clock)) {}
ApiChoice::~ApiChoice() = default;

std::optional<EventApi> ApiChoice::Get(std::string_view namespace_) const {
  return impl_->Get(namespace_);
}
void ApiChoice::Set(EventApi api) { impl_->Set(api); }
bool ApiChoice::FallBack(std::string_view namespace_) { return impl_->FallBack(namespace_); }
bool ApiChoice::FallBack() { return impl_->FallBack(std::nullopt); }
bool ApiChoice::fell_back() const { return impl_->fell_back(); }
void ApiChoice::WhenSet(std::function<void()> function) { impl_->WhenSet(std::move(function)); }

}  // namespace herald
