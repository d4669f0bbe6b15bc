#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "herald/base/clock.h"
#include "http/client/client.h"

namespace herald {

// A Transport carries requests to a server and runs everything else that happens inside
// a client, one thing after the other: callbacks, tasks and timers never overlap. It is
// http::Client in production and a script with a fake clock in tests.
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
  // Whether this is the thread of callbacks and tasks, which cannot wait for itself.
  virtual bool RunsHere() const = 0;
  virtual const Clock& clock() const = 0;
  virtual http::ClientStats Stats() const = 0;
};

// Over http::Client.
Result<std::unique_ptr<Transport>> OpenHttpTransport(http::ClientOptions options);

}  // namespace herald
