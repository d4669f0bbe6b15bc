#pragma once

#include <functional>
#include <stop_token>
#include <vector>

#include "herald/base/status.h"

// Runs several requests at the same time. The functions block until all requests that they started
// have ended. They must not be called on the RestClient's thread, which runs the callbacks.
namespace replicaset_controller {

using Done = std::function<void(const herald::Status&)>;
// Starts request `number` and calls `done` when it has ended, on any thread.
using Start = std::function<void(int number, Done done)>;

// Starts all requests at once. Returns the failures in the order of their arrival.
std::vector<herald::Status> RunAll(int count, const Start& start);

struct SlowStartResult {
  int succeeded = 0;
  herald::Status error{};  // the first one; no request is started after its batch
};

// Starts one request, then two, four, eight, ... until `count` have been made, one has failed or
// `stop` is requested. If the first one is rejected, for example by a quota, the others would be
// rejected as well: this way it takes one request and one event to find out, not hundreds.
SlowStartResult SlowStart(int count, const Start& start, const std::stop_token& stop = {});

}  // namespace replicaset_controller
