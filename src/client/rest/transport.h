#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "herald/base/clock.h"
#include "http/client/client.h"

namespace herald {

// A Transport sends requests to a server and runs the callbacks, tasks and timers of a client, one
// at a time on one thread. It is http::Client in production, and FakeTransport with a fake clock
// in tests.
//
// Thread-safe, except for destruction.
class Transport {
 public:
  using CallId = http::Client::CallId;

  virtual ~Transport() = default;

  virtual CallId Start(http::Request request, http::CallOptions options,
                       http::Client::Callbacks callbacks) = 0;
  virtual CallId Fetch(http::Request request, http::CallOptions options,
                       std::function<void(Result<http::Response>)> done) = 0;
  virtual void Cancel(CallId call) = 0;
  virtual void Post(std::function<void()> task) = 0;
  virtual void PostAfter(std::chrono::nanoseconds delay, std::function<void()> task) = 0;
  // Whether the caller is on the thread of callbacks and tasks, which cannot wait for itself.
  virtual bool RunsHere() const = 0;
  virtual const Clock& clock() const = 0;
  virtual http::ClientStats Stats() const = 0;
};

// Opens a Transport over http::Client.
Result<std::unique_ptr<Transport>> OpenHttpTransport(http::ClientOptions options);

}  // namespace herald
