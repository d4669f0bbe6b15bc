#pragma once

#include <functional>
#include <stop_token>
#include <vector>

#include "herald/base/status.h"

// How many requests are sent at once. The functions block until all that they started has
// ended; they must not be called on the RestClient's thread, which brings the ends.
namespace replicaset_controller {

using Done = std::function<void(const herald::Status&)>;
// Starts the call with that number, and calls back when it has ended, from any thread.
using Start = std::function<void(int number, Done done)>;

// All at once. Returns the failures in the order in which they came.
std::vector<herald::Status> RunAll(int count, const Start& start);

struct SlowStartResult {
  int succeeded = 0;
  herald::Status error{};  // the first one; what was not started by then never is
};

// One call, then two, four, eight, ... until `count` have been made, one has failed or `stop` is
// requested. If the
// first is refused, by a quota say, so would the others be: one request is spent to
// learn it instead of hundreds, and one event told.
SlowStartResult SlowStart(int count, const Start& start, const std::stop_token& stop = {});

}  // namespace replicaset_controller
