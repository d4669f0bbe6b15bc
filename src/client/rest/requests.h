#pragma once

#include <string>
#include <string_view>

#include "herald/api/patch.h"
#include "herald/client/resource.h"
#include "herald/client/rest.h"

// How verbs become requests. Typed and dynamic clients share them.
namespace herald {

RestRequest ResourceRequest(const Resource& resource, std::string_view method,
                            std::string_view namespace_, std::string_view name,
                            std::string_view subresource = {});
void AddOptions(const ListOptions& options, RestRequest* request);
// Makes a watch of it: no time-out but the server's.
void AddOptions(const WatchOptions& options, RestRequest* request);
void AddOptions(const WriteOptions& options, RestRequest* request);
// Goes into the body.
void AddOptions(const DeleteOptions& options, RestRequest* request);

}  // namespace herald
