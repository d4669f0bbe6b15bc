#include "http/client/client.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/intrusive/list.hpp>
#include <csignal>
#include <exception>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/thread/mutex.h"
#include "base/thread/thread_name.h"
#include "http/client/connection.h"
#include "http/gzip.h"
#include "http/url.h"

namespace herald::http {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Time = steady_clock::time_point;

// How often one request is sent again. A server that drains sends one GOAWAY; more than
// a few in a row is a fault that the caller should hear of.
constexpr int kMaxRepeats = 3;

// Watches hold their streams for minutes, and the calls behind them must not wait for
// that: where all streams of all connections are taken, and either none was given back
// for the first time or a call has waited for the second, another connection is made, up
// to so many. Short calls alone, however many, stay on one.
constexpr milliseconds kStreamWait{100};
constexpr milliseconds kLongStreamWait{2000};
constexpr std::size_t kMaxHttp2Connections = 8;
// After a failure to make such a connection.
constexpr milliseconds kStreamWaitAfterFailure{5000};

// A body is moved into a response of this size at once where its length is announced;
// a server that lies about it costs no more.
constexpr std::size_t kMaxReserveBytes = 16 * 1024 * 1024;

// Further than anybody waits, and near enough for the clock's arithmetic.
constexpr std::chrono::hours kMaxDelay{24 * 365 * 100};

// The cause in a status of what IsUnprocessed() tells.
constexpr std::string_view kUnprocessed = "Unprocessed";

Time Later(Time from, std::chrono::nanoseconds delay) {
  return from + std::chrono::duration_cast<steady_clock::duration>(
                    std::clamp<std::chrono::nanoseconds>(delay, {}, kMaxDelay));
}

bool IsTokenChar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenChar);
}

bool IsVisible(char c) { return c > ' ' && c != '\x7f'; }
bool IsFieldChar(char c) {
  return c == '\t' || (static_cast<unsigned char>(c) >= ' ' && c != '\x7f');
}

Status InvalidRequest(std::string message) {
  return Status(StatusReason::kBadRequest, std::move(message));
}

// A thread inherits what its maker blocks: the host's signal handlers must not run on ours.
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

// What would break out of its place on the wire, or fight with the framing.
Status Validate(const Request& request) {
  if (!IsToken(request.method) || request.method == "CONNECT")
    return InvalidRequest(fmt::format("the method \"{}\" cannot be sent", request.method));
  if (!request.target.starts_with('/') ||
      !std::all_of(request.target.begin(), request.target.end(), IsVisible))
    return InvalidRequest("the target of a request begins with / and holds no spaces");
  if (!std::all_of(request.authority.begin(), request.authority.end(), IsVisible))
    return InvalidRequest("the authority of a request holds no spaces");
  for (const Headers::Field& field : request.headers) {
    const bool lower = std::none_of(field.name.begin(), field.name.end(),
                                    [](char c) { return c >= 'A' && c <= 'Z'; });
    if (!IsToken(field.name) || !lower)
      return InvalidRequest(fmt::format("\"{}\" is no name of a header field", field.name));
    for (const char* name : {"connection", "content-length", "host", "keep-alive",
                             "proxy-connection", "transfer-encoding", "upgrade"})
      if (field.name == name)
        return InvalidRequest(fmt::format("the header field {} belongs to the connection", name));
    if (!std::all_of(field.value.begin(), field.value.end(), IsFieldChar))
      return InvalidRequest(
          fmt::format("the header field {} holds a control character", field.name));
  }
  return {};
}

}  // namespace

bool IsUnprocessed(const Status& error) {
  const std::vector<StatusCause>& causes = error.details().causes;
  return std::any_of(causes.begin(), causes.end(),
                     [](const StatusCause& cause) { return cause.reason == kUnprocessed; });
}

// Everything but the members under mu_ and the counters belongs to the client's thread.
class Client::Impl {
 public:
  Impl(ClientOptions options, Url url, std::optional<Url> proxy);
  ~Impl();

  // What a caller wants to hear: each step, or the whole.
  struct Listener {
    Callbacks callbacks{};
    std::function<void(Result<Response>)> fetched{};
  };

  CallId Start(Request request, const CallOptions& options, Listener listener);
  void Cancel(CallId id);
  void Post(Time when, std::function<void()> task);
  void Renew();
  ClientStats Stats() const;
  bool OnThread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  using WaitHook =
      boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

  // In one of three places: waiting_, on a connection, or given up and in abandoned_.
  struct Call : WaitHook {
    CallId id = 0;
    Request request{};
    CallOptions options{};
    Listener listener{};
    Time started{};

    ClientConnection* connection = nullptr;
    Time waiting_since{};
    TimerQueue::Id deadline{};
    int repeats = 0;
    bool perhaps_processed = false;  // in a try before, which broke
    bool head_seen = false;
    bool abandoned = false;   // nothing but `done` will be called
    bool asked_gzip = false;  // so a gzip response is unpacked
    bool gzip = false;        // the response is one
    std::unique_ptr<GzipDecoder> decoder{};
    Response response{};  // of a fetch
  };
  using WaitList = boost::intrusive::list<Call, boost::intrusive::constant_time_size<false>>;

  struct NewCall {
    CallId id = 0;
    Request request{};
    CallOptions options{};
    Listener listener{};
    Time started{};
  };
  struct NewTask {
    Time when{};
    std::function<void()> run{};
  };
  struct Incoming {
    std::vector<NewCall> calls{};
    std::vector<CallId> cancelled{};
    std::vector<NewTask> tasks{};
  };

  void Wake() REQUIRES(mu_);
  void TakeIncoming();
  void AddCall(NewCall call);
  void RunTask(const std::function<void()>& task);

  void OnHead(CallId id, ResponseHead head);
  void OnData(CallId id, std::string_view data);
  void OnEnd(CallId id, ExchangeEnd end);
  void Deliver(Call& call, std::string_view data);
  // Gives a call up, soon: codecs must not be called from their own events.
  void Abandon(Call& call, Status why);
  void Finish(Call& call, const Status& status);

  // Starts calls, ends the abandoned, flushes, arms the timer: after everything that happens.
  void AfterEvent();
  void FinishAbandoned();
  void StartWaiting();
  void ConnectIfNeeded();
  void Connect();
  Result<std::shared_ptr<const TlsClientContext>> CurrentTls();
  void CheckTls();
  void OnClosed(const ClientConnection& connection, const std::string& cause);
  // A try that began at `since`.
  void OnConnectFailed(Time since, const std::string& cause);
  void ArmTimer();
  void Shutdown();

  Status Unreachable(std::string_view cause) const {
    return Status(StatusReason::kUnreachable, fmt::format("{}: {}", server_, cause));
  }
  // With what IsUnprocessed() looks for, where that is so.
  static Status Annotated(const Call& call, const Status& status);
  void Log(LogLevel level, std::string_view message, std::string_view cause) const;

  ClientConnectionShared shared_;
  const std::string server_;  // for messages: "https://10.0.0.1:6443"

  // Guards all up to the counters. No callback runs under it.
  Mutex mu_;
  Incoming incoming_ GUARDED_BY(mu_);
  bool woken_ GUARDED_BY(mu_) = false;  // somebody has been told of it
  bool stopping_ GUARDED_BY(mu_) = false;

  std::atomic<CallId> last_id_{0};
  std::atomic<std::uint64_t> connections_opened_{0};
  std::atomic<std::uint64_t> connections_failed_{0};
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> repeated_{0};
  std::atomic<std::size_t> connection_count_{0};
  std::atomic<std::size_t> call_count_{0};

  Incoming taken_{};  // spares the vectors' memory
  std::unordered_map<CallId, Call> calls_{};
  WaitList waiting_{};
  std::vector<std::pair<CallId, Status>> abandoned_{};
  std::vector<std::shared_ptr<ClientConnection>> connections_{};  // oldest first
  bool expect_http1_ = false;          // what the server spoke last, or must speak
  Time no_extra_connection_before_{};  // after a failure
  Time last_end_{};                    // of an exchange, while calls wait
  bool stream_wait_armed_ = false;
  bool stopped_ = false;

  ClientTls tls_{};  // what tls_context_ was made of
  std::shared_ptr<const TlsClientContext> tls_context_{};
  bool tls_check_armed_ = false;

  asio::steady_timer timer_;
  Time armed_for_ = Time::max();
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  std::thread thread_;
};

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
  HERALD_CHECK(!OnThread(), "a client cannot be destroyed from one of its callbacks");
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
    // From a callback: what the codec has at hand already is not handed on any more.
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
  if (Status status = Validate(call.request); !status.ok()) return Finish(call, status);
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
    Log(LogLevel::kError, "a posted task threw", e.what());
  } catch (...) {
    Log(LogLevel::kError, "a posted task threw", "");
  }
}

void Client::Impl::OnHead(CallId id, ResponseHead head) {
  const auto it = calls_.find(id);
  if (it == calls_.end() || it->second.abandoned) return;
  Call& call = it->second;
  call.head_seen = true;
  if (call.asked_gzip && head.headers.Get("content-encoding") == "gzip") {
    call.gzip = true;
    // They describe what was on the wire, not what the caller gets.
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
    Log(LogLevel::kError, "a head callback threw", e.what());
  } catch (...) {
    Log(LogLevel::kError, "a head callback threw", "");
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
    Log(LogLevel::kError, "a data callback threw", e.what());
  } catch (...) {
    Log(LogLevel::kError, "a data callback threw", "");
  }
}

void Client::Impl::OnEnd(CallId id, ExchangeEnd end) {
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;
  Call& call = it->second;
  call.connection = nullptr;
  if (!waiting_.empty()) last_end_ = steady_clock::now();
  if (call.abandoned) return;  // it ends in AfterEvent(), or when its Cancel() is taken
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
  // Out of the map first, so that it is over for whatever the callback asks. It lives to
  // the end of this scope.
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
    Log(LogLevel::kError, "a done callback threw", e.what());
  } catch (...) {
    Log(LogLevel::kError, "a done callback threw", "");
  }
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
    // One that closed may have given calls back, or failed to be what calls waited for.
    const std::size_t closed =
        std::erase_if(connections_, [](const auto& connection) { return connection->closed(); });
    again = !abandoned_.empty() || (closed > 0 && !waiting_.empty());
  }
  connection_count_.store(connections_.size(), std::memory_order_relaxed);
  ArmTimer();
}

void Client::Impl::FinishAbandoned() {
  for (const auto& [id, status] : std::exchange(abandoned_, {})) {
    const auto it = calls_.find(id);
    if (it == calls_.end()) continue;
    if (it->second.connection != nullptr) it->second.connection->Cancel(id);
    Finish(it->second, status);
  }
}

void Client::Impl::StartWaiting() {
  std::size_t i = 0;
  while (!waiting_.empty() && i < connections_.size()) {
    ClientConnection& connection = *connections_[i];
    if (connection.CanStart()) connection.CheckAlive();
    if (!connection.CanStart()) {
      ++i;
      continue;
    }
    Call& call = waiting_.front();
    waiting_.pop_front();
    call.connection = &connection;
    connection.Start(call.id, call.request);
  }
}

void Client::Impl::ConnectIfNeeded() {
  if (stopped_) return;
  std::size_t connecting = 0;
  std::size_t http1 = 0;
  std::size_t http2 = 0;
  for (const auto& connection : connections_) {
    if (connection->connecting())
      ++connecting;
    else if (!connection->draining())
      ++(connection->http2() ? http2 : http1);
  }
  if (http2 > 0) {
    // All its streams are taken.
    if (connecting > 0 || http2 >= kMaxHttp2Connections) return;
    const Time since = waiting_.front().waiting_since;
    const Time due =
        std::max(no_extra_connection_before_,
                 std::min(std::max(since, last_end_) + kStreamWait, since + kLongStreamWait));
    if (due <= steady_clock::now()) return Connect();
    if (std::exchange(stream_wait_armed_, true)) return;
    shared_.timers.Add(due, [this] { stream_wait_armed_ = false; });  // and AfterEvent()
    return;
  }
  if (!expect_http1_) {
    // Most likely one connection will be enough for all.
    if (connecting == 0) Connect();
    return;
  }
  const std::size_t room = shared_.options.max_http1_connections;
  std::size_t wanted = 0;
  for (auto it = waiting_.begin(); it != waiting_.end() && wanted < room; ++it) ++wanted;
  while (connecting < wanted && connecting + http1 < room && !waiting_.empty()) {
    Connect();
    ++connecting;
  }
}

void Client::Impl::Connect() {
  std::shared_ptr<const TlsClientContext> context;
  if (shared_.url.scheme == "https" || (shared_.proxy && shared_.proxy->scheme == "https")) {
    Result<std::shared_ptr<const TlsClientContext>> current = CurrentTls();
    if (!current) return OnConnectFailed(steady_clock::now(), current.error().message());
    context = *std::move(current);
  }
  connections_.push_back(std::make_shared<ClientConnection>(shared_, std::move(context)));
  connections_.back()->Connect();
}

Result<std::shared_ptr<const TlsClientContext>> Client::Impl::CurrentTls() {
  Result<ClientTls> tls = ClientTls{};
  if (shared_.options.tls) {
    try {
      tls = shared_.options.tls();
    } catch (const std::exception& e) {
      tls = Status(StatusReason::kUnreachable, e.what());
    } catch (...) {
      tls = Status(StatusReason::kUnreachable, "no TLS material");
    }
    if (!tls) return tls.error();
    if (!std::exchange(tls_check_armed_, true))
      shared_.timers.Add(steady_clock::now() + shared_.options.tls_check_interval,
                         [this] { CheckTls(); });
  }
  if (tls_context_ != nullptr && *tls == tls_) return tls_context_;
  Result<std::shared_ptr<const TlsClientContext>> context = TlsClientContext::Make(*tls);
  if (!context) return context;
  if (tls_context_ != nullptr) {
    Log(LogLevel::kInfo, "TLS material has changed", "");
    for (const auto& connection : connections_) connection->Retire();
  }
  tls_ = *std::move(tls);
  tls_context_ = *context;
  return context;
}

void Client::Impl::CheckTls() {
  tls_check_armed_ = false;
  if (connections_.empty()) return;  // the next connection will ask
  if (const auto current = CurrentTls(); !current) {
    // What there is goes on as long as it can; a file that is half written soon will be whole.
    Log(LogLevel::kWarn, "TLS material cannot be read", current.error().message());
    if (!std::exchange(tls_check_armed_, true))
      shared_.timers.Add(steady_clock::now() + shared_.options.tls_check_interval,
                         [this] { CheckTls(); });
  }
}

void Client::Impl::OnClosed(const ClientConnection& connection, const std::string& cause) {
  Log(LogLevel::kDebug, "connection closed", cause);
  if (!connection.opened() && !stopped_) OnConnectFailed(connection.created(), cause);
}

void Client::Impl::OnConnectFailed(Time since, const std::string& cause) {
  connections_failed_.fetch_add(1, std::memory_order_relaxed);
  const bool others = std::any_of(connections_.begin(), connections_.end(), [](const auto& other) {
    return !other->connecting() && !other->draining();
  });
  if (others && !expect_http1_) {
    // It was to be one more where all streams are taken.
    no_extra_connection_before_ = steady_clock::now() + kStreamWaitAfterFailure;
    return;
  }
  // Those that waited for it have had their try; only one of them where there are other
  // connections to serve the rest.
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    Call& call = *it++;
    if (call.waiting_since > since) continue;
    Abandon(call, Unreachable(cause));
    if (others) return;
  }
}

void Client::Impl::ArmTimer() {
  const std::optional<Time> next = shared_.timers.next();
  if (!next || *next >= armed_for_) return;
  armed_for_ = *next;
  timer_.expires_at(*next);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error == asio::error::operation_aborted) return;
    armed_for_ = Time::max();
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
    // No more threads, or no more file descriptors.
    return Status(StatusReason::kInternalError, fmt::format("no HTTP client: {}", e.what()));
  }
}

Client::CallId Client::Start(Request request, CallOptions options, Callbacks callbacks) {
  return impl_->Start(std::move(request), options, {std::move(callbacks), {}});
}

void Client::Cancel(CallId call) { impl_->Cancel(call); }

Client::CallId Client::Fetch(Request request, CallOptions options,
                             std::function<void(Result<Response>)> done) {
  // Somebody must collect the body, even for nobody.
  if (!done) done = [](const Result<Response>&) {};
  return impl_->Start(std::move(request), options, {{}, std::move(done)});
}

Result<Response> Client::Fetch(Request request, CallOptions options, std::stop_token stop) {
  HERALD_CHECK(!impl_->OnThread(), "waiting in a callback would wait for ever");
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
    // Under the lock: the waiter is gone as soon as it can see the result.
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
  impl_->Post(Later(steady_clock::now(), delay), std::move(task));
}

ClientStats Client::Stats() const { return impl_->Stats(); }

}  // namespace herald::http
