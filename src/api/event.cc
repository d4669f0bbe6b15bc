#include "herald/api/event.h"

namespace herald {

std::string_view ApiVersionName(EventApi api) {
  return api == EventApi::kCoreV1 ? "v1" : "events.k8s.io/v1";
}

std::string_view ApiGroupName(EventApi api) {
  return api == EventApi::kCoreV1 ? "" : "events.k8s.io";
}

}  // namespace herald
