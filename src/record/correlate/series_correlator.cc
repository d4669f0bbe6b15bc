#include "record/correlate/series_correlator.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "api/json/writer.h"
#include "record/correlate/key_cache.h"
#include "record/event/text_limits.h"

namespace herald {
namespace {

SeriesOptions WithDefaults(SeriesOptions options) {
  const SeriesOptions defaults;
  // Times that are not positive would make timers fire without end.
  if (options.finish_after.count() <= 0) options.finish_after = defaults.finish_after;
  if (options.refresh_every.count() <= 0) options.refresh_every = defaults.refresh_every;
  if (options.cache_entries == 0) options.cache_entries = defaults.cache_entries;
  options.cache_entries = std::min(options.cache_entries, KeyCache<int>::kMaxCapacity);
  if (options.aggregate_after == 0) options.aggregate_after = defaults.aggregate_after;
  if (options.aggregate_within.count() <= 0) options.aggregate_within = defaults.aggregate_within;
  return options;
}

// The patch of a series. It always has all members, because client-go computes it as the difference
// to a copy without a series.
std::string PatchOf(const EventSeries& series) {
  JsonWriter writer;
  writer.Raw(R"({"series":{"count":)");
  writer.Int(series.count);
  writer.Raw(R"(,"lastObservedTime":)");
  if (series.last_observed_time.is_zero()) {
    writer.Raw("null}}");
  } else {
    writer.Ensure(Timestamp::kMaxTextBytes + 1);
    writer.Put('"');
    writer.set_pos(series.last_observed_time.WriteTo(writer.pos()));
    writer.Raw("\"}}");
  }
  return std::string(writer.text());
}

// The time of the last occurrence.
const MicroTime& LastTime(const Event& event) {
  return event.series ? event.series->last_observed_time : event.event_time;
}

// The steady time of a wall time, clamped to the range of steady times.
SteadyTime SteadyAt(const Timestamp& time, std::chrono::nanoseconds wall_offset) {
  const std::int64_t wall = time.ToWallTime().time_since_epoch().count();
  // Half of the range, 146 years, so that the difference of two times is in range as well.
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 2;
  const std::int64_t near_wall = std::clamp(wall, -kFar, kFar);
  return SteadyTime(std::chrono::nanoseconds(std::clamp(
      near_wall - std::clamp<std::int64_t>(wall_offset.count(), -kFar, kFar), -kFar, kFar)));
}

// The first of the ticks, `period` apart, that is after `steady`.
SteadyTime NextTick(SteadyTime tick, std::chrono::seconds period, SteadyTime steady) {
  if (tick > steady) return tick;
  return tick + ((steady - tick) / std::chrono::nanoseconds(period) + 1) *
                    std::chrono::nanoseconds(period);
}

}  // namespace

SeriesCorrelator::SeriesCorrelator(SeriesOptions options, bool upstream_exact)
    : options_(WithDefaults(options)),
      upstream_exact_(upstream_exact),
      keys_(
          /*join_like_upstream=*/false),  // client-go's key is a struct, so its parts are separate
      cache_(upstream_exact ? std::numeric_limits<std::size_t>::max() : options_.cache_entries),
      similar_(options_.cache_entries, options_.aggregate_after, options_.aggregate_within) {}

Correlation SeriesCorrelator::Correlate(std::shared_ptr<const Event> event, WallTime now,
                                        SteadyTime steady) {
  if (upstream_exact_) {
    StartTicks(steady);
    wall_offset_ = now.time_since_epoch() - steady.time_since_epoch();
  }
  EventKey key = BaseKeyOf(*event);
  bool combine = false;
  if (!upstream_exact_) {
    combine = similar_.Join(key, keys_.Of(event->message).low, steady);
    keys_.Start(combine ? 'c' : 'n').Add(key);
    key = (combine ? keys_ : keys_.Add(event->message)).Finish();
  }
  Entry* entry = cache_.Get(key);
  if (entry != nullptr && !upstream_exact_ && HasEnded(*entry, steady)) {
    Leave(key, entry, steady);
    cache_.Erase(key);
    entry = nullptr;
  }
  if (entry == nullptr) {
    return Begin(key, combine ? Combined(*event) : std::move(event), steady);
  }
  return Repeat(key, entry, now, steady);
}

Correlation SeriesCorrelator::Begin(const EventKey& key, std::shared_ptr<const Event> event,
                                    SteadyTime steady) {
  Entry entry;
  entry.series = event->series;
  entry.observed = steady;
  if (upstream_exact_) {
    entry.observed = SteadyAt(LastTime(*event), wall_offset_);
  }
  entry.number = ++numbers_;
  entry.event = std::move(event);
  if (auto evicted = cache_.Put(key, std::move(entry))) {
    auto& [old_key, old] = *evicted;
    if (!old.IsAllSent()) {
      Leave(old_key, &old, steady);
    } else if (old.series) {
      schedule_.erase({old.scheduled, old_key});
    }
  }
  Entry* const kept = &(*cache_.begin()).value;  // the most recently used entry
  Correlation result = Write(key, kept, steady);
  if (kept->series && !upstream_exact_) Schedule(key, kept);
  return result;
}

Correlation SeriesCorrelator::Repeat(const EventKey& key, Entry* entry, WallTime now,
                                     SteadyTime steady) {
  entry->observed = steady;
  entry->finishing = false;
  if (!entry->series) {
    entry->series = EventSeries{.count = 2, .last_observed_time = MicroTime(now)};
    Correlation result = Write(key, entry, steady);
    if (!upstream_exact_) Schedule(key, entry);
    return result;
  }
  EventSeries& series = *entry->series;
  const bool all_sent = entry->IsAllSent();
  if (upstream_exact_ || series.count != std::numeric_limits<std::int32_t>::max()) {
    series.count = static_cast<std::int32_t>(static_cast<std::uint32_t>(series.count) + 1);
  }
  series.last_observed_time = MicroTime(now);
  // A heartbeat is due now, maybe earlier than the scheduled time.
  if (all_sent && !upstream_exact_ && DueTime(*entry) < entry->scheduled) {
    schedule_.erase({entry->scheduled, key});
    Schedule(key, entry);
  }
  Correlation result;
  result.action = Correlation::Action::kMerge;
  result.key = StateKey(key, *entry);
  return result;
}

void SeriesCorrelator::Learn(const std::string& key, const Event& answer) {
  // Otherwise the answer is not used: the patch needs no resource version, and changes by an
  // admission controller must not change which events are merged.
  if (!upstream_exact_) return;
  Entry* const entry = Find(key).second;
  if (entry == nullptr) return;
  if (entry->finishing) return Drop(key);
  if (!entry->refreshing) return;
  entry->refreshing = false;
  // client-go counts nothing while it waits for the answer.
  if (!entry->IsAllSent()) return;
  entry->event = std::make_shared<const Event>(answer);
  entry->series = answer.series;
  entry->sent = entry->Count();
  entry->observed = SteadyAt(LastTime(answer), wall_offset_);
}

void SeriesCorrelator::Drop(const std::string& key) {
  if (!upstream_exact_) return;
  const auto [known, entry] = Find(key);
  if (entry != nullptr && entry->finishing) cache_.Erase(known);
}

std::pair<EventKey, SeriesCorrelator::Entry*> SeriesCorrelator::Find(const std::string& state_key) {
  const auto key = EventKey::FromBytes(std::string_view(state_key).substr(0, EventKey::kBytes));
  if (!key) return {EventKey(), nullptr};
  Entry* const entry = cache_.Get(*key);
  const bool same = entry != nullptr && StateKey(*key, *entry) == state_key;
  return {*key, same ? entry : nullptr};
}

std::vector<Correlation> SeriesCorrelator::TakeDue(SteadyTime steady, bool all) {
  if (upstream_exact_) {
    StartTicks(steady);
    RunTicks(steady, &leaving_);
  }
  std::vector<Correlation> due = std::exchange(leaving_, {});
  while (!schedule_.empty() && schedule_.begin()->first <= steady) {
    const EventKey key = schedule_.begin()->second;
    schedule_.erase(schedule_.begin());
    Entry* const entry = cache_.Get(key);  // marks it as used, which is harmless
    if (HasEnded(*entry, steady)) {
      due.push_back(Write(key, entry, steady));
      cache_.Erase(key);
      continue;
    }
    if (DueTime(*entry) <= steady) {
      due.push_back(Write(key, entry, steady));
      const std::chrono::nanoseconds longest = options_.refresh_every;
      entry->heartbeat = std::min(2 * entry->heartbeat, longest);
    }
    Schedule(key, entry);
  }
  if (all) {
    for (auto [key, entry] : cache_) {
      if (!entry.IsAllSent()) due.push_back(Write(key, &entry, steady));
    }
  }
  return due;
}

std::optional<SteadyTime> SeriesCorrelator::NextDue() const {
  if (!leaving_.empty()) return leaving_since_;
  if (!schedule_.empty()) return schedule_.begin()->first;
  if (ticking_ && cache_.size() != 0) return std::min(next_finish_, next_refresh_);
  return std::nullopt;
}

Correlation SeriesCorrelator::Write(const EventKey& key, Entry* entry, SteadyTime steady) {
  Correlation result;
  result.key = StateKey(key, *entry);
  SinkRequest& request = result.request;
  request.api = EventApi::kEventsV1;
  request.event = entry->event;
  if (entry->series) {
    if (entry->event->series != entry->series) {
      auto event = std::make_shared<Event>(*entry->event);
      event->series = entry->series;
      request.event = std::move(event);
    }
    request.verb = SinkRequest::Verb::kPatch;
    request.patch = PatchOf(*entry->series);
  }
  entry->sent = entry->Count();
  entry->sent_at = steady;
  return result;
}

std::string SeriesCorrelator::StateKey(const EventKey& key, const Entry& entry) {
  std::string state = key.ToBytes();
  for (int shift = 0; shift < 32; shift += 8) {
    state.push_back(static_cast<char>(entry.number >> shift & 0xff));
  }
  return state;
}

bool SeriesCorrelator::HasEnded(const Entry& entry, SteadyTime steady) const {
  // Strictly later, as in client-go. `observed` may be in the future with upstream_exact only.
  return entry.observed < steady && steady - entry.observed > options_.finish_after;
}

SteadyTime SeriesCorrelator::DueTime(const Entry& entry) const {
  constexpr std::chrono::nanoseconds kMoreThan{1};
  const SteadyTime end = entry.observed + options_.finish_after + kMoreThan;
  if (entry.IsAllSent()) return end;
  return std::min(end, entry.sent_at + entry.heartbeat);
}

// REQUIRES: it is a series and not in the schedule
void SeriesCorrelator::Schedule(const EventKey& key, Entry* entry) {
  if (entry->heartbeat.count() == 0) {
    entry->heartbeat = std::min(kFirstHeartbeat, options_.refresh_every);
  }
  entry->scheduled = DueTime(*entry);
  schedule_.emplace(entry->scheduled, key);
}

void SeriesCorrelator::Leave(const EventKey& key, Entry* entry, SteadyTime steady) {
  if (!entry->series) return;
  schedule_.erase({entry->scheduled, key});
  if (leaving_.empty()) leaving_since_ = steady;
  leaving_.push_back(Write(key, entry, steady));
}

void SeriesCorrelator::StartTicks(SteadyTime steady) {
  if (!ticking_) {
    ticking_ = true;
    next_finish_ = steady + options_.finish_after;
    next_refresh_ = steady + options_.refresh_every;
  } else if (cache_.size() == 0) {
    // Without entries there are no calls at the ticks, so ticks have passed meanwhile.
    next_finish_ = NextTick(next_finish_, options_.finish_after, steady);
    next_refresh_ = NextTick(next_refresh_, options_.refresh_every, steady);
  }
}

void SeriesCorrelator::RunTicks(SteadyTime steady, std::vector<Correlation>* due) {
  if (next_finish_ <= steady) {
    next_finish_ = NextTick(next_finish_, options_.finish_after, steady);
    std::vector<EventKey> ended;
    for (auto [key, entry] : cache_) {
      if (!HasEnded(entry, steady)) continue;
      if (!entry.series) {
        ended.push_back(key);
        continue;
      }
      due->push_back(Write(key, &entry, steady));
      entry.finishing = true;
    }
    for (const EventKey& key : ended) cache_.Erase(key);
  }
  if (next_refresh_ <= steady) {
    next_refresh_ = NextTick(next_refresh_, options_.refresh_every, steady);
    for (auto [key, entry] : cache_) {
      // A series that ended at this tick is being written.
      if (!entry.series || entry.finishing) continue;
      due->push_back(Write(key, &entry, steady));
      entry.refreshing = true;
    }
  }
}

std::shared_ptr<const Event> SeriesCorrelator::Combined(const Event& event) {
  auto combined = std::make_shared<Event>(event);
  combined->message.insert(0, kCombinedPrefix);
  CutText(kMaxNote, &combined->message);
  return combined;
}

EventKey SeriesCorrelator::BaseKeyOf(const Event& event) {
  keys_.Start('s')
      .Add(event.type)
      .Add(event.action)
      .Add(event.reason)
      .Add(event.reporting_controller)
      .Add(event.reporting_instance);
  const auto add = [this](const ObjectReference& object) {
    keys_.Add(object.kind)
        .Add(object.namespace_)
        .Add(object.name)
        .Add(object.uid)
        .Add(object.api_version)
        .Add(object.field_path);
    if (upstream_exact_) keys_.Add(object.resource_version);
  };
  add(event.involved_object);
  // No related object and an empty one have the same key.
  static const ObjectReference kNone;
  add(event.related ? *event.related : kNone);
  return keys_.Finish();
}

}  // namespace herald
