#include "client/rest/event_format.h"

#include "herald/client/json_value.h"

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

RestRequest DiscoveryRequest() {
  RestRequest request;
  request.path = "/apis/events.k8s.io/v1";
  request.group = "events.k8s.io";
  request.resource = "events";
  return request;
}

Result<EventApi> ReadDiscovery(const Result<RestResponse>& answer) {
  if (!answer) {
    if (answer.error().code() == 404) return EventApi::kCoreV1;
    return answer.error();
  }
  const Result<JsonValue> list = JsonValue::Parse(answer->body);
  if (!list) return list.error();
  for (const JsonValue& resource : (*list)["resources"].array()) {
    if (resource["name"].String() == "events") return EventApi::kEventsV1;
  }
  return EventApi::kCoreV1;
}

void AddEvent(const Event& event, EventApi api, WireFormat format, RestRequest* request) {
  const Codec& codec = format == WireFormat::kProtobuf ? ProtobufCodec() : JsonCodec();
  request->content_type = codec.media_type();
  codec.AppendEvent(event, api, &request->body);
}

}  // namespace herald
