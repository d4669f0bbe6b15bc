#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "herald/api/event.h"
#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// One write for a sink to make.
struct SinkRequest {
  enum class Verb : std::uint8_t { kCreate, kUpdate, kPatch };

  Verb verb = Verb::kCreate;
  EventApi api = EventApi::kCoreV1;  // the API to write through
  // The whole event as it should be on the server afterwards, except with an empty patch. Its
  // namespace and name identify the object to write.
  std::shared_ptr<const Event> event;
  // With kPatch: a strategic merge patch. The empty patch "{}" changes nothing and returns the
  // event of the server: it is sent before a patch from a spool, which must not lower a count
  // that was written since. The event of such a request has no count.
  std::string patch{};
};

// A Sink writes events: to an API server in production (RestSink), to memory in tests
// (MemorySink). It makes one attempt per request. The pipeline decides by the Status of the answer
// whether and when to retry.
//
// Implementations must be thread-safe: Send() is called from any thread, several times at once.
class HERALD_EXPORT Sink {
 public:
  // To be called exactly once per request, from any thread, possibly before Send() returns. The
  // event is the one that the server returned.
  using Completion = std::function<void(Result<Event>)>;

  virtual ~Sink() = default;

  // Starts a request. Must not block.
  virtual void Send(SinkRequest request, Completion done) = 0;
};

// Makes a Sink of a function that blocks. The function runs on the thread of the pipeline, one
// request at a time, so a slow function delays everything else on that thread. Meant for tests and
// small tools.
HERALD_EXPORT std::shared_ptr<Sink> MakeBlockingSink(
    std::function<Result<Event>(const SinkRequest&)> write);

}  // namespace herald
