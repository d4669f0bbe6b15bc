#include "store/rocks/reader.h"

#include <fmt/core.h>
#include <rocksdb/snapshot.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
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

// A key may contain any bytes, and a message must be readable.
std::string Printable(std::string_view key) {
  std::string printable;
  for (const char c : key) {
    const bool plain = c >= ' ' && c < '\x7f';
    printable +=
        plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return printable;
}

Status Damaged(std::string_view what, std::string_view key) {
  return Status(StatusReason::kCorruption,
                fmt::format("the {} of \"{}\" is damaged", what, Printable(key)));
}

// Rows to step over before a seek to the next relevant one: a step costs a tenth of a seek.
constexpr int kMaxSteps = 4;

// How many more rows than results a list may skip before it continues with the heads.
constexpr std::size_t kMaxSkippedRows = 32;

// Heads that are read before their entries are looked up.
constexpr std::size_t kHeadsAtOnce = 64;

// For all versions of a snapshot, in their order.
rocksdb::ReadOptions InOrder(RocksReader::Effort effort, const rocksdb::Snapshot* snapshot) {
  rocksdb::ReadOptions options = ReadOptionsFor(effort, snapshot);
  options.total_order_seek = true;
  return options;
}

// For the versions of one key per seek: files without that key are skipped.
rocksdb::ReadOptions OfOneKey(RocksReader::Effort effort, const rocksdb::Snapshot* snapshot) {
  rocksdb::ReadOptions options = ReadOptionsFor(effort, snapshot);
  options.prefix_same_as_start = true;
  return options;
}

// The state in the row that an iterator over versions is at; revision 0 if the row is of another
// key or a deletion. Nothing if the row is not in memory, and the iterator may not read the disk.
Result<std::optional<KeyState>> StateInRow(const rocksdb::Iterator& versions, std::string_view key,
                                           std::string_view prefix) {
  const std::optional<KeyState> does_not_exist = KeyState();
  if (!versions.Valid()) {
    if (versions.status().IsIncomplete()) return std::optional<KeyState>();
    if (!versions.status().ok()) return FromRocks(versions.status());
    return does_not_exist;
  }
  const std::string_view row_key = ToView(versions.key());
  if (row_key.size() < 8 || PrefixOfVersionKey(row_key) != prefix) return does_not_exist;
  const Revision revision = RevisionOfVersionKey(row_key);
  const auto version = DecodeVersion(row_key, ToView(versions.value()));
  if (!version) return Damaged(fmt::format("version {}", revision), key);
  if (version->deleted) return does_not_exist;
  return std::optional<KeyState>(
      KeyState{.revision = revision,
               .value = std::make_shared<const std::string>(version->value),
               .written = version->written,
               .expires = version->expires});
}

// The state of a key at a revision: from RecentEntries, or else from an iterator over the versions,
// which is used for keys in ascending order or in any. Result as above.
enum class Order : bool { kAscending, kAny };
Result<std::optional<KeyState>> StateAt(rocksdb::Iterator& versions, Order order,
                                        const std::string& key, Revision at,
                                        std::optional<KeyState> recent) {
  // The newest version is the one at that revision, unless it is later.
  if (recent && recent->revision != 0 && recent->revision <= at) return recent;
  const std::string wanted = VersionKey(key, at);
  if (order == Order::kAscending) {
    for (int i = 0; i < kMaxSteps && versions.Valid() && ToView(versions.key()) < wanted; ++i) {
      versions.Next();
    }
  }
  if (order == Order::kAny || !versions.Valid() || ToView(versions.key()) < wanted) {
    versions.Seek(wanted);
  }
  return StateInRow(versions, key, PrefixOfVersionKey(wanted));
}

Status NoVersion(std::string_view key) {
  return Status(StatusReason::kCorruption,
                fmt::format("the key \"{}\" has a head but no version", Printable(key)));
}

}  // namespace

// Gathers the result of one call of Read(). Thread-confined.
//
// Rows come in groups: those of one key or, in a read by an index, of one value and key. A read
// stops only between two groups, where it can continue later.
class RocksReader::SliceBuilder {
 public:
  SliceBuilder(const Query& query, Revision at, bool latest, Effort effort,
               const rocksdb::Snapshot* snapshot, Page so_far)
      : query_(query), latest_(latest), effort_(effort), snapshot_(snapshot) {
    slice_.page = std::move(so_far);
    page().revision = at;
    if (query_.max_bytes == 0) return;
    for (const Entry& entry : page().entries) bytes_ += entry.value->size();
  }

  const Query& query() const { return query_; }
  Revision at() const { return slice_.page.revision; }
  // Whether at() is the latest revision of the snapshot, so that the heads are the keys that exist.
  bool is_latest() const { return latest_; }
  Effort effort() const { return effort_; }
  const rocksdb::Snapshot* snapshot() const { return snapshot_; }

  // Counts a row that is read.
  void CountRow() { slice_.cost += NeedsValue() ? kRowCost : kCountCost; }
  // Counts the bytes of a value, before it is decoded or returned. False: it is too large, and the
  // read has ended.
  bool CountValue(std::string_view value) {
    if (effort_.max_value_bytes > 0 && value.size() > effort_.max_value_bytes) {
      slice_.end = End::kValueTooLarge;
      return false;
    }
    if (value.size() > kOrdinaryValueBytes) {
      slice_.cost += (value.size() - kOrdinaryValueBytes) / kBytesPerCost;
    }
    return true;
  }
  // Between two groups: false if the read has to stop here. `last` returns the Place of the group
  // that has ended.
  template <typename MakePlace>
  bool MayContinue(MakePlace last) {
    if (effort_.max_cost == 0 || slice_.cost < effort_.max_cost) return true;
    slice_.end = End::kMaxCost;
    slice_.next = last();
    return false;
  }
  // Whether the next entry's value is needed, or the entry is only counted.
  bool NeedsValue() const { return !full() || query_.filter; }
  std::size_t found() const { return slice_.page.entries.size(); }

  // `value` is the index value that the entry was found by. False: no more entries are needed.
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

  // Each ends the read; what was added is dropped.
  void Fail(const Status& why) { error_ = why; }
  void EndNotCached() { slice_.end = End::kNotCached; }
  // After an iterator has ended.
  void CheckIterator(const rocksdb::Status& status) {
    if (status.IsIncomplete()) {
      EndNotCached();
    } else if (!status.ok() && error_.ok()) {
      error_ = FromRocks(status);
    }
  }

  // The result. REQUIRES: called once
  Result<Slice> Take() {
    if (!error_.ok()) return error_;
    if (slice_.end == End::kNotCached || slice_.end == End::kValueTooLarge) {
      return Slice{.end = slice_.end, .cost = slice_.cost};
    }
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
  // Entries beyond `max_bytes` are not counted: the caller reads them next.
  bool counts() const { return query_.count_remaining && at_limit(); }

  const Query& query_;
  const bool latest_;
  const Effort effort_;
  const rocksdb::Snapshot* const snapshot_;
  std::size_t bytes_ = 0;  // of the values of the page
  Status error_;
  Slice slice_;
};

Result<Revision> RocksReader::Head(std::string_view key) const {
  rocksdb::PinnableSlice row;
  const rocksdb::Status status = rocks_.db().Get({}, rocks_.heads(), ToSlice(key), &row);
  if (status.IsNotFound()) return Revision{0};
  if (!status.ok()) return FromRocks(status);
  const auto created = DecodeHead(ToView(row));
  if (!created) return Damaged("head", key);
  return *created;
}

Result<KeyState> RocksReader::Version(std::string_view key, Revision revision) const {
  const std::string row_key = VersionKey(key, revision);
  rocksdb::PinnableSlice row;
  const rocksdb::Status status = rocks_.db().Get({}, rocks_.versions(), row_key, &row);
  if (status.IsNotFound()) {
    return Status(StatusReason::kNotFound,
                  fmt::format("there is no version {} of \"{}\"", revision, Printable(key)));
  }
  if (!status.ok()) return FromRocks(status);
  const auto version = DecodeVersion(row_key, ToView(row));
  if (!version) return Damaged(fmt::format("version {}", revision), key);
  if (version->deleted) return Status(StatusReason::kNotFound, "deleted");
  return KeyState{.revision = revision,
                  .value = std::make_shared<const std::string>(version->value),
                  .written = version->written,
                  .expires = version->expires};
}

Result<std::optional<KeyState>> RocksReader::FindNewest(const std::string& key,
                                                        Effort effort) const {
  if (std::optional<KeyState> recent = recent_.Find(key)) return recent;
  const std::string newest = VersionKey(key, INT64_MAX);
  const std::unique_ptr<rocksdb::Iterator> versions(
      rocks_.db().NewIterator(OfOneKey(effort, nullptr), rocks_.versions()));
  versions->Seek(newest);
  return StateInRow(*versions, key, PrefixOfVersionKey(newest));
}

Result<std::optional<KeyState>> RocksReader::NewestIfCached(const std::string& key) const {
  return FindNewest(key, Effort{.cached = true});
}

Result<KeyState> RocksReader::Newest(const std::string& key) const {
  Result<std::optional<KeyState>> found = FindNewest(key, Effort());
  if (!found) return found.error();
  std::optional<KeyState> state = *std::move(found);
  HERALD_CHECK(state.has_value(), "a read that may use the disk has a result");
  return *std::move(state);
}

Result<KeyState> RocksReader::NewestWithCreation(const std::string& key) const {
  if (std::optional<KeyState> recent = recent_.Find(key)) return *std::move(recent);
  Revision missing = 0;
  for (;;) {
    // The head first, because most keys that are looked up are new.
    const Result<Revision> head = Head(key);
    if (!head) return head.error();
    if (*head == 0) return KeyState();
    Result<KeyState> state = Newest(key);
    if (!state) return state;
    if (state->revision != 0) {
      state->created = *head;
      return state;
    }
    // Either it was deleted since, or the two rows contradict each other.
    if (*head == missing) return NoVersion(key);
    missing = *head;
  }
}

Result<RocksReader::LoggedWrite> RocksReader::Log(Revision revision) const {
  const std::string row_key = LogKey(revision);
  rocksdb::PinnableSlice row;
  const rocksdb::Status status = rocks_.db().Get({}, rocks_.log(), row_key, &row);
  if (status.IsNotFound()) {
    return Status(StatusReason::kNotFound, fmt::format("the log has no revision {}", revision));
  }
  if (!status.ok()) return FromRocks(status);
  const auto log = DecodeLog(row_key, ToView(row));
  if (!log) return Damaged("row of the log", std::to_string(revision));
  return LoggedWrite{log->deleted, log->written, log->previous, std::string(log->key)};
}

Result<RocksReader::Slice> RocksReader::Read(const Query& query, Effort effort, Page so_far) const {
  rocksdb::ManagedSnapshot snapshot(&rocks_.db());
  rocksdb::PinnableSlice row;
  const rocksdb::Status status = rocks_.db().Get(ReadOptionsFor(effort, snapshot.snapshot()),
                                                 rocks_.meta(), ToSlice(kStateKey), &row);
  if (status.IsIncomplete()) return Slice{.end = End::kNotCached};
  if (!status.ok()) return FromRocks(status);
  const auto state = DecodeState(ToView(row));
  if (!state) return Status(StatusReason::kCorruption, "the row \"state\" is damaged");
  const Revision at = query.at != 0 ? query.at : state->revision;
  SliceBuilder slice(query, at, at == state->revision, effort, snapshot.snapshot(),
                     std::move(so_far));
  if (query.by) {
    ReadIndex(*query.by, slice);
  } else {
    ReadKeys(slice);
  }
  return slice.Take();
}

void RocksReader::ReadKeys(SliceBuilder& slice) const {
  const Query& query = slice.query();
  const bool latest = slice.is_latest();
  if (!query.end.empty() && query.end <= query.start) return;
  const std::string upper = EscapedBound(query.end);
  const rocksdb::Slice upper_slice = upper;
  rocksdb::ReadOptions options = InOrder(slice.effort(), slice.snapshot());
  if (!query.end.empty()) options.iterate_upper_bound = &upper_slice;
  const std::unique_ptr<rocksdb::Iterator> rows(
      rocks_.db().NewIterator(options, rocks_.versions()));
  const auto continue_with_heads = [&] {
    auto parsed = ParseVersionKey(ToView(rows->key()));
    if (!parsed) return slice.Fail(Damaged("key of a version", ToView(rows->key())));
    ReadHeads(slice, *rows, std::move(parsed->key) + '\0');
  };

  std::string group;        // the prefix of the current key
  bool known = false;       // its state at the revision was found
  std::size_t skipped = 0;  // rows that were not needed
  int steps = 0;            // of these, without interruption
  rows->Seek(EscapedBound(query.start));
  while (rows->Valid()) {
    const std::string_view row_key = ToView(rows->key());
    if (row_key.size() < 8) return slice.Fail(Damaged("key of a version", row_key));
    const std::string_view prefix = PrefixOfVersionKey(row_key);
    if (prefix != group) {
      const auto last = [&group] {
        auto parsed = ParseVersionKey(group + std::string(8, '\xff'));  // revision 0
        return Place{.value = {}, .key = parsed ? std::move(parsed->key) : std::string()};
      };
      if (!group.empty() && !slice.MayContinue(last)) return;
      group = prefix;
      known = false;
    }
    slice.CountRow();
    const bool older = known;
    const bool newer = RevisionOfVersionKey(row_key) > slice.at();
    if (older || newer) {
      // The heads contain the next key, and recently written entries are in memory.
      if (latest && ++skipped > slice.found() + kMaxSkippedRows) return continue_with_heads();
      if (++steps <= kMaxSteps) {
        rows->Next();
        continue;
      }
      steps = 0;
      const auto parsed = ParseVersionKey(row_key);
      if (!parsed) return slice.Fail(Damaged("key of a version", row_key));
      rows->Seek(older ? AfterVersions(prefix) : VersionKey(parsed->key, slice.at()));
      continue;
    }
    steps = 0;
    known = true;
    const auto version = DecodeVersion(row_key, ToView(rows->value()));
    if (!version) return slice.Fail(Damaged("version with the row", row_key));
    if (!version->deleted) {
      auto parsed = ParseVersionKey(row_key);
      if (!parsed) return slice.Fail(Damaged("key of a version", row_key));
      Entry entry{std::move(parsed->key), nullptr, parsed->revision};
      if (slice.NeedsValue()) {
        if (!slice.CountValue(version->value)) return;
        entry.value = std::make_shared<const std::string>(version->value);
      }
      if (!slice.Add(std::move(entry))) break;
      // The rest is only counted.
      if (latest && !slice.NeedsValue()) return continue_with_heads();
    }
    rows->Next();
  }
  slice.CheckIterator(rows->status());
}

void RocksReader::ReadHeads(SliceBuilder& slice, rocksdb::Iterator& versions,
                            const std::string& from) const {
  const Query& query = slice.query();
  const rocksdb::Slice upper = query.end;
  rocksdb::ReadOptions options = ReadOptionsFor(slice.effort(), slice.snapshot());
  if (!query.end.empty()) options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> heads(rocks_.db().NewIterator(options, rocks_.heads()));
  std::vector<Entry> next;
  std::string before;  // the last key of the previous round
  heads->Seek(from);
  while (heads->Valid()) {
    next.clear();
    for (; heads->Valid() && next.size() < kHeadsAtOnce; heads->Next()) {
      next.push_back({heads->key().ToString(), nullptr, 0});
    }
    std::vector<std::optional<KeyState>> recent;
    if (slice.NeedsValue()) recent = recent_.Find(next);
    for (std::size_t i = 0; i < next.size(); ++i) {
      const std::string& last = i > 0 ? next[i - 1].key : before;
      if (!last.empty() &&
          !slice.MayContinue([&last] { return Place{.value = {}, .key = last}; })) {
        return;
      }
      slice.CountRow();
      Entry& entry = next[i];
      if (slice.NeedsValue()) {
        Result<std::optional<KeyState>> found =
            StateAt(versions, Order::kAscending, entry.key, slice.at(), std::move(recent[i]));
        if (!found) return slice.Fail(found.error());
        std::optional<KeyState> state = *std::move(found);
        if (!state) return slice.EndNotCached();
        if (state->revision == 0) return slice.Fail(NoVersion(entry.key));
        if (!slice.CountValue(*state->value)) return;
        entry.value = std::move(state->value);
        entry.revision = state->revision;
      }
      if (!slice.Add(Entry(entry))) return;
    }
    before = std::move(next.back().key);
  }
  slice.CheckIterator(heads->status());
}

void RocksReader::ReadIndex(const Query::By& by, SliceBuilder& slice) const {
  const Query& query = slice.query();
  // Rows in [low, high): of the values in the query, after the last page.
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

  rocksdb::ReadOptions options = ReadOptionsFor(slice.effort(), slice.snapshot());
  const rocksdb::Slice lower = low;
  const rocksdb::Slice upper = high;
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> rows(rocks_.db().NewIterator(options, rocks_.index()));
  const std::unique_ptr<rocksdb::Iterator> versions(
      rocks_.db().NewIterator(OfOneKey(slice.effort(), slice.snapshot()), rocks_.versions()));
  std::string group;   // the prefix of the current value and key
  bool known = false;  // its state at the revision was found
  for (by.descending ? rows->SeekToLast() : rows->SeekToFirst(); rows->Valid();
       by.descending ? rows->Prev() : rows->Next()) {
    const std::string_view row_key = ToView(rows->key());
    auto row = ParseIndexKey(row_key);
    if (!row) return slice.Fail(Damaged("row of the index", row_key));
    if (PrefixOfIndexKey(row_key) != group) {
      const auto last = [&group] {
        auto parsed = ParseIndexKey(group + std::string(8, '\0'));
        return parsed ? Place{.value = std::move(parsed->value), .key = std::move(parsed->key)}
                      : Place();
      };
      if (!group.empty() && !slice.MayContinue(last)) return;
      group = PrefixOfIndexKey(row_key);
      known = false;
    }
    slice.CountRow();
    if (known || row->revision > slice.at() || row->key < query.start ||
        (!query.end.empty() && row->key >= query.end)) {
      continue;
    }
    known = true;
    // The row contains the revision since which the key has had that value. It counts if the key
    // has the value at this revision, too.
    Result<std::optional<KeyState>> found =
        StateAt(*versions, Order::kAny, row->key, slice.at(), recent_.Find(row->key));
    if (!found) return slice.Fail(found.error());
    std::optional<KeyState> state = *std::move(found);
    if (!state) return slice.EndNotCached();
    if (state->revision == 0) continue;
    if (!slice.CountValue(*state->value)) return;
    const std::vector<IndexEntry> entries = schema_.index(row->key, *state->value);
    const auto is_row = [&](const IndexEntry& entry) {
      return entry.index == row->index && entry.value == row->value;
    };
    if (std::none_of(entries.begin(), entries.end(), is_row)) continue;
    if (!slice.Add({std::move(row->key), std::move(state->value), state->revision}, row->value)) {
      break;
    }
  }
  slice.CheckIterator(rows->status());
}

Result<Watch::Batch> RocksReader::Changes(std::string_view prefix, Revision after, Revision until,
                                          std::size_t max) const {
  // Limit on rows of the log that one call reads: a watch of a prefix that rarely changes must not
  // occupy a thread while it skips millions of changes of other keys.
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
    // Revisions have no gaps, so a missing row was compacted or lost.
    if (*revision != batch.revision + 1) {
      return Status(StatusReason::kNotFound,
                    fmt::format("the log has no revision {}", batch.revision + 1));
    }
    batch.revision = *revision;
    if (!log->key.starts_with(prefix)) continue;
    Entry current{std::string(log->key), nullptr, *revision};
    if (!log->deleted) {
      Result<KeyState> state = Version(log->key, *revision);
      if (!state) return state.error();
      current.value = std::move(state->value);
    }
    std::optional<Entry> previous;
    if (log->previous != 0) {
      Result<KeyState> state = Version(log->key, log->previous);
      if (!state) return state.error();
      previous = Entry{current.key, std::move(state->value), log->previous};
    }
    batch.changes.push_back(
        std::make_shared<const Change>(std::move(current), std::move(previous), log->deleted));
  }
  if (!rows->status().ok()) return FromRocks(rows->status());
  // Each revision has a row, so a range without rows is missing.
  if (batch.revision == after && after < until) {
    return Status(StatusReason::kNotFound,
                  fmt::format("the log has no revision {}", batch.revision + 1));
  }
  return batch;
}

}  // namespace herald::store
