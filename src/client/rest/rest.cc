#include "herald/client/rest.h"

#include <errno.h>  // NOLINT(modernize-deprecated-headers): program_invocation_short_name
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "client/config/proxy.h"
#include "client/config/reaper.h"
#include "client/rest/blocking_call.h"
#include "client/rest/rest_impl.h"
#include "herald/api/answer.h"
#include "http/url.h"

namespace herald {
namespace {

// The body of a refused stream is a Status, a few hundred bytes long.
constexpr std::size_t kMaxRefusalBytes = 256 * 1024;
// A server that wants to be left alone for longer is not obeyed: whoever waits has given up.
constexpr std::chrono::seconds kMaxRetryAfter{3600};

Status Cancelled() { return {StatusReason::kCancelled, "the call was cancelled"}; }
Status Closed() { return {StatusReason::kCancelled, "the client was closed"}; }

std::string UserAgent(const RestOptions& options) {
  if (!options.user_agent.empty()) return options.user_agent;
  const std::string_view name = program_invocation_short_name;
  return fmt::format("{}/0 (linux) herald/" HERALD_VERSION, name.empty() ? "herald" : name);
}

// The header as a number of seconds; dates are not counted, as in client-go.
std::optional<std::chrono::seconds> RetryAfter(std::string_view header) {
  std::int32_t seconds = 0;
  const char* const end = header.data() + header.size();
  const auto [parsed, error] = std::from_chars(header.data(), end, seconds);
  if (header.empty() || error != std::errc() || parsed != end || seconds < 0) return std::nullopt;
  return std::chrono::seconds(seconds);
}

// Warning headers: `299 - "text"`.
std::vector<std::string> Warnings(const http::Headers& headers) {
  std::vector<std::string> out;
  for (const http::Headers::Field& field : headers) {
    if (field.name != "warning") continue;
    const std::size_t first = field.value.find('"'), last = field.value.rfind('"');
    if (first != std::string::npos && last > first) {
      out.push_back(field.value.substr(first + 1, last - first - 1));
    }
  }
  return out;
}

void AppendQuery(const std::vector<std::pair<std::string, std::string>>& query,
                 std::string* target) {
  char before = target->find('?') == std::string::npos ? '?' : '&';
  for (const auto& [name, value] : query) {
    target->push_back(std::exchange(before, '&'));
    target->append(http::PercentEncode(name)).append("=").append(http::PercentEncode(value));
  }
}

// Whether servers and proxies would take the path for another one: an object named ".."
// would be asked for as its own parent. client-go refuses such names as well.
bool HasDotSegment(std::string_view path) {
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::string_view segment = path.substr(0, path.find('/'));
    if (segment == "." || segment == "..") return true;
    path.remove_prefix(segment.size());
  }
  return false;
}

}  // namespace

// Confined to the transport's thread, but for the first step (see Impl).
struct RestClient::Impl::Call {
  RestRequest request;
  Done done;                                   // of Send()
  std::optional<StreamCallbacks> callbacks{};  // of Stream()
  std::stop_token stop{};

  int retries = 0;
  bool refreshed = false;
  bool finished = false;
  std::uint64_t generation = 0;  // of the credentials that were shown
  std::optional<Transport::CallId> under_way{};
  // Of a stream: what was answered.
  std::optional<http::ResponseHead> head{};
  std::string refusal{};
  std::optional<std::stop_callback<std::function<void()>>> on_stop{};
};

RestClient::Impl::Impl(ClientConfig config, RestOptions options,
                       std::shared_ptr<Credentials> credentials,
                       std::unique_ptr<Transport> transport)
    : config_(std::move(config)),
      options_(std::move(options)),
      user_agent_(UserAgent(options_)),
      limits_{static_cast<float>(options_.qps), std::max(options_.burst, 1)},
      credentials_(std::move(credentials)),
      worker_(credentials_->slow() ? std::make_unique<Executor>() : nullptr),
      transport_(transport.release()) {}

RestClient::Impl::~Impl() {
  std::unordered_set<CallPtr> waiting;
  {
    const MutexLock lock(mu_);
    closed_ = true;
    waiting.swap(waiting_);
    throttled_.clear();
    refreshing_.clear();
  }
  stopping_.request_stop();
  if (worker_) worker_->Stop();
  {
    const MutexLock lock(stop_mu_);
    gone_ = true;
  }
  delete transport_;
  // Nobody else is left who could go on with these.
  for (const CallPtr& call : waiting) Finish(call, Closed());
}

void RestClient::Impl::Send(RestRequest request, Done done, const std::stop_token& stop) {
  auto call = std::make_shared<Call>();
  call->request = std::move(request);
  call->done = std::move(done);
  call->stop = stop;
  Begin(call);
}

void RestClient::Impl::Stream(RestRequest request, StreamCallbacks callbacks,
                              const std::stop_token& stop) {
  auto call = std::make_shared<Call>();
  call->request = std::move(request);
  call->callbacks = std::move(callbacks);
  call->stop = stop;
  Begin(call);
}

void RestClient::Impl::Begin(const CallPtr& call) {
  if (HasDotSegment(call->request.path)) {
    return Finish(call, Status(StatusReason::kBadRequest,
                               fmt::format("the path {} would lead elsewhere: a name may not be "
                                           "\".\" or \"..\"",
                                           call->request.path)));
  }
  if (!call->stop.stop_possible()) return Proceed(call);
  if (call->stop.stop_requested()) return Finish(call, Cancelled());
  // A stop may come at any moment from any thread, so that from here on all that
  // happens to this call happens on the transport's.
  if (!Wait(call)) return;
  transport_->Post([this, call] {
    EndWait(call);
    if (call->finished) return;
    call->on_stop.emplace(call->stop, [this, call] {
      const MutexLock lock(stop_mu_);
      if (!gone_) transport_->Post([this, call] { Cancel(call); });
    });
    Proceed(call);
  });
}

bool RestClient::Impl::Wait(const CallPtr& call) {
  {
    const MutexLock lock(mu_);
    if (!closed_) {
      waiting_.insert(call);
      return true;
    }
  }
  Finish(call, Closed());
  return false;
}

void RestClient::Impl::EndWait(const CallPtr& call) {
  const MutexLock lock(mu_);
  waiting_.erase(call);
}

void RestClient::Impl::Proceed(const CallPtr& call) {
  if (options_.qps <= 0 || call->callbacks) return Authorize(call);
  {
    const MutexLock lock(mu_);
    if (closed_ || !throttled_.empty() || !bucket_.TryTake(limits_, transport_->clock().Steady())) {
      if (!closed_) {
        waiting_.insert(call);
        throttled_.push_back(call);
        ArmThrottle();
        return;
      }
    }
  }
  Authorize(call);
}

void RestClient::Impl::ArmThrottle() {
  if (throttle_armed_) return;
  throttle_armed_ = true;
  transport_->PostAfter(std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::duration<double>(1 / options_.qps)),
                        [this] { OnThrottleTimer(); });
}

void RestClient::Impl::OnThrottleTimer() {
  std::vector<CallPtr> free;
  {
    const MutexLock lock(mu_);
    throttle_armed_ = false;
    while (!throttled_.empty() && bucket_.TryTake(limits_, transport_->clock().Steady())) {
      waiting_.erase(throttled_.front());
      free.push_back(std::move(throttled_.front()));
      throttled_.pop_front();
    }
    if (!throttled_.empty()) ArmThrottle();
  }
  for (const CallPtr& call : free) {
    if (!call->finished) Authorize(call);
  }
}

void RestClient::Impl::Authorize(const CallPtr& call) {
  const std::optional<Result<Credentials::Shown>> shown = credentials_->Get();
  if (!shown) return Refresh(call);
  if (!*shown) return Finish(call, shown->error());
  Dispatch(call, **shown);
}

void RestClient::Impl::Refresh(const CallPtr& call) {
  if (!credentials_->slow()) {
    const Status status = credentials_->Refresh(call->generation, stopping_.get_token());
    {
      const MutexLock lock(mu_);
      ++stats_.refreshes;
    }
    if (!status.ok()) return Finish(call, status);
    return Authorize(call);
  }
  if (!Wait(call)) return;
  bool first = false;
  {
    const MutexLock lock(mu_);
    first = refreshing_.empty();
    refreshing_.push_back(call);
    if (first) ++stats_.refreshes;
  }
  // One run of the plugin serves all who wait.
  if (!first) return;
  worker_->Post([this, generation = call->generation] {
    const Status status = credentials_->Refresh(generation, stopping_.get_token());
    transport_->Post([this, status] { OnRefreshed(status); });
  });
}

void RestClient::Impl::OnRefreshed(const Status& status) {
  std::vector<CallPtr> calls;
  {
    const MutexLock lock(mu_);
    calls.swap(refreshing_);
    for (const CallPtr& call : calls) waiting_.erase(call);
  }
  for (const CallPtr& call : calls) {
    if (call->finished) continue;
    if (status.ok()) {
      Dispatch(call, credentials_->Current());
    } else {
      Finish(call, status);
    }
  }
}

http::Request RestClient::Impl::MakeRequest(const Call& call,
                                            const Credentials::Shown& shown) const {
  http::Request out;
  const RestRequest& request = call.request;
  out.method = request.method;
  out.target = request.path;
  if (!request.query.empty()) AppendQuery(request.query, &out.target);
  out.headers.Add("accept", request.accept);
  if (!request.content_type.empty()) out.headers.Add("content-type", request.content_type);
  out.headers.Add("user-agent", user_agent_);
  if (!shown.authorization.empty()) out.headers.Add("authorization", shown.authorization);
  if (config_.disable_compression) out.headers.Add("accept-encoding", "identity");
  if (const Impersonation& as = config_.impersonate; !as.user.empty()) {
    out.headers.Add("impersonate-user", as.user);
    if (!as.uid.empty()) out.headers.Add("impersonate-uid", as.uid);
    for (const std::string& group : as.groups) out.headers.Add("impersonate-group", group);
    for (const auto& [key, values] : as.extra) {
      // Header names are escaped where HTTP would not have them.
      std::string name = "impersonate-extra-" + http::PercentEncode(key);
      std::transform(name.begin(), name.end(), name.begin(),
                     [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
      for (const std::string& value : values) out.headers.Add(name, value);
    }
  }
  out.body = request.body;
  return out;
}

void RestClient::Impl::Dispatch(const CallPtr& call, const Credentials::Shown& shown) {
  bool closed = false;
  {
    const MutexLock lock(mu_);
    closed = closed_;
    if (!closed) ++stats_.requests;
  }
  if (closed) return Finish(call, Closed());
  call->generation = shown.generation;
  http::CallOptions options;
  options.repeatable = call->request.method == "GET";
  if (!call->callbacks) {
    options.timeout = call->request.timeout.value_or(options_.timeout);
    const bool alone = !call->stop.stop_possible();
    const Transport::CallId id = transport_->Fetch(
        MakeRequest(*call, shown), options,
        [this, call](Result<http::Response> response) { OnResponse(call, std::move(response)); });
    // Without a stop token nobody asks for it, and the answer may be here already, on
    // another thread.
    if (!alone) call->under_way = id;
    return;
  }
  options.timeout = call->request.timeout.value_or(std::chrono::milliseconds(0));
  call->head.reset();
  call->refusal.clear();
  http::Client::Callbacks callbacks;
  callbacks.head = [call](const http::ResponseHead& head) {
    call->head = head;
    if (head.status / 100 == 2 && call->callbacks->head) {
      call->callbacks->head(head.headers.Get("content-type"));
    }
  };
  callbacks.data = [call](std::string_view bytes) {
    if (call->head && call->head->status / 100 != 2) {
      if (call->refusal.size() < kMaxRefusalBytes) call->refusal.append(bytes);
    } else if (call->callbacks->data) {
      call->callbacks->data(bytes);
    }
  };
  callbacks.done = [this, call](const Status& status) {
    if (!status.ok()) return OnResponse(call, status);
    http::Response response;
    if (call->head) {
      response.status = call->head->status;
      response.headers = call->head->headers;
    }
    response.body = std::move(call->refusal);
    OnResponse(call, std::move(response));
  };
  const bool alone = !call->stop.stop_possible();
  const Transport::CallId id =
      transport_->Start(MakeRequest(*call, shown), options, std::move(callbacks));
  if (!alone) call->under_way = id;
}

void RestClient::Impl::OnResponse(const CallPtr& call, Result<http::Response> response) {
  call->under_way.reset();
  if (!response) {
    {
      const MutexLock lock(mu_);
      ++stats_.failed;
    }
    return Finish(call, response.error());
  }
  const int code = response->status;
  const std::string_view content_type = response->headers.Get("content-type");
  if (code / 100 == 2) {
    RestResponse out;
    out.code = code;
    out.content_type = content_type;
    out.body = std::move(response->body);
    out.warnings = Warnings(response->headers);
    return Finish(call, std::move(out));
  }
  {
    const MutexLock lock(mu_);
    ++stats_.refused;
  }
  if (TryAgain(call, code, response->headers)) return;
  const RestRequest& request = call->request;
  Finish(call, StatusFromAnswer({.verb = request.method,
                                 .group = request.group,
                                 .resource = request.resource,
                                 .name = request.name},
                                {.http_code = code,
                                 .content_type = content_type,
                                 .retry_after = response->headers.Get("retry-after"),
                                 .body = response->body}));
}

bool RestClient::Impl::TryAgain(const CallPtr& call, int code, const http::Headers& headers) {
  if (call->stop.stop_requested()) return false;
  if (code == 401 && !call->refreshed && credentials_->can_refresh()) {
    call->refreshed = true;
    {
      const MutexLock lock(mu_);
      ++stats_.retries;
    }
    Refresh(call);
    return true;
  }
  if (code != 429 && code < 500) return false;
  const std::optional<std::chrono::seconds> after = RetryAfter(headers.Get("retry-after"));
  if (!after || *after > kMaxRetryAfter) return false;
  if (call->retries >= call->request.max_retries.value_or(options_.max_retries)) return false;
  ++call->retries;
  {
    const MutexLock lock(mu_);
    ++stats_.retries;
  }
  if (!Wait(call)) return true;
  transport_->PostAfter(*after, [this, call] {
    EndWait(call);
    if (!call->finished) Proceed(call);
  });
  return true;
}

void RestClient::Impl::Cancel(const CallPtr& call) {
  if (call->finished) return;
  if (const auto id = call->under_way) return transport_->Cancel(*id);
  {
    const MutexLock lock(mu_);
    waiting_.erase(call);
    std::erase(throttled_, call);
    std::erase(refreshing_, call);
  }
  Finish(call, Cancelled());
}

void RestClient::Impl::Finish(const CallPtr& call, Result<RestResponse> result) {
  if (std::exchange(call->finished, true)) return;
  call->on_stop.reset();
  // Moved out, so that what the callbacks hold goes with them.
  if (const auto callbacks = std::exchange(call->callbacks, std::nullopt)) {
    if (callbacks->done) callbacks->done(result ? Status() : result.error());
    return;
  }
  const Done done = std::exchange(call->done, nullptr);
  if (done) done(std::move(result));
}

RestStats RestClient::Impl::Stats() const {
  RestStats stats;
  {
    const MutexLock lock(mu_);
    stats = stats_;
  }
  const http::ClientStats wire = transport_->Stats();
  stats.connections_opened = wire.connections_opened;
  stats.connections = wire.connections;
  return stats;
}

RestClient::RestClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

RestClient::~RestClient() {
  if (!impl_->RunsHere()) return;
  // The transport's thread cannot wait for its own end.
  DestroyElsewhere([impl = std::shared_ptr<Impl>(std::move(impl_))]() mutable { impl.reset(); });
}

Result<std::shared_ptr<RestClient>> RestClient::Open(ClientConfig config, RestOptions options) {
  http::ClientOptions http;
  http.url = config.server;
  http.proxy_url =
      config.proxy_url.empty() ? ProxyFromEnvironment(config.server) : config.proxy_url;
  http.allow_http2 = options.allow_http2;
  http.plain_http2 = options.plain_http2;
  http.connect_timeout = options.connect_timeout;
  http.log = options.log;
  auto credentials = std::make_shared<Credentials>(config, &SystemClock(), options.log);
  http.tls = [credentials] { return credentials->Tls(); };
  Result<std::unique_ptr<Transport>> transport = OpenHttpTransport(std::move(http));
  if (!transport) return transport.error();
  return std::make_shared<RestClient>(std::make_unique<Impl>(
      std::move(config), std::move(options), std::move(credentials), std::move(*transport)));
}

void RestClient::Send(RestRequest request, Done done, const std::stop_token& stop) {
  impl_->Send(std::move(request), std::move(done), stop);
}

Result<RestResponse> RestClient::Send(RestRequest request, const std::stop_token& stop) {
  return WaitForResult<RestResponse>(
      [&](Done done) { impl_->Send(std::move(request), std::move(done), stop); });
}

void RestClient::Stream(RestRequest request, StreamCallbacks callbacks,
                        const std::stop_token& stop) {
  impl_->Stream(std::move(request), std::move(callbacks), stop);
}

const ClientConfig& RestClient::config() const { return impl_->config(); }
RestStats RestClient::Stats() const { return impl_->Stats(); }

}  // namespace herald
