#pragma once

#include <cstddef>
#include <string>

#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// The largest configuration, certificate or token file that is read: kubeconfigs of
// hundreds of clusters are below it, a device that never ends is not.
inline constexpr std::size_t kMaxFileBytes = 8 << 20;

// A file's bytes. A refusal names the file; kNotFound where it does not exist.
HERALD_EXPORT Result<std::string> ReadFile(const std::string& path);

}  // namespace herald
