#include "herald/client/leader_election.h"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "base/bytes/random.h"
#include "base/thread/mutex.h"
#include "client/rest/blocking_call.h"
#include "client/rest/requests.h"
#include "client/rest/resource_codec.h"
#include "client/rest/rest_impl.h"
#include "herald/api/time.h"
#include "herald/client/dynamic.h"

namespace herald {
namespace {

// client-go's JitterFactor: a candidate waits 1 to 2.2 retry periods.
constexpr double kJitter = 1.2;
// A renewal that is under way may change the Lease while it is being released.
constexpr int kResignTries = 3;

const Resource& Leases() {
  static const Resource leases{"coordination.k8s.io", "v1", "leases"};
  return leases;
}

Status Invalid(std::string_view what) {
  return Status(StatusReason::kBadRequest, fmt::format("leader election: {}", what));
}

Status Check(const LeaderElectionOptions& options) {
  if (options.name.empty()) return Invalid("name must not be empty");
  if (options.namespace_.empty()) return Invalid("namespace must not be empty");
  if (options.identity.empty()) return Invalid("identity must not be empty");
  if (options.retry_period.count() <= 0) return Invalid("retry_period must be greater than 0");
  if (options.lease_duration <= options.renew_deadline) {
    return Invalid("lease_duration must be greater than renew_deadline");
  }
  if (options.renew_deadline <= kJitter * options.retry_period) {
    return Invalid("renew_deadline must be greater than 1.2 times retry_period");
  }
  return {};
}

}  // namespace

// Confined to the transport's thread, except the members that mu_ guards. At most one request or
// one timer is under way, in addition to the timer of the deadline.
class LeaderElector::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(std::shared_ptr<RestClient> rest, LeaderElectionOptions options)
      : rest_(std::move(rest)),
        options_(std::move(options)),
        recorder_(options_.recorder),
        random_(options_.seed != 0 ? options_.seed : RandomSeed()) {}

  void Start() {
    transport().Post([self = shared_from_this()] { self->Try(); });
  }

  void Stop() {
    stop_.request_stop();
    MutexLock lock(mu_);
    state_ = State::kEnded;
    // Waits for a running callback, unless this is called by the callback.
    while (callback_thread_ && *callback_thread_ != std::this_thread::get_id()) idle_.Wait(lock);
  }

  void Resign(StatusDone done) {
    Stop();
    transport().Post([self = shared_from_this(), done = std::move(done)]() mutable {
      if (!self->IsOurs()) return done(Status());
      self->Release(kResignTries, std::move(done));
    });
  }

  bool IsLeader() const {
    const MutexLock lock(mu_);
    return state_ == State::kLeading && clock().Steady() < deadline_;
  }

  std::string leader() const {
    const MutexLock lock(mu_);
    return leader_;
  }

 private:
  enum class State : std::uint8_t { kCandidate, kLeading, kEnded };
  using LeaseDone = std::function<void(Result<Object>)>;

  Transport& transport() const { return rest_->impl().transport(); }
  const Clock& clock() const { return transport().clock(); }

  State CurrentState() const {
    const MutexLock lock(mu_);
    return state_;
  }

  bool IsOurs() const { return seen_.json["spec"]["holderIdentity"].String() == options_.identity; }

  // One attempt to acquire or renew the Lease.
  void Try() {
    const State state = CurrentState();
    if (state == State::kEnded) return;
    tried_at_ = clock().Steady();
    // A leader does not read the Lease first. If another client has written it, the server rejects
    // the renewal because of its resource version.
    if (state == State::kLeading) {
      Write("PUT", Claimed(), [self = shared_from_this()](Result<Object> lease) {
        if (lease) return self->OnHeld(std::move(*lease));
        self->Log(LogLevel::kDebug, "The lease was not renewed", lease.error());
        // Without an answer nothing is known. After an error of the server another candidate may
        // hold the Lease.
        if (lease.error().origin() != Status::Origin::kServer) return self->TryLater();
        self->Look();
      });
    } else {
      Look();
    }
  }

  void Look() {
    if (CurrentState() == State::kEnded) return;
    Send(ResourceRequest(Leases(), "GET", options_.namespace_, options_.name),
         [self = shared_from_this()](Result<Object> lease) { self->OnSeen(std::move(lease)); });
  }

  void OnSeen(Result<Object> lease) {
    if (!lease && lease.error().Is(StatusReason::kNotFound)) {
      seen_ = Object();
      return Write("POST", Claimed(), [self = shared_from_this()](Result<Object> made) {
        self->OnWritten(std::move(made));
      });
    }
    if (!lease) {
      Log(LogLevel::kWarn, "The lease cannot be read", lease.error());
      return TryLater();
    }
    Observe(std::move(*lease));
    const JsonValue& spec = seen_.json["spec"];
    const std::string& holder = spec["holderIdentity"].String();
    if (!holder.empty() && holder != options_.identity) {
      if (CurrentState() == State::kLeading) return Lose("another candidate holds the lease");
      const std::chrono::seconds duration(spec["leaseDurationSeconds"].Int());
      if (clock().Steady() < seen_at_ + duration) return TryLater();
    }
    if (CurrentState() == State::kEnded) return;
    Write("PUT", Claimed(), [self = shared_from_this()](Result<Object> written) {
      self->OnWritten(std::move(written));
    });
  }

  void OnWritten(Result<Object> lease) {
    if (lease) return OnHeld(std::move(*lease));
    // A conflict is normal: another candidate was faster.
    const bool conflict =
        lease.error().Is(StatusReason::kConflict) || lease.error().Is(StatusReason::kAlreadyExists);
    Log(conflict ? LogLevel::kDebug : LogLevel::kWarn, "The lease was not written", lease.error());
    TryLater();
  }

  // The server has stored us as the holder.
  void OnHeld(Object lease) {
    Observe(std::move(lease));
    bool started = false;
    {
      const MutexLock lock(mu_);
      if (state_ == State::kEnded) return;
      // Counted from the time of the request, the earliest time at which others can see it.
      deadline_ = tried_at_ + options_.renew_deadline;
      started = state_ == State::kCandidate;
      state_ = State::kLeading;
    }
    ArmDeadline();
    if (started) {
      recorder_.Eventf(seen_.Reference(), kNormal, "LeaderElection", "{} became leader",
                       options_.identity);
      RunUnlessEnded(options_.on_started_leading);
    }
    TryLater();
  }

  void Lose(std::string_view why) {
    {
      const MutexLock lock(mu_);
      if (state_ != State::kLeading) return;
      // The state changes before the callback runs, so that the callback sees it. That is why this
      // does not use RunUnlessEnded().
      state_ = State::kEnded;
      callback_thread_ = std::this_thread::get_id();
    }
    stop_.request_stop();
    Log(LogLevel::kError, "The lease is lost", Status(StatusReason::kConflict, std::string(why)));
    recorder_.Eventf(seen_.Reference(), kNormal, "LeaderElection", "{} stopped leading",
                     options_.identity);
    Run(options_.on_stopped_leading);
  }

  void ArmDeadline() {
    if (deadline_armed_) return;
    deadline_armed_ = true;
    SteadyTime deadline;
    {
      const MutexLock lock(mu_);
      deadline = deadline_;
    }
    transport().PostAfter(deadline - clock().Steady(), [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      self->deadline_armed_ = false;
      if (self->CurrentState() != State::kLeading) return;
      if (self->IsLeader()) return self->ArmDeadline();  // it was renewed meanwhile
      self->Lose("the lease was not renewed in time");
    });
  }

  void TryLater() {
    const State state = CurrentState();
    if (state == State::kEnded) return;
    std::chrono::duration<double, std::nano> wait = options_.retry_period;
    if (state == State::kCandidate) wait *= 1 + kJitter * random_.Unit();
    transport().PostAfter(std::chrono::duration_cast<std::chrono::nanoseconds>(wait),
                          [weak = weak_from_this()] {
                            if (const auto self = weak.lock()) self->Try();
                          });
  }

  // Stores the Lease and the time of its last change.
  void Observe(Object lease) {
    const bool changed = lease.json["spec"] != seen_.json["spec"];
    seen_ = std::move(lease);
    if (changed) seen_at_ = clock().Steady();
    const std::string& holder = seen_.json["spec"]["holderIdentity"].String();
    {
      const MutexLock lock(mu_);
      if (leader_ == holder) return;
      leader_ = holder;
    }
    if (options_.on_new_leader && !holder.empty()) {
      RunUnlessEnded([this, &holder] { options_.on_new_leader(holder); });
    }
  }

  // The last observed Lease, with us as the holder.
  JsonValue Claimed() const {
    const std::string now = MicroTime(clock().Now()).ToString();
    JsonValue lease = Named();
    JsonValue& spec = lease.Member("spec");
    spec.Member("holderIdentity") = options_.identity;
    spec.Member("leaseDurationSeconds") = options_.lease_duration.count();
    spec.Member("renewTime") = now;
    if (!IsOurs()) {
      // The first holder of a new Lease does not count as a transition.
      const bool is_new = seen_.json["spec"].is_null();
      spec.Member("acquireTime") = now;
      spec.Member("leaseTransitions") = is_new ? 0 : spec["leaseTransitions"].Int() + 1;
    }
    return lease;
  }

  // The Lease without a holder, in the form in which client-go releases it.
  JsonValue Released() const {
    const std::string now = MicroTime(clock().Now()).ToString();
    JsonValue lease = Named();
    JsonValue& spec = lease.Member("spec");
    spec.Member("holderIdentity") = "";
    spec.Member("leaseDurationSeconds") = 1;
    spec.Member("renewTime") = now;
    spec.Member("acquireTime") = now;
    return lease;
  }

  JsonValue Named() const {
    JsonValue lease = seen_.json;
    lease.Member("apiVersion") = Leases().api_version();
    lease.Member("kind") = "Lease";
    lease.Member("metadata").Member("name") = options_.name;
    lease.Member("metadata").Member("namespace") = options_.namespace_;
    return lease;
  }

  void Release(int tries, StatusDone done) {
    Write("PUT", Released(),
          [self = shared_from_this(), tries,
           done = std::move(done)](const Result<Object>& lease) mutable {
            if (lease) return done(Status());
            if (!lease.error().Is(StatusReason::kConflict) || tries <= 1)
              return done(lease.error());
            self->Send(
                ResourceRequest(Leases(), "GET", self->options_.namespace_, self->options_.name),
                [self, tries, done = std::move(done)](Result<Object> seen) mutable {
                  if (!seen) return done(seen.error());
                  self->seen_ = std::move(*seen);
                  if (!self->IsOurs()) return done(Status());
                  self->Release(tries - 1, std::move(done));
                },
                {});
          },
          {});
  }

  void Write(std::string_view method, const JsonValue& lease, LeaseDone done) {
    Write(method, lease, std::move(done), stop_.get_token());
  }
  void Write(std::string_view method, const JsonValue& lease, LeaseDone done,
             const std::stop_token& stop) {
    RestRequest request = ResourceRequest(Leases(), method, options_.namespace_,
                                          method == "POST" ? "" : options_.name);
    request.content_type = "application/json";
    lease.AppendTo(&request.body);
    Send(std::move(request), std::move(done), stop);
  }

  void Send(RestRequest request, LeaseDone done) {
    Send(std::move(request), std::move(done), stop_.get_token());
  }
  void Send(RestRequest request, LeaseDone done, const std::stop_token& stop) {
    // Retries are made here. An answer after the deadline would be useless.
    request.timeout = options_.renew_deadline;
    request.max_retries = 0;
    rest_->Send(
        std::move(request),
        [done = std::move(done)](Result<RestResponse> response) {
          if (!response) return done(response.error());
          done(ResourceCodec<Object>(Leases()).ReadObject(response->content_type, response->body));
        },
        stop);
  }

  // Calls a callback, unless the election has ended.
  void RunUnlessEnded(const std::function<void()>& callback) {
    if (!callback) return;
    {
      const MutexLock lock(mu_);
      if (state_ == State::kEnded) return;
      callback_thread_ = std::this_thread::get_id();
    }
    Run(callback);
  }
  // REQUIRES: callback_thread_ is set
  void Run(const std::function<void()>& callback) {
    try {
      if (callback) callback();
    } catch (const std::exception& e) {
      Log(LogLevel::kError, "A callback of leader election threw an exception",
          Status(StatusReason::kInternalError, e.what()));
    } catch (...) {
      Log(LogLevel::kError, "A callback of leader election threw an exception", Status());
    }
    const MutexLock lock(mu_);
    callback_thread_.reset();
    idle_.NotifyAll();
  }

  void Log(LogLevel level, std::string_view message, const Status& why) const {
    if (!options_.log || why.Is(StatusReason::kCancelled)) return;
    const std::string lease = options_.namespace_ + "/" + options_.name;
    options_.log(
        {.level = level, .message = message, .fields = {{"lease", lease}, {"why", why.message()}}});
  }

  const std::shared_ptr<RestClient> rest_;
  const LeaderElectionOptions options_;
  std::stop_source stop_;
  Recorder recorder_;
  Random random_;

  Object seen_;          // the last observed Lease; null JSON if there is none
  SteadyTime seen_at_;   // when its spec last changed
  SteadyTime tried_at_;  // when the attempt under way began
  bool deadline_armed_ = false;

  // Guards the members that other threads use. Not held while a callback runs.
  mutable Mutex mu_;
  CondVar idle_;
  State state_ GUARDED_BY(mu_) = State::kCandidate;
  SteadyTime deadline_ GUARDED_BY(mu_);
  std::string leader_ GUARDED_BY(mu_);
  std::optional<std::thread::id> callback_thread_ GUARDED_BY(mu_);  // while a callback runs
};

Result<std::unique_ptr<LeaderElector>> LeaderElector::Open(std::shared_ptr<RestClient> rest,
                                                           LeaderElectionOptions options) {
  if (Status status = Check(options); !status.ok()) return status;
  return std::unique_ptr<LeaderElector>(
      new LeaderElector(std::make_shared<Core>(std::move(rest), std::move(options))));
}

LeaderElector::LeaderElector(std::shared_ptr<Core> core) : core_(std::move(core)) {}
LeaderElector::~LeaderElector() { Stop(); }

void LeaderElector::Start() { core_->Start(); }
void LeaderElector::Stop() { core_->Stop(); }
Status LeaderElector::Resign() {
  return WaitForStatus([this](StatusDone done) { core_->Resign(std::move(done)); });
}
void LeaderElector::Resign(StatusDone done) { core_->Resign(std::move(done)); }
bool LeaderElector::IsLeader() const { return core_->IsLeader(); }
std::string LeaderElector::leader() const { return core_->leader(); }

}  // namespace herald
