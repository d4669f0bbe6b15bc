#include "server/front_door.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "http/url.h"
#include "server/access_review.h"
#include "server/authentication.h"
#include "server/exchange.h"
#include "server/request_options.h"

namespace herald::server {
namespace {

// How long a client that found no room should wait: as kube-apiserver's max-in-flight
// filter says (apiserver/pkg/server/filters/maxinflight.go).
constexpr std::chrono::seconds kRetryAfter{1};

bool IsHealthPath(std::string_view path) {
  for (const std::string_view root : {"/healthz", "/livez", "/readyz"})
    if (path == root || (path.starts_with(root) && path[root.size()] == '/')) return true;
  return false;
}

// In upstream's words (apiserver/pkg/server/filters/timeout.go).
Status TookTooLong() {
  return Status(
      Status::Parts{.reason = StatusReason::kTimeout,
                    .message = "Timeout: request did not complete within the allotted timeout",
                    .details = StatusDetails{}});
}

http::Response PlainText(const http::Request& request, int status, std::string body) {
  http::Response response{.status = status, .headers = {}, .body = std::move(body)};
  AddCommonHeaders(request, "text/plain; charset=utf-8", &response.headers);
  response.headers.Add("x-content-type-options", "nosniff");
  return response;
}

}  // namespace

// The requests that must be answered by a time. One timer serves all: a timer each would
// outlive its request by the better part of a minute, a million of them at the rates that are
// meant. Thread-safe.
class FrontDoor::Deadlines : public std::enable_shared_from_this<Deadlines> {
 public:
  explicit Deadlines(Executor* executor) : executor_(executor) {}

  void Add(SteadyTime when, CountedResponder* responder);
  // Harmless where it is not there.
  void Remove(SteadyTime when, CountedResponder* responder);

 private:
  // How late a deadline may be noticed; it bounds the timers that clients can make us
  // set by naming ever earlier ones.
  static constexpr std::chrono::milliseconds kExactness{10};

  void Schedule(SteadyTime when) EXCLUDES(mu_);
  void Sweep();

  Executor* const executor_;
  Mutex mu_;  // no call out is made under it
  // Each is there until it goes; so one that is there exists, though it may be going.
  std::set<std::pair<SteadyTime, CountedResponder*>> pending_ GUARDED_BY(mu_);
  SteadyTime next_ GUARDED_BY(mu_) = SteadyTime::max();  // of the timer that comes first
};

// Hands everything on and counts the answer when it is complete, or when nobody is left
// who could complete it. Whoever answers first has answered: the Api, or the deadline.
class FrontDoor::CountedResponder final : public http::Responder,
                                          public std::enable_shared_from_this<CountedResponder> {
 public:
  CountedResponder(FrontDoor* door, const http::Request& request, RequestInfo info, bool dry_run,
                   std::shared_ptr<http::Responder> inner)
      : door_(door),
        info_(std::move(info)),
        audit_id_(request.headers.Get("audit-id")),
        dry_run_(dry_run),
        begun_(door->clock_.Steady()),
        inner_(std::move(inner)) {
    if (IsWatch()) {
      door_->metrics_.CountLongRunning(info_, 1);
    } else {
      door_->in_flight_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  ~CountedResponder() override {
    if (deadline_) door_->deadlines_->Remove(*deadline_, this);
    // Where nobody has answered, the connection makes a 500 of it.
    Count(code_.load());
    if (IsWatch()) {
      door_->metrics_.CountLongRunning(info_, -1);
    } else {
      door_->in_flight_.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  // At most once, before anybody can answer.
  void EndAfter(std::chrono::nanoseconds timeout) {
    deadline_ = begun_ + std::chrono::duration_cast<SteadyTime::duration>(timeout);
    door_->deadlines_->Add(*deadline_, this);
  }
  void TimeOut() {
    // The representation is that of kube-apiserver, which in this one case does not negotiate.
    http::Request request;
    if (!audit_id_.empty()) request.headers.Add("audit-id", audit_id_);
    SendStatus(request, TookTooLong(), *this);
  }

  void Send(http::Response response) override {
    if (answered_.exchange(true)) return;
    bytes_.fetch_add(response.body.size(), std::memory_order_relaxed);
    Count(response.status);
    inner_->Send(std::move(response));
  }
  void Start(http::ResponseHead head) override {
    if (answered_.exchange(true)) return;
    code_.store(head.status);
    inner_->Start(std::move(head));
  }
  std::size_t Write(http::Chunk chunk) override {
    bytes_.fetch_add(chunk->size(), std::memory_order_relaxed);
    return inner_->Write(std::move(chunk));
  }
  void End() override {
    Count(code_.load());
    inner_->End();
  }
  void Abort() override {
    Count(code_.load());
    inner_->Abort();
  }
  std::size_t queued() const override { return inner_->queued(); }
  std::size_t fair_share() const override { return inner_->fair_share(); }
  void Observe(std::function<void()> drained, std::function<void()> closed) override {
    inner_->Observe(std::move(drained), std::move(closed));
  }

 private:
  bool IsWatch() const { return info_.verb == "watch"; }

  void Count(int code) {
    if (counted_.exchange(true)) return;
    door_->metrics_.CountRequest(info_, dry_run_, code, door_->clock_.Steady() - begun_,
                                 bytes_.load(std::memory_order_relaxed));
  }

  FrontDoor* const door_;
  const RequestInfo info_;
  const std::string audit_id_;
  const bool dry_run_;
  const SteadyTime begun_;
  const std::shared_ptr<http::Responder> inner_;
  std::optional<SteadyTime> deadline_;
  std::atomic<std::size_t> bytes_{0};
  std::atomic<int> code_{500};  // what it is if nobody begins to answer
  std::atomic<bool> counted_{false};
  std::atomic<bool> answered_{false};  // or begun to
};

void FrontDoor::Deadlines::Add(SteadyTime when, CountedResponder* responder) {
  {
    const MutexLock lock(mu_);
    pending_.emplace(when, responder);
    if (next_ != SteadyTime::max() && when + kExactness >= next_) return;
    next_ = when;
  }
  Schedule(when);
}

void FrontDoor::Deadlines::Remove(SteadyTime when, CountedResponder* responder) {
  const MutexLock lock(mu_);
  pending_.erase({when, responder});
}

void FrontDoor::Deadlines::Schedule(SteadyTime when) {
  executor_->PostAt(when, [self = weak_from_this()] {
    if (const auto deadlines = self.lock()) deadlines->Sweep();
  });
}

void FrontDoor::Deadlines::Sweep() {
  const SteadyTime now = executor_->clock().Steady();
  std::vector<std::shared_ptr<CountedResponder>> due;
  SteadyTime next = SteadyTime::max();
  {
    const MutexLock lock(mu_);
    while (!pending_.empty() && pending_.begin()->first <= now) {
      // Null where it is on its way out.
      if (auto responder = pending_.begin()->second->weak_from_this().lock())
        due.push_back(std::move(responder));
      pending_.erase(pending_.begin());
    }
    // A timer that was overtaken by an earlier one finds that one's successor in place.
    if (next_ <= now) {
      if (!pending_.empty()) next = pending_.begin()->first;
      next_ = next;
    }
  }
  if (next != SteadyTime::max()) Schedule(next);
  for (const std::shared_ptr<CountedResponder>& responder : due) responder->TimeOut();
}

FrontDoor::FrontDoor(store::Store* store, Options options)
    : store_(store),
      options_(options),
      clock_(options_.clock != nullptr ? *options_.clock : SystemClock()),
      deadlines_(options_.executor != nullptr ? std::make_shared<Deadlines>(options_.executor)
                                              : nullptr),
      ways_(std::make_shared<Ways>()),
      rbac_(std::make_shared<Rbac>()) {}

FrontDoor::~FrontDoor() = default;

void FrontDoor::SetAuthenticators(std::vector<std::unique_ptr<Authenticator>> ways) {
  auto shared = std::make_shared<const Ways>(std::move(ways));
  const MutexLock lock(mu_);
  ways_ = std::move(shared);
}

void FrontDoor::SetRbac(Rbac rbac) {
  auto shared = std::make_shared<const Rbac>(std::move(rbac));
  const MutexLock lock(mu_);
  rbac_ = std::move(shared);
}

bool FrontDoor::Allows(const User& user, const RequestInfo& request) const {
  std::shared_ptr<const Rbac> rbac;
  {
    const MutexLock lock(mu_);
    rbac = rbac_;
  }
  return rbac->Allows(user, request);
}

void FrontDoor::SetApi(Api* api) { api_ = api; }

void FrontDoor::SetConnectionStats(std::function<http::ServerStats()> connections) {
  const MutexLock lock(mu_);
  connections_ = std::move(connections);
}

void FrontDoor::SetStopping() { stopping_.store(true); }

Result<User> FrontDoor::WhoIs(const http::Request& request, const http::Peer& peer) const {
  std::shared_ptr<const Ways> ways;
  {
    const MutexLock lock(mu_);
    ways = ways_;
  }
  return Authenticate(*ways, request, peer);
}

void FrontDoor::Handle(http::Request request, const http::Peer& peer,
                       std::shared_ptr<http::Responder> responder) {
  RequestInfo info = ParseRequestInfo(request.method, request.target);
  if (IsHealthPath(info.path)) {  // whatever the method, as kube-apiserver does
    responder->Send(Health(request, peer, info));
    return;
  }
  const http::Query query = http::ParseQuery(http::SplitTarget(request.target).second);
  const auto counted = std::make_shared<CountedResponder>(
      this, request, info, FindParameter(query, "dryRun") != nullptr, std::move(responder));
  if (info.verb != "watch") {
    // Comes even before the question who is asking, as upstream has it.
    const Result<std::optional<std::chrono::nanoseconds>> asked = ParseTimeout(query);
    if (!asked) {
      SendStatus(request, asked.error(), *counted);
      return;
    }
    // None, or more than there is, is all that there is.
    const std::chrono::nanoseconds timeout = asked->value_or(options_.request_timeout);
    if (deadlines_ != nullptr)
      counted->EndAfter(timeout.count() > 0 ? std::min(timeout, options_.request_timeout)
                                            : options_.request_timeout);
  }
  Result<User> user = WhoIs(request, peer);
  if (!user) {
    SendStatus(request, user.error(), *counted);
    return;
  }
  if (IsAccessReview(info)) {
    AnswerAccessReview(
        request, [&](const RequestInfo& asked) { return Allows(*user, asked); }, *counted);
    return;
  }
  if (!Allows(*user, info)) {
    SendStatus(request, ForbiddenStatus(*user, info), *counted);
    return;
  }
  if (info.path == "/metrics" && info.verb == "get") {
    std::function<http::ServerStats()> connections;
    {
      const MutexLock lock(mu_);
      connections = connections_;
    }
    http::Response response = PlainText(
        request, 200,
        metrics_.Text(store_->Stats(), connections ? connections() : http::ServerStats{}));
    response.headers.Set("content-type", "text/plain; version=0.0.4; charset=utf-8");
    counted->Send(std::move(response));
    return;
  }
  if (info.verb != "watch" &&
      in_flight_.load(std::memory_order_relaxed) > options_.max_requests_in_flight) {
    SendStatus(request,
               Status(Status::Parts{.reason = StatusReason::kTooManyRequests,
                                    .message = "Too many requests, please try again later.",
                                    .details = {},
                                    .retry_after = kRetryAfter}),
               *counted);
    return;
  }
  api_->Handle({.request = std::move(request),
                .info = std::move(info),
                .user = *std::move(user),
                .client_address = peer.address},
               counted);
}

http::Response FrontDoor::Health(const http::Request& request, const http::Peer& peer,
                                 const RequestInfo& info) const {
  struct Check {
    std::string_view name;
    bool ok;
  };
  // That we answer at all is the first one.
  std::vector<Check> checks = {{"ping", true}};
  const std::string_view root = std::string_view(info.path).substr(1, info.path.find('/', 1) - 1);
  // A store that cannot write at the moment recovers by itself; starting anew would not
  // help it, so it does not make the process look dead.
  if (root != "livez") checks.push_back({"store", store_->Health().ok()});
  if (root == "readyz") checks.push_back({"shutdown", !stopping_.load()});

  bool verbose = false;
  std::vector<std::string> excluded;
  for (const auto& [name, value] : http::ParseQuery(http::SplitTarget(request.target).second)) {
    if (name == "verbose") verbose = true;
    if (name == "exclude") excluded.push_back(value);
  }
  verbose = verbose && WhoIs(request, peer).has_value();

  // /readyz/store asks for one check alone.
  const std::string_view one =
      std::string_view(info.path).substr(std::min(info.path.size(), root.size() + 2));
  if (!one.empty()) {
    const auto check =
        std::find_if(checks.begin(), checks.end(), [&](const Check& c) { return c.name == one; });
    if (check == checks.end()) return PlainText(request, 404, "404 page not found\n");
    if (!check->ok) return PlainText(request, 500, "internal server error: reason withheld\n");
    http::Response response = PlainText(request, 200, "ok");
    response.headers.Remove("x-content-type-options");  // as kube-apiserver does
    return response;
  }

  const auto is_check = [&](const std::string& name) {
    return std::any_of(checks.begin(), checks.end(),
                       [&](const Check& c) { return c.name == name; });
  };
  bool all_ok = true;
  std::string lines;
  for (const Check& check : checks) {
    if (std::find(excluded.begin(), excluded.end(), check.name) != excluded.end()) {
      lines += fmt::format("[+]{} excluded: ok\n", check.name);
    } else if (check.ok) {
      lines += fmt::format("[+]{} ok\n", check.name);
    } else {
      all_ok = false;
      lines += fmt::format("[-]{} failed: reason withheld\n", check.name);
    }
  }
  for (const std::string& name : excluded)
    if (!is_check(name))
      lines +=
          fmt::format("warn: some health checks cannot be excluded: no matches for \"{}\"\n", name);
  if (!all_ok) return PlainText(request, 500, fmt::format("{}{} check failed\n", lines, root));
  return PlainText(request, 200, verbose ? fmt::format("{}{} check passed\n", lines, root) : "ok");
}

}  // namespace herald::server
