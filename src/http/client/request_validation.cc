#include "http/client/request_validation.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace herald::http {
namespace {

bool IsTokenChar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool IsToken(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), IsTokenChar);
}

bool IsVisible(char c) { return c > ' ' && c != '\x7f'; }
bool IsFieldChar(char c) {
  return c == '\t' || (static_cast<unsigned char>(c) >= ' ' && c != '\x7f');
}

Status InvalidRequest(std::string message) {
  return Status(StatusReason::kBadRequest, std::move(message));
}

}  // namespace

Status ValidateRequest(const Request& request) {
  if (!IsToken(request.method) || request.method == "CONNECT")
    return InvalidRequest(fmt::format("invalid method \"{}\"", request.method));
  if (!request.target.starts_with('/') ||
      !std::all_of(request.target.begin(), request.target.end(), IsVisible))
    return InvalidRequest(
        "invalid request target: must begin with / and contain only visible ASCII characters");
  if (!std::all_of(request.authority.begin(), request.authority.end(), IsVisible))
    return InvalidRequest("invalid authority: must contain only visible ASCII characters");
  for (const Headers::Field& field : request.headers) {
    const bool lower = std::none_of(field.name.begin(), field.name.end(),
                                    [](char c) { return c >= 'A' && c <= 'Z'; });
    if (!IsToken(field.name) || !lower)
      return InvalidRequest(fmt::format("invalid header field name \"{}\"", field.name));
    for (const char* name : {"connection", "content-length", "host", "keep-alive",
                             "proxy-connection", "transfer-encoding", "upgrade"})
      if (field.name == name)
        return InvalidRequest(fmt::format(
            "header field {} is set by the client and must not be in the request", name));
    if (!std::all_of(field.value.begin(), field.value.end(), IsFieldChar))
      return InvalidRequest(
          fmt::format("header field {} contains a control character", field.name));
  }
  return {};
}

}  // namespace herald::http
