#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "herald/base/status.h"
#include "server/access/cors.h"
#include "server/events/encoding.h"
#include "server/request/exchange.h"
#include "server/request/request_options.h"
#include "server/routes/api_state.h"

namespace herald::server {

// Steps that the handlers of several resources have in common.

// What objects and their lists are offered in.
inline constexpr Offer kObjectOffer{.shapes = true, .yaml = true, .protobuf = true};
// For documents, which have no protobuf form here.
inline constexpr Offer kDocumentOffer{.shapes = false, .yaml = true, .protobuf = false};

// Negotiates the response. Returns false if the request was rejected; then the error has been sent.
bool NegotiateOrReject(Exchange* exchange, const Offer& offer, bool is_list);

// PartialObjectMetadata is for objects and PartialObjectMetadataList for lists; an error if the
// client asked for the other one.
Status CheckShapeName(const ResponseFormat& format, bool is_list);

// The encoding of events, or of namespaces, for this client.
// REQUIRES: the response has been negotiated
Result<Form> FormOf(const Exchange& exchange, EventApi api);

// The name that the fieldSelector requires, if it does. It may be empty, and then no object has it.
std::optional<std::string> SelectedName(const ListOptions& options);
// An error if the request was authorized for one name and its fieldSelector requires another.
Status CheckSelectedName(const ListOptions& options, const RequestInfo& info);

// How long a watch lasts: as long as the client asks for, or a random time between `min` and twice
// `min`, so that watches that started together do not end together.
std::chrono::seconds WatchTimeout(const ListOptions& options, std::chrono::seconds min);

// Returns the function that sends the head of a watch: as usual, or as a WebSocket if the client
// offers one. In the second case `form` is changed to the frames of WebSockets.
Result<std::function<void()>> WatchStarter(const ExchangePtr& exchange, const Cors& cors,
                                           Form* form);

}  // namespace herald::server
