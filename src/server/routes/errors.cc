#include "server/routes/errors.h"

#include <fmt/core.h>

#include <utility>

#include "server/request/exchange.h"
#include "server/request/negotiation.h"
#include "server/routes/route_table.h"

namespace herald::server {
namespace {

Status RouterError(StatusReason reason, std::string message) {
  Status::Parts parts;
  parts.reason = reason;
  parts.message = std::move(message);
  parts.details.emplace();
  return Status(std::move(parts));
}

}  // namespace

Status BadRequest(std::string message) {
  return Status(StatusReason::kBadRequest, std::move(message));
}

Status PathNotFound() {
  return RouterError(StatusReason::kNotFound, "the server could not find the requested resource");
}

Status MethodNotAllowed() {
  return RouterError(StatusReason::kMethodNotAllowed,
                     "the server does not allow this method on the requested resource");
}

Status NotAcceptable(bool watchable) {
  std::string types = OfferedTypes(Offer());
  if (watchable) {
    types += ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
  }
  return RouterError(StatusReason::kNotAcceptable,
                     "406: Not Acceptable\n\nAvailable representations: " + types);
}

Status UnsupportedMediaType() {
  return RouterError(StatusReason::kUnsupportedMediaType, "415: Unsupported Media Type");
}

Status UnknownBody(std::string_view types) {
  return Status(StatusReason::kUnsupportedMediaType,
                fmt::format("the body of the request was in an unknown format - accepted media "
                            "types include: {}",
                            types));
}

void SendPathNotFound(const std::shared_ptr<ApiState>& /*api*/,
                      const std::shared_ptr<Exchange>& exchange) {
  std::string_view path = exchange->info().path;
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (Routes().FindGroupOfPath(path) != nullptr) return exchange->SendStatus(PathNotFound());
  if (path.starts_with("/openapi/")) return exchange->Send(404, {}, {});
  exchange->SetHeader("x-content-type-options", "nosniff");
  exchange->Send(404, "text/plain; charset=utf-8", "404 page not found\n");
}

void SendMethodNotAllowed(const std::shared_ptr<ApiState>& /*api*/,
                          const std::shared_ptr<Exchange>& exchange) {
  exchange->SendStatus(MethodNotAllowed());
}

}  // namespace herald::server
