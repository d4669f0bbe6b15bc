#pragma once

#include <string_view>

#include "herald/api/codec.h"
#include "herald/client/events.h"
#include "herald/client/resource.h"

// The encoding of events in requests and answers, for EventsClient and RestSink.
namespace herald {

const Resource& EventResource(EventApi api);

// The Accept header.
std::string_view AcceptOf(WireFormat format);

// The codec of an answer; JSON if it has no content type.
inline const Codec& CodecOf(std::string_view content_type) {
  return content_type.starts_with(ProtobufCodec().media_type()) ? ProtobufCodec() : JsonCodec();
}

// The request that finds out which of the two APIs a server has, and the result of its answer: an
// error if the answer does not contain it.
RestRequest DiscoveryRequest();
Result<EventApi> ReadDiscovery(const Result<RestResponse>& answer);

// Sets the body and its content type.
void AddEvent(const Event& event, EventApi api, WireFormat format, RestRequest* request);

}  // namespace herald
