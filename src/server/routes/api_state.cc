#include "server/routes/api_state.h"

#include <string>
#include <utility>

namespace herald::server {
namespace {

// For watches: one thread wakes many of them up, the other does everything else.
constexpr int kThreads = 2;

// For an Api without an authorizer.
class AllowAll final : public Authorizer {
 public:
  void Authorize(const User& /*user*/, const RequestInfo& /*request*/, Done done) const override {
    done({.allowed = true});
  }
};

}  // namespace

ApiState::ApiState(store::Store* store, ApiOptions options)
    : store_(store),
      options_(std::move(options)),
      clock_(options_.clock != nullptr ? options_.clock : &SystemClock()),
      executor_({.threads = kThreads, .clock = clock_}),
      long_executor_({.threads = 1, .clock = clock_}),
      long_work_(&long_executor_, {.concurrency = 1}),
      list_budget_(std::make_shared<ListBudget>(options_.max_list_bytes)),
      registry_(store, clock_),
      streams_(store, &executor_,
               {.max_watches = options_.max_watches,
                .max_watches_per_user = options_.max_watches_per_user}),
      namespaces_(store, clock_->Now()),
      namespace_watches_(store, &namespaces_, &executor_) {}

void ApiState::LeaveRevisionZero() {
  store_->CurrentRevision([self = shared_from_this()](Result<store::Revision> revision) {
    if (!revision || *revision > 0) return;
    const std::string key = "/registry/herald/first";
    self->store_->Commit(
        {.key = key, .value = std::make_shared<const std::string>(), .expected = 0},
        [self, key](const Result<store::Written>& written) {
          if (!written) return;
          self->store_->Commit({.key = key, .value = nullptr},
                               [](const Result<store::Written>&) {});
        });
  });
}

void ApiState::Stop() {
  streams_.Stop();
  namespace_watches_.Stop();
}

void ApiState::StopThreads() {
  long_executor_.Stop();
  executor_.Stop();
}

void ApiState::PostLongWork(const ExchangePtr& exchange, std::function<void()> work) {
  const Status rejected = long_work_.Add(FlowOf(*exchange), FairQueue::Kind::kShort,
                                         [bytes = exchange->body_bytes(), work = std::move(work)] {
                                           work();
                                           return FairQueue::Step{.cost = bytes};
                                         });
  if (!rejected.ok()) exchange->SendStatus(rejected);
}

std::function<void(std::function<void()>)> ApiState::LongWorkOf(const ExchangePtr& exchange) {
  return [self = shared_from_this(), exchange](std::function<void()> work) {
    self->PostLongWork(exchange, std::move(work));
  };
}

std::shared_ptr<const Authorizer> ApiState::authorizer() const {
  if (options_.authorizer) return options_.authorizer();
  return std::make_shared<AllowAll>();
}

std::uint64_t FlowOf(const Exchange& exchange) {
  return std::hash<std::string>()(exchange.admitted().user.name);
}

}  // namespace herald::server
