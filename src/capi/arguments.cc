#include "capi/arguments.h"

#include <chrono>
#include <string>

namespace herald {

std::size_t CopyOut(std::string_view string, char* buffer, std::size_t capacity) {
  if (buffer != nullptr && capacity > 0) {
    const std::size_t length = std::min(string.size(), capacity - 1);
    std::memcpy(buffer, string.data(), length);
    buffer[length] = '\0';
  }
  return string.size();
}

herald_status CheckReserved(std::uint32_t reserved, const char* name) {
  if (reserved == 0) return HERALD_OK;
  return Fail(HERALD_INVALID_ARGUMENT, fmt::format("{}.reserved must be 0", name));
}

herald_status CheckApi(int api, const char* name) {
  if (api == HERALD_API_CORE_V1 || api == HERALD_API_EVENTS_V1) return HERALD_OK;
  return Fail(HERALD_INVALID_ARGUMENT,
              fmt::format("invalid {} {}: must be a herald_api", name, api));
}

ObjectReference ToReference(const herald_reference& reference) {
  return {.kind = std::string(View(reference.kind)),
          .namespace_ = std::string(View(reference.namespace_)),
          .name = std::string(View(reference.name)),
          .uid = std::string(View(reference.uid)),
          .api_version = std::string(View(reference.api_version)),
          .resource_version = std::string(View(reference.resource_version)),
          .field_path = std::string(View(reference.field_path))};
}

herald_status ToSpool(const herald_spool_options* options, SpoolOptions* out) {
  herald_spool_options given = {};
  herald_status status = ReadSized(options, "options.spool", &given);
  if (status == HERALD_OK) status = CheckReserved(given.reserved, "options.spool");
  if (status != HERALD_OK) return status;
  if (View(given.directory).empty()) {
    return Fail(HERALD_INVALID_ARGUMENT, "options.spool.directory must not be empty");
  }
  out->directory = given.directory;
  if (given.max_bytes != 0) out->max_bytes = given.max_bytes;
  if (given.segment_bytes != 0) out->segment_bytes = given.segment_bytes;
  out->sync = given.sync != 0;
  return HERALD_OK;
}

herald_status ToOccurrence(const herald_occurrence& in, Occurrence* out) {
  if (in.type == nullptr) return FailNull("occurrence.type");
  if (in.reason == nullptr) return FailNull("occurrence.reason");
  if (in.annotations == nullptr && in.annotation_count > 0) {
    return FailNull("occurrence.annotations");
  }
  out->type = in.type;
  out->reason = in.reason;
  out->action = View(in.action);
  if (in.related != nullptr) out->related = ToReference(*in.related);
  for (std::size_t i = 0; i < in.annotation_count; ++i) {
    const herald_pair& annotation = in.annotations[i];
    if (annotation.key == nullptr) return FailNull("occurrence.annotations.key");
    out->annotations[annotation.key] = View(annotation.value);
  }
  if (in.unix_nanos != 0) out->when = WallTime(std::chrono::nanoseconds(in.unix_nanos));
  return HERALD_OK;
}

}  // namespace herald
