#include "client/event_format.h"

namespace herald {

const Resource& EventResource(EventApi api) {
  static const auto* const core = new Resource{"", "v1", "events"};  // never destroyed: see clock.h
  static const auto* const events = new Resource{"events.k8s.io", "v1", "events"};
  return api == EventApi::kCoreV1 ? *core : *events;
}

std::string_view AcceptOf(WireFormat format) {
  return format == WireFormat::kProtobuf ? "application/vnd.kubernetes.protobuf,application/json"
                                         : "application/json";
}

void AddEvent(const Event& event, EventApi api, WireFormat format, RestRequest* request) {
  const Codec& codec = format == WireFormat::kProtobuf ? ProtobufCodec() : JsonCodec();
  request->content_type = codec.media_type();
  codec.AppendEvent(event, api, &request->body);
}

}  // namespace herald
