#include "http/client/client_impl.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/thread/thread_name.h"
#include "http/client/request_validation.h"

namespace herald::http {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How often one request is sent again. A server that drains sends one GOAWAY; more than a few in a
// row is an error that is reported to the caller.
constexpr int kMaxRepeats = 3;

// A response reserves at most this for a body of announced length, so a server that announces more
// than it sends costs no more.
constexpr std::size_t kMaxReserveBytes = 16 * 1024 * 1024;

// The longest delay: longer than any real one, and safe in the clock's arithmetic.
constexpr std::chrono::hours kMaxDelay{24 * 365 * 100};

steady_clock::time_point Later(steady_clock::time_point from, std::chrono::nanoseconds delay) {
  return from + std::chrono::duration_cast<steady_clock::duration>(
                    std::clamp<std::chrono::nanoseconds>(delay, {}, kMaxDelay));
}

// Blocks all signals while it lives. A new thread inherits this, so the signal handlers of the
// program do not run on the client's thread.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

Client::Impl::Impl(ClientOptions options, Url url, std::optional<Url> proxy)
    : server_(fmt::format("{}://{}", url.scheme, url.authority())),
      timer_(shared_.io),
      work_(asio::make_work_guard(shared_.io)) {
  const bool https = url.scheme == "https";
  expect_http1_ = https ? !options.allow_http2 : !options.plain_http2;
  shared_.options = std::move(options);
  shared_.url = std::move(url);
  shared_.proxy = std::move(proxy);
  shared_.codec_events.head = [this](CallId id, ResponseHead head) { OnHead(id, std::move(head)); };
  shared_.codec_events.data = [this](CallId id, std::string_view data) { OnData(id, data); };
  shared_.codec_events.end = [this](CallId id, ExchangeEnd end) { OnEnd(id, std::move(end)); };
  shared_.opened = [this](const ClientConnection& connection) {
    connections_opened_.fetch_add(1, std::memory_order_relaxed);
    expect_http1_ = !connection.http2();
    Log(LogLevel::kDebug, "connected", "");
  };
  shared_.closed = [this](const ClientConnection& connection, const std::string& cause) {
    OnClosed(connection, cause);
  };
  shared_.after_event = [this] { AfterEvent(); };

  const SignalsBlocked for_the_new_thread;
  thread_ = std::thread([this] {
    NameThisThread("herald-client");
    shared_.io.run();
  });
}

Client::Impl::~Impl() {
  HERALD_CHECK(!OnThread(), "a client must not be destroyed from one of its callbacks");
  {
    MutexLock lock(mu_);
    stopping_ = true;
    Wake();
  }
  thread_.join();
}

void Client::Impl::Wake() {
  if (std::exchange(woken_, true)) return;
  asio::post(shared_.io, [this] { TakeIncoming(); });
}

Client::CallId Client::Impl::Start(Request request, const CallOptions& options, Listener listener) {
  const CallId id = last_id_.fetch_add(1, std::memory_order_relaxed) + 1;
  call_count_.fetch_add(1, std::memory_order_relaxed);
  MutexLock lock(mu_);
  incoming_.calls.push_back(
      {id, std::move(request), options, std::move(listener), steady_clock::now()});
  Wake();
  return id;
}

void Client::Impl::Cancel(CallId id) {
  if (OnThread()) {
    // From a callback: data that the codec has already decoded is not delivered any more.
    if (const auto it = calls_.find(id); it != calls_.end() && !it->second.abandoned)
      it->second.abandoned = true;
    else if (it != calls_.end())
      return;
  }
  MutexLock lock(mu_);
  incoming_.cancelled.push_back(id);
  Wake();
}

void Client::Impl::Post(Time when, std::function<void()> task) {
  MutexLock lock(mu_);
  incoming_.tasks.push_back({when, std::move(task)});
  Wake();
}

void Client::Impl::PostAfter(std::chrono::nanoseconds delay, std::function<void()> task) {
  Post(Later(steady_clock::now(), delay), std::move(task));
}

void Client::Impl::Renew() {
  Post({}, [this] {
    for (const auto& connection : connections_) connection->Retire();
  });
}

ClientStats Client::Impl::Stats() const {
  ClientStats stats;
  stats.connections_opened = connections_opened_.load(std::memory_order_relaxed);
  stats.connections_failed = connections_failed_.load(std::memory_order_relaxed);
  stats.requests = requests_.load(std::memory_order_relaxed);
  stats.repeated = repeated_.load(std::memory_order_relaxed);
  stats.connections = connection_count_.load(std::memory_order_relaxed);
  stats.calls = call_count_.load(std::memory_order_relaxed);
  return stats;
}

void Client::Impl::TakeIncoming() {
  bool stopping = false;
  {
    MutexLock lock(mu_);
    std::swap(incoming_, taken_);
    woken_ = false;
    stopping = stopping_;
  }
  for (NewCall& call : taken_.calls) AddCall(std::move(call));
  for (const CallId id : taken_.cancelled)
    if (const auto it = calls_.find(id); it != calls_.end())
      Abandon(it->second, Status(StatusReason::kCancelled, "the call was cancelled"));
  const Time now = steady_clock::now();
  for (NewTask& task : taken_.tasks) {
    if (task.when <= now)
      RunTask(task.run);
    else if (!stopping)
      shared_.timers.Add(task.when, [this, run = std::move(task.run)] { RunTask(run); });
  }
  taken_.calls.clear();
  taken_.cancelled.clear();
  taken_.tasks.clear();
  if (stopping) Shutdown();
  AfterEvent();
}

void Client::Impl::AddCall(NewCall incoming) {
  Call& call = calls_[incoming.id];
  call.id = incoming.id;
  call.request = std::move(incoming.request);
  call.options = incoming.options;
  call.listener = std::move(incoming.listener);
  call.started = call.waiting_since = incoming.started;
  if (Status status = ValidateRequest(call.request); !status.ok()) return Finish(call, status);
  requests_.fetch_add(1, std::memory_order_relaxed);
  if (!shared_.url.path.empty()) call.request.target.insert(0, shared_.url.path);
  if (call.request.authority.empty()) call.request.authority = shared_.url.authority();
  if (call.request.headers.Find("accept-encoding") == nullptr) {
    call.request.headers.Add("accept-encoding", "gzip");
    call.asked_gzip = true;
  }
  if (call.options.timeout.count() > 0) {
    const milliseconds timeout = std::min<milliseconds>(call.options.timeout, kMaxDelay);
    call.deadline = shared_.timers.Add(Later(call.started, timeout), [this, &call] {
      Abandon(call, Status(StatusReason::kTimeout,
                           fmt::format("{}: no {} within {} ms", server_,
                                       call.head_seen ? "complete response" : "response",
                                       call.options.timeout.count())));
    });
  }
  waiting_.push_back(call);
}

void Client::Impl::RunTask(const std::function<void()>& task) {
  try {
    task();
  } catch (const std::exception& e) {
    Log(LogLevel::kError, "posted task threw an exception", e.what());
  } catch (...) {
    Log(LogLevel::kError, "posted task threw an exception", "");
  }
}

void Client::Impl::OnHead(CallId id, ResponseHead head) {
  const auto it = calls_.find(id);
  if (it == calls_.end() || it->second.abandoned) return;
  Call& call = it->second;
  call.head_seen = true;
  if (call.asked_gzip && head.headers.Get("content-encoding") == "gzip") {
    call.gzip = true;
    // They describe the encoded body, not the one that the caller gets.
    head.headers.Remove("content-encoding");
    head.headers.Remove("content-length");
  }
  if (call.listener.fetched) {
    call.response.status = head.status;
    call.response.headers = std::move(head.headers);
    const std::string_view length = call.response.headers.Get("content-length");
    std::size_t size = 0;
    for (const char c : length.substr(0, 9)) size = size * 10 + static_cast<std::size_t>(c - '0');
    if (length.size() <= 9 && call.request.method != "HEAD")
      call.response.body.reserve(std::min({size, kMaxReserveBytes, call.options.max_body_bytes}));
    return;
  }
  if (!call.listener.callbacks.head) return;
  try {
    call.listener.callbacks.head(head);
  } catch (const std::exception& e) {
    Log(LogLevel::kError, "head callback threw an exception", e.what());
  } catch (...) {
    Log(LogLevel::kError, "head callback threw an exception", "");
  }
}

void Client::Impl::OnData(CallId id, std::string_view data) {
  const auto it = calls_.find(id);
  if (it == calls_.end() || it->second.abandoned) return;
  Call& call = it->second;
  if (!call.gzip) return Deliver(call, data);
  if (call.decoder == nullptr) call.decoder = std::make_unique<GzipDecoder>();
  const Status status = call.decoder->Decode(data, [this, &call](std::string_view piece) {
    Deliver(call, piece);
    return !call.abandoned;
  });
  if (!status.ok() && !call.abandoned) Abandon(call, Unreachable(status.message()));
}

void Client::Impl::Deliver(Call& call, std::string_view data) {
  if (call.listener.fetched) {
    if (data.size() > call.options.max_body_bytes - call.response.body.size())
      return Abandon(
          call, Status(StatusReason::kRequestEntityTooLarge,
                       fmt::format("{}: the body of the response is larger than {} bytes", server_,
                                   call.options.max_body_bytes)));
    call.response.body.append(data);
    return;
  }
  if (!call.listener.callbacks.data) return;
  try {
    call.listener.callbacks.data(data);
  } catch (const std::exception& e) {
    Log(LogLevel::kError, "data callback threw an exception", e.what());
  } catch (...) {
    Log(LogLevel::kError, "data callback threw an exception", "");
  }
}

void Client::Impl::OnEnd(CallId id, ExchangeEnd end) {
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;
  Call& call = it->second;
  call.connection = nullptr;
  if (!waiting_.empty()) last_end_ = steady_clock::now();
  if (call.abandoned) return;  // ends in AfterEvent(), or when its Cancel() is processed
  if (end.outcome == ExchangeEnd::Outcome::kWhole) {
    if (call.decoder != nullptr)
      if (const Status status = call.decoder->End(); !status.ok())
        return Finish(call, Unreachable(status.message()));
    call.response.trailers = std::move(end.trailers);
    return Finish(call, {});
  }
  const bool unprocessed = end.outcome == ExchangeEnd::Outcome::kNotProcessed;
  if (!unprocessed) call.perhaps_processed = true;
  const bool again = unprocessed || (call.options.repeatable && !call.head_seen);
  if (again && call.repeats < kMaxRepeats && !stopped_) {
    ++call.repeats;
    repeated_.fetch_add(1, std::memory_order_relaxed);
    call.waiting_since = steady_clock::now();
    waiting_.push_front(call);
    return;
  }
  Finish(call, Unreachable(end.cause));
}

void Client::Impl::Abandon(Call& call, Status why) {
  call.abandoned = true;
  call.unlink();
  abandoned_.emplace_back(call.id, std::move(why));
}

void Client::Impl::Finish(Call& call, const Status& status) {
  shared_.timers.Cancel(call.deadline);
  if (call.is_linked()) call.unlink();
  // Removed from the map first, so that for the callback the call has ended. It lives to the end of
  // this scope.
  const auto node = calls_.extract(call.id);
  call_count_.fetch_sub(1, std::memory_order_relaxed);
  try {
    if (call.listener.fetched) {
      if (status.ok())
        call.listener.fetched(std::move(call.response));
      else
        call.listener.fetched(Annotated(call, status));
    } else if (call.listener.callbacks.done) {
      call.listener.callbacks.done(Annotated(call, status));
    }
  } catch (const std::exception& e) {
    Log(LogLevel::kError, "done callback threw an exception", e.what());
  } catch (...) {
    Log(LogLevel::kError, "done callback threw an exception", "");
  }
}

Status Client::Impl::Unreachable(std::string_view cause) const {
  return Status(StatusReason::kUnreachable, fmt::format("{}: {}", server_, cause));
}

Status Client::Impl::Annotated(const Call& call, const Status& status) {
  if (status.ok() || call.connection != nullptr || call.perhaps_processed) return status;
  Status::Parts parts = status.parts();
  parts.details = StatusDetails{.causes = {{.reason = std::string(kUnprocessed)}}};
  return Status(std::move(parts));
}

void Client::Impl::AfterEvent() {
  bool again = true;
  while (again) {
    FinishAbandoned();
    StartWaiting();
    if (!waiting_.empty()) ConnectIfNeeded();
    for (const auto& connection : connections_) connection->Flush();
    // A closed connection may have put calls back into waiting_, or calls may have waited for it.
    const std::size_t closed =
        std::erase_if(connections_, [](const auto& connection) { return connection->closed(); });
    again = !abandoned_.empty() || (closed > 0 && !waiting_.empty());
  }
  connection_count_.store(connections_.size(), std::memory_order_relaxed);
  SetTimer();
}

void Client::Impl::FinishAbandoned() {
  for (const auto& [id, status] : std::exchange(abandoned_, {})) {
    const auto it = calls_.find(id);
    if (it == calls_.end()) continue;
    if (it->second.connection != nullptr) it->second.connection->Cancel(id);
    Finish(it->second, status);
  }
}

void Client::Impl::SetTimer() {
  const std::optional<Time> next = shared_.timers.next();
  if (!next || *next >= timer_expiry_) return;
  timer_expiry_ = *next;
  timer_.expires_at(*next);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error == asio::error::operation_aborted) return;
    timer_expiry_ = Time::max();
    shared_.timers.RunDue(steady_clock::now());
    AfterEvent();
  });
}

void Client::Impl::Shutdown() {
  stopped_ = true;
  for (auto& [id, call] : calls_)
    if (!call.abandoned) Abandon(call, Status(StatusReason::kCancelled, "the client is closing"));
  AfterEvent();
  for (const auto& connection : connections_) connection->Close("");
  shared_.timers.Clear();
  timer_.cancel();
  work_.reset();
}

void Client::Impl::Log(LogLevel level, std::string_view message, std::string_view cause) const {
  if (!shared_.options.log) return;
  try {
    LogEntry entry{level, message, {{"server", server_}}};
    if (!cause.empty()) entry.fields.emplace_back("cause", cause);
    shared_.options.log(entry);
  } catch (...) {  // NOLINT(bugprone-empty-catch): a log that fails stops nothing
  }
}

}  // namespace herald::http
