#include "server/request/front_door.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "api/type_meta.h"
#include "base/limit/too_many_requests.h"
#include "base/thread/async_loop.h"
#include "herald/api/codec.h"
#include "server/access/impersonation.h"
#include "server/access/rbac.h"
#include "server/request/exchange.h"
#include "server/request/request_options.h"
#include "server/routes/route_table.h"

namespace herald::server {
namespace {

// Whether the method has a body that is read.
bool HasBody(const RequestInfo& info) {
  return info.method == "POST" || info.method == "PUT" || info.method == "PATCH" ||
         info.method == "DELETE";
}

// Upstream's message (apimachinery/pkg/api/errors, NewRequestEntityTooLargeError).
Status BodyTooLarge(std::size_t max_bytes) {
  return Status(StatusReason::kRequestEntityTooLarge,
                fmt::format("Request entity too large: limit is {}", max_bytes));
}

Status BodyTooSlow() {
  constexpr int kRequestTimeout = 408;
  return Status(Status::Parts{.reason = StatusReason::kTimeout,
                              .code = kRequestTimeout,
                              .message = "the body of the request did not arrive in time",
                              .details = {}});
}

// The address of the peer without the port.
std::string_view HostOf(const http::Peer& peer) {
  const std::string_view address = peer.address;
  return address.substr(0, address.rfind(':'));
}

// Upstream's message (apiserver/pkg/server/filters/timeout.go).
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

// The requests with a deadline. One timer serves all: a timer for each would outlive its request by
// up to a minute, which would be a million timers at the rates that we aim for.
//
// Thread-safe.
class FrontDoor::Deadlines : public std::enable_shared_from_this<Deadlines> {
 public:
  explicit Deadlines(Executor* executor) : executor_(executor) {}

  void Add(SteadyTime when, CountedResponder* responder);
  // Does nothing if it is not there.
  void Remove(SteadyTime when, CountedResponder* responder);

 private:
  // The maximum delay of a deadline. It limits the timers that clients can cause with ever earlier
  // deadlines.
  static constexpr std::chrono::milliseconds kExactness{10};

  void Schedule(SteadyTime when) EXCLUDES(mu_);
  void Sweep();

  Executor* const executor_;
  Mutex mu_;  // a leaf: nothing is called under it
  // A responder removes itself in its destructor, so each one here exists, but may be in its
  // destructor.
  std::set<std::pair<SteadyTime, CountedResponder*>> pending_ GUARDED_BY(mu_);
  SteadyTime next_ GUARDED_BY(mu_) = SteadyTime::max();  // of the earliest timer
};

// Forwards everything to the connection, and counts the response when it is complete or when this
// object is destroyed. The first response is sent, that of the Api or that of the deadline.
class FrontDoor::CountedResponder final : public http::Responder,
                                          public std::enable_shared_from_this<CountedResponder> {
 public:
  CountedResponder(FrontDoor* door, const http::Request& request, RequestInfo info,
                   std::shared_ptr<http::Responder> inner)
      : door_(door),
        info_(std::move(info)),
        audit_id_(request.headers.Get("audit-id")),
        dry_run_(FindParameter(info_.query, "dryRun") != nullptr),
        begun_(door->clock_.Steady()),
        inner_(std::move(inner)) {
    if (IsWatch()) door_->metrics_.CountLongRunning(info_, 1);
  }

  ~CountedResponder() override {
    if (deadline_) door_->deadlines_->Remove(*deadline_, this);
    // Without a response the connection sends 500.
    Count(code_.load());
    if (IsWatch()) door_->metrics_.CountLongRunning(info_, -1);
  }

  // Counts the request as one in flight of this client, instead of an earlier one. False: the limit
  // is reached. Watches are not counted; they have other limits.
  // REQUIRES: called by one thread at a time
  bool TakePlace(std::string_view client) {
    if (IsWatch()) return true;
    place_.Reset();
    std::optional<SharedBudget::Share> place = door_->in_flight_.Take(client, 1);
    if (!place) return false;
    place_ = *std::move(place);
    return true;
  }
  // Reserves memory for the body until the request has been answered.
  bool ReserveBody(std::string_view client, std::size_t bytes) {
    if (body_.amount() > 0) return body_.Resize(bytes);
    std::optional<SharedBudget::Share> room = door_->body_bytes_.Take(client, bytes);
    if (!room) return false;
    body_ = *std::move(room);
    return true;
  }
  // The client has disconnected: no response is counted.
  void Forget() { counted_.store(true); }

  // Called at most once, before a response can be sent.
  void EndAfter(std::chrono::nanoseconds timeout) {
    deadline_ = begun_ + std::chrono::duration_cast<SteadyTime::duration>(timeout);
    door_->deadlines_->Add(*deadline_, this);
  }
  void TimeOut() {
    // JSON, as kube-apiserver sends it, which does not negotiate in this case.
    http::Request request;
    if (!audit_id_.empty()) request.headers.Add("audit-id", audit_id_);
    SendStatus(request, {}, TookTooLong(), *this);
  }

  void ReadBody(http::BodyReader reader) override { inner_->ReadBody(std::move(reader)); }
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
  SharedBudget::Share place_;
  SharedBudget::Share body_;
  std::atomic<std::size_t> bytes_{0};
  std::atomic<int> code_{500};  // if no response is started
  std::atomic<bool> counted_{false};
  std::atomic<bool> answered_{false};  // or a response was started
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
      // Null if it is in its destructor.
      if (auto responder = pending_.begin()->second->weak_from_this().lock())
        due.push_back(std::move(responder));
      pending_.erase(pending_.begin());
    }
    // A timer that fires after an earlier one was set finds that next_ is set already.
    if (next_ <= now) {
      if (!pending_.empty()) next = pending_.begin()->first;
      next_ = next;
    }
  }
  if (next != SteadyTime::max()) Schedule(next);
  for (const std::shared_ptr<CountedResponder>& responder : due) responder->TimeOut();
}

// One request from its head to the Api. Each step calls the next one, within the same call or later
// from another thread. The callback that a step waits for keeps the Admission alive.
//
// Confined to one thread at a time.
class FrontDoor::Admission : public std::enable_shared_from_this<Admission> {
 public:
  Admission(FrontDoor* door, http::Request request, RequestInfo info, const Route& route,
            http::Peer peer, std::shared_ptr<CountedResponder> responder)
      : door_(door),
        request_(std::move(request)),
        info_(std::move(info)),
        route_(route),
        peer_(std::move(peer)),
        responder_(std::move(responder)) {}

  void Begin() {
    if (info_.verb != "watch") {
      // Checked before authentication, as in upstream.
      const Result<std::optional<std::chrono::nanoseconds>> asked = ParseTimeout(info_.query);
      if (!asked) return Reject(asked.error());
      // Without a timeout, or with a longer one, the server's limit applies.
      const std::chrono::nanoseconds most = door_->options_.request_timeout;
      const std::chrono::nanoseconds timeout = asked->value_or(most);
      if (door_->deadlines_ != nullptr)
        responder_->EndAfter(timeout.count() > 0 ? std::min(timeout, most) : most);
    }
    Authenticate(door_->authenticators(), request_, peer_,
                 [self = shared_from_this()](Result<User> user) {
                   self->user_ = std::move(user);
                   if (self->authentication_.exchange(Step::kDone) == Step::kWaiting)
                     self->OnUser();
                 });
    if (authentication_.load() == Step::kRunning && !responder_->TakePlace(HostOf(peer_))) {
      // Authentication waits for something, and too many requests of this address wait already.
      if (authentication_.exchange(Step::kGivenUp) == Step::kRunning)
        return Reject(TooManyRequests());
      return OnUser();
    }
    // Another thread may have completed the authentication by now.
    if (authentication_.exchange(Step::kWaiting) == Step::kDone) OnUser();
  }

 private:
  // For all errors of impersonation, as in kube-apiserver.
  static http::Headers NoSniff() { return {{"x-content-type-options", "nosniff"}}; }

  enum class Step : std::uint8_t { kRunning, kWaiting, kDone, kGivenUp };

  void OnUser() {
    if (!user_) return Reject(user_.error());
    if (!responder_->TakePlace(user_->name)) return Reject(TooManyRequests());
    Result<std::optional<Impersonation>> taken =
        Impersonation::Take(&request_.headers, *user_, info_);
    if (!taken) return Reject(taken.error(), NoSniff());
    std::optional<Impersonation>& impersonation = *taken;
    if (!impersonation) return Authorize();
    impersonation_ = std::make_unique<Impersonation>(*std::move(impersonation));
    Impersonate();
  }

  void Impersonate() {
    const auto keep = shared_from_this();  // for the loop itself, between two steps
    impersonation_loop_.Run([this] {
      const RequestInfo* const check = impersonation_->check();
      if (check == nullptr) return OnImpersonated();
      door_->Authorize(*user_, *check, [self = shared_from_this()](const Decision& decision) {
        self->impersonation_->Answer(decision.allowed, decision.reason);
        if (self->impersonation_loop_.Again()) self->Impersonate();
      });
    });
  }

  void OnImpersonated() {
    user_ = impersonation_->TakeResult();
    if (!user_) return Reject(user_.error(), NoSniff());
    // From here on the request is that of the impersonated user, also for limits.
    if (!responder_->TakePlace(user_->name)) return Reject(TooManyRequests());
    Authorize();
  }

  void Authorize() {
    door_->Authorize(*user_, info_, [self = shared_from_this()](const Decision& decision) {
      self->OnDecision(decision);
    });
  }

  void OnDecision(const Decision& decision) {
    if (!decision.allowed) return Reject(ForbiddenStatus(*user_, info_, decision.reason));
    if (route_.stage == Stage::kMetrics) return responder_->Send(door_->MetricsPage(request_));
    if (HasBody(info_)) return ReadBody();
    Proceed();
  }

  void ReadBody() {
    responder_->ReadBody(
        {.max_bytes = route_.max_body_bytes,
         .reserve =
             [self = shared_from_this()](std::size_t bytes) {
               return self->responder_->ReserveBody(self->user_->name, bytes);
             },
         .done = [self = shared_from_this()](
                     Result<std::string> body) { self->OnBody(std::move(body)); }});
  }

  void OnBody(Result<std::string> body) {
    if (body) {
      request_.body = *std::move(body);
    } else if (body.error().Is(StatusReason::kCancelled)) {
      return responder_->Forget();
    } else if (body.error().Is(StatusReason::kTooManyRequests)) {
      return Reject(TooManyRequests());
    } else if (body.error().Is(StatusReason::kTimeout)) {
      return Reject(BodyTooSlow());
    } else {
      // The handler returns it after errors that upstream reports first.
      body_error_ = BodyTooLarge(route_.max_body_bytes);
    }
    Proceed();
  }

  void Proceed() {
    AdmittedRequest admitted{.request = std::move(request_),
                             .body_error = std::move(body_error_),
                             .info = std::move(info_),
                             .user = *std::move(user_),
                             .client_address = std::move(peer_.address)};
    door_->api_->Handle(std::move(admitted), responder_);
  }

  void Reject(const Status& status, http::Headers headers = {}) {
    SendStatus(request_, info_.query, status, *responder_, std::move(headers));
  }

  FrontDoor* const door_;
  http::Request request_;
  RequestInfo info_;
  const Route route_;
  http::Peer peer_;
  const std::shared_ptr<CountedResponder> responder_;
  std::atomic<Step> authentication_{Step::kRunning};
  Result<User> user_ = User();
  std::unique_ptr<Impersonation> impersonation_;  // null: the user acts as itself
  AsyncLoop impersonation_loop_;
  Status body_error_;
};

FrontDoor::FrontDoor(store::Store* store, Options options)
    : store_(store),
      options_(std::move(options)),
      clock_(options_.clock != nullptr ? *options_.clock : SystemClock()),
      deadlines_(options_.executor != nullptr ? std::make_shared<Deadlines>(options_.executor)
                                              : nullptr),
      in_flight_(options_.max_requests_in_flight),
      body_bytes_(options_.max_body_bytes_in_flight),
      authenticators_(std::make_shared<Authenticators>()),
      authorizer_(std::make_shared<Rbac>()) {}

FrontDoor::~FrontDoor() = default;

void FrontDoor::SetAuthenticators(Authenticators authenticators) {
  auto shared = std::make_shared<const Authenticators>(std::move(authenticators));
  const MutexLock lock(mu_);
  authenticators_ = std::move(shared);
}

void FrontDoor::SetAuthorizer(std::shared_ptr<const Authorizer> authorizer) {
  const MutexLock lock(mu_);
  authorizer_ = std::move(authorizer);
}

std::shared_ptr<const Authenticators> FrontDoor::authenticators() const {
  const MutexLock lock(mu_);
  return authenticators_;
}

std::shared_ptr<const Authorizer> FrontDoor::authorizer() const {
  const MutexLock lock(mu_);
  return authorizer_;
}

void FrontDoor::Authorize(const User& user, const RequestInfo& request,
                          Authorizer::Done done) const {
  std::shared_ptr<const Authorizer> asked = authorizer();
  const Authorizer& borrowed = *asked;
  borrowed.Authorize(user, request,
                     [asked = std::move(asked), done = std::move(done)](Decision decision) {
                       done(std::move(decision));
                     });
}

void FrontDoor::SetApi(Api* api) { api_ = api; }

void FrontDoor::SetConnectionStats(std::function<http::ServerStats()> connections) {
  const MutexLock lock(mu_);
  connections_ = std::move(connections);
}

void FrontDoor::SetStopping() { stopping_.store(true); }

void FrontDoor::Handle(http::Request request, const http::Peer& peer,
                       std::shared_ptr<http::Responder> responder) {
  RequestInfo info = ParseRequestInfo(request.method, request.target);
  if (http::Headers cors = options_.cors.ResponseHeaders(request.headers); !cors.empty()) {
    if (request.method == "OPTIONS") {  // a browser asks whether it may send a request
      AddCommonHeaders(request, "", &cors);
      return responder->Send({.status = 204, .headers = std::move(cors)});
    }
    responder = AddHeaders(std::move(responder), std::move(cors));
  }
  const Route route = Routes().Find(info);
  if (route.stage == Stage::kHealth)
    return AnswerHealth(std::move(request), peer, std::move(info), std::move(responder));
  auto counted = std::make_shared<CountedResponder>(this, request, info, std::move(responder));
  std::make_shared<Admission>(this, std::move(request), std::move(info), route, peer,
                              std::move(counted))
      ->Begin();
}

http::Response FrontDoor::MetricsPage(const http::Request& request) const {
  std::function<http::ServerStats()> connections;
  {
    const MutexLock lock(mu_);
    connections = connections_;
  }
  http::Response response =
      PlainText(request, 200,
                metrics_.Text(store_->Stats(), connections ? connections() : http::ServerStats{}));
  response.headers.Set("content-type", "text/plain; version=0.0.4; charset=utf-8");
  return response;
}

void FrontDoor::AnswerHealth(http::Request request, const http::Peer& peer, RequestInfo info,
                             std::shared_ptr<http::Responder> responder) const {
  if (FindParameter(info.query, "verbose") == nullptr)
    return responder->Send(Health(request, info, false));
  // Kept until the user is authenticated.
  struct Probe {
    http::Request request;
    http::Peer peer;
  };
  const auto probe = std::make_shared<const Probe>(Probe{std::move(request), peer});
  Authenticate(authenticators(), probe->request, probe->peer,
               [this, probe, info = std::move(info),
                responder = std::move(responder)](const Result<User>& user) {
                 responder->Send(Health(probe->request, info, user.has_value()));
               });
}

http::Response FrontDoor::Health(const http::Request& request, const RequestInfo& info,
                                 bool verbose) const {
  struct Check {
    std::string_view name;
    bool ok;
  };
  // "ping" is ok if there is a response at all.
  std::vector<Check> checks = {{"ping", true}};
  const std::string_view root = std::string_view(info.path).substr(1, info.path.find('/', 1) - 1);
  // A store that cannot write at the moment recovers by itself. A restart would not help, so
  // liveness does not depend on it.
  if (root != "livez") checks.push_back({"store", store_->Health().ok()});
  if (root == "readyz") checks.push_back({"shutdown", !stopping_.load()});

  std::vector<std::string> excluded;
  for (const auto& [name, value] : info.query)
    if (name == "exclude") excluded.push_back(value);

  // /readyz/store runs one check.
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
