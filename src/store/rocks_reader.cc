#include "store/rocks_reader.h"

#include <fmt/core.h>
#include <rocksdb/snapshot.h>

#include <algorithm>
#include <utility>

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

Status GoneTooFar() { return Status(StatusReason::kCancelled, "more rows than were asked for"); }

// Gathers what a query is to return, whatever order it comes in.
class PageBuilder {
 public:
  PageBuilder(const Query& query, Revision at) : query_(query) { page_.revision = at; }

  // Whether the next entry's value matters, or only that there is one.
  bool NeedsValue() const { return !full() || query_.filter; }

  // False: no more is needed.
  bool Add(Entry entry) {
    if (full()) {
      page_.more = true;
      if (!query_.count_remaining) return false;
      if (!query_.filter || query_.filter(entry)) ++page_.remaining;
      return true;
    }
    if (!query_.filter || query_.filter(entry)) page_.entries.push_back(std::move(entry));
    return true;
  }

  Page Finish() {
    if (query_.count_remaining) page_.more = page_.remaining > 0;
    return std::move(page_);
  }

 private:
  bool full() const { return query_.limit > 0 && page_.entries.size() >= query_.limit; }

  const Query& query_;
  Page page_;
};

}  // namespace

Result<Revision> RocksReader::Head(std::string_view key, Effort effort,
                                   const rocksdb::Snapshot* snapshot) const {
  rocksdb::PinnableSlice row;
  const rocksdb::Status status =
      rocks_.db().Get(ReadOptionsFor(effort, snapshot), rocks_.heads(), ToSlice(key), &row);
  if (status.IsNotFound()) return Revision{0};
  if (!status.ok()) return FromRocks(status);
  const auto revision = DecodeHead(ToView(row));
  if (!revision) return Damaged("head", key);
  return *revision;
}

Result<RocksReader::Standing> RocksReader::Version(std::string_view key, Revision revision,
                                                   Effort effort,
                                                   const rocksdb::Snapshot* snapshot) const {
  const std::string row_key = VersionKey(key, revision);
  rocksdb::PinnableSlice row;
  const rocksdb::Status status =
      rocks_.db().Get(ReadOptionsFor(effort, snapshot), rocks_.versions(), row_key, &row);
  if (status.IsNotFound()) {
    return Status(StatusReason::kNotFound,
                  fmt::format("there is no version {} of \"{}\"", revision, Printable(key)));
  }
  if (!status.ok()) return FromRocks(status);
  const auto version = DecodeVersion(row_key, ToView(row));
  if (!version) return Damaged(fmt::format("version {}", revision), key);
  if (version->deleted) return Status(StatusReason::kNotFound, "deleted");
  return Standing{revision, std::make_shared<const std::string>(version->value), version->written,
                  version->expires};
}

Result<RocksReader::Standing> RocksReader::Newest(std::string_view key, Effort effort) const {
  Revision missing = 0;
  for (;;) {
    const Result<Revision> head = Head(key, effort);
    if (!head) return head.error();
    if (*head == 0) return Standing();
    Result<Standing> standing = Version(key, *head, effort);
    if (standing || !standing.error().Is(StatusReason::kNotFound)) return standing;
    // Either it was replaced and compacted since, or the two rows contradict each other.
    if (*head == missing) {
      return Status(StatusReason::kCorruption,
                    fmt::format("the head of \"{}\" points to version {}, which does not exist",
                                Printable(key), missing));
    }
    missing = *head;
  }
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

Result<Page> RocksReader::Read(const Query& query, Revision at, Effort effort) const {
  return query.by ? ReadIndex(query, at, effort) : ReadKeys(query, at, effort);
}

Result<Page> RocksReader::ReadKeys(const Query& query, Revision at, Effort effort) const {
  PageBuilder page(query, at);
  if (!query.end.empty() && query.end <= query.start) return page.Finish();
  const std::string lower = EscapedBound(query.start);
  const std::string upper = EscapedBound(query.end);
  const rocksdb::Slice upper_slice = upper;
  rocksdb::ReadOptions options = ReadOptionsFor(effort);
  if (!query.end.empty()) options.iterate_upper_bound = &upper_slice;
  options.auto_prefix_mode = false;

  // The iterator sees the rows of one moment, so the versions of a revision that is kept
  // now stay in its sight even if they are compacted meanwhile.
  const std::unique_ptr<rocksdb::Iterator> rows(
      rocks_.db().NewIterator(options, rocks_.versions()));
  std::string seen;  // the prefix of the key whose state is known
  std::size_t visited = 0;
  for (rows->Seek(lower); rows->Valid(); rows->Next()) {
    if (effort.max_rows > 0 && ++visited > effort.max_rows) return GoneTooFar();
    const std::string_view row_key = ToView(rows->key());
    if (row_key.size() < 8) return Damaged("key of a version", row_key);
    if (PrefixOfVersionKey(row_key) == seen) continue;  // older than what stood
    if (RevisionOfVersionKey(row_key) > at) continue;   // yet to come
    seen = PrefixOfVersionKey(row_key);
    const auto version = DecodeVersion(row_key, ToView(rows->value()));
    if (!version) return Damaged("version with the row", row_key);
    if (version->deleted) continue;
    auto parsed = ParseVersionKey(row_key);
    if (!parsed) return Damaged("key of a version", row_key);
    Entry entry{std::move(parsed->key), nullptr, parsed->revision};
    if (page.NeedsValue()) entry.value = std::make_shared<const std::string>(version->value);
    if (!page.Add(std::move(entry))) break;
  }
  if (!rows->status().ok()) return FromRocks(rows->status());
  return page.Finish();
}

Result<Page> RocksReader::ReadIndex(const Query& query, Revision at, Effort effort) const {
  PageBuilder page(query, at);
  if (!query.by) return page.Finish();
  const Query::By& by = *query.by;
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
  if (low >= high) return page.Finish();

  // An index row and the version that it speaks of must be seen at one moment.
  rocksdb::ManagedSnapshot moment(&rocks_.db());
  const rocksdb::Snapshot* const snapshot = moment.snapshot();
  rocksdb::ReadOptions options = ReadOptionsFor(effort, snapshot);
  const rocksdb::Slice lower = low;
  const rocksdb::Slice upper = high;
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> rows(rocks_.db().NewIterator(options, rocks_.index()));
  std::unique_ptr<rocksdb::Iterator> versions;  // for what has been written since `at`
  std::size_t visited = 0;
  for (by.descending ? rows->SeekToLast() : rows->SeekToFirst(); rows->Valid();
       by.descending ? rows->Prev() : rows->Next()) {
    if (effort.max_rows > 0 && ++visited > effort.max_rows) return GoneTooFar();
    auto row = ParseIndexKey(ToView(rows->key()));
    if (!row) return Damaged("row of the index", ToView(rows->key()));
    if (row->revision > at || row->key < query.start ||
        (!query.end.empty() && row->key >= query.end)) {
      continue;
    }
    // The row counts if its version is the one that stood.
    const Result<Revision> head = Head(row->key, effort, snapshot);
    if (!head) return head.error();
    if (*head != row->revision) {
      if (*head != 0 && *head <= at) continue;
      rocksdb::ReadOptions at_options = ReadOptionsFor(effort, snapshot);
      if (!versions) versions.reset(rocks_.db().NewIterator(at_options, rocks_.versions()));
      versions->Seek(VersionKey(row->key, at));
      if (!versions->status().ok()) return FromRocks(versions->status());
      if (!versions->Valid() || ToView(versions->key()) != VersionKey(row->key, row->revision)) {
        continue;
      }
    }
    Entry entry{std::move(row->key), nullptr, row->revision};
    if (page.NeedsValue()) {
      Result<Standing> standing = Version(entry.key, entry.revision, effort, snapshot);
      if (!standing) {
        if (!standing.error().Is(StatusReason::kNotFound)) return standing.error();
        return Status(StatusReason::kCorruption,
                      fmt::format("the index knows version {} of \"{}\", which does not exist",
                                  entry.revision, Printable(entry.key)));
      }
      entry.value = std::move(standing->value);
    }
    if (!page.Add(std::move(entry))) break;
  }
  if (!rows->status().ok()) return FromRocks(rows->status());
  return page.Finish();
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
  return batch;
}

}  // namespace herald::store
