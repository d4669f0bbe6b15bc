#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/token_bucket.h"
#include "herald/record/correlation.h"
#include "record/correlate/correlator.h"
#include "record/correlate/event_key.h"
#include "record/correlate/key_cache.h"
#include "record/correlate/similar_events.h"

namespace herald {

// A CountCorrelator decides what one recorded event in the old style becomes on the
// wire: a new object, a patch to one written earlier, or nothing.
//
// It exists because a crash-looping pod says the same thing every few seconds, and the
// API server pays for each copy. Three stages, in this order:
//
//   aggregate  from the 10th distinct message for one source, object and reason (each
//              within 10 min of the last): one "combined" event
//   observe    seen before: count + 1, sent as a patch
//   filter     token bucket per source and object: burst 25, one back per 5 min; with
//              fair_filter per reason as well, and only for what was seen before
//
// The filter is last on purpose. A suppressed event has already been counted, so the
// next one let through tells the true count. client-go does the same
// (tools/record/events_cache.go, EventCorrelate); CountScenarios replays it.
//
// Where upstream loses or garbles events, it is not followed unless `upstream_exact`:
//   - the parts of keys are kept apart (EventKeyBuilder);
//   - a combined event keeps all but message and times of the event that it was made
//     of: annotations, reporter, and the name, which is valid and nobody else's.
//     Upstream makes one up from the time, which may be neither;
//   - the server's answer is remembered under the key of what was asked, not under
//     that of the answer, which for combined events nobody ever looks up;
//   - an event that was never written is created, even if it is recorded with a count.
//
// Thread-confined: each sink's sequencer owns one.
class CountCorrelator final : public Correlator {
 public:
  // A zero among the options means client-go's default.
  CountCorrelator(CountOptions options, bool upstream_exact);

  // The functions among the options are called from here. One that throws is passed
  // over in favour of client-go's.
  Correlation Correlate(std::shared_ptr<const Event> event, WallTime now,
                        SteadyTime steady) override;
  void Learn(const std::string& key, const Event& answer) override;
  void Drop(const std::string& /*key*/) override {}

  // Counted events are written as they come or not at all: nothing is ever due.
  std::vector<Correlation> TakeDue(SteadyTime steady, bool all) override;
  std::optional<SteadyTime> NextDue() const override;

 private:
  // The caches are what a correlator weighs (4096 entries each), so an entry holds as
  // little as will do.

  // What was last written, or would have been.
  struct Written {
    void Set(const Event& event);

    std::string name;
    std::string resource_version;
    Time first_timestamp;
    std::int32_t count = 0;
  };

  // What keys are made of, hashed once.
  struct Parts {
    EventKey source;  // who says something about what: the key of the spam filter
    EventKey message;
  };
  Parts PartsOf(const Event& event);
  EventKey GroupKey(const Event& event, const Parts& parts);
  EventKey FullKey(const Event& event, const Parts& parts);
  void AddSource(const Event& event, const Parts& parts, std::string_view field_path);

  // Whether the event is to be combined with others; *key is then its group's.
  bool JoinGroup(const Event& event, const Parts& parts, SteadyTime steady, EventKey* key);
  std::shared_ptr<Event> Combined(const Event& event, WallTime now);
  std::string CombinedName(const Event& event, WallTime now);
  bool IsSpam(const Event& observed, const Parts& parts, SteadyTime steady);
  std::int32_t OneMore(std::int32_t count) const;

  const CountOptions options_;
  const TokenBucket::Limits limits_;
  const bool upstream_exact_;
  const bool fair_filter_;
  WallTime last_name_time_;  // of the last name that was made from the time
  EventKeyBuilder keys_;
  SimilarEvents similar_;
  KeyCache<Written> written_;
  KeyCache<TokenBucket> buckets_;
};

}  // namespace herald
