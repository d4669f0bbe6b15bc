#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread/mutex.h"
#include "herald/api/event.h"
#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "server/access/identity.h"

namespace herald::server {

// How many events the server takes: in all, per namespace, per user, and per source and
// object, each a token bucket. Configured by the file that kube-apiserver's admission
// plugin EventRateLimit reads. Unlike there the limits hold for both APIs, and a refusal
// says when to come back, so that recorders do not give the event up
// (doc/compatibility.md).
//
// Thread-safe.
class EventRateLimit {
 public:
  // Takes everything.
  EventRateLimit();
  ~EventRateLimit();
  EventRateLimit(const EventRateLimit&) = delete;
  EventRateLimit& operator=(const EventRateLimit&) = delete;

  // Sets the limits from a file, with all buckets full. On an error, which names the
  // file and the member, everything stays as it was.
  Status Load(const std::string& file);

  // Takes a token of every limit that the event counts against; kTooManyRequests where
  // one has none left. `now` is steady time.
  Status Admit(const User& user, const Event& event, SteadyTime now);

 private:
  class Limit;

  Mutex mu_;
  std::vector<std::unique_ptr<Limit>> limits_ GUARDED_BY(mu_);
};

}  // namespace herald::server
