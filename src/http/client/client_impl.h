#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "http/client/client.h"
#include "http/client/connection.h"
#include "http/gzip.h"
#include "http/url.h"

namespace herald::http {

// The reason of the cause in a status for which IsUnprocessed() returns true.
inline constexpr std::string_view kUnprocessed = "Unprocessed";

// The calls (client_impl.cc) and the connections (client_connections.cc) of a Client. A call is a
// request with its response as the caller sees it; it takes more than one exchange of a connection
// if the request is sent again.
//
// Public functions are thread-safe. All members except those under mu_ and the counters are
// confined to the client's thread.
class Client::Impl {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Impl(ClientOptions options, Url url, std::optional<Url> proxy);
  ~Impl();

  // How the caller gets the response: step by step, or whole.
  struct Listener {
    Callbacks callbacks{};
    std::function<void(Result<Response>)> fetched{};
  };

  CallId Start(Request request, const CallOptions& options, Listener listener);
  void Cancel(CallId id);
  void Post(Time when, std::function<void()> task);
  void PostAfter(std::chrono::nanoseconds delay, std::function<void()> task);
  void Renew();
  ClientStats Stats() const;
  bool OnThread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  using WaitHook =
      boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

  // In one of three places: waiting_, on a connection, or abandoned and in abandoned_.
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
    bool perhaps_processed = false;  // in an earlier exchange, which failed
    bool head_seen = false;
    bool abandoned = false;   // nothing but `done` will be called
    bool asked_gzip = false;  // so a gzip response is decoded
    bool gzip = false;        // the response is gzip
    std::unique_ptr<GzipDecoder> decoder{};
    Response response{};  // if `fetched` is set
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

  // client_impl.cc
  void Wake() REQUIRES(mu_);
  void TakeIncoming();
  void AddCall(NewCall call);
  void RunTask(const std::function<void()>& task);

  void OnHead(CallId id, ResponseHead head);
  void OnData(CallId id, std::string_view data);
  void OnEnd(CallId id, ExchangeEnd end);
  void Deliver(Call& call, std::string_view data);
  // Ends a call with this error in the next AfterEvent(), because a codec must not be called from
  // its own events.
  void Abandon(Call& call, Status why);
  void FinishAbandoned();
  void Finish(Call& call, const Status& status);

  // Called after each event (bytes, timer, new call): starts and ends calls, flushes connections
  // and sets the timer.
  void AfterEvent();
  void SetTimer();
  void Shutdown();

  Status Unreachable(std::string_view cause) const;
  // Adds the cause that IsUnprocessed() looks for if the server has not processed the request.
  static Status Annotated(const Call& call, const Status& status);
  void Log(LogLevel level, std::string_view message, std::string_view cause) const;

  // client_connections.cc
  void StartWaiting();
  void ConnectIfNeeded();
  void Connect();
  Result<std::shared_ptr<const TlsClientContext>> CurrentTls();
  void CheckTls();
  void OnClosed(const ClientConnection& connection, const std::string& cause);
  // `since` is when the attempt began.
  void OnConnectFailed(Time since, const std::string& cause);

  ClientConnectionShared shared_;
  const std::string server_;  // for messages: "https://10.0.0.1:6443"

  // Guards all members up to the counters. No callback runs while it is held.
  Mutex mu_;
  Incoming incoming_ GUARDED_BY(mu_);
  bool woken_ GUARDED_BY(mu_) = false;  // TakeIncoming() is posted
  bool stopping_ GUARDED_BY(mu_) = false;

  std::atomic<CallId> last_id_{0};
  std::atomic<std::uint64_t> connections_opened_{0};
  std::atomic<std::uint64_t> connections_failed_{0};
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> repeated_{0};
  std::atomic<std::size_t> connection_count_{0};
  std::atomic<std::size_t> call_count_{0};

  Incoming taken_{};  // reused, to keep the memory of its vectors
  std::unordered_map<CallId, Call> calls_{};
  WaitList waiting_{};
  std::vector<std::pair<CallId, Status>> abandoned_{};
  std::vector<std::shared_ptr<ClientConnection>> connections_{};  // oldest first
  bool expect_http1_ = false;          // the protocol that the server used last, or must use
  Time no_extra_connection_before_{};  // set after a failure
  Time last_end_{};                    // when an exchange last ended while calls waited
  bool stream_wait_set_ = false;       // a timer for the next extra connection is set
  bool stopped_ = false;

  ClientTls tls_{};  // from which tls_context_ was made
  std::shared_ptr<const TlsClientContext> tls_context_{};
  bool tls_check_set_ = false;  // a timer for CheckTls() is set

  boost::asio::steady_timer timer_;
  Time timer_expiry_ = Time::max();
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
  std::thread thread_;
};

}  // namespace herald::http
