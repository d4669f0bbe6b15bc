#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "herald/api/event.h"
#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// One write that the pipeline asks a sink for.
struct SinkRequest {
  enum class Verb : std::uint8_t { kCreate, kUpdate, kPatch };

  Verb verb = Verb::kCreate;
  EventApi api = EventApi::kCoreV1;  // through which API to write
  // The whole event as it should be on the server afterwards. Its namespace and name
  // say where.
  std::shared_ptr<const Event> event;
  // With kPatch: a strategic merge patch. "{}" asks for the event as the server has it: before
  // a patch from a spool is sent, so that it does not lower a count that was written since.
  std::string patch{};
};

// A Sink is where recorded events are written: an API server in production, a
// MemorySink in tests. It makes one attempt per request; when to try again is
// decided by the pipeline, from the Status it is told.
//
// Thread-safe: requests come from any thread, several at once.
class HERALD_EXPORT Sink {
 public:
  // Called exactly once per request, from any thread, possibly before Send()
  // returns. The event is what the server answered with.
  using Completion = std::function<void(Result<Event>)>;

  virtual ~Sink() = default;

  // Starts the request and returns without waiting for its end.
  virtual void Send(SinkRequest request, Completion done) = 0;
};

// A Sink for whoever has only a plain function that blocks. It runs the function on
// the thread that the pipeline calls from, one request at a time, so a slow function
// holds up everything behind it: fine for tests and small tools.
HERALD_EXPORT std::shared_ptr<Sink> MakeBlockingSink(
    std::function<Result<Event>(const SinkRequest&)> write);

}  // namespace herald
