#pragma once

#include <memory>
#include <optional>
#include <string>

#include "herald/base/log.h"
#include "herald/record/broadcaster.h"
#include "herald/record/recorder.h"
#include "herald/record/sink.h"

namespace node_agent {

// The dependencies of an agent. Tests set them to fakes.
struct Dependencies {
  std::optional<herald::Recorder> recorder{};  // if it is set, it is used unchanged
  std::shared_ptr<herald::Sink> sink{};        // null: events are only logged
  herald::LogFunction log{};
};

// Creates dependencies->recorder if it is not set, as the kubelet does when it starts: a
// broadcaster with a log and, if there is a server, a sink, and a recorder for this component on
// this node. Returns the broadcaster, which must exist as long as events are recorded, or null if
// the recorder was already set.
std::unique_ptr<herald::Broadcaster> MakeEventRecorder(Dependencies* dependencies,
                                                       const std::string& component,
                                                       const std::string& node_name,
                                                       herald::BroadcasterOptions options = {});

}  // namespace node_agent
