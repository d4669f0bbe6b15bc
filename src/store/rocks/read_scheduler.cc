#include "store/rocks/read_scheduler.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace herald::store {
namespace {

using End = RocksReader::End;

// Limits of a slice. Rows cost more with a filter, which decodes each value.
constexpr std::size_t kInlineRows = 100;
constexpr std::size_t kInlineFilteredRows = 20;
constexpr RocksReader::Effort kInline{
    .cached = true, .max_cost = kInlineRows * RocksReader::kRowCost, .max_value_bytes = 16 * 1024};
constexpr RocksReader::Effort kInlineFiltered{
    .cached = true,
    .max_cost = kInlineFilteredRows * RocksReader::kRowCost,
    .max_value_bytes = kInline.max_value_bytes};
constexpr std::size_t kSliceRows = 400;
constexpr RocksReader::Effort kPoolSlice{
    .cached = false, .max_cost = kSliceRows * RocksReader::kRowCost, .max_value_bytes = 64 * 1024};
constexpr RocksReader::Effort kSlowSlice{.cached = false, .max_cost = kPoolSlice.max_cost};
constexpr RocksReader::Effort kNoLimit{};

FairQueue::Options QueueOptions(int threads) {
  FairQueue::Options options;
  options.concurrency = threads;
  options.slice_cost = kPoolSlice.max_cost;
  return options;
}

// Nothing if the key does not exist.
std::optional<Entry> ToEntry(std::string key, KeyState state) {
  if (state.revision == 0) return std::nullopt;
  return Entry{std::move(key), std::move(state.value), state.revision};
}

}  // namespace

// A query and the part of its page that was read. Completes with kCancelled if it is destroyed
// before it was completed. Thread-confined: its slices run one after the other.
class ReadScheduler::ScheduledRead {
 public:
  ScheduledRead(Query q, Store::PageDone done)
      : query(std::move(q)),
        start_(query.start),
        by_(query.by),
        is_of_latest_(query.at == 0),
        done_(std::move(done)) {}
  ~ScheduledRead() {
    if (done_) Complete(Status(StatusReason::kCancelled, "the store was closed"));
  }
  ScheduledRead(const ScheduledRead&) = delete;
  ScheduledRead& operator=(const ScheduledRead&) = delete;

  void Complete(Result<Page> result) { std::exchange(done_, nullptr)(std::move(result)); }
  // Adds what a slice has read. Returns whether the query is answered.
  // REQUIRES: slice.end is kComplete or kMaxCost
  bool Add(RocksReader::Slice slice) {
    page = std::move(slice.page);
    if (slice.end == End::kComplete) return true;
    query.at = page.revision;
    query.ContinueAfter(slice.next);
    return false;
  }
  // Whether the read starts again because compaction has overtaken it. Only for the latest
  // revision: a client that asks for the latest state must not get kExpired.
  bool RestartIfExpired(const Status& error) {
    if (!is_of_latest_ || !error.Is(StatusReason::kExpired)) return false;
    Restart();
    return true;
  }
  void Restart() {
    if (is_of_latest_) query.at = 0;
    query.start = start_;
    query.by = by_;
    page = Page();
  }

  Query query;  // for the part that is not read yet
  Page page;    // the part that is

 private:
  const std::string start_;
  const std::optional<Query::By> by_;
  const bool is_of_latest_;
  Store::PageDone done_;
};

ReadScheduler::ReadScheduler(const RocksStoreOptions* options, SharedDatabase* database,
                             PublishedState* published)
    : options_(*options),
      database_(*database),
      published_(*published),
      pool_(Executor::Options{.threads = std::max(1, options->read_threads)}),
      slow_thread_(Executor::Options{.threads = 1}),
      queue_(std::make_unique<FairQueue>(&pool_, QueueOptions(pool_.threads()))),
      slow_queue_(std::make_unique<FairQueue>(&slow_thread_, QueueOptions(1))) {}

ReadScheduler::~ReadScheduler() { Stop(); }

void ReadScheduler::Stop() {
  pool_.Stop();
  slow_thread_.Stop();
  queue_.reset();
  slow_queue_.reset();
}

Result<std::optional<KeyState>> ReadScheduler::FindNewestIfCached(const std::string& key) {
  const SharedDatabase::Access access(&database_);
  if (!access.status().ok()) return access.status();
  Result<std::optional<KeyState>> found = access.reader().NewestIfCached(key);
  if (!found) return found;
  std::optional<KeyState> state = *std::move(found);
  if (state) published_.RaiseVisible(state->revision);
  return state;
}

Result<KeyState> ReadScheduler::FindNewest(const std::string& key) {
  const SharedDatabase::Access access(&database_);
  if (!access.status().ok()) return access.status();
  Result<KeyState> state = access.reader().Newest(key);
  if (state) published_.RaiseVisible(state->revision);
  return state;
}

void ReadScheduler::Get(std::string key, Store::EntryDone done) {
  Result<std::optional<KeyState>> cached = FindNewestIfCached(key);
  if (!cached) return done(cached.error());
  std::optional<KeyState> state = *std::move(cached);
  if (state) return done(ToEntry(std::move(key), *std::move(state)));
  pool_.Post([this, key = std::move(key), done = std::move(done)] {
    Result<KeyState> newest = FindNewest(key);
    if (!newest) return done(newest.error());
    done(ToEntry(key, *std::move(newest)));
  });
}

Result<RocksReader::Slice> ReadScheduler::ReadSlice(const Query& query, RocksReader::Effort effort,
                                                    Page so_far) {
  const SharedDatabase::Access access(&database_);
  if (!access.status().ok()) return access.status();
  if (query.at != 0) {
    const Revision visible = published_.visible();
    if (query.at > visible) {
      return Status(
          StatusReason::kBadRequest,
          fmt::format("revision {} is in the future: the latest is {}", query.at, visible));
    }
    const Status before = published_.CheckKept(query.at);
    if (!before.ok()) return before;
  }
  Result<RocksReader::Slice> slice = access.reader().Read(query, effort, std::move(so_far));
  if (query.at != 0) {
    // Compaction may have begun between the check above and the snapshot of the read.
    const Status after = published_.CheckKept(query.at);
    if (!after.ok()) return after;
  } else if (slice) {
    published_.RaiseVisible(slice->page.revision);
  }
  return slice;
}

FairQueue::Step ReadScheduler::RunSlice(const ScheduledReadPtr& read, RocksReader::Effort effort) {
  if (read->query.is_cancelled()) {
    read->Complete(Status(StatusReason::kCancelled, "the read was cancelled"));
    return {};
  }
  Result<RocksReader::Slice> slice =
      ReadSlice(read->query, effort, std::exchange(read->page, Page()));
  // The second time in one slice, which compaction cannot overtake.
  if (!slice && read->RestartIfExpired(slice.error())) {
    slice = ReadSlice(read->query, kNoLimit, {});
  }
  if (!slice) {
    read->Complete(slice.error());
    return {};
  }
  if (slice->end == End::kValueTooLarge) {
    read->Restart();
    Queue(slow_queue_.get(), read, kSlowSlice);
    return {.cost = effort.max_cost};
  }
  const std::size_t cost = slice->cost;
  const bool done = read->Add(*std::move(slice));
  if (done) read->Complete(std::move(read->page));
  return {.cost = cost, .done = done};
}

void ReadScheduler::Queue(FairQueue* queue, const ScheduledReadPtr& read,
                          RocksReader::Effort effort) {
  const Query& query = read->query;
  const Status rejected =
      queue->Add(query.flow, query.background ? FairQueue::Kind::kLong : FairQueue::Kind::kShort,
                 [this, read, effort] { return RunSlice(read, effort); });
  if (!rejected.ok()) read->Complete(rejected);
}

void ReadScheduler::Read(Query query, Store::PageDone done) {
  const auto read = std::make_shared<ScheduledRead>(std::move(query), std::move(done));
  if (!read->query.background) {
    Result<RocksReader::Slice> slice =
        ReadSlice(read->query, read->query.filter ? kInlineFiltered : kInline, {});
    if (!slice) return read->Complete(slice.error());
    if (slice->end == End::kComplete || slice->end == End::kMaxCost) {
      if (read->Add(*std::move(slice))) return read->Complete(std::move(read->page));
    }
  }
  Queue(queue_.get(), read, kPoolSlice);
}

Result<Watch::Batch> ReadScheduler::ReadLog(const std::string& prefix, Revision after,
                                            std::size_t max) {
  const SharedDatabase::Access access(&database_);
  if (!access.status().ok()) return access.status();
  const Status before = published_.CheckKept(after);
  if (!before.ok()) return before;
  options_.ReachStep("before log read");
  Result<Watch::Batch> batch = access.reader().Changes(prefix, after, published_.visible(), max);
  if (batch) return batch;
  // A missing row is damage, unless compaction has deleted it since the check.
  const Status gone = published_.CheckKept(after);
  if (!gone.ok()) return gone;
  if (!batch.error().Is(StatusReason::kNotFound)) return batch;
  return Status(StatusReason::kCorruption, batch.error().message());
}

}  // namespace herald::store
