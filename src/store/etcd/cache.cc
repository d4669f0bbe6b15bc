#include "store/etcd/cache.h"

#include <algorithm>
#include <utility>

#include "base/bytes/random.h"

namespace herald::store {
namespace {

using std::chrono::milliseconds;

// Entries per page of a list: a megabyte of events, a few milliseconds of etcd's time.
constexpr std::int64_t kPageEntries = 1'000;

// How long a read waits for the table. etcd's own client and kube-apiserver's watch cache wait
// equally long for a follower that lags. After that, a scan of etcd is better.
constexpr milliseconds kMaxWait{3'000};

// How often progress is requested while there are waiters. etcd does not answer while it still
// reads old changes for a watch.
constexpr milliseconds kProgressInterval{50};

// When a table that was too large is tried again. A list that is too large costs etcd seconds.
constexpr std::chrono::minutes kRetryTooLargeAfter{10};

// Entries that are processed while the lock is held.
constexpr std::size_t kEntriesPerLock = 256;

constexpr BackoffOptions kListBackoff{.initial = milliseconds(100),
                                      .factor = 2.0,
                                      .cap = std::chrono::seconds(10),
                                      .jitter = 0.5,
                                      .reset_after = std::chrono::minutes(2)};

}  // namespace

// A list in progress. Its pages are requested one after the other.
struct EtcdCache::PendingList {
  std::unique_ptr<EntryTable> table{};  // null before the first page and if it is too large
  Revision revision = 0;
  std::string next{};  // first key of the next page
};

EtcdCache::EtcdCache(Options options, Source source, WatchHub* hub)
    : options_(std::move(options)),
      source_(std::move(source)),
      clock_(*options_.clock),
      hub_(hub),
      replay_revisions_(options_.replay),
      backoff_(kListBackoff, RandomSeed()) {}

EtcdCache::~EtcdCache() { Stop(); }

void EtcdCache::Start() { StartList(); }

void EtcdCache::Stop() {
  {
    MutexLock lock(watch_mu_);
    stopped_ = true;
    watch_.reset();
  }
  std::multimap<Revision, Waiter> waiters;
  {
    MutexLock lock(mu_);
    state_ = State::kStopped;
    waiters.swap(waiters_);
  }
  for (const auto& [revision, waiter] : waiters) waiter.done(false);
}

bool EtcdCache::WaitUntilStarted(std::chrono::nanoseconds timeout) {
  MutexLock lock(mu_);
  return started_.WaitFor(lock, timeout, [this]() REQUIRES(mu_) { return lists_ > 0; });
}

Revision EtcdCache::revision() const {
  MutexLock lock(mu_);
  return table_ ? table_->revision() : 0;
}

EtcdCache::Stats EtcdCache::stats() const {
  MutexLock lock(mu_);
  Stats stats;
  stats.revision = std::max(hub_->head(), table_ ? table_->revision() : 0);
  if (table_) stats.entries = table_->entries();
  stats.expired = expired_;
  stats.lists = lists_;
  return stats;
}

// ---- index values and expiry ----

EntryTable::Facts EtcdCache::FactsOf(const Entry& entry, bool is_new, WallTime now) const {
  const Schema& schema = options_.schema;
  EntryTable::Facts facts;
  if (schema.index) facts.index = schema.index(entry.key, *entry.value);
  // If the entry existed before this process, only its value can show when it was written.
  const std::optional<WallTime> written =
      schema.written ? schema.written(entry.key, *entry.value) : std::optional<WallTime>(now);
  facts.written = is_new || !written ? now : std::min(*written, now);
  // An unreadable value (an encrypted one, for example) never expires here.
  facts.expires =
      written ? schema.ExpiryOf(entry.key, *entry.value, facts.written) : WallTime::max();
  return facts;
}

// ---- the list ----

void EtcdCache::StartList() {
  {
    MutexLock lock(mu_);
    if (state_ == State::kStopped) return;
    state_ = State::kLoading;
  }
  auto list = std::make_shared<PendingList>();
  list->next = options_.start;
  RequestPage(list);
}

void EtcdCache::RequestPage(const std::shared_ptr<PendingList>& list) {
  EtcdRange range;
  range.start = list->next;
  range.end = options_.end;
  range.at = list->revision;
  range.limit = kPageEntries;
  source_.range(std::move(range),
                [this, list](Result<EtcdPage> page) { OnPage(list, std::move(page)); });
}

void EtcdCache::OnPage(const std::shared_ptr<PendingList>& list, Result<EtcdPage> page) {
  if (!page) return RetryListLater(page.error());
  const WallTime now = clock_.Now();
  if (list->revision == 0) {
    list->revision = page->revision;
    list->table = std::make_unique<EntryTable>(page->revision);
    WatchHub::Woken woken;
    {
      MutexLock lock(mu_);
      if (state_ == State::kStopped) return;
      ++lists_;
      started_.NotifyAll();
      // Watches can start now; they need not wait for the rest of the list.
      if (hub_->head() == 0)
        woken = hub_->Skip(std::max<Revision>(page->revision - replay_revisions_, 1));
    }
    WatchHub::Wake(woken);
  }
  if (!page->entries.empty()) list->next = page->entries.back().key + '\0';
  for (EtcdKeyValue& item : page->entries) {
    Entry entry{std::move(item.key), std::move(item.value), item.mod_revision};
    EntryTable::Facts facts = FactsOf(entry, /*is_new=*/false, now);
    list->table->Load(std::move(entry), std::move(facts));
  }
  if (list->table->memory_bytes() >= options_.max_bytes) {
    list->table.reset();
    return InstallList(list);
  }
  if (page->more) return RequestPage(list);
  InstallList(list);
}

void EtcdCache::InstallList(const std::shared_ptr<PendingList>& list) {
  const bool too_large = list->table == nullptr;
  if (too_large) {
    Log(LogLevel::kWarn, "too many events for the cache: lists with selectors read all of etcd",
        "");
  }
  MutexLock watch_lock(watch_mu_);
  if (stopped_) return;
  WatchHub::Woken woken;
  std::vector<std::function<void(bool)>> satisfied;
  Revision after = 0;
  {
    MutexLock lock(mu_);
    if (state_ == State::kStopped) return;
    backoff_.Reset();
    list_failed_ = false;
    stalled_ = false;
    state_ = too_large ? State::kWatchOnly : State::kLive;
    if (too_large) too_large_since_ = options_.executor->clock().Steady();
    table_ = std::move(list->table);
    list_revision_ = list->revision;
    if (missed_changes_) {
      // Ends watches that have missed changes. Watches from a later revision continue.
      const Revision lost = hub_->head() + 1;
      woken = hub_->Skip(list->revision);
      hub_->Compacted(lost);
      missed_changes_ = false;
    }
    // This may be before the list's revision. The table ignores changes that it already has.
    after = hub_->head();
    satisfied = TakeSatisfiedWaiters();
  }
  StartWatch(after);
  watch_lock.Unlock();
  WatchHub::Wake(woken);
  for (const auto& done : satisfied) done(true);
}

void EtcdCache::RetryListLater(const Status& why) {
  std::chrono::nanoseconds wait{0};
  bool first = false;
  const SteadyTime now = options_.executor->clock().Steady();
  {
    MutexLock lock(mu_);
    if (state_ == State::kStopped) return;
    wait = backoff_.Next(now);
    first = !std::exchange(list_failed_, true);
  }
  if (first) Log(LogLevel::kWarn, "cannot list etcd; retrying", why.message());
  options_.executor->PostAt(now + wait, [this] { StartList(); });
}

// ---- the watch ----

void EtcdCache::EndWatch() {
  MutexLock lock(watch_mu_);
  watch_.reset();
}

void EtcdCache::StartWatch(Revision after) {
  watch_ = source_.watch(after,
                         [this](Result<EtcdWatchBatch> batch) { OnWatchBatch(std::move(batch)); });
}

// Only a compaction ends a watch. The executor does the rest, because this is a callback of the
// watch that is destroyed.
void EtcdCache::WatchExpired(const Status& why) {
  WatchHub::Woken woken;
  std::optional<Revision> restart_after;
  {
    MutexLock lock(mu_);
    if (state_ == State::kStopped) return;
    if (replay_revisions_ > 0) {
      // The replay is optional. Start closer to the list.
      replay_revisions_ /= 8;
      restart_after = std::max<Revision>(list_revision_ - replay_revisions_, 1);
      woken = hub_->Skip(*restart_after);
    } else {
      missed_changes_ = true;
      state_ = State::kLoading;
      table_.reset();
    }
  }
  WatchHub::Wake(woken);
  if (!restart_after) {
    Log(LogLevel::kWarn, "the next changes were compacted in etcd; listing again", why.message());
  }
  options_.executor->Post([this, restart_after] {
    EndWatch();
    if (!restart_after) return StartList();
    MutexLock lock(watch_mu_);
    if (!stopped_) StartWatch(*restart_after);
  });
}

void EtcdCache::OnWatchBatch(Result<EtcdWatchBatch> batch) {
  if (!batch) return WatchExpired(batch.error());
  const WallTime now = clock_.Now();
  // The Schema's functions run without the lock.
  std::vector<EntryTable::Facts> facts;
  facts.reserve(batch->changes.size());
  for (const auto& change : batch->changes) {
    facts.push_back(change->deleted() ? EntryTable::Facts{.written = now}
                                      : FactsOf(change->current(), /*is_new=*/true, now));
  }
  WatchHub::Woken woken;
  std::vector<std::function<void(bool)>> satisfied;
  std::shared_ptr<EntryTable> dropped;
  bool request = false;
  {
    MutexLock lock(mu_);
    if (state_ == State::kStopped || missed_changes_) return;
    stalled_ = false;
    progress_requested_ = false;
    replay_revisions_ = 0;
    if (table_) Apply(*batch, std::move(facts), now);
    if (table_ && table_->memory_bytes() >= options_.max_bytes) {
      // Trim the watch window first; most reads do not need it.
      while (table_->memory_bytes() >= options_.max_bytes &&
             !table_->Compact(now, table_->watch_window_bytes() / 2).empty()) {
      }
      if (table_->memory_bytes() >= options_.max_bytes) {
        dropped.swap(table_);
        state_ = State::kWatchOnly;
        too_large_since_ = options_.executor->clock().Steady();
      }
    }
    // Reads see the changes before watches do.
    const Revision head = hub_->head();
    auto first = batch->changes.begin();
    while (first != batch->changes.end() && (*first)->revision() <= head) ++first;
    batch->changes.erase(batch->changes.begin(), first);
    woken = hub_->Append(batch->changes, batch->revision);
    satisfied = TakeSatisfiedWaiters();
    // The progress request was too early for some waiters.
    request = batch->changes.empty() && !waiters_.empty();
    progress_requested_ = request;
  }
  if (request) options_.executor->Post([this] { RequestProgress(); });
  if (dropped) {
    Log(LogLevel::kWarn, "too many events for the cache: lists with selectors read all of etcd",
        "");
  }
  WatchHub::Wake(woken);
  for (const auto& done : satisfied) done(true);
}

void EtcdCache::Apply(EtcdWatchBatch& batch, std::vector<EntryTable::Facts> facts, WallTime now) {
  const Revision known = table_->revision();
  for (std::size_t i = 0; i < batch.changes.size(); ++i) {
    auto& change = batch.changes[i];
    if (change->revision() <= known) continue;
    if (const EntryTable::Version* const old = table_->Newest(change->key())) {
      if (change->deleted() && old->expires <= now) ++expired_;
      // The previous value is the table's, not the one that etcd sent: that would be a second copy
      // in memory, and it is missing if etcd has compacted it.
      change = table_->MakeChange(change->key(), change->current().value, change->revision(),
                                  /*last=*/change->resume_revision() == change->revision());
    }
    table_->Apply(change, std::move(facts[i]));
  }
  table_->Advance(batch.revision);
}

// ---- waiters ----

std::vector<std::function<void(bool)>> EtcdCache::TakeSatisfiedWaiters() {
  std::vector<std::function<void(bool)>> satisfied;
  const Revision revision = table_ ? table_->revision() : 0;
  const auto end = waiters_.upper_bound(revision);
  for (auto it = waiters_.begin(); it != end; ++it) satisfied.push_back(std::move(it->second.done));
  waiters_.erase(waiters_.begin(), end);
  return satisfied;
}

void EtcdCache::WaitFor(Revision revision, std::function<void(bool)> done) {
  const bool sound = source_.progress_is_sound();
  bool request = false;
  bool check = false;
  bool here = false;
  const SteadyTime now = options_.executor->clock().Steady();
  {
    MutexLock lock(mu_);
    here = table_ && table_->revision() >= revision;
    const bool replaying = hub_->head() < list_revision_;  // ends soon; reads do not wait for it
    const bool wait = !here && table_ && !replaying && !stalled_ && sound;
    if (wait) {
      waiters_.emplace(revision, Waiter{now + kMaxWait, std::exchange(done, nullptr)});
      request = !std::exchange(progress_requested_, true);
      check = !std::exchange(checking_waiters_, true);
    } else if (replaying && sound && now >= next_progress_request_) {
      // If there are no changes to replay, only a progress notification ends the replay.
      request = true;
      next_progress_request_ = now + kProgressInterval;
    }
  }
  if (request) options_.executor->Post([this] { RequestProgress(); });
  if (check) options_.executor->PostAt(now + kProgressInterval, [this] { CheckWaiters(); });
  if (done) done(here);
}

void EtcdCache::RequestProgress() {
  MutexLock lock(watch_mu_);
  if (watch_) watch_->RequestProgress();
}

void EtcdCache::CheckWaiters() {
  const SteadyTime now = options_.executor->clock().Steady();
  std::vector<std::function<void(bool)>> late;
  bool more = false;
  {
    MutexLock lock(mu_);
    for (auto it = waiters_.begin(); it != waiters_.end();) {
      if (table_ && it->second.deadline > now) {
        ++it;
        continue;
      }
      late.push_back(std::move(it->second.done));
      it = waiters_.erase(it);
    }
    if (!late.empty() && table_) stalled_ = true;
    more = !waiters_.empty();
    checking_waiters_ = more;
  }
  for (const auto& done : late) done(false);
  if (!more) return;
  RequestProgress();
  options_.executor->PostAt(now + kProgressInterval, [this] { CheckWaiters(); });
}

// ---- reads ----

std::unique_ptr<EtcdCache::Reader> EtcdCache::NewReader(const Query& query, Revision at) {
  MutexLock lock(mu_);
  if (!table_) return nullptr;
  if (at == 0) at = table_->revision();
  if (!table_->CheckRevision(at).ok()) return nullptr;
  table_->Pin(at);
  // Not make_unique: the constructor is private.
  return std::unique_ptr<Reader>(new Reader(this, query, table_, at));
}

EtcdCache::Reader::~Reader() {
  MutexLock lock(cache_.mu_);
  table_->Unpin(at_);
}

std::optional<Page> EtcdCache::Reader::Continue(std::size_t max_rows) {
  for (std::size_t rows = 0; !cursor_.done(); rows += EntryTable::kRowsAtOnce) {
    if (rows >= max_rows) return std::nullopt;
    std::vector<EntryTable::Found> entries;
    {
      MutexLock lock(cache_.mu_);
      entries = table_->Read(query_, at_, cursor_);
    }
    for (EntryTable::Found& found : entries) {
      if (!page_.Take(std::move(found.entry), found.value)) return page_.Finish();
    }
  }
  return page_.Finish();
}

std::optional<Page> EtcdCache::Read(const Query& query, Revision at) {
  const std::unique_ptr<Reader> reader = NewReader(query, at);
  if (reader == nullptr) return std::nullopt;
  return reader->Continue(SIZE_MAX);
}

std::optional<std::optional<Entry>> EtcdCache::Get(const std::string& key) {
  MutexLock lock(mu_);
  if (!table_) return std::nullopt;
  std::optional<std::optional<Entry>> entry;
  entry.emplace();
  if (const EntryTable::Version* version = table_->Newest(key)) {
    *entry = Entry{key, version->value, version->revision};
  }
  return entry;
}

std::optional<Watch::Batch> EtcdCache::ReadLog(const std::string& prefix, Revision after,
                                               std::size_t max) {
  MutexLock lock(mu_);
  if (!table_ || after >= table_->revision()) return std::nullopt;
  Result<Watch::Batch> batch = table_->ReadLog(prefix, after, max);
  if (!batch) return std::nullopt;
  return *std::move(batch);
}

// ---- expiry ----

std::optional<std::vector<Entry>> EtcdCache::Overdue(WallTime when, std::size_t max) {
  MutexLock lock(mu_);
  if (!table_) return std::nullopt;
  return table_->Due(when, max);
}

std::optional<std::vector<Entry>> EtcdCache::RefreshLifetimes(WallTime now) {
  std::vector<Entry> over;
  std::string from;
  for (;;) {
    std::vector<std::pair<std::string, EntryTable::Version>> entries;
    {
      MutexLock lock(mu_);
      if (!table_) return std::nullopt;
      entries = table_->Live(from, kEntriesPerLock);
    }
    if (entries.empty()) return over;
    from = entries.back().first + '\0';
    for (auto& [key, version] : entries) {
      const Schema& schema = options_.schema;
      if (schema.written && !schema.written(key, *version.value)) continue;
      const WallTime before = version.expires;
      version.expires = schema.ExpiryOf(key, *version.value, version.written);
      if (version.expires <= now && before > now) {
        over.push_back({key, version.value, version.revision});
      }
    }
    MutexLock lock(mu_);
    if (!table_) return std::nullopt;
    for (const auto& [key, version] : entries) {
      table_->SetExpiry(key, version.revision, version.expires);
    }
  }
}

void EtcdCache::Maintain() {
  // So that quiet watches get a recent revision from which they can resume.
  if (source_.progress_is_sound()) RequestProgress();
  const WallTime keep_from = clock_.Now() - options_.watch_window;
  for (;;) {
    std::vector<std::shared_ptr<const Change>> gone;  // destroyed after the lock is released
    MutexLock lock(mu_);
    if (table_) gone = table_->Compact(keep_from, options_.max_watch_window_bytes);
    if (gone.empty()) break;
  }
  {
    MutexLock lock(mu_);
    const SteadyTime now = options_.executor->clock().Steady();
    if (state_ != State::kWatchOnly || now - too_large_since_ < kRetryTooLargeAfter) return;
    state_ = State::kLoading;
  }
  EndWatch();
  StartList();
}

void EtcdCache::Log(LogLevel level, std::string_view message, const std::string& error) const {
  if (!options_.log) return;
  LogEntry entry{.level = level, .message = message, .fields = {}};
  if (!error.empty()) entry.fields.emplace_back("error", error);
  options_.log(entry);
}

}  // namespace herald::store
