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
#include "herald/api/response_status.h"
#include "http/url.h"

namespace herald {
namespace {

// Limit of the body that is kept when a stream is rejected. A Status has a few hundred bytes.
constexpr std::size_t kMaxErrorBytes = 256 * 1024;
// A longer Retry-After is not followed: the caller would have given up by then.
constexpr std::chrono::seconds kMaxRetryAfter{3600};

Status Cancelled() { return {StatusReason::kCancelled, "the request was cancelled"}; }
Status Closed() { return {StatusReason::kCancelled, "the client was closed"}; }

std::string UserAgent(const RestOptions& options) {
  if (!options.user_agent.empty()) return options.user_agent;
  const std::string_view name = program_invocation_short_name;
  return fmt::format("{}/0 (linux) herald/" HERALD_VERSION, name.empty() ? "herald" : name);
}

// Parses the header as a number of seconds. Dates are ignored, as in client-go.
std::optional<std::chrono::seconds> RetryAfter(std::string_view header) {
  std::int32_t seconds = 0;
  const char* const end = header.data() + header.size();
  const auto [parsed, error] = std::from_chars(header.data(), end, seconds);
  if (header.empty() || error != std::errc() || parsed != end || seconds < 0) return std::nullopt;
  return std::chrono::seconds(seconds);
}

// The messages of Warning headers: `299 - "message"`.
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

// Whether the path has a segment "." or "..". Servers and proxies would change such a path to
// another one. client-go rejects such names, too.
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

// One Send() or Stream(). Confined to the transport's thread, except the first step (see Impl).
struct RestClient::Impl::PendingRequest {
  RestRequest request;
  Done done;                                   // of Send()
  std::optional<StreamCallbacks> callbacks{};  // of Stream()
  std::stop_token stop{};

  int retries = 0;
  bool refreshed = false;
  bool finished = false;
  std::uint64_t generation = 0;  // of the credentials that were sent
  std::optional<Transport::CallId> under_way{};
  // For streams: the head of the answer, and the body if it is an error.
  std::optional<http::ResponseHead> head{};
  std::string error_body{};
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
  std::unordered_set<PendingPtr> waiting;
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
  // No thread is left that could continue with these.
  for (const PendingPtr& pending : waiting) Finish(pending, Closed());
}

void RestClient::Impl::Send(RestRequest request, Done done, const std::stop_token& stop) {
  auto pending = std::make_shared<PendingRequest>();
  pending->request = std::move(request);
  pending->done = std::move(done);
  pending->stop = stop;
  Begin(pending);
}

void RestClient::Impl::Stream(RestRequest request, StreamCallbacks callbacks,
                              const std::stop_token& stop) {
  auto pending = std::make_shared<PendingRequest>();
  pending->request = std::move(request);
  pending->callbacks = std::move(callbacks);
  pending->stop = stop;
  Begin(pending);
}

void RestClient::Impl::Begin(const PendingPtr& pending) {
  if (HasDotSegment(pending->request.path)) {
    return Finish(pending, Status(StatusReason::kBadRequest,
                                  fmt::format("invalid path {}: a name must not be \".\" or \"..\"",
                                              pending->request.path)));
  }
  if (!pending->stop.stop_possible()) return Proceed(pending);
  if (pending->stop.stop_requested()) return Finish(pending, Cancelled());
  // A stop may be requested on any thread at any time. So all further steps of this request run on
  // the transport's thread.
  if (!Wait(pending)) return;
  transport_->Post([this, pending] {
    EndWait(pending);
    if (pending->finished) return;
    pending->on_stop.emplace(pending->stop, [this, pending] {
      const MutexLock lock(stop_mu_);
      if (!gone_) transport_->Post([this, pending] { Cancel(pending); });
    });
    Proceed(pending);
  });
}

bool RestClient::Impl::Wait(const PendingPtr& pending) {
  {
    const MutexLock lock(mu_);
    if (!closed_) {
      waiting_.insert(pending);
      return true;
    }
  }
  Finish(pending, Closed());
  return false;
}

void RestClient::Impl::EndWait(const PendingPtr& pending) {
  const MutexLock lock(mu_);
  waiting_.erase(pending);
}

void RestClient::Impl::Proceed(const PendingPtr& pending) {
  if (options_.qps <= 0 || pending->callbacks) return Authorize(pending);
  {
    const MutexLock lock(mu_);
    if (closed_ || !throttled_.empty() || !bucket_.TryTake(limits_, transport_->clock().Steady())) {
      if (!closed_) {
        waiting_.insert(pending);
        throttled_.push_back(pending);
        ArmThrottle();
        return;
      }
    }
  }
  Authorize(pending);
}

void RestClient::Impl::ArmThrottle() {
  if (throttle_armed_) return;
  throttle_armed_ = true;
  transport_->PostAfter(std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::duration<double>(1 / options_.qps)),
                        [this] { OnThrottleTimer(); });
}

void RestClient::Impl::OnThrottleTimer() {
  std::vector<PendingPtr> free;
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
  for (const PendingPtr& pending : free) {
    if (!pending->finished) Authorize(pending);
  }
}

void RestClient::Impl::Authorize(const PendingPtr& pending) {
  const std::optional<Result<Credentials::Authorization>> authorization = credentials_->Get();
  if (!authorization) return Refresh(pending);
  if (!*authorization) return Finish(pending, authorization->error());
  Dispatch(pending, **authorization);
}

void RestClient::Impl::Refresh(const PendingPtr& pending) {
  if (!credentials_->slow()) {
    const Status status = credentials_->Refresh(pending->generation, stopping_.get_token());
    {
      const MutexLock lock(mu_);
      ++stats_.refreshes;
    }
    if (!status.ok()) return Finish(pending, status);
    return Authorize(pending);
  }
  if (!Wait(pending)) return;
  bool first = false;
  {
    const MutexLock lock(mu_);
    first = refreshing_.empty();
    refreshing_.push_back(pending);
    if (first) ++stats_.refreshes;
  }
  // One run of the plugin is enough for all requests that wait.
  if (!first) return;
  worker_->Post([this, generation = pending->generation] {
    const Status status = credentials_->Refresh(generation, stopping_.get_token());
    transport_->Post([this, status] { OnRefreshed(status); });
  });
}

void RestClient::Impl::OnRefreshed(const Status& status) {
  std::vector<PendingPtr> waiting;
  {
    const MutexLock lock(mu_);
    waiting.swap(refreshing_);
    for (const PendingPtr& pending : waiting) waiting_.erase(pending);
  }
  for (const PendingPtr& pending : waiting) {
    if (pending->finished) continue;
    if (status.ok()) {
      Dispatch(pending, credentials_->Current());
    } else {
      Finish(pending, status);
    }
  }
}

http::Request RestClient::Impl::MakeRequest(const PendingRequest& pending,
                                            const Credentials::Authorization& authorization) const {
  http::Request out;
  const RestRequest& request = pending.request;
  out.method = request.method;
  out.target = request.path;
  if (!request.query.empty()) AppendQuery(request.query, &out.target);
  out.headers.Add("accept", request.accept);
  if (!request.content_type.empty()) out.headers.Add("content-type", request.content_type);
  out.headers.Add("user-agent", user_agent_);
  if (!authorization.header.empty()) out.headers.Add("authorization", authorization.header);
  if (config_.disable_compression) out.headers.Add("accept-encoding", "identity");
  if (const Impersonation& as = config_.impersonate; !as.user.empty()) {
    out.headers.Add("impersonate-user", as.user);
    if (!as.uid.empty()) out.headers.Add("impersonate-uid", as.uid);
    for (const std::string& group : as.groups) out.headers.Add("impersonate-group", group);
    for (const auto& [key, values] : as.extra) {
      // Characters that HTTP does not allow in header names are escaped.
      std::string name = "impersonate-extra-" + http::PercentEncode(key);
      std::transform(name.begin(), name.end(), name.begin(),
                     [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
      for (const std::string& value : values) out.headers.Add(name, value);
    }
  }
  out.body = request.body;
  return out;
}

void RestClient::Impl::Dispatch(const PendingPtr& pending,
                                const Credentials::Authorization& authorization) {
  bool closed = false;
  {
    const MutexLock lock(mu_);
    closed = closed_;
    if (!closed) ++stats_.requests;
  }
  if (closed) return Finish(pending, Closed());
  pending->generation = authorization.generation;
  http::CallOptions options;
  options.repeatable = pending->request.method == "GET";
  if (!pending->callbacks) {
    options.timeout = pending->request.timeout.value_or(options_.timeout);
    const bool alone = !pending->stop.stop_possible();
    const Transport::CallId id =
        transport_->Fetch(MakeRequest(*pending, authorization), options,
                          [this, pending](Result<http::Response> response) {
                            OnResponse(pending, std::move(response));
                          });
    // Without a stop token the id is not needed. It must not be stored then, because the answer
    // may already be processed on another thread.
    if (!alone) pending->under_way = id;
    return;
  }
  options.timeout = pending->request.timeout.value_or(std::chrono::milliseconds(0));
  pending->head.reset();
  pending->error_body.clear();
  http::Client::Callbacks callbacks;
  callbacks.head = [pending](const http::ResponseHead& head) {
    pending->head = head;
    if (head.status / 100 == 2 && pending->callbacks->head) {
      pending->callbacks->head(head.headers.Get("content-type"));
    }
  };
  callbacks.data = [pending](std::string_view bytes) {
    if (pending->head && pending->head->status / 100 != 2) {
      if (pending->error_body.size() < kMaxErrorBytes) pending->error_body.append(bytes);
    } else if (pending->callbacks->data) {
      pending->callbacks->data(bytes);
    }
  };
  callbacks.done = [this, pending](const Status& status) {
    if (!status.ok()) return OnResponse(pending, status);
    http::Response response;
    if (pending->head) {
      response.status = pending->head->status;
      response.headers = pending->head->headers;
    }
    response.body = std::move(pending->error_body);
    OnResponse(pending, std::move(response));
  };
  const bool alone = !pending->stop.stop_possible();
  const Transport::CallId id =
      transport_->Start(MakeRequest(*pending, authorization), options, std::move(callbacks));
  if (!alone) pending->under_way = id;
}

void RestClient::Impl::OnResponse(const PendingPtr& pending, Result<http::Response> response) {
  pending->under_way.reset();
  if (!response) {
    {
      const MutexLock lock(mu_);
      ++stats_.failed;
    }
    return Finish(pending, response.error());
  }
  const int code = response->status;
  const std::string_view content_type = response->headers.Get("content-type");
  if (code / 100 == 2) {
    RestResponse out;
    out.code = code;
    out.content_type = content_type;
    out.body = std::move(response->body);
    out.warnings = Warnings(response->headers);
    return Finish(pending, std::move(out));
  }
  {
    const MutexLock lock(mu_);
    ++stats_.refused;
  }
  if (Retry(pending, code, response->headers)) return;
  const RestRequest& request = pending->request;
  Finish(pending, StatusFromResponse({.verb = request.method,
                                      .group = request.group,
                                      .resource = request.resource,
                                      .name = request.name},
                                     {.http_code = code,
                                      .content_type = content_type,
                                      .retry_after = response->headers.Get("retry-after"),
                                      .body = response->body}));
}

bool RestClient::Impl::Retry(const PendingPtr& pending, int code, const http::Headers& headers) {
  if (pending->stop.stop_requested()) return false;
  if (code == 401 && !pending->refreshed && credentials_->can_refresh()) {
    pending->refreshed = true;
    {
      const MutexLock lock(mu_);
      ++stats_.retries;
    }
    Refresh(pending);
    return true;
  }
  if (code != 429 && code < 500) return false;
  const std::optional<std::chrono::seconds> after = RetryAfter(headers.Get("retry-after"));
  if (!after || *after > kMaxRetryAfter) return false;
  if (pending->retries >= pending->request.max_retries.value_or(options_.max_retries)) return false;
  ++pending->retries;
  {
    const MutexLock lock(mu_);
    ++stats_.retries;
  }
  if (!Wait(pending)) return true;
  transport_->PostAfter(*after, [this, pending] {
    EndWait(pending);
    if (!pending->finished) Proceed(pending);
  });
  return true;
}

void RestClient::Impl::Cancel(const PendingPtr& pending) {
  if (pending->finished) return;
  if (const auto id = pending->under_way) return transport_->Cancel(*id);
  {
    const MutexLock lock(mu_);
    waiting_.erase(pending);
    std::erase(throttled_, pending);
    std::erase(refreshing_, pending);
  }
  Finish(pending, Cancelled());
}

void RestClient::Impl::Finish(const PendingPtr& pending, Result<RestResponse> result) {
  if (std::exchange(pending->finished, true)) return;
  pending->on_stop.reset();
  // Moved out, so that objects that the callbacks own are released.
  if (const auto callbacks = std::exchange(pending->callbacks, std::nullopt)) {
    if (callbacks->done) callbacks->done(result ? Status() : result.error());
    return;
  }
  const Done done = std::exchange(pending->done, nullptr);
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
  // The transport's thread cannot join itself.
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
