#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/lru_map.h"
#include "herald/record/correlation.h"
#include "record/correlate/correlator.h"
#include "record/correlate/event_key.h"
#include "record/correlate/similar_events.h"

namespace herald {

// A SeriesCorrelator decides what is sent for a new-style event. Events that differ only in their
// times are occurrences of the same event:
//
//   1st       a new object
//   2nd       it becomes a series: count 2, sent as a patch
//   further   counted; written by a heartbeat while the series is open, and by a last
//             patch when it ends, after 6 min without an occurrence
//
// The last patch is sent even if the count is not new: it creates an event again that the server
// has deleted. A single event that is not repeated within 6 min is forgotten. client-go does the
// same (tools/events/event_broadcaster.go); SeriesScenarios compares both.
//
// Unless `upstream_exact`, it differs where client-go loses events:
//   - The note is part of the key. client-go merges events that differ only in the note, so
//     of "container a failed", b and c only the first is written. A server does not allow
//     to change a note, so another note needs another event. From the 10th different note
//     on (each within 10 min of the last) they are one combined series (SimilarEvents), so
//     a note that contains a number does not become a thousand events.
//   - The resource versions of the objects are not part of the key. An object that changes
//     with each event, such as a failing pod, would never have a series.
//   - Heartbeats: the first is due kFirstHeartbeat after the start of the series, each later
//     one after twice the time, up to refresh_every. client-go has only the latter, so
//     30 minutes of failures look like two occurrences.
//   - A series ends at its time, and not at the next tick, at which client-go checks all.
//   - The cache is limited. The unwritten count of an evicted series is returned by
//     TakeDue(), so the caller asks NextDue() after each Correlate().
//
// With `upstream_exact` the ticks start at the first call of Correlate() or TakeDue(), the answer
// of the server to a refresh replaces the remembered event, and a series that ended stays until its
// last count was written or rejected.
//
// Thread-confined: each sink's sequencer owns one.
class SeriesCorrelator final : public Correlator {
 public:
  // How long after its start the count of a series is written first. Long enough that a burst is
  // one write, and short enough that somebody who looks at a failing pod sees that it still fails.
  static constexpr std::chrono::seconds kFirstHeartbeat{60};

  // An option that is zero means client-go's default.
  SeriesCorrelator(SeriesOptions options, bool upstream_exact);

  Correlation Correlate(std::shared_ptr<const Event> event, WallTime now,
                        SteadyTime steady) override;
  void Learn(const std::string& key, const Event& answer) override;
  void Drop(const std::string& key) override;

  // A series that is returned because of `all` stays open.
  std::vector<Correlation> TakeDue(SteadyTime steady, bool all) override;

  // May be early, so that TakeDue() returns nothing then: the time is not updated at each
  // occurrence of a series.
  std::optional<SteadyTime> NextDue() const override;

 private:
  struct Entry {
    std::int32_t Count() const { return series ? series->count : 1; }
    bool IsAllSent() const { return sent == Count(); }

    std::shared_ptr<const Event> event;  // its `series` is not used
    std::optional<EventSeries> series;   // from the second occurrence on
    SteadyTime observed;                 // the last occurrence
    std::uint32_t number = 0;            // differs from that of earlier entries with the same key
    std::int32_t sent = 0;               // the count of the last write
    // The members below are for series only.
    SteadyTime sent_at;
    std::chrono::nanoseconds heartbeat{0};  // from sent_at to the next
    SteadyTime scheduled;                   // its time in schedule_
    bool refreshing = false;                // upstream_exact: the next answer replaces the event
    bool finishing = false;                 // upstream_exact: removed with the next answer
  };
  using Cache = LruMap<EventKey, Entry, EventKeyHash>;

  // The key without the note.
  EventKey BaseKeyOf(const Event& event);
  static std::shared_ptr<const Event> Combined(const Event& event);
  Correlation Begin(const EventKey& key, std::shared_ptr<const Event> event, SteadyTime steady);
  Correlation Repeat(const EventKey& key, Entry* entry, WallTime now, SteadyTime steady);

  // The write of everything that was counted.
  Correlation Write(const EventKey& key, Entry* entry, SteadyTime steady);
  // The entry of a state key, or null if it was removed.
  std::pair<EventKey, Entry*> Find(const std::string& state_key);
  static std::string StateKey(const EventKey& key, const Entry& entry);

  bool HasEnded(const Entry& entry, SteadyTime steady) const;
  SteadyTime DueTime(const Entry& entry) const;
  void Schedule(const EventKey& key, Entry* entry);
  // Removes a series from the schedule, and adds the write of its count to leaving_.
  void Leave(const EventKey& key, Entry* entry, SteadyTime steady);

  void StartTicks(SteadyTime steady);
  void RunTicks(SteadyTime steady, std::vector<Correlation>* due);

  const SeriesOptions options_;
  const bool upstream_exact_;
  EventKeyBuilder keys_;
  Cache cache_;
  SimilarEvents similar_;
  std::uint32_t numbers_ = 0;

  // Each series once, with the latest time at which it must be checked. Single events are not
  // checked until they are repeated.
  std::set<std::pair<SteadyTime, EventKey>> schedule_;
  // Writes of series that were removed from the cache, and since when they wait.
  std::vector<Correlation> leaving_;
  SteadyTime leaving_since_;

  // Only with upstream_exact: the next ticks, and the difference of wall and steady time.
  bool ticking_ = false;
  SteadyTime next_refresh_;
  SteadyTime next_finish_;
  std::chrono::nanoseconds wall_offset_{0};
};

}  // namespace herald
