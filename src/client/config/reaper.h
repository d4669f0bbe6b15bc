#pragma once

#include <functional>

namespace herald {

// Runs `destroy` on a thread of its own, which is joined before the process ends.
//
// For what cannot be destroyed where its last reference was dropped: a client whose last owner
// was one of its own callbacks would wait for itself. Thread-safe.
void DestroyElsewhere(std::function<void()> destroy);

}  // namespace herald
