#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "client/rest/rest_impl.h"
#include "client/rest/transport.h"
#include "herald/base/executor.h"

namespace herald {

// A Transport for tests: the test answers the requests and advances the clock. Everything runs on
// the test's thread, in calls of the test. Thread-confined.
class FakeTransport final : public Transport {
 public:
  struct Call {
    CallId id = 0;
    http::Request request{};
    http::CallOptions options{};
    http::Client::Callbacks callbacks{};
    std::function<void(Result<http::Response>)> fetched{};
    bool cancelled = false;

    // The value of a query parameter. It is not unescaped: tests use plain values.
    std::string Query(std::string_view name) const {
      const std::size_t query = request.target.find('?');
      if (query == std::string::npos) return "";
      std::string_view rest = std::string_view(request.target).substr(query + 1);
      while (!rest.empty()) {
        const std::string_view pair = rest.substr(0, rest.find('&'));
        rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
        if (pair.substr(0, pair.find('=')) == name && pair.find('=') != std::string_view::npos) {
          return std::string(pair.substr(pair.find('=') + 1));
        }
      }
      return "";
    }
  };

  explicit FakeTransport(FakeClock* clock)
      : clock_(clock), executor_({.threads = 0, .clock = clock}) {}

  CallId Start(http::Request request, http::CallOptions options,
               http::Client::Callbacks callbacks) override {
    return Add({++last_, std::move(request), options, std::move(callbacks), nullptr, false});
  }
  CallId Fetch(http::Request request, http::CallOptions options,
               std::function<void(Result<http::Response>)> done) override {
    return Add({++last_, std::move(request), options, {}, std::move(done), false});
  }
  void Cancel(CallId id) override {
    executor_.Post([this, id] {
      for (const auto& call : open_) {
        if (call->id != id) continue;
        const auto kept = call;
        kept->cancelled = true;
        Fail(kept, Status(StatusReason::kCancelled, "cancelled"));
        return;
      }
    });
  }
  void Post(std::function<void()> task) override { executor_.Post(std::move(task)); }
  void PostAfter(std::chrono::nanoseconds delay, std::function<void()> task) override {
    executor_.PostAt(clock_->Steady() + delay, std::move(task));
  }
  bool RunsHere() const override { return false; }
  const Clock& clock() const override { return *clock_; }
  http::ClientStats Stats() const override { return {}; }

  void Run() { executor_.RunUntilIdle(); }
  void Advance(std::chrono::nanoseconds by) {
    clock_->Advance(by);
    Run();
  }

  // The oldest call that Next() has not returned yet; null if there is none.
  std::shared_ptr<Call> Next() {
    Run();
    if (fresh_.empty()) return nullptr;
    auto call = fresh_.front();
    fresh_.pop_front();
    return call;
  }
  std::size_t fresh() {
    Run();
    return fresh_.size();
  }

  // Sends a complete answer.
  void Answer(const std::shared_ptr<Call>& call, int code, std::string body,
              http::Headers headers = {{"content-type", "application/json"}}) {
    Close(call);
    if (call->fetched) {
      call->fetched(http::Response{code, std::move(headers), std::move(body)});
    } else {
      call->callbacks.head({code, std::move(headers)});
      if (!body.empty()) call->callbacks.data(body);
      call->callbacks.done(Status());
    }
    Run();
  }
  void Fail(const std::shared_ptr<Call>& call, const Status& status) {
    Close(call);
    if (call->fetched) {
      call->fetched(status);
    } else {
      call->callbacks.done(status);
    }
    Run();
  }
  // Send parts of a stream.
  void Head(const std::shared_ptr<Call>& call,
            http::Headers headers = {{"content-type", "application/json"}}) {
    call->callbacks.head({200, std::move(headers)});
    Run();
  }
  void Data(const std::shared_ptr<Call>& call, std::string_view bytes) {
    call->callbacks.data(bytes);
    Run();
  }
  void End(const std::shared_ptr<Call>& call, const Status& status = {}) {
    Close(call);
    call->callbacks.done(status);
    Run();
  }

  // As the destructor of http::Client does.
  ~FakeTransport() override { CancelAll(); }

  // Releases all calls and tasks. They may own the client that owns this transport, and would
  // never run otherwise.
  void Shut() {
    Run();
    CancelAll();
    fresh_.clear();
    executor_.Stop();
  }

 private:
  CallId Add(Call call) {
    auto shared = std::make_shared<Call>(std::move(call));
    open_.push_back(shared);
    fresh_.push_back(shared);
    return shared->id;
  }
  void Close(const std::shared_ptr<Call>& call) { std::erase(open_, call); }
  void CancelAll() {
    while (!open_.empty()) {
      const auto call = open_.front();
      Close(call);
      const Status status(StatusReason::kCancelled, "the client was closed");
      call->fetched ? call->fetched(status) : call->callbacks.done(status);
    }
  }

  FakeClock* const clock_;
  CallId last_ = 0;
  std::deque<std::shared_ptr<Call>> open_;
  std::deque<std::shared_ptr<Call>> fresh_;
  Executor executor_;
};

// A RestClient with a FakeTransport. The test may use the transport until the client is destroyed.
struct FakeServer {
  explicit FakeServer(ClientConfig config = {.server = "http://fake"}, RestOptions options = {}) {
    auto owned = std::make_unique<FakeTransport>(&clock);
    transport = owned.get();
    auto credentials = std::make_shared<Credentials>(config, &clock, nullptr);
    rest = std::make_shared<RestClient>(std::make_unique<RestClient::Impl>(
        std::move(config), std::move(options), std::move(credentials), std::move(owned)));
  }
  ~FakeServer() {
    if (rest) transport->Shut();
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  FakeClock clock{WallTime(std::chrono::seconds(1'700'000'000))};
  FakeTransport* transport = nullptr;
  std::shared_ptr<RestClient> rest;
};

}  // namespace herald
