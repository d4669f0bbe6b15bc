#include "record/correlate/count_correlator.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <limits>
#include <string_view>
#include <utility>

#include "api/json/writer.h"
#include "api/quote.h"
#include "herald/api/reference.h"

namespace herald {
namespace {

CountOptions WithDefaults(CountOptions options) {
  const CountOptions defaults;
  const auto fill = [](auto* value, const auto& otherwise) {
    if (*value == std::decay_t<decltype(*value)>{}) *value = otherwise;
  };
  fill(&options.cache_entries, defaults.cache_entries);
  options.cache_entries = std::min(options.cache_entries, KeyCache<int>::kMaxCapacity);
  fill(&options.spam_burst, defaults.spam_burst);
  fill(&options.spam_qps, defaults.spam_qps);
  fill(&options.aggregate_after, defaults.aggregate_after);
  fill(&options.aggregate_within, defaults.aggregate_within);
  return options;
}

// The result of a function of the caller; nothing if there is no function, or if it throws.
// client-go's default is used then, and no event is lost.
template <typename Function>
auto CallIfSet(const Function& function, const Event& event)
    -> std::optional<decltype(function(event))> {
  if (!function) return std::nullopt;
  try {
    return function(event);
  } catch (...) {
    return std::nullopt;
  }
}

// client-go's patches pass through a JSON decoder, which replaces each invalid byte by U+FFFD. The
// writer would escape it as \ufffd.
void WriteText(std::string_view text, JsonWriter* writer) {
  const bool is_ascii =
      std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (is_ascii) {
    writer->String(text);
    return;
  }
  std::string repaired;
  repaired.reserve(text.size());
  while (!text.empty()) AppendUtf8(TakeCodePoint(&text), &repaired);
  writer->String(repaired);
}

// The patch for one more occurrence. client-go computes it as the difference to a copy with count
// 0, no message and the Unix epoch as time, so a member with that value is missing.
std::string PatchOf(const Event& event) {
  JsonWriter writer;
  const std::size_t object = writer.OpenObject();
  if (event.count != 0) {
    writer.Raw(R"(,"count":)");
    writer.Int(event.count);
  }
  if (event.last_timestamp.is_zero()) {
    writer.Raw(R"(,"lastTimestamp":null)");
  } else if (event.last_timestamp.seconds() != 0) {
    writer.Raw(R"(,"lastTimestamp":")");
    writer.Ensure(Timestamp::kMaxTextBytes);
    writer.set_pos(event.last_timestamp.WriteTo(writer.pos()));
    writer.Raw("\"");
  }
  if (!event.message.empty()) {
    writer.Raw(R"(,"message":)");
    WriteText(event.message, &writer);
  }
  writer.CloseObject(object);
  return std::string(writer.text());
}

}  // namespace

CountCorrelator::CountCorrelator(CountOptions options, bool upstream_exact)
    : options_(WithDefaults(std::move(options))),
      limits_{.qps = options_.spam_qps, .burst = options_.spam_burst},
      upstream_exact_(upstream_exact),
      fair_filter_(options_.fair_filter && !upstream_exact),
      keys_(upstream_exact),
      similar_(options_.cache_entries, options_.aggregate_after, options_.aggregate_within),
      written_(options_.cache_entries),
      buckets_(options_.cache_entries) {}

Correlation CountCorrelator::Correlate(std::shared_ptr<const Event> event, WallTime now,
                                       SteadyTime steady) {
  const Parts parts = PartsOf(*event);
  EventKey key;
  const bool combine = JoinGroup(*event, parts, steady, &key);
  if (!combine) key = FullKey(*event, parts);
  const auto [written, is_new] = written_.Obtain(key);
  if (is_new) written.count = 0;
  const bool seen = written.count != 0;

  Correlation result;
  result.key = key.ToBytes();
  SinkRequest& request = result.request;
  // Copying an event is the most expensive part, so an event that is filtered is not copied. A
  // function of the caller needs the copy to decide.
  const bool decide_early = seen && !options_.spam_key;
  if (decide_early) {
    written.count = OneMore(written.count);
    if (IsSpam(*event, parts, steady)) {
      result.action = Correlation::Action::kSuppress;
      return result;
    }
  }

  std::shared_ptr<Event> changed;
  if (combine) {
    changed = Combined(*event, now);
  } else if (seen) {
    changed = std::make_shared<Event>(*event);
  }
  if (seen) {
    if (!decide_early) written.count = OneMore(written.count);
    changed->metadata.name = written.name;
    changed->metadata.resource_version = written.resource_version;
    changed->first_timestamp = written.first_timestamp;
    changed->count = written.count;
    request.patch = PatchOf(*changed);
  }
  request.event = changed ? std::move(changed) : std::move(event);
  const Event& observed = *request.event;
  if (!seen) written.Set(observed);
  const bool passes = fair_filter_ && !seen;  // but takes a token, if there is one
  if (!decide_early && IsSpam(observed, parts, steady) && !passes) {
    result.action = Correlation::Action::kSuppress;
    request = {};
    return result;
  }
  const bool is_patch = upstream_exact_ ? observed.count > 1 : seen;
  request.verb = is_patch ? SinkRequest::Verb::kPatch : SinkRequest::Verb::kCreate;
  request.api = EventApi::kCoreV1;
  return result;
}

void CountCorrelator::Learn(const std::string& key, const Event& answer) {
  std::optional<EventKey> learned;
  if (upstream_exact_) {
    learned = FullKey(answer, PartsOf(answer));
  } else if (!answer.metadata.name.empty()) {  // a sink may answer with an empty event
    learned = EventKey::FromBytes(key);
  }
  if (!learned) return;
  written_.Obtain(*learned).value.Set(answer);
}

// Assigns to the members, so that their memory is used again.
void CountCorrelator::Written::Set(const Event& event) {
  name = event.metadata.name;
  resource_version = event.metadata.resource_version;
  first_timestamp = event.first_timestamp;
  count = event.count;
}

std::vector<Correlation> CountCorrelator::TakeDue(SteadyTime /*steady*/, bool /*all*/) {
  return {};
}

std::optional<SteadyTime> CountCorrelator::NextDue() const { return std::nullopt; }

CountCorrelator::Parts CountCorrelator::PartsOf(const Event& event) {
  const ObjectReference& object = event.involved_object;
  Parts parts;
  parts.source = keys_.Start('s')
                     .Add(event.source.component)
                     .Add(event.source.host)
                     .Add(object.kind)
                     .Add(object.namespace_)
                     .Add(object.name)
                     .Add(object.uid)
                     .Add(object.api_version)
                     .Add(event.type)
                     .Finish();
  parts.message = keys_.Of(event.message);
  return parts;
}

// client-go's keys are concatenated strings, so which of them are equal depends on the order.
void CountCorrelator::AddSource(const Event& event, const Parts& parts,
                                std::string_view field_path) {
  if (!upstream_exact_) {
    keys_.Add(parts.source).Add(field_path);
    return;
  }
  const ObjectReference& object = event.involved_object;
  keys_.Add(event.source.component)
      .Add(event.source.host)
      .Add(object.kind)
      .Add(object.namespace_)
      .Add(object.name)
      .Add(field_path)
      .Add(object.uid)
      .Add(object.api_version)
      .Add(event.type);
}

EventKey CountCorrelator::GroupKey(const Event& event, const Parts& parts) {
  keys_.Start('g');
  AddSource(event, parts, {});
  return keys_.Add(event.reason)
      .Add(event.reporting_controller)
      .Add(event.reporting_instance)
      .Finish();
}

EventKey CountCorrelator::FullKey(const Event& event, const Parts& parts) {
  keys_.Start('e');
  AddSource(event, parts, event.involved_object.field_path);
  keys_.Add(event.reason);
  if (upstream_exact_) {
    keys_.Add(event.message);
  } else {
    keys_.Add(parts.message);
  }
  return keys_.Finish();
}

bool CountCorrelator::JoinGroup(const Event& event, const Parts& parts, SteadyTime steady,
                                EventKey* key) {
  if (const auto own = CallIfSet(options_.aggregate_key, event)) {
    *key = keys_.Start('o').Add(own->group).Finish();
    return similar_.Join(*key, keys_.Of(own->local).low, steady);
  }
  *key = GroupKey(event, parts);
  return similar_.Join(*key, parts.message.low, steady);
}

std::shared_ptr<Event> CountCorrelator::Combined(const Event& event, WallTime now) {
  std::shared_ptr<Event> combined;
  if (upstream_exact_) {
    combined = std::make_shared<Event>();
    combined->metadata.namespace_ = event.metadata.namespace_;
    combined->involved_object = event.involved_object;
    combined->reason = event.reason;
    combined->source = event.source;
    combined->type = event.type;
  } else {
    combined = std::make_shared<Event>(event);
  }
  combined->metadata.name = CombinedName(event, now);
  if (auto own = CallIfSet(options_.aggregate_message, event)) {
    combined->message = *std::move(own);
  } else {
    combined->message.assign(kCombinedPrefix).append(event.message);
  }
  combined->count = 1;
  combined->first_timestamp = combined->last_timestamp = Time(now);
  return combined;
}

std::string CountCorrelator::CombinedName(const Event& event, WallTime now) {
  if (!upstream_exact_) {
    // With generateName the server makes the name.
    if (!event.metadata.name.empty() || !event.metadata.generate_name.empty()) {
      return event.metadata.name;
    }
    // A clock may return the same time twice.
    last_name_time_ = std::max(now, last_name_time_ + std::chrono::nanoseconds(1));
    return MakeEventName(event.involved_object.name, last_name_time_);
  }
  std::array<char, 17> hex;  // a sign and 16 digits
  char* const end = std::to_chars(hex.data(), hex.data() + hex.size(),
                                  std::int64_t{now.time_since_epoch().count()}, 16)
                        .ptr;
  std::string name = event.involved_object.name;
  name.append(".").append(hex.data(), end);
  return name;
}

bool CountCorrelator::IsSpam(const Event& observed, const Parts& parts, SteadyTime steady) {
  EventKey key = parts.source;
  if (const auto own = CallIfSet(options_.spam_key, observed)) {
    key = keys_.Start('f').Add(*own).Finish();
  } else if (fair_filter_) {
    key = keys_.Start('r').Add(parts.source).Add(observed.reason).Finish();
  }
  const auto [bucket, is_new] = buckets_.Obtain(key);
  if (is_new) bucket = TokenBucket();
  return !bucket.TryTake(limits_, steady);
}

// client-go's count overflows and becomes negative, which no server accepts.
std::int32_t CountCorrelator::OneMore(std::int32_t count) const {
  if (!upstream_exact_ && count == std::numeric_limits<std::int32_t>::max()) return count;
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(count) + 1);
}

}  // namespace herald
