#pragma once

#include <memory>
#include <optional>
#include <string>

#include "herald/base/log.h"
#include "herald/record/broadcaster.h"
#include "herald/record/recorder.h"
#include "herald/record/sink.h"

namespace node_agent {

// What the parts of an agent are given from outside.
struct Dependencies {
  std::optional<herald::Recorder> recorder{};  // set: it is used as it is
  std::shared_ptr<herald::Sink> sink{};        // where events go; null: to the log only
  herald::LogFunction log{};
};

// Sets dependencies->recorder up if it is not set, as the kubelet does when it starts: a
// broadcaster with a log and, where there is a server, a sink; and a recorder that speaks for
// this component on this node. Returns the broadcaster, which must live as long as
// events are recorded; null where the recorder was there already.
std::unique_ptr<herald::Broadcaster> MakeEventRecorder(Dependencies* dependencies,
                                                       const std::string& component,
                                                       const std::string& node_name,
                                                       herald::BroadcasterOptions options = {});

}  // namespace node_agent
