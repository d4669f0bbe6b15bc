#pragma once

#include <cstddef>
#include <string>

#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// The largest configuration, certificate or token file that is read (8 MiB). Kubeconfigs with
// hundreds of clusters are smaller; the limit stops reading from an endless device.
inline constexpr std::size_t kMaxFileBytes = 8 << 20;

// Reads a whole file. Errors name the file and are kNotFound if it does not exist.
HERALD_EXPORT Result<std::string> ReadFile(const std::string& path);

}  // namespace herald
