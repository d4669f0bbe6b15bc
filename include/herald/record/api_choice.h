#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "herald/api/event.h"
#include "herald/base/export.h"

namespace herald {

// An ApiChoice says through which of the two APIs a server wants its events, once
// somebody has found out. Recorders that are given one (RecorderOptions::api_choice)
// record at once; what they record is held until the choice is made, and spelled in its
// style when it is written.
//
//   auto choice = std::make_shared<ApiChoice>();
//   Recorder recorder = broadcaster.NewRecorder({.component = "agent", .api_choice = choice});
//   ...                               // a client asks for /apis/events.k8s.io/v1
//   choice->Set(found ? EventApi::kEventsV1 : EventApi::kCoreV1);
//
// It may be changed: a client that is forbidden to write to events.k8s.io sets kCoreV1,
// and then answers the request with that refusal. An event that was refused through an
// API that is no longer the chosen one is written through the other.
//
// This is what client-go's EventBroadcasterAdapter is for, which asks the server before
// it makes a recorder and so cannot record before there is one.
//
// Thread-safe.
class HERALD_EXPORT ApiChoice {
 public:
  ApiChoice();
  ~ApiChoice();
  ApiChoice(const ApiChoice&) = delete;
  ApiChoice& operator=(const ApiChoice&) = delete;

  // Nothing until Set() was called.
  std::optional<EventApi> Get() const;

  void Set(EventApi api);

  // Calls the function once there is a choice: now, or from Set(). It must not throw.
  void WhenSet(std::function<void()> function);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald
