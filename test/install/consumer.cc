// The program of someone who uses Herald as a library: it needs symbols of both
// api and base, so a missing export or a missing library shows at once.
#include <cstdio>
#include <string>

#include "herald/api/codec.h"
#include "herald/api/event.h"
#include "herald/api/reference.h"
#include "herald/base/clock.h"

int main() {
  herald::Event event;
  event.metadata.name = herald::MakeEventName("web-0", herald::SystemClock().Now());
  event.metadata.namespace_ = "default";
  event.reason = "Started";
  std::string json;
  herald::JsonCodec().AppendEvent(event, herald::EventApi::kCoreV1, &json);
  const auto decoded = herald::JsonCodec().DecodeEvent(json, herald::EventApi::kCoreV1);
  if (!decoded || *decoded != event) {
    std::fprintf(stderr, "an event did not survive its own JSON: %s\n", json.c_str());
    return 1;
  }
  std::puts(json.c_str());
  return 0;
}
