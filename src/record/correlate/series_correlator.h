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

// A SeriesCorrelator decides what one recorded event in the new style becomes on the
// wire. Events that agree in all but their times are occurrences of one thing:
//
//   1st       a new object
//   2nd       it becomes a series: count 2, sent as a patch
//   further   counted; written by a heartbeat while the series goes on, and by a last
//             patch once it was silent for 6 min and has ended
//
// The last patch is sent even if it has nothing new to say: it brings back an event
// that the server forgot. A single event that is not repeated within 6 min is forgotten.
// All of this is what client-go does (tools/events/event_broadcaster.go);
// SeriesScenarios replays it.
//
// Where upstream loses events, it is not followed unless `upstream_exact`:
//   - the note is part of the key. Upstream takes events that differ in it for one
//     another, so "container a failed" is all that is ever read of a, b and c. A server
//     lets nobody change a note, so a new one needs a new event. Lest a note with a
//     number in it makes a thousand of them, from the 10th different note on (each within
//     10 min of the last) they are one combined series (SimilarEvents);
//   - the resource versions of the objects are no part of the key. An object that
//     changes with each event, as a pod in trouble does, would never have a series;
//   - heartbeats: the first is due kFirstHeartbeat after the series began, each later
//     one after twice the time, up to refresh_every. Upstream has the latter alone, so
//     that 30 minutes of trouble look like two occurrences;
//   - the end of a series is noticed when it comes, not at the next of the ticks that
//     upstream looks at all series at;
//   - the cache is bounded. What falls out with a count that was not written yet is
//     handed out by TakeDue(), so whoever correlates has to ask NextDue() afterwards.
//
// With `upstream_exact` the ticks begin with the first call of Correlate() or
// TakeDue(), what the server answers to a refresh replaces what is remembered, and a
// series that has ended stays until its last count was written or refused.
//
// Thread-confined: each sink's sequencer owns one.
class SeriesCorrelator final : public Correlator {
 public:
  // How long a watcher of a series waits for the first news of it. Long enough that a
  // burst is one write, short enough that somebody who looks at a pod that fails sees
  // that it goes on failing.
  static constexpr std::chrono::seconds kFirstHeartbeat{60};

  // A zero among the options means client-go's default.
  SeriesCorrelator(SeriesOptions options, bool upstream_exact);

  Correlation Correlate(std::shared_ptr<const Event> event, WallTime now,
                        SteadyTime steady) override;
  void Learn(const std::string& key, const Event& answer) override;
  void Drop(const std::string& key) override;

  // A series that is taken because of `all` stays open.
  std::vector<Correlation> TakeDue(SteadyTime steady, bool all) override;

  // May be early, and TakeDue() then have nothing: the time is not corrected for each
  // occurrence of a series, only when it has come.
  std::optional<SteadyTime> NextDue() const override;

 private:
  struct Entry {
    std::int32_t Count() const { return series ? series->count : 1; }
    bool IsAllSent() const { return sent == Count(); }

    std::shared_ptr<const Event> event;  // without regard to its `series`
    std::optional<EventSeries> series;   // from the second occurrence on
    SteadyTime observed;                 // the last occurrence
    std::uint32_t number = 0;            // tells it from others that have had its key
    std::int32_t sent = 0;               // the count that was handed out last
    // The rest is about series.
    SteadyTime sent_at;
    std::chrono::nanoseconds heartbeat{0};  // from sent_at to the next
    SteadyTime scheduled;                   // where it is in schedule_
    bool refreshing = false;                // upstream_exact: the next answer counts
    bool finishing = false;                 // upstream_exact: it leaves with the answer
  };
  using Cache = LruMap<EventKey, Entry, EventKeyHash>;

  // The key of all but the note.
  EventKey BaseKeyOf(const Event& event);
  static std::shared_ptr<const Event> Combined(const Event& event);
  Correlation Begin(const EventKey& key, std::shared_ptr<const Event> event, SteadyTime steady);
  Correlation Repeat(const EventKey& key, Entry* entry, WallTime now, SteadyTime steady);

  // The write that tells all there is to tell.
  Correlation Write(const EventKey& key, Entry* entry, SteadyTime steady);
  // The entry that a state key stands for, if it is still there.
  std::pair<EventKey, Entry*> Find(const std::string& state_key);
  static std::string StateKey(const EventKey& key, const Entry& entry);

  bool HasEnded(const Entry& entry, SteadyTime steady) const;
  SteadyTime DueTime(const Entry& entry) const;
  void Schedule(const EventKey& key, Entry* entry);
  // A series that is forgotten: what it has to say goes to leaving_.
  void Leave(const EventKey& key, Entry* entry, SteadyTime steady);

  void StartTicks(SteadyTime steady);
  void RunTicks(SteadyTime steady, std::vector<Correlation>* due);

  const SeriesOptions options_;
  const bool upstream_exact_;
  EventKeyBuilder keys_;
  Cache cache_;
  SimilarEvents similar_;
  std::uint32_t numbers_ = 0;

  // Each series once, at the latest time at which it needs a look. Single events need
  // none: whether one has ended is asked when it is repeated.
  std::set<std::pair<SteadyTime, EventKey>> schedule_;
  // Writes of series that are in the cache no more, and since when they wait.
  std::vector<Correlation> leaving_;
  SteadyTime leaving_since_;

  // With upstream_exact only: when it looks at all series next, and what to add to the
  // steady time to get the wall's.
  bool ticking_ = false;
  SteadyTime next_refresh_;
  SteadyTime next_finish_;
  std::chrono::nanoseconds wall_offset_{0};
};

}  // namespace herald
