#pragma once

#include <string>

namespace herald::server {

// The OpenAPI document, version 2, of all groups as gnostic's protobuf (openapiv2/OpenAPIv2.proto),
// which kubectl up to 1.28 asks for.
std::string WriteOpenApiGnostic();

}  // namespace herald::server
