#pragma once

#include <string>

#include "herald/base/export.h"

namespace herald {

// A random UUID (RFC 9562, version 4) in lower case, as Kubernetes writes uids:
// "3f2b8c1e-5d47-4a90-b6e3-0c9d1f7a8e52".
//
// Thread-safe. Each one costs a call to the kernel; in return there is no pool
// that a forked child would share with its parent and hand out again.
HERALD_EXPORT std::string RandomUuid();

}  // namespace herald
