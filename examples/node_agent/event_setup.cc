#include "node_agent/event_setup.h"

#include <utility>

namespace node_agent {

using herald::LogLevel;

std::unique_ptr<herald::Broadcaster> MakeEventRecorder(Dependencies* dependencies,
                                                       const std::string& component,
                                                       const std::string& node_name,
                                                       herald::BroadcasterOptions options) {
  if (dependencies->recorder) return nullptr;
  const herald::LogFunction& log = dependencies->log;
  options.log = log;
  auto broadcaster = std::make_unique<herald::Broadcaster>(options);
  dependencies->recorder = broadcaster->NewRecorder({.component = component, .host = node_name});
  herald::Status status;
  if (log) status = broadcaster->StartStructuredLogging(log);
  if (dependencies->sink) {
    // If events are lost, an event about this node reports it.
    herald::SinkOptions sink;
    sink.self = herald::ObjectReference{.kind = "Node", .name = node_name, .uid = node_name};
    status = broadcaster->StartRecordingToSink(dependencies->sink, std::move(sink));
  } else if (log) {
    log({.level = LogLevel::kWarn, .message = "No API server: events are only logged"});
  }
  // Both fail only after Shutdown().
  (void)status;
  return broadcaster;
}

}  // namespace node_agent
