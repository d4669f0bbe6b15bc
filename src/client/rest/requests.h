#pragma once

#include <string>
#include <string_view>

#include "herald/api/patch.h"
#include "herald/client/resource.h"
#include "herald/client/rest.h"

// Builds requests from resources and options. All functions are thread-safe.
namespace herald {

RestRequest ResourceRequest(const Resource& resource, std::string_view method,
                            std::string_view namespace_, std::string_view name,
                            std::string_view subresource = {});
void AddOptions(const ListOptions& options, RestRequest* request);
// Turns the request into a watch, which has no timeout on the client's side.
void AddOptions(const WatchOptions& options, RestRequest* request);
void AddOptions(const WriteOptions& options, RestRequest* request);
// Sets the body.
void AddOptions(const DeleteOptions& options, RestRequest* request);

}  // namespace herald
