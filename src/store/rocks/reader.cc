#include "store/rocks/reader.h"

#include <fmt/core.h>
#include <rocksdb/snapshot.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "store/rocks/recent_entries.h"

namespace herald::store {
namespace {

rocksdb::ReadOptions ReadOptionsFor(RocksReader::Effort effort,
                                    const rocksdb::Snapshot* snapshot = nullptr) {
  rocksdb::ReadOptions options;
  options.snapshot = snapshot;
  if (effort.cached) options.read_tier = rocksdb::kBlockCacheTier;
  return options;
}

// A key may hold anything, and a message must be readable.
std::string Printable(std::string_view key) {
  std::string text;
  for (const char c : key) {
    const bool plain = c >= ' ' && c < '\x7f';
    text += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return text;
}

Status Damaged(std::string_view what, std::string_view key) {
  return Status(StatusReason::kCorruption,
                fmt::format("the {} of \"{}\" is damaged", what, Printable(key)));
}

// Rows that are stepped over before the next one that matters is looked for: a step costs a
// tenth of that.
constexpr int kMaxSteps = 4;

// How many more rows than results a list passes over before it goes another way.
constexpr std::size_t kFewPassed = 32;

// Heads that are read before any of their entries is looked for.
constexpr std::size_t kHeadsAtOnce = 64;

// The rows of versions of a moment, in their order.
rocksdb::ReadOptions InOrder(RocksReader::Effort effort, const rocksdb::Snapshot* snapshot) {
  rocksdb::ReadOptions options = ReadOptionsFor(effort, snapshot);
  options.total_order_seek = true;
  return options;
}

// The versions of one key after another: files without that key are passed over.
rocksdb::ReadOptions OfOneKey(RocksReader::Effort effort, const rocksdb::Snapshot* snapshot) {
  rocksdb::ReadOptions options = ReadOptionsFor(effort, snapshot);
  options.prefix_same_as_start = true;
  return options;
}

// What the row says that an iterator over versions is at; revision 0 where that is of
// another key or a deletion.
Result<RocksReader::Standing> StandingHere(const rocksdb::Iterator& versions, std::string_view key,
                                           std::string_view prefix) {
  if (!versions.Valid()) {
    if (!versions.status().ok()) return FromRocks(versions.status());
    return RocksReader::Standing();
  }
  const std::string_view row_key = ToView(versions.key());
  if (row_key.size() < 8 || PrefixOfVersionKey(row_key) != prefix) return RocksReader::Standing();
  const Revision revision = RevisionOfVersionKey(row_key);
  const auto version = DecodeVersion(row_key, ToView(versions.value()));
  if (!version) return Damaged(fmt::format("version {}", revision), key);
  if (version->deleted) return RocksReader::Standing();
  return RocksReader::Standing{.revision = revision,
                               .value = std::make_shared<const std::string>(version->value),
                               .written = version->written,
                               .expires = version->expires};
}

Status NoVersion(std::string_view key) {
  return Status(
      StatusReason::kCorruption,
      fmt::format("the head of \"{}\" says that it exists, and it has no version", Printable(key)));
}

}  // namespace

// Gathers what a query is to return, whatever order it comes in. Confined to the read.
//
// Rows come in groups: those of one key or, in a read by an index, of one value and key. A read
// stops between two groups only, where it can go on later.
class RocksReader::Reading {
 public:
  Reading(const Query& query, Revision at, bool latest, Effort effort,
          const rocksdb::Snapshot* snapshot, Page so_far)
      : query_(query), latest_(latest), effort_(effort), snapshot_(snapshot) {
    slice_.page = std::move(so_far);
    page().revision = at;
    if (query_.max_bytes == 0) return;
    for (const Entry& entry : page().entries) bytes_ += entry.value->size();
  }

  const Query& query() const { return query_; }
  Revision at() const { return slice_.page.revision; }
  // Whether at() is what the snapshot has as the newest, so that heads tell which keys exist.
  bool is_latest() const { return latest_; }
  Effort effort() const { return effort_; }
  const rocksdb::Snapshot* snapshot() const { return snapshot_; }

  // Counts a row that is looked at.
  void Visit() { slice_.cost += NeedsValue() ? kRowCost : kCountCost; }
  // Counts the bytes of a value, before it is decoded or returned. False: it is too large for this
  // read, which has failed.
  bool ChargeFor(std::string_view value) {
    if (effort_.max_value_bytes > 0 && value.size() > effort_.max_value_bytes) {
      Fail(Status(StatusReason::kCancelled, "the value is too large for a read of this kind"));
      return false;
    }
    if (value.size() > kOrdinaryValueBytes) {
      slice_.cost += (value.size() - kOrdinaryValueBytes) / kBytesPerCost;
    }
    return true;
  }
  // Between two groups: false where the read has to stop here. `last` makes the Place of the group
  // that has ended.
  template <typename MakePlace>
  bool GoesOn(MakePlace last) {
    if (effort_.max_cost == 0 || slice_.cost < effort_.max_cost) return true;
    slice_.next = last();
    return false;
  }
  // Whether the next entry's value matters, or only that there is one.
  bool NeedsValue() const { return !full() || query_.filter; }
  std::size_t found() const { return slice_.page.entries.size(); }

  // `value` is what an index has found it by. False: no more is needed.
  bool Add(Entry entry, std::string_view value = {}) {
    if (full()) {
      page().more = true;
      if (!counts()) return false;
      if (query_.filter && !query_.filter(entry)) return true;
      if (++page().remaining <= Query::kMaxCounted) return true;
      page().remaining = Page::kManyRemain;
      return false;
    }
    if (query_.filter && !query_.filter(entry)) return true;
    bytes_ += entry.value->size();
    page().entries.push_back(std::move(entry));
    page().last.value = value;
    return true;
  }

  // Nothing that was added counts.
  void Fail(const Status& why) { failed_ = why; }
  void FailIfBad(const rocksdb::Status& status) {
    if (!status.ok() && failed_.ok()) failed_ = FromRocks(status);
  }

  Result<Slice> Finish() {
    if (!failed_.ok()) return failed_;
    if (counts()) page().more = page().remaining != 0;
    if (page().more) page().last.key = page().entries.back().key;
    return std::move(slice_);
  }

 private:
  Page& page() { return slice_.page; }
  bool at_limit() const { return query_.limit > 0 && found() >= query_.limit; }
  bool full() const {
    return at_limit() || (query_.max_bytes > 0 && bytes_ >= query_.max_bytes && found() > 0);
  }
  // What the bytes cut off is not counted: the caller goes on with it.
  bool counts() const { return query_.count_remaining && at_limit(); }

  const Query& query_;
  const bool latest_;
  const Effort effort_;
  const rocksdb::Snapshot* const snapshot_;
  std::size_t bytes_ = 0;  // of the values of the page
  Status failed_;
  Slice slice_;
};

Result<Revision> RocksReader::Head(std::string_view key, Effort effort) const {
  rocksdb::PinnableSlice row;
  const rocksdb::Status status =
      rocks_.db().Get(ReadOptionsFor(effort), rocks_.heads(), ToSlice(key), &row);
  if (status.IsNotFound()) return Revision{0};
  if (!status.ok()) return FromRocks(status);
  const auto created = DecodeHead(ToView(row));
  if (!created) return Damaged("head", key);
  return *created;
}

Result<RocksReader::Standing> RocksReader::Version(std::string_view key, Revision revision,
                                                   Effort effort) const {
  const std::string row_key = VersionKey(key, revision);
  rocksdb::PinnableSlice row;
  const rocksdb::Status status =
      rocks_.db().Get(ReadOptionsFor(effort), rocks_.versions(), row_key, &row);
  if (status.IsNotFound()) {
    return Status(StatusReason::kNotFound,
                  fmt::format("there is no version {} of \"{}\"", revision, Printable(key)));
  }
  if (!status.ok()) return FromRocks(status);
  const auto version = DecodeVersion(row_key, ToView(row));
  if (!version) return Damaged(fmt::format("version {}", revision), key);
  if (version->deleted) return Status(StatusReason::kNotFound, "deleted");
  return Standing{.revision = revision,
                  .value = std::make_shared<const std::string>(version->value),
                  .written = version->written,
                  .expires = version->expires};
}

Result<RocksReader::Standing> RocksReader::Newest(const std::string& key, Effort effort) const {
  if (std::optional<Standing> recent = recent_.Find(key)) return *std::move(recent);
  const std::string newest = VersionKey(key, INT64_MAX);
  const std::unique_ptr<rocksdb::Iterator> versions(
      rocks_.db().NewIterator(OfOneKey(effort, nullptr), rocks_.versions()));
  versions->Seek(newest);
  return StandingHere(*versions, key, PrefixOfVersionKey(newest));
}

Result<RocksReader::Standing> RocksReader::NewestWithCreation(const std::string& key,
                                                              Effort effort) const {
  if (std::optional<Standing> recent = recent_.Find(key)) return *std::move(recent);
  Revision missing = 0;
  for (;;) {
    // First this, because most keys that are asked for are new.
    const Result<Revision> head = Head(key, effort);
    if (!head) return head.error();
    if (*head == 0) return Standing();
    Result<Standing> standing = Newest(key, effort);
    if (!standing) return standing;
    if (standing->revision != 0) {
      standing->created = *head;
      return standing;
    }
    // Either it was deleted since, or the two rows contradict each other.
    if (*head == missing) return NoVersion(key);
    missing = *head;
  }
}

Result<RocksReader::Standing> RocksReader::StandingAt(rocksdb::Iterator& versions, Order order,
                                                      const std::string& key, Revision at,
                                                      std::optional<Standing> recent) {
  // The newest version is the one that stood, unless it came later.
  if (recent && recent->revision != 0 && recent->revision <= at) return *std::move(recent);
  const std::string wanted = VersionKey(key, at);
  if (order == Order::kAscending) {
    for (int i = 0; i < kMaxSteps && versions.Valid() && ToView(versions.key()) < wanted; ++i) {
      versions.Next();
    }
  }
  if (order == Order::kAny || !versions.Valid() || ToView(versions.key()) < wanted) {
    versions.Seek(wanted);
  }
  return StandingHere(versions, key, PrefixOfVersionKey(wanted));
}

Result<RocksReader::Logged> RocksReader::Log(Revision revision, Effort effort) const {
  const std::string row_key = LogKey(revision);
  rocksdb::PinnableSlice row;
  const rocksdb::Status status =
      rocks_.db().Get(ReadOptionsFor(effort), rocks_.log(), row_key, &row);
  if (status.IsNotFound()) return Status(StatusReason::kNotFound, "no such row");
  if (!status.ok()) return FromRocks(status);
  const auto log = DecodeLog(row_key, ToView(row));
  if (!log) return Damaged("row of the log", std::to_string(revision));
  return Logged{log->deleted, log->written, log->previous, std::string(log->key)};
}

Result<RocksReader::Slice> RocksReader::Read(const Query& query, Effort effort, Page so_far) const {
  rocksdb::ManagedSnapshot moment(&rocks_.db());
  rocksdb::PinnableSlice row;
  const rocksdb::Status status = rocks_.db().Get(ReadOptionsFor(effort, moment.snapshot()),
                                                 rocks_.meta(), ToSlice(kStateKey), &row);
  if (!status.ok()) return FromRocks(status);
  const auto state = DecodeState(ToView(row));
  if (!state) return Status(StatusReason::kCorruption, "the row \"state\" is damaged");
  const Revision at = query.at != 0 ? query.at : state->revision;
  Reading reading(query, at, at == state->revision, effort, moment.snapshot(), std::move(so_far));
  if (query.by) {
    ReadIndex(*query.by, reading);
  } else {
    ReadKeys(reading);
  }
  return reading.Finish();
}

void RocksReader::ReadKeys(Reading& reading) const {
  const Query& query = reading.query();
  const bool latest = reading.is_latest();
  if (!query.end.empty() && query.end <= query.start) return;
  const std::string upper = EscapedBound(query.end);
  const rocksdb::Slice upper_slice = upper;
  rocksdb::ReadOptions options = InOrder(reading.effort(), reading.snapshot());
  if (!query.end.empty()) options.iterate_upper_bound = &upper_slice;
  const std::unique_ptr<rocksdb::Iterator> rows(
      rocks_.db().NewIterator(options, rocks_.versions()));
  const auto go_on_with_heads = [&] {
    auto parsed = ParseVersionKey(ToView(rows->key()));
    if (!parsed) return reading.Fail(Damaged("key of a version", ToView(rows->key())));
    ReadHeads(reading, *rows, std::move(parsed->key) + '\0');
  };

  std::string group;       // the prefix of the key that is being looked at
  bool known = false;      // its state
  std::size_t passed = 0;  // rows that were of no use
  int steps = 0;           // of these, one after the other
  rows->Seek(EscapedBound(query.start));
  while (rows->Valid()) {
    const std::string_view row_key = ToView(rows->key());
    if (row_key.size() < 8) return reading.Fail(Damaged("key of a version", row_key));
    const std::string_view prefix = PrefixOfVersionKey(row_key);
    if (prefix != group) {
      const auto last = [&group] {
        auto parsed = ParseVersionKey(group + std::string(8, '\xff'));  // revision 0
        return Place{.value = {}, .key = parsed ? std::move(parsed->key) : std::string()};
      };
      if (!group.empty() && !reading.GoesOn(last)) return;
      group = prefix;
      known = false;
    }
    reading.Visit();
    const bool older = known;  // than what stood
    const bool yet_to_come = RevisionOfVersionKey(row_key) > reading.at();
    if (older || yet_to_come) {
      // The heads know the next key, and the entries that were written last are in memory.
      if (latest && ++passed > reading.found() + kFewPassed) return go_on_with_heads();
      if (++steps <= kMaxSteps) {
        rows->Next();
        continue;
      }
      steps = 0;
      const auto parsed = ParseVersionKey(row_key);
      if (!parsed) return reading.Fail(Damaged("key of a version", row_key));
      rows->Seek(older ? AfterVersions(prefix) : VersionKey(parsed->key, reading.at()));
      continue;
    }
    steps = 0;
    known = true;
    const auto version = DecodeVersion(row_key, ToView(rows->value()));
    if (!version) return reading.Fail(Damaged("version with the row", row_key));
    if (!version->deleted) {
      auto parsed = ParseVersionKey(row_key);
      if (!parsed) return reading.Fail(Damaged("key of a version", row_key));
      Entry entry{std::move(parsed->key), nullptr, parsed->revision};
      if (reading.NeedsValue()) {
        if (!reading.ChargeFor(version->value)) return;
        entry.value = std::make_shared<const std::string>(version->value);
      }
      if (!reading.Add(std::move(entry))) break;
      // What is left is only to be counted.
      if (latest && !reading.NeedsValue()) return go_on_with_heads();
    }
    rows->Next();
  }
  reading.FailIfBad(rows->status());
}

void RocksReader::ReadHeads(Reading& reading, rocksdb::Iterator& versions,
                            const std::string& from) const {
  const Query& query = reading.query();
  const rocksdb::Slice upper = query.end;
  rocksdb::ReadOptions options = ReadOptionsFor(reading.effort(), reading.snapshot());
  if (!query.end.empty()) options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> heads(rocks_.db().NewIterator(options, rocks_.heads()));
  std::vector<Entry> next;
  std::string before;  // the last key of those that were read before
  heads->Seek(from);
  while (heads->Valid()) {
    next.clear();
    for (; heads->Valid() && next.size() < kHeadsAtOnce; heads->Next()) {
      next.push_back({heads->key().ToString(), nullptr, 0});
    }
    std::vector<std::optional<Standing>> recent;
    if (reading.NeedsValue()) recent = recent_.Find(next);
    for (std::size_t i = 0; i < next.size(); ++i) {
      const std::string& last = i > 0 ? next[i - 1].key : before;
      if (!last.empty() && !reading.GoesOn([&last] { return Place{.value = {}, .key = last}; })) {
        return;
      }
      reading.Visit();
      Entry& entry = next[i];
      if (reading.NeedsValue()) {
        Result<Standing> standing =
            StandingAt(versions, Order::kAscending, entry.key, reading.at(), std::move(recent[i]));
        if (!standing) return reading.Fail(standing.error());
        if (standing->revision == 0) return reading.Fail(NoVersion(entry.key));
        if (!reading.ChargeFor(*standing->value)) return;
        entry.value = std::move(standing->value);
        entry.revision = standing->revision;
      }
      if (!reading.Add(Entry(entry))) return;
    }
    before = std::move(next.back().key);
  }
  reading.FailIfBad(heads->status());
}

void RocksReader::ReadIndex(const Query::By& by, Reading& reading) const {
  const Query& query = reading.query();
  // Rows in [low, high): of the values asked for, and of these behind the last page.
  const std::string of_index(1, static_cast<char>(by.index));
  std::string low = of_index + EscapedBound(by.from);
  std::string high = of_index + EscapedBound(by.to);
  if (!by.after_value.empty() || !by.after_key.empty()) {
    if (by.descending) {
      high = std::min(high, IndexKey(by.index, by.after_value, by.after_key, 0));
    } else {
      low = std::max(low, IndexKey(by.index, by.after_value, by.after_key, INT64_MAX));
    }
  }
  if (low >= high || !schema_.index) return;

  rocksdb::ReadOptions options = ReadOptionsFor(reading.effort(), reading.snapshot());
  const rocksdb::Slice lower = low;
  const rocksdb::Slice upper = high;
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> rows(rocks_.db().NewIterator(options, rocks_.index()));
  const std::unique_ptr<rocksdb::Iterator> versions(
      rocks_.db().NewIterator(OfOneKey(reading.effort(), reading.snapshot()), rocks_.versions()));
  std::string group;   // the prefix of the value and key that are being looked at
  bool known = false;  // whether they count
  for (by.descending ? rows->SeekToLast() : rows->SeekToFirst(); rows->Valid();
       by.descending ? rows->Prev() : rows->Next()) {
    const std::string_view row_key = ToView(rows->key());
    auto row = ParseIndexKey(row_key);
    if (!row) return reading.Fail(Damaged("row of the index", row_key));
    if (PrefixOfIndexKey(row_key) != group) {
      const auto last = [&group] {
        auto parsed = ParseIndexKey(group + std::string(8, '\0'));
        return parsed ? Place{.value = std::move(parsed->value), .key = std::move(parsed->key)}
                      : Place();
      };
      if (!group.empty() && !reading.GoesOn(last)) return;
      group = PrefixOfIndexKey(row_key);
      known = false;
    }
    reading.Visit();
    if (known || row->revision > reading.at() || row->key < query.start ||
        (!query.end.empty() && row->key >= query.end)) {
      continue;
    }
    known = true;
    // A row says since when a key has had that value. It counts if it had it still.
    Result<Standing> standing =
        StandingAt(*versions, Order::kAny, row->key, reading.at(), recent_.Find(row->key));
    if (!standing) return reading.Fail(standing.error());
    if (standing->revision == 0) continue;
    if (!reading.ChargeFor(*standing->value)) return;
    const std::vector<IndexEntry> entries = schema_.index(row->key, *standing->value);
    const auto is_row = [&](const IndexEntry& entry) {
      return entry.index == row->index && entry.value == row->value;
    };
    if (std::none_of(entries.begin(), entries.end(), is_row)) continue;
    if (!reading.Add({std::move(row->key), std::move(standing->value), standing->revision},
                     row->value)) {
      break;
    }
  }
  reading.FailIfBad(rows->status());
}

Result<Watch::Batch> RocksReader::Changes(std::string_view prefix, Revision after, Revision until,
                                          std::size_t max) const {
  // Rows of the log that one call looks at: a watch of a quiet prefix must not occupy
  // a thread while it passes millions of changes of others.
  constexpr std::size_t kMaxRows = 4'096;
  Watch::Batch batch;
  batch.revision = after;
  const std::string high = LogKey(until + 1);
  const rocksdb::Slice upper = high;
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> rows(rocks_.db().NewIterator(options, rocks_.log()));
  std::size_t visited = 0;
  for (rows->Seek(LogKey(after + 1));
       rows->Valid() && batch.changes.size() < max && visited < kMaxRows; rows->Next(), ++visited) {
    const std::string_view row_key = ToView(rows->key());
    const auto revision = ParseLogKey(row_key);
    const auto log = DecodeLog(row_key, ToView(rows->value()));
    if (!revision || !log) {
      return Damaged("row of the log", revision ? std::to_string(*revision) : std::string(row_key));
    }
    // Revisions have no gaps, so a row that is not there was damaged, or has gone.
    if (*revision != batch.revision + 1) {
      return Status(StatusReason::kNotFound,
                    fmt::format("the log has no revision {}", batch.revision + 1));
    }
    batch.revision = *revision;
    if (!log->key.starts_with(prefix)) continue;
    Entry current{std::string(log->key), nullptr, *revision};
    if (!log->deleted) {
      Result<Standing> standing = Version(log->key, *revision, {});
      if (!standing) return standing.error();
      current.value = std::move(standing->value);
    }
    std::optional<Entry> previous;
    if (log->previous != 0) {
      Result<Standing> standing = Version(log->key, log->previous, {});
      if (!standing) return standing.error();
      previous = Entry{current.key, std::move(standing->value), log->previous};
    }
    batch.changes.push_back(
        std::make_shared<const Change>(std::move(current), std::move(previous), log->deleted));
  }
  if (!rows->status().ok()) return FromRocks(rows->status());
  // Without a single row the range is not empty but missing: each revision has one.
  if (batch.revision == after && after < until) {
    return Status(StatusReason::kNotFound,
                  fmt::format("the log has no revision {}", batch.revision + 1));
  }
  return batch;
}

}  // namespace herald::store
