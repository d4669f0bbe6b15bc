#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limit/token_bucket.h"
#include "herald/record/correlation.h"
#include "record/correlate/correlator.h"
#include "record/correlate/event_key.h"
#include "record/correlate/key_cache.h"
#include "record/correlate/similar_events.h"

namespace herald {

// A CountCorrelator decides what is sent for an old-style event: a create, a patch of an event that
// was written earlier, or nothing.
//
// It exists because a crash-looping pod causes the same event every few seconds, and each would be
// an object on the API server. Three stages, in this order:
//
//   aggregate  from the 10th distinct message for one source, object and reason (each
//              within 10 min of the last): one "combined" event
//   observe    seen before: count + 1, sent as a patch
//   filter     token bucket per source and object: burst 25, one back per 5 min; with
//              fair_filter per reason as well, and only for what was seen before
//
// The filter is the last stage on purpose. A suppressed event is counted already, so the next one
// that passes has the true count. client-go does the same (tools/record/events_cache.go,
// EventCorrelate); CountScenarios compares both.
//
// Unless `upstream_exact`, it differs where client-go loses events: (1) the parts of a key are
// separated (EventKeyBuilder); (2) a combined event keeps all members of the event that it was made
// of, except message and times. Its name is valid and unique, while client-go makes a name of the
// time, which may be neither; (3) the answer of the server is stored under the key of the request.
// client-go uses the key of the answer, which is never looked up for combined events; (4) an event
// that was never written is created, even if it is recorded with a count.
//
// Thread-confined: each sink's sequencer owns one.
class CountCorrelator final : public Correlator {
 public:
  // An option that is zero means client-go's default.
  CountCorrelator(CountOptions options, bool upstream_exact);

  // Calls the functions among the options. If one throws, client-go's default is used instead.
  Correlation Correlate(std::shared_ptr<const Event> event, WallTime now,
                        SteadyTime steady) override;
  void Learn(const std::string& key, const Event& answer) override;
  void Drop(const std::string& /*key*/) override {}

  // Returns nothing: counted events are written when they are correlated, or never.
  std::vector<Correlation> TakeDue(SteadyTime steady, bool all) override;
  std::optional<SteadyTime> NextDue() const override;

 private:
  // The caches are most of a correlator's memory (4096 entries each), so entries are small.

  // The event that was last sent, or would have been without the filter.
  struct Written {
    void Set(const Event& event);

    std::string name;
    std::string resource_version;
    Time first_timestamp;
    std::int32_t count = 0;
  };

  // Hashes that several keys are made of.
  struct Parts {
    EventKey source;  // of the source and the object: the key of the spam filter
    EventKey message;
  };
  Parts PartsOf(const Event& event);
  EventKey GroupKey(const Event& event, const Parts& parts);
  EventKey FullKey(const Event& event, const Parts& parts);
  void AddSource(const Event& event, const Parts& parts, std::string_view field_path);

  // Whether the event is combined with others. *key is then the key of its group.
  bool JoinGroup(const Event& event, const Parts& parts, SteadyTime steady, EventKey* key);
  std::shared_ptr<Event> Combined(const Event& event, WallTime now);
  std::string CombinedName(const Event& event, WallTime now);
  bool IsSpam(const Event& observed, const Parts& parts, SteadyTime steady);
  std::int32_t OneMore(std::int32_t count) const;

  const CountOptions options_;
  const TokenBucket::Limits limits_;
  const bool upstream_exact_;
  const bool fair_filter_;
  WallTime last_name_time_;  // of the last name that was made of the time
  EventKeyBuilder keys_;
  SimilarEvents similar_;
  KeyCache<Written> written_;
  KeyCache<TokenBucket> buckets_;
};

}  // namespace herald
