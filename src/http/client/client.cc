#include "http/client/client.h"

#include <fmt/core.h>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/thread/mutex.h"
#include "http/client/client_impl.h"
#include "http/url.h"

namespace herald::http {

bool IsUnprocessed(const Status& error) {
  const std::vector<StatusCause>& causes = error.details().causes;
  return std::any_of(causes.begin(), causes.end(),
                     [](const StatusCause& cause) { return cause.reason == kUnprocessed; });
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::Open(ClientOptions options) {
  Result<Url> url = ParseUrl(options.url);
  if (!url) return url.error();
  std::optional<Url> proxy;
  if (!options.proxy_url.empty()) {
    Result<Url> parsed = ParseProxyUrl(options.proxy_url);
    if (!parsed) return parsed.error();
    proxy = *std::move(parsed);
  }
  try {
    return std::unique_ptr<Client>(
        new Client(std::make_unique<Impl>(std::move(options), *std::move(url), std::move(proxy))));
  } catch (const std::system_error& e) {
    // Out of threads or file descriptors.
    return Status(StatusReason::kInternalError,
                  fmt::format("cannot start an HTTP client: {}", e.what()));
  }
}

Client::CallId Client::Start(Request request, CallOptions options, Callbacks callbacks) {
  return impl_->Start(std::move(request), options, {std::move(callbacks), {}});
}

void Client::Cancel(CallId call) { impl_->Cancel(call); }

Client::CallId Client::Fetch(Request request, CallOptions options,
                             std::function<void(Result<Response>)> done) {
  // `fetched` must be set: it selects how the response is delivered.
  if (!done) done = [](const Result<Response>&) {};
  return impl_->Start(std::move(request), options, {{}, std::move(done)});
}

Result<Response> Client::Fetch(Request request, CallOptions options, std::stop_token stop) {
  HERALD_CHECK(!impl_->OnThread(), "a blocking Fetch() in a callback would wait for ever");
  struct Waiter {
    Mutex mu;
    CondVar ready;
    bool done GUARDED_BY(mu) = false;
    Result<Response> result GUARDED_BY(mu) = Response{};
  } waiter;
  const CallId id = Fetch(std::move(request), options, [&waiter](Result<Response> result) {
    MutexLock lock(waiter.mu);
    waiter.result = std::move(result);
    waiter.done = true;
    // Under the lock: the waiter is destroyed as soon as its thread sees the result.
    waiter.ready.NotifyOne();
  });
  const std::stop_callback cancel(std::move(stop), [this, id] { Cancel(id); });
  MutexLock lock(waiter.mu);
  waiter.ready.Wait(lock, [&waiter]() REQUIRES(waiter.mu) { return waiter.done; });
  return std::move(waiter.result);
}

void Client::Renew() { impl_->Renew(); }

void Client::Post(std::function<void()> task) { impl_->Post({}, std::move(task)); }

void Client::PostAfter(std::chrono::nanoseconds delay, std::function<void()> task) {
  impl_->PostAfter(delay, std::move(task));
}

ClientStats Client::Stats() const { return impl_->Stats(); }

}  // namespace herald::http
