#include "base/limit/token_bucket.h"

#include <algorithm>
#include <chrono>

namespace herald {
namespace {

// Go's Duration.Seconds(): converts whole seconds and the remainder separately. Dividing all
// nanoseconds by 1e9 would round differently.
double ToSeconds(std::chrono::nanoseconds d) {
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(d);
  return static_cast<double>(whole.count()) + static_cast<double>((d - whole).count()) / 1e9;
}

}  // namespace

// Each step is a statement of its own, and this file is compiled without contraction
// (CMakeLists.txt): a fused multiply-add, the default on arm64, would keep digits that upstream
// rounds.
bool TokenBucket::TryTake(const Limits& limits, SteadyTime now) {
  const double rate = static_cast<double>(limits.qps);
  const double full = limits.burst;

  double tokens = full;
  if (last_ != kNever) {
    const double seconds = now > last_ ? ToSeconds(now - last_) : 0;
    const double earned = rate > 0 ? seconds * rate : 0;
    tokens = std::min(tokens_ + earned, full);
  }
  tokens -= 1;

  if (limits.burst < 1) return false;
  if (tokens < 0) {
    if (rate <= 0) return false;
    const double wait_ns = (-tokens / rate) * 1e9;
    if (wait_ns >= 1) return false;
  }
  tokens_ = tokens;
  last_ = now;
  return true;
}

}  // namespace herald
