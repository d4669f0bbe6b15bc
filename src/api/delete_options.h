#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// metav1.DeleteOptions, the body of a DELETE request.
struct DeleteOptions {
  std::optional<std::int64_t> grace_period_seconds{};
  std::optional<std::string> precondition_uid{};
  std::optional<std::string> precondition_resource_version{};
  std::optional<bool> orphan_dependents{};
  std::optional<std::string> propagation_policy{};
  std::vector<std::string> dry_run{};

  bool operator==(const DeleteOptions&) const = default;
};

// Decode the body of a DELETE request. Unknown fields are ignored. Errors are kBadRequest.
HERALD_EXPORT Result<DeleteOptions> DecodeDeleteOptionsJson(std::string_view json);
HERALD_EXPORT Result<DeleteOptions> DecodeDeleteOptionsProtobuf(std::string_view data);

}  // namespace herald
