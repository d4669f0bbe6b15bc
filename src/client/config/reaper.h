#pragma once

#include <functional>

namespace herald {

// Runs `destroy` on a new thread, which is joined before the process ends.
//
// For objects that cannot be destroyed on the current thread: a client whose last reference is
// dropped in one of its own callbacks would wait for itself. Thread-safe.
void DestroyElsewhere(std::function<void()> destroy);

}  // namespace herald
