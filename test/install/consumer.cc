// A program that uses Herald as a library. It needs symbols of record, api and base, so that a
// missing export or library fails the link.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "herald/api/codec.h"
#include "herald/api/reference.h"
#include "herald/base/clock.h"
#include "herald/record/broadcaster.h"
#include "herald/record/fakes.h"

int main() {
  const auto sink = std::make_shared<herald::MemorySink>();
  herald::Broadcaster broadcaster;
  if (!broadcaster.StartRecordingToSink(sink).ok()) return 1;
  herald::ObjectMeta pod;
  pod.name = "web-0";
  pod.namespace_ = "default";
  broadcaster.NewRecorder({.component = "consumer", .host = "here"})
      .Eventf(herald::MakeReference("v1", "Pod", pod), herald::kNormal, "Started", "Started {}",
              pod.name);
  if (!broadcaster.Shutdown(std::chrono::seconds(5)).complete || sink->Events().size() != 1) {
    std::fprintf(stderr, "the event did not arrive\n");
    return 1;
  }
  const herald::Event event = sink->Events().front();
  std::string json;
  herald::JsonCodec().AppendEvent(event, herald::EventApi::kEventsV1, &json);
  const auto decoded = herald::JsonCodec().DecodeEvent(json, herald::EventApi::kEventsV1);
  if (!decoded || decoded->message != event.message) {
    std::fprintf(stderr, "an event did not survive its own JSON: %s\n", json.c_str());
    return 1;
  }
  std::fputs(json.c_str(), stdout);
  return 0;
}
