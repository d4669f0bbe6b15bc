#include "base/limit/backoff.h"

#include "base/check.h"

namespace herald {
namespace {

using std::chrono::nanoseconds;

// Clamps to the range, because a cast out of range is undefined.
nanoseconds ToNanoseconds(double count) {
  if (count >= static_cast<double>(nanoseconds::max().count())) return nanoseconds::max();
  return nanoseconds(static_cast<nanoseconds::rep>(count));
}

nanoseconds Scaled(nanoseconds base, double factor) {
  return ToNanoseconds(static_cast<double>(base.count()) * factor);
}

}  // namespace

nanoseconds Jitter(nanoseconds base, double factor, double unit) {
  if (!(factor > 0)) return base;
  const nanoseconds more = ToNanoseconds(unit * factor * static_cast<double>(base.count()));
  return more > nanoseconds::max() - base ? nanoseconds::max() : base + more;
}

Backoff::Backoff(const BackoffOptions& options, std::uint64_t seed)
    : options_(options), random_(seed), base_(options.initial) {
  HERALD_CHECK(options.initial >= nanoseconds(0));
  HERALD_CHECK(options.cap >= nanoseconds(0));
}

nanoseconds Backoff::Next(SteadyTime now) {
  if (asked_ && options_.reset_after > nanoseconds(0) && now - last_ > options_.reset_after) {
    Reset();
  }
  asked_ = true;
  last_ = now;

  const nanoseconds base = base_;
  if (options_.factor > 1) {
    base_ = Scaled(base, options_.factor);
    if (options_.cap > nanoseconds(0) && base_ > options_.cap) base_ = options_.cap;
  }
  return Jitter(base, options_.jitter, random_.Unit());
}

void Backoff::Reset() { base_ = options_.initial; }

}  // namespace herald
