#include "store/etcd/rpc.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/bytes/random.h"
#include "base/check.h"
#include "base/thread/thread_name.h"
#include "store/rocks/tsan_suppressions.h"

namespace herald::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// How often Tick() looks for endpoints to probe. Too short for callers to notice; shorter if the
// call timeout is short.
constexpr milliseconds kTick{100};
constexpr milliseconds kMinTick{10};

// An endpoint is probed if it has not answered for this long, even without calls. That costs one
// small call per second and keeps Health() current. A slow disk delays answers, a dead member never
// answers; a probe needs no disk and so distinguishes them. Both are limited to a part of the call
// timeout, so that enough time is left to read from another member.
constexpr milliseconds kProbeAfterSilence{1'000};
constexpr milliseconds kMaxProbeTimeout{2'000};

// Maximum of new tokens for one call: one because the old token has expired, and one because the
// users were changed in the meantime.
constexpr int kMaxNewTokens = 2;

// How long a rejected password is not tried again. etcd uses 0.1 s of CPU time for each check.
constexpr std::chrono::seconds kAuthenticationRetry{2};

// The longest retry_after, so that callers retry soon after etcd is back.
constexpr std::chrono::seconds kMaxRetryAfter{30};

// Maximum of completions that run before postponed tasks. The limit keeps a constant flow of reads
// from delaying watches. It is more than one read from the socket brings under load.
constexpr int kMaxEventsBeforePostponed = 64;

constexpr std::string_view kClosed = "the etcd client was closed";

Status Cancelled() { return {StatusReason::kCancelled, std::string(kClosed)}; }

}  // namespace

Result<std::unique_ptr<EtcdRpc>> EtcdRpc::Open(EtcdClientOptions options) {
  if (options.endpoints.empty() || options.endpoints.size() > EtcdEndpoints::kMax) {
    return Status(StatusReason::kBadRequest,
                  fmt::format("the number of etcd endpoints must be 1 to {}, not {}",
                              EtcdEndpoints::kMax, options.endpoints.size()));
  }
  if (options.call_timeout <= milliseconds(0) || options.keepalive <= milliseconds(0)) {
    return Status(StatusReason::kBadRequest, "etcd timeouts must be greater than 0");
  }
  std::vector<EtcdAddress> addresses;
  for (const std::string& url : options.endpoints) {
    Result<EtcdAddress> address = ParseEtcdUrl(url);
    if (!address) return address.error();
    if (!addresses.empty() && addresses.front().tls != address->tls) {
      return Status(StatusReason::kBadRequest,
                    "all etcd endpoints must use the same scheme, https:// or http://");
    }
    addresses.push_back(*std::move(address));
  }
  EtcdTls tls;
  if (addresses.front().tls) {
    Result<EtcdTls> read = ReadEtcdTls(options);
    if (!read) return read.error();
    tls = *std::move(read);
  }
  std::vector<std::unique_ptr<UnaryChannel>> write_channels;
  for (const EtcdAddress& address : addresses) {
    Result<std::unique_ptr<UnaryChannel>> channel = OpenWriteChannel(address, options);
    if (!channel) return channel.error();
    write_channels.push_back(*std::move(channel));
  }
  ConfigureGrpc();
  return std::unique_ptr<EtcdRpc>(new EtcdRpc(std::move(options), std::move(addresses),
                                              std::move(tls), std::move(write_channels)));
}

EtcdRpc::EtcdRpc(EtcdClientOptions options, std::vector<EtcdAddress> addresses, EtcdTls tls,
                 std::vector<std::unique_ptr<UnaryChannel>> write_channels)
    : options_(std::move(options)),
      addresses_(std::move(addresses)),
      tick_(std::clamp<nanoseconds>(options_.call_timeout / 10, kMinTick, kTick)),
      probe_after_silence_(std::min<nanoseconds>(options_.call_timeout / 4, kProbeAfterSilence)),
      probe_timeout_(std::min<nanoseconds>(options_.call_timeout / 3, kMaxProbeTimeout)),
      tls_(std::move(tls)),
      write_channels_(std::move(write_channels)),
      endpoints_(addresses_.size(), RandomSeed()),
      reconnect_(addresses_.size(), false),
      errors_(addresses_.size()),
      probed_(addresses_.size(), false) {
  thread_ = std::thread([this] {
    NameThisThread("herald-etcd");
    RunQueue();
  });
  std::vector<std::shared_ptr<EtcdConnection>> connections;
  for (EtcdEndpoints::Index i = 0; i < addresses_.size(); ++i)
    connections.push_back(ConnectToEtcd(addresses_[i], tls_, options_, &queue_));
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
    CompletionTag::Complete(tag, ok);
    for (int i = 0; i < kMaxEventsBeforePostponed && !postponed_.empty(); ++i) {
      const auto next = queue_.AsyncNext(&tag, &ok, std::chrono::system_clock::time_point());
      if (next != grpc::CompletionQueue::GOT_EVENT) break;
      CompletionTag::Complete(tag, ok);
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
    // Under the lock, because a call, stream or probe may be destroyed once it is unlisted.
    for (EtcdCall* call = calls_; call != nullptr; call = call->next_) call->Cancel();
    for (const auto& [stream, endpoint] : streams_) stream->Cancel();
    CancelProbes();
    calls.swap(awaiting_token_);
    streams.swap(streams_awaiting_token_);
  }
  for (auto& call : calls) Finish(std::move(call), Cancelled());
  for (const auto& stream : streams) stream(Cancelled());
  MutexLock lock(mu_);
  idle_.Wait(lock, [this]() REQUIRES(mu_) { return outstanding_ == 0; });
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

Status EtcdRpc::NoEndpointStatus(SteadyTime now) const {
  std::string why;
  for (EtcdEndpoints::Index i = 0; i < errors_.size(); ++i) {
    if (errors_[i].empty()) continue;
    why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", options_.endpoints[i], errors_[i]);
  }
  const auto wait = std::chrono::ceil<std::chrono::seconds>(endpoints_.UntilNextProbe(now));
  return Status({.reason = StatusReason::kServiceUnavailable,
                 .message = fmt::format("no etcd endpoint is available: {}",
                                        why.empty() ? "none has answered yet" : why),
                 .retry_after = std::clamp(wait, std::chrono::seconds(1), kMaxRetryAfter)});
}

bool EtcdRpc::QueueForToken(std::unique_ptr<EtcdCall>& call) {
  awaiting_token_.push_back(std::move(call));
  return !std::exchange(authenticating_, true);
}

void EtcdRpc::Attempt(std::unique_ptr<EtcdCall> call, bool on_own_thread) {
  const SteadyTime now = Now();
  call->moved_ = false;
  call->Reset();
  EtcdCall::AttemptTarget to;
  std::optional<Status> failed;
  bool authenticate = false;
  {
    MutexLock lock(mu_);
    if (stopping_) {
      failed = Cancelled();
    } else if (call->options_.needs_token && TokenIsMissing()) {
      if (now < authentication_retry_at_) {
        failed = authentication_error_;
      } else {
        authenticate = QueueForToken(call);
      }
    } else if (const auto picked = endpoints_.Pick(call->tried_); picked && now < call->deadline_) {
      call->endpoint_ = *picked;
      call->sent_at_ = now;
      call->token_ = token_;
      to = {.write_channel = write_channels_[*picked].get(),
            .connection = connections_[*picked],
            .token = call->options_.needs_token ? token_ : nullptr,
            .timeout = call->deadline_ - now};
      endpoints_.CallBegan(*picked);
      call->previous_ = nullptr;
      call->next_ = calls_;
      if (calls_ != nullptr) calls_->previous_ = call.get();
      calls_ = call.get();
    } else if (call->tried_ != 0) {
      failed =
          call->options_.repeatable ? call->error_info_.status : WriteStatus(call->error_info_);
    } else {
      failed = NoEndpointStatus(now);
    }
  }
  if (authenticate) Authenticate();
  if (!call) return;  // waiting for a token
  if (failed) return Fail(std::move(call), *failed, on_own_thread);

  call.release()->Send(std::move(to));  // AttemptEnded() takes ownership again
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
  OperationEnded();
}

void EtcdRpc::OperationEnded() {
  MutexLock lock(mu_);
  if (--outstanding_ == 0 && stopping_) idle_.NotifyAll();
}

void EtcdRpc::OnAttemptEnded(std::unique_ptr<EtcdCall> call) {
  bool moved = false;
  bool stopping = false;
  {
    MutexLock lock(mu_);
    if (call->previous_ != nullptr) call->previous_->next_ = call->next_;
    if (call->next_ != nullptr) call->next_->previous_ = call->previous_;
    if (calls_ == call.get()) calls_ = call->next_;
    endpoints_.CallEnded(call->endpoint_);
    moved = call->moved_;
    stopping = stopping_;
  }
  if (call->result_.code == GrpcCode::kOk) {
    OnResponse(call->endpoint_, call->sent_at_);
    return Finish(std::move(call), Status());
  }
  if (stopping) return Finish(std::move(call), Cancelled());

  EtcdErrorInfo& error_info = call->error_info_;
  error_info = ClassifyResult(call->result_);
  if (moved) {
    error_info.retry_other_member = true;  // only repeatable calls are moved
  } else {
    OnError(call->endpoint_, error_info, call->sent_at_);
  }

  const bool repeatable =
      call->options_.repeatable || error_info.applied == EtcdErrorInfo::Applied::kNo;
  if (error_info.needs_new_token && call->options_.needs_token && !options_.user.empty() &&
      call->new_tokens_ < kMaxNewTokens) {
    ++call->new_tokens_;
    DiscardToken(call->token_);
    return Attempt(std::move(call), /*on_own_thread=*/true);
  }
  if (error_info.retry_other_member && repeatable) {
    call->tried_ |= EtcdEndpoints::Set{1} << call->endpoint_;
    return Attempt(std::move(call), /*on_own_thread=*/true);
  }
  const Status status = call->options_.repeatable ? error_info.status : WriteStatus(error_info);
  Finish(std::move(call), status);
}

void EtcdRpc::DiscardToken(const std::shared_ptr<const std::string>& token) {
  MutexLock lock(mu_);
  // Another call may already have replaced it.
  if (token_ != token) return;
  token_ = nullptr;
  no_authentication_ = false;
}

void EtcdRpc::Authenticate() {
  etcdserverpb::AuthenticateRequest request;
  request.set_name(options_.user);
  request.set_password(options_.password);
  Start<etcdserverpb::AuthenticateResponse>(
      // Repeatable, because etcd drops unused tokens after minutes.
      {.repeatable = true, .needs_leader = true, .needs_token = false}, std::move(request),
      [](EtcdConnection& connection, grpc::ClientContext* context,
         const etcdserverpb::AuthenticateRequest& sent) {
        return connection.auth.PrepareAsyncAuthenticate(context, sent, connection.queue);
      },
      [this](const auto& call, const Status& status, etcdserverpb::AuthenticateResponse& response) {
        OnAuthenticated(call.error_info(), status, std::move(*response.mutable_token()));
      });
}

void EtcdRpc::OnAuthenticated(const EtcdErrorInfo& error_info, const Status& status,
                              std::string token) {
  std::vector<std::unique_ptr<EtcdCall>> calls;
  std::vector<std::function<void(const Status&)>> streams;
  Status failed;
  {
    MutexLock lock(mu_);
    authenticating_ = false;
    if (status.ok()) {
      token_ = std::make_shared<const std::string>(std::move(token));
    } else if (error_info.no_authentication) {
      no_authentication_ = true;
    } else {
      failed = status;
      if (status.Is(StatusReason::kUnauthorized)) {
        authentication_error_ = status;
        authentication_retry_at_ = Now() + kAuthenticationRetry;
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
      if (Now() < authentication_retry_at_) {
        status = authentication_error_;
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

std::optional<EtcdRpc::StreamTarget> EtcdRpc::BeginStream(EtcdStream* stream,
                                                          EtcdEndpoints::Set avoid) {
  MutexLock lock(mu_);
  if (stopping_) return std::nullopt;
  auto picked = endpoints_.Pick(avoid);
  if (!picked) picked = endpoints_.Pick(0);
  if (!picked) return std::nullopt;
  ++outstanding_;
  streams_.emplace_back(stream, *picked);
  return StreamTarget{*picked, connections_[*picked], token_, Now()};
}

void EtcdRpc::EndStream(EtcdStream* stream, const StreamTarget& target,
                        const EtcdErrorInfo* error_info) {
  {
    MutexLock lock(mu_);
    std::erase_if(streams_, [stream](const auto& each) { return each.first == stream; });
  }
  if (error_info != nullptr) OnError(target.endpoint, *error_info, target.since);
  OperationEnded();
}

void EtcdRpc::Suspect(EtcdEndpoints::Index endpoint) {
  MutexLock lock(mu_);
  endpoints_.Suspected(endpoint, Now());
}

void EtcdRpc::OnResponse(EtcdEndpoints::Index endpoint, SteadyTime sent_at) {
  bool changed = false;
  {
    MutexLock lock(mu_);
    changed = endpoints_.Answered(endpoint, sent_at, Now());
    if (endpoints_.works(endpoint)) errors_[endpoint].clear();
  }
  if (changed) {
    Log(LogLevel::kInfo, "etcd endpoint is available again",
        {{"endpoint", options_.endpoints[endpoint]}});
  }
}

void EtcdRpc::OnError(EtcdEndpoints::Index endpoint, const EtcdErrorInfo& error_info,
                      SteadyTime sent_at) {
  if (error_info.endpoint == EtcdErrorInfo::Endpoint::kFine) return OnResponse(endpoint, sent_at);
  if (error_info.endpoint == EtcdErrorInfo::Endpoint::kSuspect) return Suspect(endpoint);
  bool changed = false;
  {
    MutexLock lock(mu_);
    changed = endpoints_.Failed(endpoint, Now());
    errors_[endpoint] = error_info.status.message();
    // An error from etcd itself shows that the connection works.
    if (!error_info.status.message().starts_with("etcdserver: ")) reconnect_[endpoint] = true;
    LeaveEndpoint(endpoint);
  }
  if (changed) {
    Log(LogLevel::kWarn, "etcd endpoint is unavailable",
        {{"endpoint", options_.endpoints[endpoint]}, {"error", error_info.status.message()}});
  }
}

void EtcdRpc::LeaveEndpoint(EtcdEndpoints::Index endpoint) {
  for (EtcdCall* call = calls_; call != nullptr; call = call->next_) {
    if (call->endpoint_ != endpoint || !call->options_.repeatable || call->moved_) continue;
    call->moved_ = true;
    call->Cancel();
  }
  for (const auto& [stream, at] : streams_) {
    if (at == endpoint) stream->Cancel();
  }
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
    // The member may have failed with its connection; the next Tick() probes it.
    if (endpoints_.known_to_work(i) && (!probed_[i] || write_channels_[i]->connected()))
      return Status();
  }
  return NoEndpointStatus(Now());
}

}  // namespace herald::store
