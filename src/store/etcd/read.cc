#include "store/etcd/read.h"

#include <algorithm>
#include <set>
#include <utility>

namespace herald::store {
namespace {

// Entries per page: half a megabyte of events, so that neither etcd nor we are busy for long.
constexpr std::int64_t kPageEntries = 500;
// Entries per page if the query limits the size of its result.
constexpr std::int64_t kSmallPageEntries = 150;

// The smallest result of a query by index. Each one reads all entries of the range, so with smaller
// results a client that reads page after page would repeat that too often.
constexpr std::size_t kMinIndexPageBytes = 4u << 20;

}  // namespace

void EtcdRead::Start(const Range& range, const Schema* schema, Executor* executor, Query query,
                     Store::PageDone done) {
  std::make_shared<EtcdRead>(range, schema, executor, std::move(query), std::move(done))
      ->RequestPage();
}

EtcdRead::EtcdRead(Range range, const Schema* schema, Executor* executor, Query query,
                   Store::PageDone done)
    : range_(std::move(range)),
      schema_(schema),
      executor_(executor),
      query_(std::move(query)),
      done_(std::move(done)),
      next_(query_.start),
      at_(query_.at),
      page_(query_, query_.at) {}

EtcdRead::~EtcdRead() {
  if (done_) Answer(Status(StatusReason::kCancelled, "the store was closed"));
}

void EtcdRead::Answer(Result<Page> page) { std::exchange(done_, nullptr)(std::move(page)); }

void EtcdRead::RequestPage() {
  EtcdRange range;
  range.start = next_;
  range.end = query_.end;
  range.at = at_;
  range.limit = query_.max_bytes > 0 && !query_.by ? kSmallPageEntries : kPageEntries;
  if (is_plain() && query_.limit > 0) {
    range.limit = std::min(range.limit, static_cast<std::int64_t>(query_.limit) - entries_read_);
  }
  range_(std::move(range), [self = shared_from_this()](Result<EtcdPage> page) {
    Executor* const executor = self->executor_;
    auto shared = std::make_shared<Result<EtcdPage>>(std::move(page));
    executor->Post([self, shared] { self->OnPage(std::move(*shared)); });
  });
}

void EtcdRead::OnPage(Result<EtcdPage> page) {
  if (query_.is_cancelled()) {
    return Answer(Status(StatusReason::kCancelled, "the read was cancelled"));
  }
  if (!page) {
    // The client asked for the latest revision, so it can simply retry the list; it never saw the
    // revision that expired.
    const bool compacted = query_.at == 0 && page.error().Is(StatusReason::kExpired);
    return Answer(compacted
                      ? Status(StatusReason::kServiceUnavailable,
                               "etcd compacted the list's revision before the list was complete: " +
                                   page.error().message())
                      : page.error());
  }
  if (at_ == 0) at_ = page->revision;
  if (count_ < 0) count_ = page->count;
  if (!page->entries.empty()) next_ = page->entries.back().key + '\0';
  bool enough = false;
  for (EtcdKeyValue& item : page->entries) {
    ++entries_read_;
    enough = !AddEntry({std::move(item.key), std::move(item.value), item.mod_revision});
    if (enough) break;
  }
  more_ = page->more;
  if (is_plain() && query_.limit > 0 && entries_read_ >= static_cast<std::int64_t>(query_.limit)) {
    return Finish();  // etcd returned the count of the rest
  }
  if (enough || !more_) return Finish();
  RequestPage();
}

bool EtcdRead::AddEntry(Entry entry) {
  if (!query_.by) return page_.Take(std::move(entry));
  if (!query_.filter || query_.filter(entry)) AddIndexRows(entry);
  return true;
}

bool EtcdRead::ComesBefore(const Row& a, const Row& b) const {
  const bool descending = query_.by && query_.by->descending;
  const Row& first = descending ? b : a;
  const Row& second = descending ? a : b;
  return std::tie(first.value, first.entry.key) < std::tie(second.value, second.entry.key);
}

void EtcdRead::AddIndexRows(const Entry& entry) {
  if (!query_.by || !schema_->index) return;
  const IndexRange& by = *query_.by;
  std::set<std::string> values;
  for (IndexEntry& index : schema_->index(entry.key, *entry.value)) {
    if (index.index == by.index && index.value >= by.from && index.value < by.to) {
      values.insert(std::move(index.value));
    }
  }
  const bool resumes = !by.after_value.empty() || !by.after_key.empty();
  for (const std::string& value : values) {
    Row row{value, entry};
    if (resumes && !ComesBefore({by.after_value, {by.after_key, nullptr, 0}}, row)) continue;
    ++matched_;
    rows_.push_back(std::move(row));
  }
  // Amortizes the cost of sorting.
  if (query_.limit > 0 && rows_.size() > 2 * query_.limit + kPageEntries) KeepFirst(query_.limit);
}

void EtcdRead::KeepFirst(std::size_t rows) {
  if (rows_.size() <= rows) return;
  std::nth_element(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(rows), rows_.end(),
                   [this](const Row& a, const Row& b) { return ComesBefore(a, b); });
  rows_.resize(rows);
}

void EtcdRead::Finish() {
  Page page;
  if (query_.by) {
    if (query_.limit > 0) KeepFirst(query_.limit);
    std::sort(rows_.begin(), rows_.end(),
              [this](const Row& a, const Row& b) { return ComesBefore(a, b); });
    const std::size_t max_bytes = std::max(query_.max_bytes, kMinIndexPageBytes);
    std::size_t bytes = 0;
    for (Row& row : rows_) {
      if (query_.max_bytes > 0 && bytes >= max_bytes) break;
      bytes += row.entry.value->size();
      page.last = {.value = std::move(row.value), .key = row.entry.key};
      page.entries.push_back(std::move(row.entry));
    }
    const std::int64_t left = matched_ - static_cast<std::int64_t>(page.entries.size());
    page.more = left > 0;
    if (query_.count_remaining) page.remaining = left;
  } else {
    page = page_.Finish();
    if (is_plain() && query_.limit > 0 && page.entries.size() >= query_.limit) {
      page.more = more_;
      page.last.key = page.entries.back().key;
      if (query_.count_remaining) page.remaining = count_ - entries_read_;
    }
  }
  page.revision = at_;
  Answer(std::move(page));
}

}  // namespace herald::store
