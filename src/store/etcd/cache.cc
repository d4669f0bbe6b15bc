#include "store/etcd/cache.h"

#include <algorithm>
#include <utility>

#include "base/bytes/random.h"

namespace herald::store {
namespace {

using std::chrono::milliseconds;

// Entries of one page of a list: a megabyte of events, a few milliseconds of etcd's time.
constexpr std::int64_t kPageEntries = 1'000;

// How long a read waits for the table. etcd's own client waits this long for a follower that lags
// (kube-apiserver's watch cache too); then it is better to pay for a scan.
constexpr milliseconds kLongestWait{3'000};

// How often etcd is asked how far it is while somebody waits. It does not answer at all while
// it is still reading old changes for a watch.
constexpr milliseconds kProgressInterval{50};

// When a table that was given up is tried again. Listing too much in vain costs etcd seconds.
constexpr std::chrono::minutes kTooLargeFor{10};

// Entries that are looked at under one hold of the lock.
constexpr std::size_t kChunk = 256;

constexpr BackoffOptions kListBackoff{.initial = milliseconds(100),
                                      .factor = 2.0,
                                      .cap = std::chrono::seconds(10),
                                      .jitter = 0.5,
                                      .reset_after = std::chrono::minutes(2)};

}  // namespace

// One list on its way. Its pages come one after the other.
struct EtcdMirror::Loading {
  std::unique_ptr<EntryTable> table{};  // null before the first page, and where it is too large
  Revision revision = 0;
  std::string next{};  // the key that the next page starts with
};

EtcdMirror::EtcdMirror(Options options, Source source, WatchHub* hub)
    : options_(std::move(options)),
      source_(std::move(source)),
      clock_(*options_.clock),
      hub_(hub),
      replay_(options_.replay),
      backoff_(kListBackoff, RandomSeed()) {}

EtcdMirror::~EtcdMirror() { Stop(); }

void EtcdMirror::Start() { StartLoading(); }

void EtcdMirror::Stop() {
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

bool EtcdMirror::WaitUntilStarted(std::chrono::nanoseconds timeout) {
  MutexLock lock(mu_);
  return started_.WaitFor(lock, timeout, [this]() REQUIRES(mu_) { return lists_ > 0; });
}

Revision EtcdMirror::revision() const {
  MutexLock lock(mu_);
  return table_ ? table_->revision() : 0;
}

EtcdMirror::Stats EtcdMirror::stats() const {
  MutexLock lock(mu_);
  Stats stats;
  stats.revision = std::max(hub_->head(), table_ ? table_->revision() : 0);
  if (table_) stats.entries = table_->entries();
  stats.expired = expired_;
  stats.lists = lists_;
  return stats;
}

// ---- what is known about a value ----

EntryTable::Facts EtcdMirror::FactsOf(const Entry& entry, bool is_new, WallTime now) const {
  const Schema& schema = options_.schema;
  EntryTable::Facts facts;
  if (schema.index) facts.index = schema.index(entry.key, *entry.value);
  // When something was written that was there before us only its value can tell.
  const std::optional<WallTime> told =
      schema.written ? schema.written(entry.key, *entry.value) : std::optional<WallTime>(now);
  facts.written = is_new || !told ? now : std::min(*told, now);
  // What cannot be read is not ours to judge.
  facts.expires = told ? schema.ExpiryOf(entry.key, *entry.value, facts.written) : WallTime::max();
  return facts;
}

// ---- the list ----

void EtcdMirror::StartLoading() {
  {
    MutexLock lock(mu_);
    if (state_ == State::kStopped) return;
    state_ = State::kLoading;
  }
  auto loading = std::make_shared<Loading>();
  loading->next = options_.start;
  LoadPage(loading);
}

void EtcdMirror::LoadPage(const std::shared_ptr<Loading>& loading) {
  EtcdRange range;
  range.start = loading->next;
  range.end = options_.end;
  range.at = loading->revision;
  range.limit = kPageEntries;
  source_.range(std::move(range),
                [this, loading](Result<EtcdPage> page) { Loaded(loading, std::move(page)); });
}

void EtcdMirror::Loaded(const std::shared_ptr<Loading>& loading, Result<EtcdPage> page) {
  if (!page) return LoadLater(page.error());
  const WallTime now = clock_.Now();
  if (loading->revision == 0) {
    loading->revision = page->revision;
    loading->table = std::make_unique<EntryTable>(page->revision);
    WatchHub::Woken woken;
    {
      MutexLock lock(mu_);
      if (state_ == State::kStopped) return;
      ++lists_;
      started_.NotifyAll();
      // Whoever watches from now on need not wait for the rest of the list.
      if (hub_->head() == 0) woken = hub_->Skip(std::max<Revision>(page->revision - replay_, 1));
    }
    WatchHub::Wake(woken);
  }
  if (!page->entries.empty()) loading->next = page->entries.back().key + '\0';
  for (EtcdKeyValue& item : page->entries) {
    Entry entry{std::move(item.key), std::move(item.value), item.mod_revision};
    EntryTable::Facts facts = FactsOf(entry, /*is_new=*/false, now);
    loading->table->Load(std::move(entry), std::move(facts));
  }
  if (loading->table->memory_bytes() >= options_.max_bytes) {
    loading->table.reset();
    return Install(loading);
  }
  if (page->more) return LoadPage(loading);
  Install(loading);
}

void EtcdMirror::Install(const std::shared_ptr<Loading>& loading) {
  const bool too_large = loading->table == nullptr;
  if (too_large) {
    Say(LogLevel::kWarn, "too many events for the index in memory: selector lists read all of etcd",
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
    state_ = too_large ? State::kFeeding : State::kLive;
    if (too_large) too_large_since_ = options_.executor->clock().Steady();
    table_ = std::move(loading->table);
    listed_ = loading->revision;
    if (gap_) {
      // Whoever has not seen more than we had is over; those who wait for the future are not.
      const Revision lost = hub_->head() + 1;
      woken = hub_->Skip(loading->revision);
      hub_->Compacted(lost);
      gap_ = false;
    }
    // Often before the list, where the hub was fed up to there: the table passes over
    // what it has.
    after = hub_->head();
    satisfied = Satisfied();
  }
  StartWatch(after);
  watch_lock.Unlock();
  WatchHub::Wake(woken);
  for (const auto& done : satisfied) done(true);
}

void EtcdMirror::LoadLater(const Status& why) {
  std::chrono::nanoseconds wait{0};
  bool first = false;
  const SteadyTime now = options_.executor->clock().Steady();
  {
    MutexLock lock(mu_);
    if (state_ == State::kStopped) return;
    wait = backoff_.Next(now);
    first = !std::exchange(list_failed_, true);
  }
  if (first) Say(LogLevel::kWarn, "cannot list etcd; trying again and again", why.message());
  options_.executor->PostAt(now + wait, [this] { StartLoading(); });
}

// ---- the watch ----

void EtcdMirror::EndWatch() {
  MutexLock lock(watch_mu_);
  watch_.reset();
}

void EtcdMirror::StartWatch(Revision after) {
  watch_ = source_.watch(after, [this](Result<EtcdWatchBatch> batch) { Take(std::move(batch)); });
}

// Only compaction ends a watch. What follows is done elsewhere: this is its callback.
void EtcdMirror::WatchExpired(const Status& why) {
  WatchHub::Woken woken;
  std::optional<Revision> nearer;
  {
    MutexLock lock(mu_);
    if (state_ == State::kStopped) return;
    if (replay_ > 0) {
      // It was only a try. Nearer to the list there may be some left.
      replay_ /= 8;
      nearer = std::max<Revision>(listed_ - replay_, 1);
      woken = hub_->Skip(*nearer);
    } else {
      gap_ = true;
      state_ = State::kLoading;
      table_.reset();
    }
  }
  WatchHub::Wake(woken);
  if (!nearer) {
    Say(LogLevel::kWarn, "fell behind a compaction of etcd; listing again", why.message());
  }
  options_.executor->Post([this, nearer] {
    EndWatch();
    if (!nearer) return StartLoading();
    MutexLock lock(watch_mu_);
    if (!stopped_) StartWatch(*nearer);
  });
}

void EtcdMirror::Take(Result<EtcdWatchBatch> batch) {
  if (!batch) return WatchExpired(batch.error());
  const WallTime now = clock_.Now();
  // The Schema is asked without the lock.
  std::vector<EntryTable::Facts> facts;
  facts.reserve(batch->changes.size());
  for (const auto& change : batch->changes) {
    facts.push_back(change->deleted() ? EntryTable::Facts{.written = now}
                                      : FactsOf(change->current(), /*is_new=*/true, now));
  }
  WatchHub::Woken woken;
  std::vector<std::function<void(bool)>> satisfied;
  std::shared_ptr<EntryTable> dropped;
  bool ask = false;
  {
    MutexLock lock(mu_);
    if (state_ == State::kStopped || gap_) return;
    stalled_ = false;
    asked_ = false;
    replay_ = 0;
    if (table_) Apply(*batch, std::move(facts), now);
    if (table_ && table_->memory_bytes() >= options_.max_bytes) {
      // History first; it is not needed to answer what is asked most.
      while (table_->memory_bytes() >= options_.max_bytes &&
             !table_->Compact(now, table_->watch_window_bytes() / 2).empty()) {
      }
      if (table_->memory_bytes() >= options_.max_bytes) {
        dropped.swap(table_);
        state_ = State::kFeeding;
        too_large_since_ = options_.executor->clock().Steady();
      }
    }
    // Visible to reads first, then to watches.
    const Revision head = hub_->head();
    auto first = batch->changes.begin();
    while (first != batch->changes.end() && (*first)->revision() <= head) ++first;
    batch->changes.erase(batch->changes.begin(), first);
    woken = hub_->Append(batch->changes, batch->revision);
    satisfied = Satisfied();
    // An answer to a question that was asked too early for some.
    ask = batch->changes.empty() && !waiters_.empty();
    asked_ = ask;
  }
  if (ask) options_.executor->Post([this] { AskForProgress(); });
  if (dropped) {
    Say(LogLevel::kWarn, "too many events for the index in memory: selector lists read all of etcd",
        "");
  }
  WatchHub::Wake(woken);
  for (const auto& done : satisfied) done(true);
}

void EtcdMirror::Apply(EtcdWatchBatch& batch, std::vector<EntryTable::Facts> facts, WallTime now) {
  const Revision known = table_->revision();
  for (std::size_t i = 0; i < batch.changes.size(); ++i) {
    auto& change = batch.changes[i];
    if (change->revision() <= known) continue;
    if (const EntryTable::Version* const old = table_->Newest(change->key())) {
      if (change->deleted() && old->expires <= now) ++expired_;
      // What it replaced is told as it is here, and not as etcd sent it along: that would be a
      // second copy in memory, and is missing where a compaction was faster.
      change = table_->MakeChange(change->key(), change->current().value, change->revision(),
                                  /*last=*/change->resume_revision() == change->revision());
    }
    table_->Apply(change, std::move(facts[i]));
  }
  table_->Advance(batch.revision);
}

// ---- those who wait ----

std::vector<std::function<void(bool)>> EtcdMirror::Satisfied() {
  std::vector<std::function<void(bool)>> satisfied;
  const Revision revision = table_ ? table_->revision() : 0;
  const auto end = waiters_.upper_bound(revision);
  for (auto it = waiters_.begin(); it != end; ++it) satisfied.push_back(std::move(it->second.done));
  waiters_.erase(waiters_.begin(), end);
  return satisfied;
}

void EtcdMirror::WaitFor(Revision revision, std::function<void(bool)> done) {
  const bool sound = source_.progress_is_sound();
  bool ask = false;
  bool tick = false;
  bool here = false;
  const SteadyTime now = options_.executor->clock().Steady();
  {
    MutexLock lock(mu_);
    here = table_ && table_->revision() >= revision;
    const bool replaying = hub_->head() < listed_;  // and soon done, but reads need not wait
    const bool wait = !here && table_ && !replaying && !stalled_ && sound;
    if (wait) {
      waiters_.emplace(revision, Waiter{now + kLongestWait, std::exchange(done, nullptr)});
      ask = !std::exchange(asked_, true);
      tick = !std::exchange(ticking_, true);
    } else if (replaying && sound && now >= ask_at_) {
      // Where there is nothing to replay only an answer tells that it is over.
      ask = true;
      ask_at_ = now + kProgressInterval;
    }
  }
  if (ask) options_.executor->Post([this] { AskForProgress(); });
  if (tick) options_.executor->PostAt(now + kProgressInterval, [this] { Tick(); });
  if (done) done(here);
}

void EtcdMirror::AskForProgress() {
  MutexLock lock(watch_mu_);
  if (watch_) watch_->RequestProgress();
}

void EtcdMirror::Tick() {
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
    ticking_ = more;
  }
  for (const auto& done : late) done(false);
  if (!more) return;
  AskForProgress();
  options_.executor->PostAt(now + kProgressInterval, [this] { Tick(); });
}

// ---- reads ----

std::unique_ptr<EtcdMirror::Reading> EtcdMirror::NewReading(const Query& query, Revision at) {
  MutexLock lock(mu_);
  if (!table_) return nullptr;
  if (at == 0) at = table_->revision();
  if (!table_->CheckRevision(at).ok()) return nullptr;
  table_->Pin(at);
  // Not make_unique: the constructor is private.
  return std::unique_ptr<Reading>(new Reading(this, query, table_, at));
}

EtcdMirror::Reading::~Reading() {
  MutexLock lock(mirror_.mu_);
  table_->Unpin(at_);
}

std::optional<Page> EtcdMirror::Reading::Continue(std::size_t max_rows) {
  for (std::size_t rows = 0; !cursor_.done(); rows += EntryTable::kRowsAtOnce) {
    if (rows >= max_rows) return std::nullopt;
    std::vector<EntryTable::Found> entries;
    {
      MutexLock lock(mirror_.mu_);
      entries = table_->Read(query_, at_, cursor_);
    }
    for (EntryTable::Found& found : entries) {
      if (!page_.Take(std::move(found.entry), found.value)) return page_.Finish();
    }
  }
  return page_.Finish();
}

std::optional<Page> EtcdMirror::Read(const Query& query, Revision at) {
  const std::unique_ptr<Reading> reading = NewReading(query, at);
  if (reading == nullptr) return std::nullopt;
  return reading->Continue(SIZE_MAX);
}

std::optional<std::optional<Entry>> EtcdMirror::Get(const std::string& key) {
  MutexLock lock(mu_);
  if (!table_) return std::nullopt;
  std::optional<std::optional<Entry>> entry;
  entry.emplace();
  if (const EntryTable::Version* version = table_->Newest(key)) {
    *entry = Entry{key, version->value, version->revision};
  }
  return entry;
}

std::optional<Watch::Batch> EtcdMirror::ReadLog(const std::string& prefix, Revision after,
                                                std::size_t max) {
  MutexLock lock(mu_);
  if (!table_ || after >= table_->revision()) return std::nullopt;
  Result<Watch::Batch> batch = table_->ReadLog(prefix, after, max);
  if (!batch) return std::nullopt;
  return *std::move(batch);
}

// ---- times ----

std::optional<std::vector<Entry>> EtcdMirror::Overdue(WallTime when, std::size_t max) {
  MutexLock lock(mu_);
  if (!table_) return std::nullopt;
  return table_->Due(when, max);
}

std::optional<std::vector<Entry>> EtcdMirror::RefreshLifetimes(WallTime now) {
  std::vector<Entry> over;
  std::string from;
  for (;;) {
    std::vector<std::pair<std::string, EntryTable::Version>> entries;
    {
      MutexLock lock(mu_);
      if (!table_) return std::nullopt;
      entries = table_->Live(from, kChunk);
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

void EtcdMirror::Maintain() {
  // So that quiet watches can be told of revisions from which they will be able to go on.
  if (source_.progress_is_sound()) AskForProgress();
  const WallTime keep_from = clock_.Now() - options_.watch_window;
  for (;;) {
    std::vector<std::shared_ptr<const Change>> gone;  // destroyed without the lock
    MutexLock lock(mu_);
    if (table_) gone = table_->Compact(keep_from, options_.max_watch_window_bytes);
    if (gone.empty()) break;
  }
  {
    MutexLock lock(mu_);
    const SteadyTime now = options_.executor->clock().Steady();
    if (state_ != State::kFeeding || now - too_large_since_ < kTooLargeFor) return;
    state_ = State::kLoading;
  }
  EndWatch();
  StartLoading();
}

void EtcdMirror::Say(LogLevel level, std::string_view message, const std::string& error) const {
  if (!options_.log) return;
  LogEntry entry{.level = level, .message = message, .fields = {}};
  if (!error.empty()) entry.fields.emplace_back("error", error);
  options_.log(entry);
}

}  // namespace herald::store
