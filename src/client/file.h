#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "herald/base/status.h"

namespace herald {

// The largest configuration, certificate or token file that is read: kubeconfigs of
// hundreds of clusters are below it, a device that never ends is not.
inline constexpr std::size_t kMaxFileBytes = 8 << 20;

// A file's bytes. A refusal names the file; kNotFound where it does not exist.
Result<std::string> ReadFile(const std::string& path);

// Without white space at either end.
std::string_view Trimmed(std::string_view text);

}  // namespace herald
