#pragma once

#include <string>
#include <string_view>

#include "herald/base/status.h"
#include "http/message.h"
#include "http/url.h"

namespace herald::server {

// An answer below /openapi/.
struct OpenApiAnswer {
  std::string content_type{};
  std::string body{};
  std::string cache_control{};
  std::string location{};  // where the client must ask instead; nothing else is set then
};

// The description of what is served, for clients that validate, explain and complete:
// /openapi/v2 (JSON, or protobuf as kubectl up to 1.28 wants it), /openapi/v3 and one
// document per group-version below it. kNotFound for other paths.
Result<OpenApiAnswer> FindOpenApi(std::string_view path, const http::Headers& headers,
                                  const http::Query& query);

}  // namespace herald::server
