#include "server/events/event_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "api/continue_token.h"
#include "api/indexed_fields.h"
#include "api/quote.h"
#include "server/events/stored_event.h"

namespace herald::server {
namespace {

Status BadRequest(std::string message) {
  return Status(StatusReason::kBadRequest, std::move(message));
}

// The order in which the store returns entries, and whether they must be sorted here.
enum class PlanOrder : std::uint8_t {
  kKeys,        // by key, as the list requires
  kTimes,       // by time, as the list requires
  kSortByKey,   // candidates of an index, to be sorted by key
  kSortByTime,  // candidates of an index, to be sorted by time
};

bool NeedsSorting(PlanOrder order) {
  return order == PlanOrder::kSortByKey || order == PlanOrder::kSortByTime;
}

Timestamp TimeOf(const store::Entry& entry) {
  IndexedFields keys;
  if (ReadIndexedFields(*entry.value, &keys)) return keys.last_occurrence;
  const Result<Event> event = DecodeStored(entry);
  return event ? LastOccurrence(*event) : Timestamp();
}

// The index that is expected to have the fewest candidates.
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
  // No time sorts after this.
  range.to = until ? TimeValue(*until) : std::string(13, '\xff');
  return range;
}

// Whether the index returns the entries in the order of the list.
bool IsInKeyOrder(const IndexRange& range) {
  switch (range.index) {
    case EventIndex::kUid:
    case EventIndex::kReason:
    case EventIndex::kType:
      return true;
    case EventIndex::kObject:  // unless the range is one value, that of one object
      return range.to.size() == range.from.size() + 1;
    case EventIndex::kTime:
      return false;
  }
  return false;
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

}  // namespace

// How a list is read.
struct EventListReader::Plan {
  store::Query query;
  PlanOrder order = PlanOrder::kKeys;

  // Without `may_sort` the store must return the order of the list itself.
  static Plan Make(const EventFilter& filter, const ListOptions& options, bool may_sort);
  // Lets it begin at the position of a continue token.
  Status GoOn(const EventFilter& filter, const ListOptions& options, const ContinueToken& token);
};

struct EventListReader::Start {
  store::Revision at = 0;
  std::uint64_t not_older_than = 0;
  std::optional<ContinueToken> token;

  Status Parse(const ListOptions& options);
};

EventListReader::Plan EventListReader::Plan::Make(const EventFilter& filter,
                                                  const ListOptions& options, bool may_sort) {
  Plan plan;
  store::Query& query = plan.query;
  const std::string prefix = EventKeyPrefix(filter.namespace_());
  query.start = prefix;
  query.end = PrefixEnd(prefix);
  if (!filter.matches_all()) {
    query.filter = [filter](const store::Entry& entry) {
      const Result<Event> event = DecodeStored(entry);
      // An entry that cannot be decoded is kept, so that encoding the list reports it.
      return !event || filter.Matches(*event);
    };
  }
  if (!filter.namespace_().empty() && !filter.name().empty()) {
    query.start = prefix + filter.name();
    query.end = query.start + '\0';
    plan.order = options.by_last_occurrence ? PlanOrder::kSortByTime : PlanOrder::kKeys;
    return plan;
  }
  std::optional<IndexRange> range = BestIndex(filter);
  // A type has many events, so the latest are found faster by time. That is not so for pages in the
  // order of names: each page would read all events of the time range.
  const bool by_time =
      options.by_last_occurrence || (options.selects_by_time() && options.limit == 0);
  if (by_time && (!range || range->index == EventIndex::kType)) range = TimeRange(filter);
  const auto order_by = [&options](const IndexRange& index) {
    if (index.index == EventIndex::kTime) {
      return options.by_last_occurrence ? PlanOrder::kTimes : PlanOrder::kSortByKey;
    }
    if (options.by_last_occurrence) return PlanOrder::kSortByTime;
    return IsInKeyOrder(index) ? PlanOrder::kKeys : PlanOrder::kSortByKey;
  };
  if (range && !may_sort && NeedsSorting(order_by(*range))) {
    range.reset();
    if (options.by_last_occurrence) range = TimeRange(filter);
  }
  if (!range) return plan;

  plan.order = order_by(*range);
  store::Query::By by;
  by.index = static_cast<std::uint8_t>(range->index);
  by.from = std::move(range->from);
  by.to = std::move(range->to);
  by.descending = plan.order == PlanOrder::kTimes;
  query.by = std::move(by);
  return plan;
}

Status EventListReader::Plan::GoOn(const EventFilter& filter, const ListOptions& options,
                                   const ContinueToken& token) {
  const std::string start = EventKeyPrefix(filter.namespace_()) + token.start;
  if (token.time.has_value() != options.by_last_occurrence) {
    return BadRequest("invalid continue token: it is from a list with another sort order");
  }
  if (order == PlanOrder::kTimes && query.by) {
    query.by->after_value = TimeValue(token.time.value_or(Timestamp()));
    query.by->after_key = start.substr(0, start.find('\0'));
    return Status();
  }
  if (order != PlanOrder::kKeys) return Status();  // all entries are read, sorted and cut
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

Status EventListReader::Start::Parse(const ListOptions& options) {
  if (!options.continue_.empty()) {
    Result<ContinueToken> decoded = DecodeContinueToken(options.continue_);
    if (!decoded) return decoded.error();
    if (!options.resource_version.empty() && options.resource_version != "0") {
      return BadRequest("specifying resource version is not allowed when using continue");
    }
    if (decoded->revision > 0) at = decoded->revision;
    token = *std::move(decoded);
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
    at = static_cast<store::Revision>(*version);
  } else {
    not_older_than = *version;
  }
  return Status();
}

EventListReader::EventListReader(store::Store* store, const EventFilter& filter,
                                 const ListOptions& options, ReadContext context)
    : store_(store),
      filter_(filter),
      context_(std::move(context)),
      limit_(static_cast<std::size_t>(options.limit)),
      plan_(std::make_unique<Plan>(Plan::Make(filter, options, true))),
      start_(std::make_unique<Start>()),
      limit_left_(limit_) {}

EventListReader::~EventListReader() = default;

Result<std::shared_ptr<EventListReader>> EventListReader::Make(store::Store* store,
                                                               const EventFilter& filter,
                                                               const ListOptions& options,
                                                               ReadContext context, Order order) {
  // Not make_shared: the constructor is private.
  std::shared_ptr<EventListReader> reader(
      new EventListReader(store, filter, options, std::move(context)));
  Plan& plan = *reader->plan_;
  Start& start = *reader->start_;
  if (Status bad = start.Parse(options); !bad.ok()) return bad;
  if (NeedsSorting(plan.order)) {
    if (order == Order::kAny) {
      plan.order = PlanOrder::kKeys;
    } else if (Plan other = Plan::Make(filter, options, false); !NeedsSorting(other.order)) {
      reader->fallback_ = std::make_unique<Plan>(std::move(other));
    }
  }
  for (Plan* each : {&plan, reader->fallback_.get()}) {
    if (each == nullptr) continue;
    each->query.at = start.at;
    each->query.flow = reader->context_.flow;
    each->query.cancelled = reader->context_.cancelled;
    if (!start.token) continue;
    if (Status bad = each->GoOn(filter, options, *start.token); !bad.ok()) return bad;
  }
  reader->next_ = plan.query;
  return reader;
}

void EventListReader::Next(ChunkDone done) {
  if (sorted_) return EmitSorted(done);
  if (NeedsSorting(plan_->order)) return Gather(std::move(done));
  ReadChunk(std::move(done));
}

void EventListReader::Rewind() {
  next_ = plan_->query;
  next_.at = revision_;
  limit_left_ = limit_;
  next_sorted_ = 0;
  done_ = false;
}

void EventListReader::Read(store::Query query, store::Store::PageDone done) {
  query.background = context_.background || begun_;
  const store::Revision at = query.at;
  store_->Read(std::move(query), [self = shared_from_this(), at,
                                  done = std::move(done)](Result<store::Page> page) {
    if (page) return done(std::move(page));
    const Status error = page.error();
    if (error.Is(StatusReason::kExpired)) return done(self->TooOld());
    if (!error.Is(StatusReason::kBadRequest) || at == 0) return done(error);
    // A revision that does not exist yet.
    self->store_->CurrentRevision([self, at, done](const Result<store::Revision>& current) {
      if (!current) return done(current.error());
      done(TooLargeResourceVersion(static_cast<std::uint64_t>(at), *current));
    });
  });
}

Status EventListReader::TooOld() const {
  if (start_->token) return TokenExpired(*start_->token);
  return Status(StatusReason::kExpired, "The resourceVersion for the provided list is too old.");
}

Status EventListReader::Accept(const store::Page& page) {
  const std::uint64_t wanted = start_->not_older_than;
  if (wanted > static_cast<std::uint64_t>(page.revision)) {
    return TooLargeResourceVersion(wanted, page.revision);
  }
  begun_ = true;
  revision_ = page.revision;
  metadata_.resource_version = ToResourceVersion(revision_);
  return Status();
}

void EventListReader::EndWith(bool more, std::int64_t remaining, const store::Entry* last) {
  done_ = true;
  if (!more || last == nullptr) return;
  const bool by_time = plan_->order == PlanOrder::kTimes || plan_->order == PlanOrder::kSortByTime;
  const std::optional<ContinueToken>& token = start_->token;
  ContinueToken next;
  next.revision =
      token && token->revision == ContinueToken::kLatest ? ContinueToken::kLatest : revision_;
  next.start = last->key.substr(EventKeyPrefix(filter_.namespace_()).size()) + '\0';
  if (by_time) next.time = TimeOf(*last);
  metadata_.continue_ = EncodeContinueToken(next);
  // With a selector it is unknown how many of the remaining entries match.
  if (filter_.matches_all() && remaining > 0) metadata_.remaining_item_count = remaining;
}

void EventListReader::ReadChunk(ChunkDone done) {
  store::Query query = next_;
  query.limit = limit_left_;
  query.max_bytes = context_.chunk_bytes;
  query.count_remaining = limit_ > 0 && filter_.matches_all() && !counted_;
  Read(std::move(query), [this, done = std::move(done)](Result<store::Page> page) {
    if (!page) return done(page.error());
    if (Status bad = Accept(*page); !bad.ok()) return done(bad);
    if (limit_ > 0) limit_left_ -= page->entries.size();
    const bool at_limit = limit_ > 0 && limit_left_ == 0;
    if (!page->more || at_limit) {
      if (!counted_) {
        EndWith(page->more, page->remaining,
                page->entries.empty() ? nullptr : &page->entries.back());
      }
      counted_ = true;
      done_ = true;
    } else {
      next_.ContinueAfter(*page);
    }
    done(std::move(page->entries));
  });
}

void EventListReader::Gather(ChunkDone done) {
  store::Query query = next_;
  query.max_bytes = kMaxSortedBytes / 8;
  Read(std::move(query), [this, done = std::move(done)](Result<store::Page> page) mutable {
    if (!page) return done(page.error());
    if (Status bad = Accept(*page); !bad.ok()) return done(bad);
    std::size_t bytes = 0;
    for (const store::Entry& entry : page->entries) bytes += entry.value->size() + entry.key.size();
    candidate_bytes_ += bytes;
    if (fallback_ &&
        (candidate_bytes_ > kMaxSortedBytes || (context_.reserve && !context_.reserve(bytes)))) {
      candidates_ = {};
      plan_ = std::move(fallback_);
      next_ = plan_->query;
      next_.at = revision_;
      return ReadChunk(std::move(done));
    }
    std::ranges::move(page->entries, std::back_inserter(candidates_));
    if (page->more) {
      next_.ContinueAfter(*page);
      return Gather(std::move(done));
    }
    SortAndCut();
    EmitSorted(done);
  });
}

void EventListReader::EmitSorted(const ChunkDone& done) {
  std::vector<store::Entry> chunk;
  for (std::size_t bytes = 0; next_sorted_ < candidates_.size() && bytes < context_.chunk_bytes;) {
    bytes += candidates_[next_sorted_].value->size();
    chunk.push_back(candidates_[next_sorted_++]);
  }
  if (next_sorted_ == candidates_.size()) {
    EndWith(cut_, 0, chunk.empty() ? nullptr : &chunk.back());
  }
  done(std::move(chunk));
}

void EventListReader::SortAndCut() {
  const bool by_time = plan_->order == PlanOrder::kSortByTime;
  std::vector<std::pair<std::string, std::size_t>>
      order;  // the sort key and the position of the candidate
  order.reserve(candidates_.size());
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    order.emplace_back(by_time ? TimeValue(TimeOf(candidates_[i])) : std::string(), i);
  }
  // Entries with equal times are in descending order of keys: exactly the reverse order.
  const auto before = [&](const auto& a, const auto& b) {
    const std::string& key_a = candidates_[a.second].key;
    const std::string& key_b = candidates_[b.second].key;
    if (!by_time) return key_a < key_b;
    return a.first != b.first ? a.first > b.first : key_a > key_b;
  };
  std::ranges::sort(order, before);
  if (const std::optional<ContinueToken>& token = start_->token) {
    const std::string start = EventKeyPrefix(filter_.namespace_()) + token->start;
    const std::string last = start.substr(0, start.find('\0'));
    const std::string time = by_time ? TimeValue(token->time.value_or(Timestamp())) : std::string();
    const auto is_shown = [&](const std::pair<std::string, std::size_t>& item) {
      const std::string& key = candidates_[item.second].key;
      if (!by_time) return key < start;
      return item.first != time ? item.first > time : key >= last;
    };
    std::erase_if(order, is_shown);
  }
  cut_ = limit_ > 0 && order.size() > limit_;
  if (cut_) order.resize(limit_);
  std::vector<store::Entry> sorted;
  sorted.reserve(order.size());
  for (const auto& [sorted_by, index] : order) sorted.push_back(std::move(candidates_[index]));
  candidates_ = std::move(sorted);
  sorted_ = true;
}

EventFilter::EventFilter(std::string namespace_, std::string name, const ListOptions& options)
    : name_space_(std::move(namespace_)),
      name_(std::move(name)),
      labels_(options.labels),
      fields_(options.fields),
      since_(options.since),
      until_(options.until) {
  // Namespace and name restrict the keys that are read. The rest of the selector is a filter.
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
