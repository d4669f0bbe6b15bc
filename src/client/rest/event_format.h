#pragma once

#include <string_view>

#include "herald/api/codec.h"
#include "herald/client/events.h"
#include "herald/client/resource.h"

// Events on the wire, as both the typed client and the sink send and read them.
namespace herald {

const Resource& EventResource(EventApi api);

// What to ask for.
std::string_view AcceptOf(WireFormat format);

// The codec of an answer; JSON where the server did not say.
inline const Codec& CodecOf(std::string_view content_type) {
  return content_type.starts_with(ProtobufCodec().media_type()) ? ProtobufCodec() : JsonCodec();
}

// The question which of the two APIs a server has, and what its answer means: an error
// where it does not tell.
RestRequest DiscoveryRequest();
Result<EventApi> ReadDiscovery(const Result<RestResponse>& answer);

// Puts the event into the body.
void AddEvent(const Event& event, EventApi api, WireFormat format, RestRequest* request);

}  // namespace herald
