#include "herald/record/api_choice.h"

#include <utility>
#include <vector>

#include "base/thread/mutex.h"

namespace herald {

class ApiChoice::Impl {
 public:
  std::optional<EventApi> Get() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return api_;
  }

  void Set(EventApi api) EXCLUDES(mu_) {
    std::vector<std::function<void()>> functions;
    {
      MutexLock lock(mu_);
      api_ = api;
      functions.swap(functions_);
    }
    for (const auto& function : functions) function();
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
  mutable Mutex mu_;
  std::optional<EventApi> api_ GUARDED_BY(mu_);
  std::vector<std::function<void()>> functions_ GUARDED_BY(mu_);  // empty once it is set
};

ApiChoice::ApiChoice() : impl_(std::make_unique<Impl>()) {}
ApiChoice::~ApiChoice() = default;

std::optional<EventApi> ApiChoice::Get() const { return impl_->Get(); }
void ApiChoice::Set(EventApi api) { impl_->Set(api); }
void ApiChoice::WhenSet(std::function<void()> function) { impl_->WhenSet(std::move(function)); }

}  // namespace herald
