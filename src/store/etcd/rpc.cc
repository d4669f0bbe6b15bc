#include "store/etcd/rpc.h"

#include <absl/synchronization/mutex.h>
#include <fmt/core.h>
#include <grpc/support/log.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "base/bytes/random.h"
#include "base/check.h"
#include "base/file.h"
#include "base/thread/thread_name.h"
#include "store/testing/tsan_suppressions.h"

namespace herald::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// How often somebody looks whether an endpoint is due. Shorter than what callers would
// notice; shorter still where they give up quickly.
constexpr milliseconds kTick{100};
constexpr milliseconds kMinTick{10};

// After how long without any answer an endpoint is probed, also where no call waits for one: one
// small call a second, so that Health() is true of now. A busy disk answers late, a member that is
// gone never does; the probe, which needs no disk, tells them apart. Both at most parts of a call's
// time, so that enough of it is left to read elsewhere.
constexpr milliseconds kSilence{1'000};
constexpr milliseconds kMaxProbeTimeout{2'000};

// New tokens for one call: one because the old one has expired, one more because somebody
// changed users meanwhile.
constexpr int kMaxNewTokens = 2;

// How long a refused password is taken to be wrong. etcd spends 0.1 s of CPU on each check.
constexpr std::chrono::seconds kRefusalLasts{2};

// The longest wait that callers are told, so that they come back soon after etcd does.
constexpr std::chrono::seconds kMaxRetryAfter{30};

// What the queue's thread may do first while something is postponed. There is a bound so that reads
// that never cease hold no watch up; it is above what one read from the socket brings under load.
constexpr int kMaxBeforePostponed = 64;

constexpr std::string_view kGone = "the etcd client is being closed";

Status Cancelled() { return {StatusReason::kCancelled, std::string(kGone)}; }

EtcdVerdict Judge(const UnaryEnd& end) {
  EtcdVerdict verdict = JudgeEtcdError(end.code, end.message);
  if (end.untouched) verdict.done = EtcdVerdict::Done::kNo;
  return verdict;
}

milliseconds Millis(nanoseconds duration) {
  return std::chrono::duration_cast<milliseconds>(duration);
}

// gRPC writes to stderr on its own. What it would say of errors is in the statuses of calls; who
// looks for a fault in gRPC itself asks for its log in the usual way.
void KeepGrpcQuiet() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  });
}

// Where abseil is built with assertions, as Debian's is, every lock of gRPC's goes into a graph
// that is searched for deadlocks: a sixth of what 256 creates at once cost heraldd.
void KeepGrpcFast() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

// Alarms of etcd are told as text: "memberID:123 alarm:CORRUPT ".
bool IsCorrupt(const etcdserverpb::StatusResponse& response) {
  const std::string member = fmt::format("memberID:{} ", response.header().member_id());
  return std::any_of(response.errors().begin(), response.errors().end(), [&](const auto& error) {
    return error.find("CORRUPT") != std::string::npos && error.find(member) != std::string::npos;
  });
}

}  // namespace

EtcdConnection::EtcdConnection(const std::shared_ptr<grpc::Channel>& channel,
                               grpc::CompletionQueue* queue_in)
    : queue(queue_in),
      kv(channel),
      watch(channel),
      lease(channel),
      maintenance(channel),
      auth(channel) {}

UnaryEnd ToUnaryEnd(const grpc::Status& status) {
  return {.code = static_cast<GrpcCode>(status.error_code()), .message = status.error_message()};
}

void PrepareContext(grpc::ClientContext* context, bool needs_leader,
                    const std::shared_ptr<const std::string>& token) {
  // Members answer "no leader" instead of waiting for one.
  if (needs_leader) context->AddMetadata("hasleader", "true");
  if (token) context->AddMetadata("token", *token);
}

void EtcdCall::Over(UnaryEnd end) {
  end_ = std::move(end);
  rpc_->Ended(std::unique_ptr<EtcdCall>(this));
}

void EtcdTransaction::Reset() {
  response_.Clear();
  canceller_ = std::make_shared<UnaryChannel::Canceller>();
}

void EtcdTransaction::Send(Try to) {
  to.writes->Start(
      {.method = "/etcdserverpb.KV/Txn", .timeout = Millis(to.left), .token = std::move(to.token)},
      request_, &response_, canceller_, [this](UnaryEnd end) { Over(std::move(end)); });
}

// Asks one member how it is, and nobody else in its place: for a stream over its own connection,
// else over the channel for writes. Deletes itself at its end.
class EtcdRpc::Probe final : public EtcdTag {
 public:
  Probe(EtcdRpc* rpc, Place place, VersionDone done)
      : rpc_(rpc), place_(std::move(place)), done_(std::move(done)) {}

  void Send() {
    const UnaryChannel::Call call{.method = "/etcdserverpb.Maintenance/Status",
                                  .timeout = Millis(rpc_->probe_timeout_),
                                  .needs_leader = false,
                                  .token = place_.token};
    if (!done_) {
      rpc_->writes_[place_.endpoint]->Start(call, etcdserverpb::StatusRequest(), &response_,
                                            canceller_,
                                            [this](UnaryEnd end) { Ended(std::move(end)); });
      return;
    }
    context_.set_deadline(std::chrono::system_clock::now() + call.timeout);
    PrepareContext(&context_, call.needs_leader, call.token);
    reader_ =
        place_.connection->maintenance.PrepareAsyncStatus(&context_, {}, place_.connection->queue);
    reader_->StartCall();
    reader_->Finish(&response_, &status_, Lend());
  }
  void Cancel() {
    canceller_->Cancel();
    context_.TryCancel();
  }

 private:
  friend class EtcdRpc;
  void Run(bool) override { Ended(ToUnaryEnd(status_)); }
  void Ended(UnaryEnd end) {
    const std::unique_ptr<Probe> self(this);
    end_ = std::move(end);
    rpc_->ProbeEnded(*this);
  }

  EtcdRpc* const rpc_;
  const Place place_;
  const VersionDone done_;  // null: the endpoint's own probe
  etcdserverpb::StatusResponse response_;
  UnaryEnd end_;
  const std::shared_ptr<UnaryChannel::Canceller> canceller_ =
      std::make_shared<UnaryChannel::Canceller>();
  grpc::ClientContext context_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<etcdserverpb::StatusResponse>> reader_;
};

Result<EtcdRpc::Tls> EtcdRpc::ReadTls(const EtcdClientOptions& options) {
  Tls tls;
  if (options.cert_file.empty() != options.key_file.empty()) {
    return Status(StatusReason::kBadRequest,
                  "a certificate for etcd needs its key, and a key its certificate");
  }
  for (const auto& [path, text] :
       {std::pair(&options.ca_file, &tls.ca), std::pair(&options.cert_file, &tls.cert),
        std::pair(&options.key_file, &tls.key)}) {
    if (path->empty()) continue;
    Result<std::string> read = ReadFile(*path);
    if (!read) return read.error();
    *text = *std::move(read);
  }
  return tls;
}

Result<std::unique_ptr<EtcdRpc>> EtcdRpc::Open(EtcdClientOptions options) {
  if (options.endpoints.empty() || options.endpoints.size() > EtcdEndpoints::kMax) {
    return Status(StatusReason::kBadRequest,
                  fmt::format("etcd needs 1 to {} endpoints, and got {}", EtcdEndpoints::kMax,
                              options.endpoints.size()));
  }
  if (options.call_timeout <= milliseconds(0) || options.keepalive <= milliseconds(0)) {
    return Status(StatusReason::kBadRequest, "time-outs for etcd must be above 0");
  }
  std::vector<EtcdAddress> addresses;
  for (const std::string& url : options.endpoints) {
    Result<EtcdAddress> address = ParseEtcdUrl(url);
    if (!address) return address.error();
    if (!addresses.empty() && addresses.front().tls != address->tls) {
      return Status(StatusReason::kBadRequest,
                    "all endpoints of etcd must be https://, or all http://");
    }
    addresses.push_back(*std::move(address));
  }
  Tls tls;
  if (addresses.front().tls) {
    Result<Tls> read = ReadTls(options);
    if (!read) return read.error();
    tls = *std::move(read);
  }
  std::vector<std::unique_ptr<UnaryChannel>> writes;
  for (const EtcdAddress& address : addresses) {
    auto channel = UnaryChannel::Open(
        {.url = fmt::format("{}://{}", address.tls ? "https" : "http", address.host_and_port),
         .tls = [options]() -> Result<http::ClientTls> {
           Result<Tls> read = ReadTls(options);
           if (!read) return read.error();
           return http::ClientTls{.ca = std::move(read->ca),
                                  .certificate = std::move(read->cert),
                                  .key = std::move(read->key)};
         },
         .connect_timeout = options.call_timeout,
         .ping_interval = options.keepalive,
         .ping_timeout = options.call_timeout});
    if (!channel) return channel.error();
    writes.push_back(*std::move(channel));
  }
  KeepGrpcQuiet();
  KeepGrpcFast();
  return std::unique_ptr<EtcdRpc>(
      new EtcdRpc(std::move(options), std::move(addresses), std::move(tls), std::move(writes)));
}

EtcdRpc::EtcdRpc(EtcdClientOptions options, std::vector<EtcdAddress> addresses, Tls tls,
                 std::vector<std::unique_ptr<UnaryChannel>> writes)
    : options_(std::move(options)),
      addresses_(std::move(addresses)),
      tick_(std::clamp<nanoseconds>(options_.call_timeout / 10, kMinTick, kTick)),
      silence_(std::min<nanoseconds>(options_.call_timeout / 4, kSilence)),
      probe_timeout_(std::min<nanoseconds>(options_.call_timeout / 3, kMaxProbeTimeout)),
      tls_(std::move(tls)),
      writes_(std::move(writes)),
      endpoints_(addresses_.size(), RandomSeed()),
      stale_(addresses_.size(), false),
      errors_(addresses_.size()),
      probed_(addresses_.size(), false) {
  thread_ = std::thread([this] {
    NameThisThread("herald-etcd");
    RunQueue();
  });
  std::vector<std::shared_ptr<EtcdConnection>> connections;
  for (EtcdEndpoints::Index i = 0; i < addresses_.size(); ++i) connections.push_back(Connect(i));
  MutexLock lock(mu_);
  connections_ = std::move(connections);
  executor_.Post([this] { Tick(); });
}

EtcdRpc::~EtcdRpc() {
  Stop();
  executor_.Stop();
  queue_.Shutdown();
  thread_.join();
}

void EtcdRpc::RunQueue() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
    EtcdTag::GiveBack(tag, ok);
    for (int i = 0; i < kMaxBeforePostponed && !postponed_.empty(); ++i) {
      const auto next = queue_.AsyncNext(&tag, &ok, std::chrono::system_clock::time_point());
      if (next != grpc::CompletionQueue::GOT_EVENT) break;
      EtcdTag::GiveBack(tag, ok);
    }
    for (const auto& task : std::exchange(postponed_, {})) task();
  }
}

void EtcdRpc::Postpone(std::function<void()> task) { postponed_.push_back(std::move(task)); }

void EtcdRpc::Stop() {
  std::vector<std::unique_ptr<EtcdCall>> calls;
  std::vector<std::function<void(const Status&)>> streams;
  {
    MutexLock lock(mu_);
    stopping_ = true;
    // Under the lock, because what is listed goes away without it.
    for (EtcdCall* call = calls_; call != nullptr; call = call->behind_) call->Cancel();
    for (const auto& [stream, endpoint] : streams_) stream->Cancel();
    for (Probe* probe : probes_) probe->Cancel();
    calls.swap(awaiting_token_);
    streams.swap(streams_awaiting_token_);
  }
  for (auto& call : calls) Finish(std::move(call), Cancelled());
  for (const auto& stream : streams) stream(Cancelled());
  MutexLock lock(mu_);
  idle_.Wait(lock, [this]() REQUIRES(mu_) { return outstanding_ == 0; });
}

std::shared_ptr<EtcdConnection> EtcdRpc::Connect(EtcdEndpoints::Index endpoint) {
  const EtcdAddress& address = addresses_[endpoint];
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  if (address.tls) {
    credentials = grpc::SslCredentials(
        {.pem_root_certs = tls_.ca, .pem_private_key = tls_.key, .pem_cert_chain = tls_.cert});
  } else {
    credentials = grpc::InsecureChannelCredentials();
  }

  grpc::ChannelArguments arguments;
  // Else a new channel would share the connection of the one that it replaces.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A list of everything is as large as it is; etcd itself bounds what it is sent.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  const auto ms = [](nanoseconds duration) { return static_cast<int>(Millis(duration).count()); };
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, ms(options_.keepalive));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ms(options_.call_timeout));
  // Else gRPC stops after two pings on a watch where nothing happens.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // We decide what is tried again, and when to connect again.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, ms(kTick));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, ms(options_.call_timeout));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  // A proxy in the environment is for what is outside of the cluster.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);

  return std::make_shared<EtcdConnection>(
      grpc::CreateCustomChannel("dns:///" + address.host_and_port, credentials, arguments),
      &queue_);
}

void EtcdRpc::StartCall(std::unique_ptr<EtcdCall> call) {
  call->rpc_ = this;
  call->deadline_ = Now() + options_.call_timeout;
  {
    MutexLock lock(mu_);
    ++outstanding_;
  }
  Attempt(std::move(call), /*on_own_thread=*/false);
}

bool EtcdRpc::TokenIsMissing() const {
  return !options_.user.empty() && !token_ && !no_authentication_;
}

Status EtcdRpc::NoEndpoint(SteadyTime now) const {
  std::string why;
  for (EtcdEndpoints::Index i = 0; i < errors_.size(); ++i) {
    if (errors_[i].empty()) continue;
    why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", options_.endpoints[i], errors_[i]);
  }
  const auto wait = std::chrono::ceil<std::chrono::seconds>(endpoints_.UntilNextProbe(now));
  return Status({.reason = StatusReason::kServiceUnavailable,
                 .message = fmt::format("no endpoint of etcd answers: {}",
                                        why.empty() ? "none has been reached yet" : why),
                 .retry_after = std::clamp(wait, std::chrono::seconds(1), kMaxRetryAfter)});
}

bool EtcdRpc::Wait(std::unique_ptr<EtcdCall>& call) {
  awaiting_token_.push_back(std::move(call));
  return !std::exchange(authenticating_, true);
}

void EtcdRpc::Attempt(std::unique_ptr<EtcdCall> call, bool on_own_thread) {
  const SteadyTime now = Now();
  call->moved_ = false;
  call->Reset();
  EtcdCall::Try to;
  std::optional<Status> failed;
  bool authenticate = false;
  {
    MutexLock lock(mu_);
    if (stopping_) {
      failed = Cancelled();
    } else if (call->options_.needs_token && TokenIsMissing()) {
      if (now < refused_until_) {
        failed = refusal_;
      } else {
        authenticate = Wait(call);
      }
    } else if (const auto picked = endpoints_.Pick(call->tried_); picked && now < call->deadline_) {
      call->endpoint_ = *picked;
      call->sent_ = now;
      call->token_ = token_;
      to = {.writes = writes_[*picked].get(),
            .connection = connections_[*picked],
            .token = call->options_.needs_token ? token_ : nullptr,
            .left = call->deadline_ - now};
      endpoints_.CallBegan(*picked);
      call->before_ = nullptr;
      call->behind_ = calls_;
      if (calls_ != nullptr) calls_->before_ = call.get();
      calls_ = call.get();
    } else if (call->tried_ != 0) {
      failed = call->options_.repeatable ? call->verdict_.status : WriteStatus(call->verdict_);
    } else {
      failed = NoEndpoint(now);
    }
  }
  if (authenticate) Authenticate();
  if (!call) return;  // it waits for a token
  if (failed) return Fail(std::move(call), *failed, on_own_thread);

  call.release()->Send(std::move(to));  // and owns itself until it is over
}

void EtcdRpc::Fail(std::unique_ptr<EtcdCall> call, const Status& status, bool on_own_thread) {
  if (on_own_thread) return Finish(std::move(call), status);
  executor_.Post(
      [this, status, call = std::make_shared<std::unique_ptr<EtcdCall>>(std::move(call))] {
        Finish(std::move(*call), status);
      });
}

void EtcdRpc::Finish(std::unique_ptr<EtcdCall> call, const Status& status) {
  call->Done(status);
  call.reset();
  OneLess();
}

void EtcdRpc::OneLess() {
  MutexLock lock(mu_);
  if (--outstanding_ == 0 && stopping_) idle_.NotifyAll();
}

void EtcdRpc::Ended(std::unique_ptr<EtcdCall> call) {
  bool moved = false;
  bool stopping = false;
  {
    MutexLock lock(mu_);
    if (call->before_ != nullptr) call->before_->behind_ = call->behind_;
    if (call->behind_ != nullptr) call->behind_->before_ = call->before_;
    if (calls_ == call.get()) calls_ = call->behind_;
    endpoints_.CallEnded(call->endpoint_);
    moved = call->moved_;
    stopping = stopping_;
  }
  if (call->end_.code == GrpcCode::kOk) {
    SeenAnswer(call->endpoint_, call->sent_);
    return Finish(std::move(call), Status());
  }
  if (stopping) return Finish(std::move(call), Cancelled());

  EtcdVerdict& verdict = call->verdict_;
  verdict = Judge(call->end_);
  if (moved) {
    verdict.elsewhere = true;  // only what may be repeated is moved
  } else {
    SeenVerdict(call->endpoint_, verdict, call->sent_);
  }

  const bool repeatable = call->options_.repeatable || verdict.done == EtcdVerdict::Done::kNo;
  if (verdict.token && call->options_.needs_token && !options_.user.empty() &&
      call->new_tokens_ < kMaxNewTokens) {
    ++call->new_tokens_;
    RefuseToken(call->token_);
    return Attempt(std::move(call), /*on_own_thread=*/true);
  }
  if (verdict.elsewhere && repeatable) {
    call->tried_ |= EtcdEndpoints::Set{1} << call->endpoint_;
    return Attempt(std::move(call), /*on_own_thread=*/true);
  }
  const Status status = call->options_.repeatable ? verdict.status : WriteStatus(verdict);
  Finish(std::move(call), status);
}

void EtcdRpc::RefuseToken(const std::shared_ptr<const std::string>& token) {
  MutexLock lock(mu_);
  // Another call may have found out first, and the token may be new already.
  if (token_ != token) return;
  token_ = nullptr;
  no_authentication_ = false;
}

void EtcdRpc::Authenticate() {
  etcdserverpb::AuthenticateRequest request;
  request.set_name(options_.user);
  request.set_password(options_.password);
  Start<etcdserverpb::AuthenticateResponse>(
      // A token that nobody uses is forgotten in minutes.
      {.repeatable = true, .needs_leader = true, .needs_token = false}, std::move(request),
      [](EtcdConnection& connection, grpc::ClientContext* context,
         const etcdserverpb::AuthenticateRequest& sent) {
        return connection.auth.PrepareAsyncAuthenticate(context, sent, connection.queue);
      },
      [this](const auto& call, const Status& status, etcdserverpb::AuthenticateResponse& response) {
        Authenticated(call.verdict(), status, std::move(*response.mutable_token()));
      });
}

void EtcdRpc::Authenticated(const EtcdVerdict& verdict, const Status& status, std::string token) {
  std::vector<std::unique_ptr<EtcdCall>> calls;
  std::vector<std::function<void(const Status&)>> streams;
  Status failed;
  {
    MutexLock lock(mu_);
    authenticating_ = false;
    if (status.ok()) {
      token_ = std::make_shared<const std::string>(std::move(token));
    } else if (verdict.no_authentication) {
      no_authentication_ = true;
    } else {
      failed = status;
      if (status.Is(StatusReason::kUnauthorized)) {
        refusal_ = status;
        refused_until_ = Now() + kRefusalLasts;
      }
    }
    calls.swap(awaiting_token_);
    streams.swap(streams_awaiting_token_);
  }
  for (auto& call : calls) {
    if (failed.ok()) {
      Attempt(std::move(call), /*on_own_thread=*/true);
    } else {
      Finish(std::move(call), failed);
    }
  }
  for (const auto& stream : streams) stream(failed);
}

void EtcdRpc::AwaitToken(std::function<void(const Status&)> done) {
  bool authenticate = false;
  Status status;
  {
    MutexLock lock(mu_);
    if (stopping_) {
      status = Cancelled();
    } else if (TokenIsMissing()) {
      if (Now() < refused_until_) {
        status = refusal_;
      } else {
        streams_awaiting_token_.push_back(std::move(done));
        authenticate = !std::exchange(authenticating_, true);
        done = nullptr;
      }
    }
  }
  if (authenticate) Authenticate();
  if (done) done(status);
}

std::optional<EtcdRpc::Place> EtcdRpc::BeginStream(EtcdStream* stream, EtcdEndpoints::Set avoid) {
  MutexLock lock(mu_);
  if (stopping_) return std::nullopt;
  auto picked = endpoints_.Pick(avoid);
  if (!picked) picked = endpoints_.Pick(0);
  if (!picked) return std::nullopt;
  ++outstanding_;
  streams_.emplace_back(stream, *picked);
  return Place{*picked, connections_[*picked], token_, Now()};
}

void EtcdRpc::EndStream(EtcdStream* stream, const Place& place, const EtcdVerdict* verdict) {
  {
    MutexLock lock(mu_);
    std::erase_if(streams_, [stream](const auto& each) { return each.first == stream; });
  }
  if (verdict != nullptr) SeenVerdict(place.endpoint, *verdict, place.since);
  OneLess();
}

void EtcdRpc::Suspect(EtcdEndpoints::Index endpoint) {
  MutexLock lock(mu_);
  endpoints_.Suspected(endpoint, Now());
}

void EtcdRpc::SeenAnswer(EtcdEndpoints::Index endpoint, SteadyTime asked) {
  bool news = false;
  {
    MutexLock lock(mu_);
    news = endpoints_.Answered(endpoint, asked, Now());
    if (endpoints_.works(endpoint)) errors_[endpoint].clear();
  }
  if (news) {
    Log(LogLevel::kInfo, "etcd endpoint answers again",
        {{"endpoint", options_.endpoints[endpoint]}});
  }
}

void EtcdRpc::SeenVerdict(EtcdEndpoints::Index endpoint, const EtcdVerdict& verdict,
                          SteadyTime asked) {
  if (verdict.endpoint == EtcdVerdict::Endpoint::kFine) return SeenAnswer(endpoint, asked);
  if (verdict.endpoint == EtcdVerdict::Endpoint::kSuspect) return Suspect(endpoint);
  bool news = false;
  {
    MutexLock lock(mu_);
    news = endpoints_.Failed(endpoint, Now());
    errors_[endpoint] = verdict.status.message();
    // What etcd says itself comes over a connection that works.
    if (!verdict.status.message().starts_with("etcdserver: ")) stale_[endpoint] = true;
    Lost(endpoint);
  }
  if (news) {
    Log(LogLevel::kWarn, "etcd endpoint is lost",
        {{"endpoint", options_.endpoints[endpoint]}, {"error", verdict.status.message()}});
  }
}

void EtcdRpc::Lost(EtcdEndpoints::Index endpoint) {
  // Whoever waits there for what may be asked elsewhere goes there now.
  for (EtcdCall* call = calls_; call != nullptr; call = call->behind_) {
    if (call->endpoint_ != endpoint || !call->options_.repeatable || call->moved_) continue;
    call->moved_ = true;
    call->Cancel();
  }
  for (const auto& [stream, at] : streams_) {
    if (at == endpoint) stream->Cancel();
  }
}

void EtcdRpc::Tick() {
  std::vector<EtcdEndpoints::Index> due;
  {
    MutexLock lock(mu_);
    if (stopping_) return;
    const SteadyTime now = Now();
    for (EtcdEndpoints::Index i = 0; i < endpoints_.size(); ++i) {
      // A connection that has gone may have taken the member with it, and who comes back may be
      // another version.
      if (probed_[i] && !writes_[i]->connected()) endpoints_.Disconnected(i, now);
    }
    due = endpoints_.DueProbes(now, silence_);
  }
  for (const EtcdEndpoints::Index endpoint : due) StartProbe(endpoint);
  executor_.PostAt(Now() + tick_, [this] { Tick(); });
}

void EtcdRpc::StartProbe(EtcdEndpoints::Index endpoint) {
  bool stale = false;
  {
    MutexLock lock(mu_);
    stale = stale_[endpoint];
    stale_[endpoint] = false;
  }
  if (stale) {
    writes_[endpoint]->Renew();
    if (addresses_[endpoint].tls) {
      Result<Tls> read = ReadTls(options_);
      if (read) {
        tls_ = *std::move(read);
      } else {
        Log(LogLevel::kError, "cannot read the certificates for etcd; the old ones stay",
            {{"error", read.error().message()}});
      }
    }
    std::shared_ptr<EtcdConnection> connection = Connect(endpoint);
    MutexLock lock(mu_);
    connections_[endpoint].swap(connection);
    lock.Unlock();  // before the old one is closed
  }

  Probe* probe = nullptr;
  {
    MutexLock lock(mu_);
    if (stopping_) return;
    ++outstanding_;
    probe = new Probe(this, {endpoint, connections_[endpoint], token_, Now()}, nullptr);
    probes_.push_back(probe);
  }
  probe->Send();  // and deletes itself
}

void EtcdRpc::AskVersion(const Place& place, VersionDone done) {
  Probe* probe = nullptr;
  {
    MutexLock lock(mu_);
    if (stopping_) return;
    ++outstanding_;
    probe = new Probe(this, {place.endpoint, place.connection, token_, Now()}, std::move(done));
    probes_.push_back(probe);
  }
  probe->Send();
}

void EtcdRpc::ProbeEnded(Probe& probe) {
  const EtcdEndpoints::Index endpoint = probe.place_.endpoint;
  const etcdserverpb::StatusResponse& response = probe.response_;
  const bool ok = probe.end_.code == GrpcCode::kOk;
  bool stopping = false;
  {
    MutexLock lock(mu_);
    std::erase(probes_, &probe);
    stopping = stopping_;
    if (!stopping && ok) endpoints_.SetVersion(endpoint, response.version());
  }
  if (stopping) return OneLess();

  EtcdVerdict verdict;
  if (!ok) {
    verdict = Judge(probe.end_);
    // It does not even say how it is.
    if (verdict.endpoint == EtcdVerdict::Endpoint::kSuspect) {
      verdict.endpoint = EtcdVerdict::Endpoint::kLost;
    }
    if (verdict.token) RefuseToken(probe.place_.token);
  }
  if (probe.done_) {
    // Whether the stream that it was asked for is alive, the stream knows best.
    probe.done_(ok ? std::optional(ProgressIsSound(response.version())) : std::nullopt);
    return OneLess();
  }
  if (!ok) {
    // Judged above.
  } else if (response.leader() == 0) {
    verdict = JudgeEtcdError(GrpcCode::kUnavailable, "etcdserver: no leader");
  } else if (response.islearner()) {
    verdict =
        JudgeEtcdError(GrpcCode::kFailedPrecondition, "etcdserver: rpc not supported for learner");
  } else if (IsCorrupt(response)) {
    verdict = JudgeEtcdError(GrpcCode::kDataLoss, "etcdserver: corrupt cluster");
    verdict.endpoint = EtcdVerdict::Endpoint::kLost;
  }
  if (verdict.endpoint == EtcdVerdict::Endpoint::kLost) {
    SeenVerdict(endpoint, verdict, probe.place_.since);
  } else {
    SeenAnswer(endpoint, probe.place_.since);
    MutexLock lock(mu_);
    probed_[endpoint] = true;
    endpoints_.ProbeEnded(endpoint, Now());
  }
  OneLess();
}

void EtcdRpc::Log(LogLevel level, std::string_view message,
                  std::vector<std::pair<std::string_view, std::string_view>> fields) const {
  if (!options_.log) return;
  try {
    options_.log({.level = level, .message = message, .fields = std::move(fields)});
  } catch (...) {  // NOLINT(bugprone-empty-catch): see LogFunction
  }
}

bool EtcdRpc::progress_is_sound() const {
  MutexLock lock(mu_);
  return endpoints_.progress_is_sound();
}

Status EtcdRpc::Health() const {
  MutexLock lock(mu_);
  for (EtcdEndpoints::Index i = 0; i < endpoints_.size(); ++i) {
    // A connection that has just gone may have taken the member with it; the next tick probes it.
    if (endpoints_.known_to_work(i) && (!probed_[i] || writes_[i]->connected())) return Status();
  }
  return NoEndpoint(Now());
}

}  // namespace herald::store
