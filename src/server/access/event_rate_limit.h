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

// Limits the rate of events with token buckets: for the whole server, per namespace, per user, and
// per source and object. The configuration file is that of kube-apiserver's EventRateLimit
// admission plugin. Unlike the plugin, the limits apply to both event APIs, and the 429 response
// has a Retry-After header, so that recorders retry instead of dropping the event
// (doc/compatibility.md).
//
// Thread-safe.
class EventRateLimit {
 public:
  // Has no limits.
  EventRateLimit();
  ~EventRateLimit();
  EventRateLimit(const EventRateLimit&) = delete;
  EventRateLimit& operator=(const EventRateLimit&) = delete;

  // Reads the limits from a file and fills all buckets. On an error, which names the file and the
  // member, the old limits stay in use.
  Status Load(const std::string& file);

  // Takes a token from every limit that applies to the event. Fails with kTooManyRequests if one of
  // them has no token left.
  Status Admit(const User& user, const Event& event, SteadyTime now);

 private:
  class Limit;

  Mutex mu_;
  std::vector<std::unique_ptr<Limit>> limits_ GUARDED_BY(mu_);
};

}  // namespace herald::server
