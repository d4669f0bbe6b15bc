#pragma once

#include <string>

#include "herald/base/export.h"

namespace herald {

// A random UUID (RFC 9562, version 4) in lower case, as in Kubernetes:
// "3f2b8c1e-5d47-4a90-b6e3-0c9d1f7a8e52".
//
// Thread-safe. Each UUID takes a system call. A pool would be faster, but a forked child would
// return the same UUIDs as its parent.
HERALD_EXPORT std::string RandomUuid();

}  // namespace herald
