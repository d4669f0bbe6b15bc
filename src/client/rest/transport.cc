#include "client/rest/transport.h"

#include <atomic>
#include <thread>
#include <utility>

namespace herald {
namespace {

// Thread-safe, as http::Client is.
class HttpTransport final : public Transport {
 public:
  explicit HttpTransport(std::unique_ptr<http::Client> client) : client_(std::move(client)) {
    client_->Post([this] { thread_ = std::this_thread::get_id(); });
  }

  CallId Start(http::Request request, http::CallOptions options,
               http::Client::Callbacks callbacks) override {
    return client_->Start(std::move(request), options, std::move(callbacks));
  }
  CallId Fetch(http::Request request, http::CallOptions options,
               std::function<void(Result<http::Response>)> done) override {
    return client_->Fetch(std::move(request), options, std::move(done));
  }
  void Cancel(CallId call) override { client_->Cancel(call); }
  void Post(std::function<void()> task) override { client_->Post(std::move(task)); }
  void PostAfter(std::chrono::nanoseconds delay, std::function<void()> task) override {
    client_->PostAfter(delay, std::move(task));
  }
  bool RunsHere() const override { return thread_.load() == std::this_thread::get_id(); }
  const Clock& clock() const override { return SystemClock(); }
  http::ClientStats Stats() const override { return client_->Stats(); }

 private:
  std::atomic<std::thread::id> thread_{};
  // Last, so that it is destroyed first: its thread writes thread_.
  const std::unique_ptr<http::Client> client_;
};

}  // namespace

Result<std::unique_ptr<Transport>> OpenHttpTransport(http::ClientOptions options) {
  Result<std::unique_ptr<http::Client>> client = http::Client::Open(std::move(options));
  if (!client) return client.error();
  return std::unique_ptr<Transport>(std::make_unique<HttpTransport>(std::move(*client)));
}

}  // namespace herald
