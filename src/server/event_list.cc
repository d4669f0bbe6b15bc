#include "server/event_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "api/continue_token.h"
#include "api/event_keys.h"
#include "api/quote.h"
#include "server/stored_event.h"

namespace herald::server {
namespace {

Status BadRequest(std::string message) {
  return Status(StatusReason::kBadRequest, std::move(message));
}

// In which order the store gives what the query asks for, and what is left to do.
enum class Order : std::uint8_t {
  kKeys,        // as wanted
  kTimes,       // as wanted
  kSortByKey,   // candidates of an index, to be sorted here
  kSortByTime,  // the same
};

// How a list is read.
struct Plan {
  store::Query query;
  Order order = Order::kKeys;
};

Timestamp TimeOf(const store::Entry& entry) {
  EventKeys keys;
  if (ReadEventKeys(*entry.value, &keys)) return keys.last_occurrence;
  const Result<Event> event = DecodeStored(entry);
  return event ? LastOccurrence(*event) : Timestamp();
}

// The index whose candidates are fewest, as far as one can tell beforehand.
std::optional<IndexRange> BestIndex(const EventFilter& filter) {
  const FieldSelector& fields = filter.fields();
  const auto required = [&fields](EventField field) {
    const std::string* const value = fields.RequiredValue(field);
    return value != nullptr ? std::string_view(*value) : std::string_view();
  };
  if (const std::string_view uid = required(EventField::kInvolvedObjectUid); !uid.empty()) {
    return UidRange(uid);
  }
  if (const std::string_view name = required(EventField::kInvolvedObjectName); !name.empty()) {
    const bool any = fields.RequiredValue(EventField::kInvolvedObjectNamespace) == nullptr;
    return ObjectRange(name, required(EventField::kInvolvedObjectKind),
                       required(EventField::kInvolvedObjectNamespace), any);
  }
  if (const std::string_view reason = required(EventField::kReason); !reason.empty()) {
    return ReasonRange(reason, filter.namespace_());
  }
  const std::string_view type = required(EventField::kType);
  if (!type.empty() && type != kNormal) return TypeRange(type, filter.namespace_());
  return std::nullopt;
}

IndexRange TimeRange(const EventFilter& filter) {
  IndexRange range{.index = EventIndex::kTime};
  const std::optional<Timestamp>& since = filter.since();
  const std::optional<Timestamp>& until = filter.until();
  if (since) range.from = TimeValue(*since);
  // No time sorts behind this.
  range.to = until ? TimeValue(*until) : std::string(13, '\xff');
  return range;
}

// Where the keys of an index are in the order of the list by themselves.
bool IsInKeyOrder(const IndexRange& range) {
  switch (range.index) {
    case EventIndex::kUid:
    case EventIndex::kReason:
    case EventIndex::kType:
      return true;
    case EventIndex::kObject:  // unless it is one object, whose range is one value
      return range.to.size() == range.from.size() + 1;
    case EventIndex::kTime:
      return false;
  }
  return false;
}

Plan MakePlan(const EventFilter& filter, const ListOptions& options) {
  Plan plan;
  store::Query& query = plan.query;
  const std::string prefix = EventKeyPrefix(filter.namespace_());
  query.start = prefix;
  query.end = PrefixEnd(prefix);
  if (!filter.matches_all()) {
    query.filter = [filter](const store::Entry& entry) {
      const Result<Event> event = DecodeStored(entry);
      // What cannot be read is not hidden: the list will say so.
      return !event || filter.Matches(*event);
    };
  }
  if (!filter.namespace_().empty() && !filter.name().empty()) {
    query.start = prefix + filter.name();
    query.end = query.start + '\0';
    plan.order = options.by_last_occurrence ? Order::kSortByTime : Order::kKeys;
    return plan;
  }
  std::optional<IndexRange> range = BestIndex(filter);
  // Among the many of one type the latest are found faster by their time. A page in the
  // order of the names is not: all that is in the window would be read for each.
  const bool by_time =
      options.by_last_occurrence || (options.selects_by_time() && options.limit == 0);
  if (by_time && (!range || range->index == EventIndex::kType)) range = TimeRange(filter);
  if (!range) return plan;

  if (range->index == EventIndex::kTime) {
    plan.order = options.by_last_occurrence ? Order::kTimes : Order::kSortByKey;
  } else if (options.by_last_occurrence) {
    plan.order = Order::kSortByTime;
  } else {
    plan.order = IsInKeyOrder(*range) ? Order::kKeys : Order::kSortByKey;
  }
  store::Query::By by;
  by.index = static_cast<std::uint8_t>(range->index);
  by.from = std::move(range->from);
  by.to = std::move(range->to);
  by.descending = plan.order == Order::kTimes;
  query.by = std::move(by);
  return plan;
}

// Lets the plan begin where the token says.
Status GoOn(const EventFilter& filter, const ListOptions& options, const ContinueToken& token,
            Plan* plan) {
  store::Query& query = plan->query;
  const std::string start = EventKeyPrefix(filter.namespace_()) + token.start;
  if (token.time.has_value() != options.by_last_occurrence) {
    return BadRequest("invalid continue token: it belongs to a list that is sorted in another way");
  }
  if (plan->order == Order::kTimes && query.by) {
    query.by->after_value = TimeValue(token.time.value_or(Timestamp()));
    query.by->after_key = start.substr(0, start.find('\0'));
    return Status();
  }
  if (plan->order != Order::kKeys) return Status();  // the whole is read, sorted and cut
  query.start = std::max(query.start, start);
  if (query.by && start.ends_with('\0')) {
    const std::string_view last = std::string_view(start).substr(0, start.size() - 1);
    const std::string_view namespace_ = NamespaceOfKey(last);
    const auto index = static_cast<EventIndex>(query.by->index);
    if (index == EventIndex::kReason || index == EventIndex::kType) {
      const std::string_view text =
          std::string_view(query.by->from).substr(0, query.by->from.find('\0'));
      query.by->after_value = ReasonValue(text, namespace_);
    } else {
      query.by->after_value = query.by->from;
    }
    query.by->after_key = last;
  }
  return Status();
}

Status TokenExpired(const ContinueToken& token) {
  ContinueToken fresh = token;
  fresh.revision = ContinueToken::kLatest;
  Status::Parts parts;
  parts.reason = StatusReason::kExpired;
  parts.message =
      "The provided continue parameter is too old to display a consistent list result. You can "
      "start a new list without the continue parameter, or use the continue token in this response "
      "to retrieve the remainder of the results. Continuing with the provided token results in an "
      "inconsistent list - objects that were created, modified, or deleted between the time the "
      "first chunk was returned and now may show up in the list.";
  parts.continue_token = EncodeContinueToken(fresh);
  return Status(std::move(parts));
}

// One list on its way: keeps what the answer needs until the store has read.
struct Reading {
  store::Store* store = nullptr;
  Plan plan;
  EventFilter filter;
  std::size_t limit = 0;
  std::uint64_t not_older_than = 0;
  std::optional<ContinueToken> token;
  bool counts_remaining = false;
  EventPageDone done;
};

// Sorts candidates and cuts out the page.
void SortAndCut(const Reading& reading, std::vector<store::Entry>* entries, bool* more) {
  const bool by_time = reading.plan.order == Order::kSortByTime;
  std::vector<std::pair<std::string, std::size_t>> order;  // what to sort by, and which
  order.reserve(entries->size());
  for (std::size_t i = 0; i < entries->size(); ++i) {
    order.emplace_back(by_time ? TimeValue(TimeOf((*entries)[i])) : std::string(), i);
  }
  // Where times are equal the keys fall, too: just the opposite of the other order.
  const auto before = [&](const auto& a, const auto& b) {
    const std::string& key_a = (*entries)[a.second].key;
    const std::string& key_b = (*entries)[b.second].key;
    if (!by_time) return key_a < key_b;
    return a.first != b.first ? a.first > b.first : key_a > key_b;
  };
  std::ranges::sort(order, before);
  if (reading.token) {
    const std::string start = EventKeyPrefix(reading.filter.namespace_()) + reading.token->start;
    const std::string last = start.substr(0, start.find('\0'));
    const std::string time =
        by_time ? TimeValue(reading.token->time.value_or(Timestamp())) : std::string();
    const auto is_shown = [&](const std::pair<std::string, std::size_t>& item) {
      const std::string& key = (*entries)[item.second].key;
      if (!by_time) return key < start;
      return item.first != time ? item.first > time : key >= last;
    };
    std::erase_if(order, is_shown);
  }
  *more = reading.limit > 0 && order.size() > reading.limit;
  if (*more) order.resize(reading.limit);
  std::vector<store::Entry> page;
  page.reserve(order.size());
  for (const auto& [sorted_by, index] : order) page.push_back(std::move((*entries)[index]));
  *entries = std::move(page);
}

Result<EventPage> MakePage(const Reading& reading, store::Page read) {
  if (reading.not_older_than > static_cast<std::uint64_t>(read.revision)) {
    return TooLargeResourceVersion(reading.not_older_than, read.revision);
  }
  EventPage page;
  page.entries = std::move(read.entries);
  page.revision = read.revision;
  bool more = read.more;
  if (reading.plan.order == Order::kSortByKey || reading.plan.order == Order::kSortByTime) {
    SortAndCut(reading, &page.entries, &more);
  }
  page.metadata.resource_version = ToResourceVersion(read.revision);
  if (more && !page.entries.empty()) {
    const store::Entry& last = page.entries.back();
    ContinueToken next;
    next.revision = read.revision;
    if (reading.token && reading.token->revision == ContinueToken::kLatest) {
      next.revision = ContinueToken::kLatest;
    }
    next.start = last.key.substr(EventKeyPrefix(reading.filter.namespace_()).size()) + '\0';
    const bool by_time =
        reading.plan.order == Order::kTimes || reading.plan.order == Order::kSortByTime;
    if (by_time) next.time = TimeOf(last);
    page.metadata.continue_ = EncodeContinueToken(next);
    if (reading.counts_remaining) page.metadata.remaining_item_count = read.remaining;
  }
  return page;
}

void Read(const std::shared_ptr<const Reading>& reading) {
  store::Store* const store = reading->store;
  store->Read(reading->plan.query, [reading](Result<store::Page> read) {
    if (read) return reading->done(MakePage(*reading, *std::move(read)));
    const store::Revision at = reading->plan.query.at;
    if (read.error().Is(StatusReason::kExpired)) {
      return reading->done(reading->token
                               ? TokenExpired(*reading->token)
                               : Status(StatusReason::kExpired,
                                        "The resourceVersion for the provided list is too old."));
    }
    if (!read.error().Is(StatusReason::kBadRequest) || at == 0) {
      return reading->done(read.error());
    }
    // A revision of the future.
    reading->store->CurrentRevision([reading, at](Result<store::Revision> current) {
      reading->done(current ? TooLargeResourceVersion(static_cast<std::uint64_t>(at), *current)
                            : current.error());
    });
  });
}

// Which revision is asked for.
Status ReadVersion(const ListOptions& options, Reading* reading) {
  if (!options.continue_.empty()) {
    Result<ContinueToken> token = DecodeContinueToken(options.continue_);
    if (!token) return token.error();
    if (!options.resource_version.empty() && options.resource_version != "0") {
      return BadRequest("specifying resource version is not allowed when using continue");
    }
    if (token->revision > 0) reading->plan.query.at = token->revision;
    reading->token = *std::move(token);
    return Status();
  }
  if (options.resource_version.empty() || options.resource_version == "0") return Status();
  const Result<std::uint64_t> version = ParseResourceVersion(options.resource_version);
  if (!version || *version > static_cast<std::uint64_t>(INT64_MAX)) {
    return InvalidResourceVersion(options.resource_version);
  }
  const bool exact = options.resource_version_match == "Exact" ||
                     (options.resource_version_match.empty() && options.limit > 0);
  if (exact) {
    reading->plan.query.at = static_cast<store::Revision>(*version);
  } else {
    reading->not_older_than = *version;
  }
  return Status();
}

}  // namespace

EventFilter::EventFilter(std::string namespace_, std::string name, const ListOptions& options)
    : name_space_(std::move(namespace_)),
      name_(std::move(name)),
      labels_(options.labels),
      fields_(options.fields),
      since_(options.since),
      until_(options.until) {
  // What the keys alone can tell narrows what is read. The rest of the selector stays.
  if (name_space_.empty()) {
    const std::string* const required = fields_.RequiredValue(EventField::kMetadataNamespace);
    if (required != nullptr && required->find('/') == std::string::npos) name_space_ = *required;
  }
  const bool named_by_url = !name_.empty();
  if (!named_by_url) {
    const std::string* const required = fields_.RequiredValue(EventField::kMetadataName);
    if (required != nullptr) name_ = *required;
  }
  all_ = !named_by_url && labels_.empty() && fields_.empty() && !since_ && !until_;
}

bool EventFilter::Matches(const Event& event) const {
  if (!name_.empty() && event.metadata.name != name_) return false;
  if (!labels_.Matches(event.metadata.labels) || !fields_.Matches(event)) return false;
  if (since_ || until_) {
    const Timestamp last = LastOccurrence(event);
    if (since_ && last < *since_) return false;
    if (until_ && last >= *until_) return false;
  }
  return true;
}

void ReadEventPage(store::Store* store, const EventFilter& filter, const ListOptions& options,
                   EventPageDone done) {
  auto reading = std::make_shared<Reading>();
  reading->store = store;
  reading->plan = MakePlan(filter, options);
  reading->filter = filter;
  reading->limit = static_cast<std::size_t>(options.limit);
  reading->done = std::move(done);
  if (Status bad = ReadVersion(options, reading.get()); !bad.ok()) return reading->done(bad);
  if (const std::optional<ContinueToken>& token = reading->token) {
    if (Status bad = GoOn(filter, options, *token, &reading->plan); !bad.ok()) {
      return reading->done(bad);
    }
  }
  const bool in_order = reading->plan.order == Order::kKeys || reading->plan.order == Order::kTimes;
  if (in_order) reading->plan.query.limit = reading->limit;
  reading->counts_remaining = filter.matches_all() && reading->limit > 0;
  reading->plan.query.count_remaining = reading->counts_remaining;
  Read(reading);
}

Status TooLargeResourceVersion(std::uint64_t asked, store::Revision current,
                               std::chrono::seconds retry_after) {
  Status::Parts parts;
  parts.reason = StatusReason::kTimeout;
  parts.message =
      fmt::format("Timeout: Too large resource version: {}, current: {}", asked, current);
  parts.details.emplace().causes.push_back(
      {"ResourceVersionTooLarge", "Too large resource version", ""});
  parts.retry_after = retry_after;
  return Status(std::move(parts));
}

Status InvalidResourceVersion(std::string_view text) {
  const Result<std::uint64_t> version = ParseResourceVersion(text);
  return BadRequest(fmt::format("invalid resource version: resourceVersion: Invalid value: {}: {}",
                                Quoted(text),
                                version ? "value out of range" : version.error().message()));
}

}  // namespace herald::server
