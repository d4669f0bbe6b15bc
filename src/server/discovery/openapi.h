#pragma once

#include <string>
#include <string_view>

#include "herald/base/status.h"
#include "http/message.h"

namespace herald::server {

// An answer below /openapi/.
struct OpenApiAnswer {
  std::string content_type{};
  std::string body{};
  bool tagged = false;     // told with an ETag
  bool immutable = false;  // the URL names this very document, so it may be kept for ever
  std::string location{};  // not empty: where the client must ask instead
};

// The description of what is served, for clients that validate, explain and complete:
// /openapi/v2 (JSON, or protobuf as kubectl up to 1.28 wants it), /openapi/v3 and one
// document per group-version below it, by its `hash` where the query has one. kNotFound for
// other paths.
Result<OpenApiAnswer> FindOpenApi(std::string_view path, const http::Headers& headers,
                                  const std::string* hash);

}  // namespace herald::server
