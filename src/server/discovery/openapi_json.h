#pragma once

#include <span>
#include <string>

#include "server/routes/route.h"

namespace herald::server {

enum class OpenApiVersion : bool { kV2, kV3 };

// The OpenAPI document of these groups as JSON. Version 2 is one document for all groups, version 3
// one for each.
std::string WriteOpenApiJson(OpenApiVersion version, std::span<const ApiGroup* const> groups);

}  // namespace herald::server
