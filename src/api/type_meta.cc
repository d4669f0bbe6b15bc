#include "api/type_meta.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "api/quote.h"
#include "herald/api/codec.h"

namespace herald {
namespace {

// The beginning of a body: as it is if it looks like JSON, otherwise in hexadecimal.
std::string Summary(std::string_view body) {
  constexpr std::size_t kShown = 30;
  if (body.empty()) return "<empty>";
  const std::string_view start = body.substr(0, kShown);
  std::string out;
  if (start[0] == '{') {
    out = start;
  } else {
    for (const char c : start) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  }
  if (start.size() < body.size()) out += " ...";
  return out;
}

}  // namespace

bool IsStatus(const TypeMeta& type) {
  return type.kind == "Status" && (type.api_version == "v1" || type.api_version.empty());
}

Status CheckType(const TypeMeta& type, std::string_view kind, EventApi api, std::string_view body) {
  const std::string_view expected = ApiVersionName(api);
  std::string_view version = type.api_version;
  if (std::count(version.begin(), version.end(), '/') > 1) {
    return Unrecognized(fmt::format("unexpected GroupVersion string: {}", version), kind, body);
  }
  if (version.starts_with('/')) version.remove_prefix(1);  // "/v1" is "v1" of the core group
  if (version.empty()) version = expected;
  const std::string_view actual_kind = type.kind.empty() ? kind : std::string_view(type.kind);

  if (actual_kind == kind) {
    if (version == expected) return Status();
    // Kubernetes can decode events of these versions, but does not accept them at this URL.
    constexpr std::string_view kReadable[] = {"v1", "events.k8s.io/v1", "events.k8s.io/v1beta1",
                                              "__internal", "events.k8s.io/__internal"};
    if (std::find(std::begin(kReadable), std::end(kReadable), version) != std::end(kReadable)) {
      return Status(StatusReason::kBadRequest,
                    fmt::format("the API version in the data ({}) does not match the expected API "
                                "version ({})",
                                version, expected));
    }
  }
  const std::string_view short_version = version.substr(version.find('/') + 1);
  const std::string why = short_version.empty()
                              ? fmt::format("Object 'apiVersion' is missing in '{}'", body)
                              : fmt::format("no kind {} is registered for version {}",
                                            Quoted(actual_kind), Quoted(version));
  return Status(StatusReason::kBadRequest,
                fmt::format("{} in version {} cannot be handled as a {}: {}", actual_kind,
                            Quoted(short_version), kind, why));
}

Status CannotBeHandled(std::string_view kind, std::string_view why) {
  return Status(StatusReason::kBadRequest,
                fmt::format("{} in version \"v1\" cannot be handled as a {}: {}", kind, kind, why));
}

Status Unrecognized(std::string_view why, std::string_view kind, std::string_view body) {
  return Status(StatusReason::kBadRequest,
                fmt::format("the object provided is unrecognized (must be of type {}): {} ({})",
                            kind, why, Summary(body)));
}

Status TooLarge() {
  return Status(StatusReason::kRequestEntityTooLarge,
                fmt::format("Request entity too large: limit is {}", kMaxRequestBytes));
}

}  // namespace herald
