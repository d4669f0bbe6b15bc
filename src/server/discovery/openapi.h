#pragma once

#include <string>
#include <string_view>

#include "herald/base/status.h"
#include "http/message.h"

namespace herald::server {

// A response below /openapi/.
struct OpenApiAnswer {
  std::string content_type{};
  std::string body{};
  bool tagged = false;     // sent with an ETag
  bool immutable = false;  // the URL contains the hash, so clients may cache it forever
  std::string location{};  // not empty: the URL to which the client is redirected
};

// The OpenAPI documents, with which clients validate, explain and complete: /openapi/v2 (JSON, or
// protobuf for kubectl up to 1.28), /openapi/v3, and below it one document for each group and
// version. `hash` is that of the query, or null. kNotFound for other paths.
Result<OpenApiAnswer> FindOpenApi(std::string_view path, const http::Headers& headers,
                                  const std::string* hash);

}  // namespace herald::server
