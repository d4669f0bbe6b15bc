#include "server/openapi.h"

namespace herald::server {

Result<OpenApiAnswer> FindOpenApi(std::string_view path, const http::Headers&, const http::Query&) {
  return Status(StatusReason::kNotFound, std::string(path));
}

}  // namespace herald::server
