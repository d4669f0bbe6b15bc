#include "store/etcd/store.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "store/etcd/error.h"
#include "store/etcd/read.h"

namespace herald::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// How long Open() waits for etcd, so that the first requests do not fail.
constexpr seconds kStartWait{3};

// How long a lagging watch waits for etcd, and how often it requests progress. etcd serves old
// watches every 100 ms.
constexpr seconds kReadChangesTimeout{10};
constexpr milliseconds kProgressInterval{100};

// Entries per slice of a read: about 2 ms with a filter, which decodes each value.
constexpr std::size_t kSliceRows = 512;

Status RevisionWentBackStatus() {
  return EtcdUnavailable("etcd was restored to an older revision; heraldd must be restarted");
}

// The first key after all keys with the prefix; empty if there is none.
std::string PrefixEnd(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty()) ++prefix.back();
  return prefix;
}

}  // namespace

// A read that moves between executors. If it is destroyed before it is answered, it fails.
class EtcdStore::PendingRead {
 public:
  PendingRead(Query q, PageDone done) : query(std::move(q)), done_(std::move(done)) {}
  ~PendingRead() {
    if (done_) Answer(Status(StatusReason::kCancelled, "the store was closed"));
  }
  void Answer(Result<Page> page) { std::exchange(done_, nullptr)(std::move(page)); }
  PageDone TakeDone() { return std::exchange(done_, nullptr); }

  const Query query;
  std::unique_ptr<EtcdCache::Reader> from_cache;  // null until the first slice

 private:
  PageDone done_;
};

Result<std::unique_ptr<EtcdStore>> EtcdStore::Open(StoreOptions options, EtcdStoreOptions etcd) {
  HERALD_CHECK(etcd.cached_prefix.starts_with(etcd.root), "cached_prefix must start with root");
  Result<std::unique_ptr<EtcdClient>> client = EtcdClient::Open(etcd.client);
  if (!client) return client.error();
  std::unique_ptr<EtcdStore> store(new EtcdStore(std::move(options), std::move(etcd)));
  store->Start(*std::move(client));
  return store;
}

EtcdStore::EtcdStore(StoreOptions options, EtcdStoreOptions etcd)
    : options_(std::move(options)),
      etcd_(std::move(etcd)),
      cached_end_(PrefixEnd(etcd_.cached_prefix)),
      clock_(options_.clock != nullptr ? *options_.clock : SystemClock()),
      // Without the state of an earlier process: etcd has no place for data of this machine.
      clock_guard_(&clock_, ReadBootId(), std::nullopt, etcd_.log),
      random_(RandomSeed()),
      condition_(EtcdUnavailable("etcd has not answered yet")),
      readers_(std::make_unique<Executor>(
          Executor::Options{.threads = std::max(etcd_.read_threads, 1), .clock = nullptr})),
      lagging_(std::make_unique<Executor>(Executor::Options{.threads = 2, .clock = nullptr})),
      hub_(std::make_unique<WatchHub>(
          0, 0,
          [this](const std::string& prefix, Revision after, std::size_t max) {
            return ReadChanges(prefix, after, max);
          },
          WatchHub::Options{.executor = lagging_.get()})),
      leases_(clock_,
              [this](seconds ttl, LeasePool::Granted done) {
                client_->GrantLease(ttl, std::move(done));
              }),
      cache_(std::make_unique<EtcdCache>(
          EtcdCache::Options{.schema = options_.schema,
                             .clock = &clock_,
                             .start = etcd_.cached_prefix,
                             .end = cached_end_,
                             .max_bytes = etcd_.max_cache_bytes,
                             .max_watch_window_bytes = std::min(options_.max_watch_window_bytes,
                                                                etcd_.max_cache_bytes / 4),
                             .watch_window = options_.watch_window,
                             .executor = readers_.get(),
                             .log = etcd_.log},
          EtcdCache::Source{
              .range =
                  [this](EtcdRange range, std::function<void(Result<EtcdPage>)> done) {
                    Range(std::move(range), std::move(done));
                  },
              .watch =
                  [this](Revision after, std::function<void(Result<EtcdWatchBatch>)> batch) {
                    return WatchKeys(etcd_.cached_prefix, after, std::move(batch));
                  },
              .progress_is_sound = [this] { return client_->progress_is_sound(); }},
          hub_.get())),
      read_queue_(readers_.get(), {.concurrency = readers_->threads(), .slice_cost = kSliceRows}) {}

void EtcdStore::Start(std::unique_ptr<EtcdClient> client) {
  owned_client_ = std::move(client);
  client_ = owned_client_.get();
  cache_->Start();
  if (cache_->WaitUntilStarted(kStartWait)) CheckEtcd();
  if (options_.background) StartMaintenance();
}

EtcdStore::~EtcdStore() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    changes_received_.NotifyAll();
  }
  if (background_) background_->Stop();
  lagging_->Stop();
  cache_->Stop();
  owned_client_.reset();
  readers_->Stop();
}

// ---- keys ----

std::string EtcdStore::ToEtcd(std::string_view key) const {
  std::string mapped = etcd_.etcd_root;
  return mapped.append(key.substr(std::min(key.size(), etcd_.root.size())));
}

std::string EtcdStore::FromEtcd(std::string key) const {
  if (etcd_.root == etcd_.etcd_root) return key;
  return etcd_.root + key.substr(std::min(key.size(), etcd_.etcd_root.size()));
}

EtcdRange EtcdStore::ToEtcd(EtcdRange range) const {
  const std::string last = PrefixEnd(etcd_.root);
  const bool open = range.end.empty() || (!last.empty() && range.end >= last);
  range.start = ToEtcd(std::max(range.start, etcd_.root));
  range.end = open ? PrefixEnd(etcd_.etcd_root) : ToEtcd(range.end);
  if (range.end.empty()) range.end.assign(1, '\0');
  if (range.start.empty()) range.start.assign(1, '\0');
  return range;
}

std::shared_ptr<const Change> EtcdStore::FromEtcd(const std::shared_ptr<const Change>& change,
                                                  bool last) const {
  if (last && etcd_.root == etcd_.etcd_root) return change;
  Entry current = change->current();
  current.key = FromEtcd(std::move(current.key));
  std::optional<Entry> previous = change->previous();
  if (previous) previous->key = current.key;
  return std::make_shared<const Change>(std::move(current), std::move(previous), change->deleted(),
                                        last);
}

void EtcdStore::Range(EtcdRange range, std::function<void(Result<EtcdPage>)> done) {
  client_->Range(ToEtcd(std::move(range)), [this, done = std::move(done)](Result<EtcdPage> page) {
    if (!page) return done(ToClientStatus(page.error()));
    UpdateLatestRevision(page->revision);
    for (EtcdKeyValue& item : page->entries) {
      item.key = FromEtcd(std::move(item.key));
    }
    done(std::move(page));
  });
}

std::unique_ptr<EtcdWatch> EtcdStore::WatchKeys(const std::string& prefix, Revision after,
                                                std::function<void(Result<EtcdWatchBatch>)> batch) {
  return client_->Watch(
      ToEtcd(prefix), after, [this, batch = std::move(batch)](Result<EtcdWatchBatch> received) {
        if (received) {
          auto& changes = received->changes;
          for (std::size_t i = 0; i < changes.size(); ++i) {
            // All keys of an expired lease are deleted at one revision.
            const bool last =
                i + 1 == changes.size() || changes[i + 1]->revision() != changes[i]->revision();
            changes[i] = FromEtcd(changes[i], last);
          }
        }
        batch(std::move(received));
      });
}

void EtcdStore::UpdateLatestRevision(Revision revision) {
  Revision seen = latest_revision_.load();
  while (seen < revision && !latest_revision_.compare_exchange_weak(seen, revision)) {
  }
}

void EtcdStore::OnRevisionWentBack(Revision from, Revision to) {
  if (revision_went_back_.exchange(true)) return;
  Log(LogLevel::kError, "etcd was restored to an older revision; restart heraldd",
      "from revision " + std::to_string(from) + " to " + std::to_string(to));
}

// ---- writes ----

void EtcdStore::Commit(Write write, WriteDone done) {
  if (!write.key.starts_with(etcd_.root)) {
    return done(
        Status(StatusReason::kBadRequest, "the key is outside of this store: " + write.key));
  }
  auto shared = std::make_shared<Write>(std::move(write));
  if (!shared->value) return CommitWith(0, std::move(shared), false, std::move(done));
  const seconds lifetime = options_.schema.lifetime
                               ? options_.schema.lifetime(shared->key, *shared->value)
                               : LeasePool::kForever;
  leases_.Acquire(lifetime, [this, shared, lifetime,
                             done = std::move(done)](Result<std::int64_t> lease) mutable {
    if (!lease) return done(ToClientStatus(lease.error()));
    if (*lease == 0) return CommitWith(0, std::move(shared), false, std::move(done));
    const std::int64_t id = *lease;
    auto retry_if_lease_lost = [this, shared, lifetime, id, done](Result<Written> written) {
      const bool lost = !written && written.error().Is(StatusReason::kNotFound);
      if (!lost || stopping_) return done(std::move(written));
      // etcd lost or revoked the lease. Nothing was written.
      leases_.Forget(id);
      leases_.Acquire(lifetime, [this, shared, done](const Result<std::int64_t>& other) {
        if (!other) return done(ToClientStatus(other.error()));
        CommitWith(*other, shared, /*is_retry=*/true, done);
      });
    };
    CommitWith(id, shared, false, std::move(retry_if_lease_lost));
  });
}

void EtcdStore::CommitWith(std::int64_t lease, std::shared_ptr<Write> write, bool is_retry,
                           WriteDone done) {
  EtcdWrite etcd{ToEtcd(write->key), write->value, write->expected, lease};
  client_->Commit(std::move(etcd), [this, is_retry, write = std::move(write),
                                    done = std::move(done)](Result<Written> written) {
    if (!written) {
      if (is_retry && written.error().Is(StatusReason::kNotFound)) {
        return done(EtcdUnavailable("etcd lost two leases in a row: " + written.error().message()));
      }
      return done(ToClientStatus(written.error()));
    }
    UpdateLatestRevision(written->revision);
    if (written->current) written->current->key = write->key;
    done(std::move(written));
  });
}

// ---- reads ----

void EtcdStore::CurrentRevision(std::function<void(Result<Revision>)> done) {
  std::vector<std::function<void(Result<Revision>)>> waiters;
  {
    MutexLock lock(mu_);
    revision_waiters_.push_back(std::move(done));
    if (revision_requested_) return;
    revision_requested_ = true;
    waiters.swap(revision_waiters_);
  }
  RequestRevision(std::move(waiters));
}

void EtcdStore::RequestRevision(std::vector<std::function<void(Result<Revision>)>> waiters) {
  EtcdRange range;
  range.start = ToEtcd(etcd_.cached_prefix) + '\0';
  range.count_only = true;
  const Revision before = latest_revision_.load();
  client_->Range(std::move(range),
                 [this, before, waiters = std::move(waiters)](Result<EtcdPage> page) {
                   if (page && page->revision < before) OnRevisionWentBack(before, page->revision);
                   if (page) UpdateLatestRevision(page->revision);
                   std::vector<std::function<void(Result<Revision>)>> next;
                   {
                     MutexLock lock(mu_);
                     next.swap(revision_waiters_);
                     revision_requested_ = !next.empty();
                   }
                   if (!next.empty()) RequestRevision(std::move(next));
                   for (const auto& done : waiters) {
                     if (page) {
                       done(page->revision);
                     } else {
                       done(ToClientStatus(page.error()));
                     }
                   }
                 });
}

void EtcdStore::Get(std::string key, EntryDone done) {
  const bool cached = key.starts_with(etcd_.cached_prefix) && cache_->revision() > 0 &&
                      client_->progress_is_sound();
  if (!cached) return GetFromEtcd(std::move(key), std::move(done));
  CurrentRevision([this, key = std::move(key),
                   done = std::move(done)](const Result<Revision>& revision) mutable {
    if (!revision) return done(revision.error());
    cache_->WaitFor(*revision, [this, key = std::move(key), done = std::move(done)](bool fresh) {
      std::optional<std::optional<Entry>> entry;
      if (fresh) entry = cache_->Get(key);
      if (entry) return done(*std::move(entry));
      if (stopping_) return done(Status(StatusReason::kCancelled, "the store was closed"));
      GetFromEtcd(key, done);
    });
  });
}

std::optional<Entry> EtcdStore::Recall(const std::string& key) {
  if (!key.starts_with(etcd_.cached_prefix) || revision_went_back_) return std::nullopt;
  return cache_->Get(key).value_or(std::nullopt);
}

void EtcdStore::GetFromEtcd(std::string key, EntryDone done) {
  EtcdRange range;
  range.start = ToEtcd(key);
  client_->Range(std::move(range),
                 [this, key = std::move(key), done = std::move(done)](Result<EtcdPage> page) {
                   if (!page) return done(ToClientStatus(page.error()));
                   UpdateLatestRevision(page->revision);
                   std::optional<Entry> entry;
                   if (!page->entries.empty()) {
                     EtcdKeyValue& found = page->entries.front();
                     entry = Entry{key, std::move(found.value), found.mod_revision};
                   }
                   done(std::move(entry));
                 });
}

void EtcdStore::Read(Query query, PageDone done) {
  if (!query.end.empty() && query.end <= query.start) {
    const Revision at = query.at;
    return CurrentRevision([at, done = std::move(done)](const Result<Revision>& revision) {
      if (!revision) return done(revision.error());
      Page page;
      page.revision = at == 0 ? *revision : at;
      done(std::move(page));
    });
  }
  const std::string last = cached_end_;
  const bool cached = query.start >= etcd_.cached_prefix &&
                      (last.empty() || (!query.end.empty() && query.end <= last)) &&
                      cache_->revision() > 0 && !revision_went_back_;
  const Revision at = query.at;
  auto read = std::make_shared<PendingRead>(std::move(query), std::move(done));
  if (!cached) return ReadFromEtcd(read);
  if (at > 0) return ReadFromCache(read, at);
  CurrentRevision([this, read](const Result<Revision>& revision) {
    if (!revision) return read->Answer(revision.error());
    cache_->WaitFor(*revision, [this, read](bool fresh) {
      if (stopping_) return;
      if (fresh && !revision_went_back_) return ReadFromCache(read, 0);
      ReadFromEtcd(read);
    });
  });
}

void EtcdStore::ReadFromCache(const std::shared_ptr<PendingRead>& read, Revision at) {
  const auto slice = [this, read, at]() -> FairQueue::Step {
    if (stopping_) return {};
    if (read->query.is_cancelled()) {
      read->Answer(Status(StatusReason::kCancelled, "the read was cancelled"));
      return {};
    }
    if (!read->from_cache) read->from_cache = cache_->NewReader(read->query, at);
    if (!read->from_cache) {
      ReadFromEtcd(read);
      return {};
    }
    std::optional<Page> page = read->from_cache->Continue(kSliceRows);
    if (!page) return {.cost = kSliceRows, .done = false};
    read->from_cache.reset();
    const std::size_t cost = page->entries.size() + 1;
    read->Answer(*std::move(page));
    return {.cost = std::min(cost, kSliceRows), .done = true};
  };
  const Query& query = read->query;
  const Status rejected = read_queue_.Add(
      query.flow, query.background ? FairQueue::Kind::kLong : FairQueue::Kind::kShort, slice);
  if (!rejected.ok()) read->Answer(rejected);
}

void EtcdStore::ReadFromEtcd(const std::shared_ptr<PendingRead>& read) {
  EtcdRead::Start(
      [this](EtcdRange range, std::function<void(Result<EtcdPage>)> done) {
        if (stopping_) return done(Status(StatusReason::kCancelled, "the store was closed"));
        Range(std::move(range), std::move(done));
      },
      &options_.schema, readers_.get(), read->query, read->TakeDone());
}

// ---- watches ----

Result<std::unique_ptr<Watch>> EtcdStore::NewWatch(std::string prefix, Revision after,
                                                   std::function<void()> ready) {
  if (!prefix.starts_with(etcd_.cached_prefix)) {
    return Status(StatusReason::kBadRequest,
                  "keys with the prefix " + prefix + " cannot be watched");
  }
  if (revision_went_back_) return RevisionWentBackStatus();
  // A client must not get its own completed writes as new changes.
  if (after == 0) after = std::max(hub_->head(), latest_revision_.load());
  if (after == 0) return EtcdUnavailable("etcd has not answered yet");
  return hub_->NewWatch(std::move(prefix), after, std::move(ready));
}

Result<Watch::Batch> EtcdStore::ReadChanges(const std::string& prefix, Revision after,
                                            std::size_t max) {
  if (auto batch = cache_->ReadLog(prefix, after, max)) return *std::move(batch);

  // Reads the changes that etcd still has, with a temporary watch.
  struct Received {
    std::vector<std::shared_ptr<const Change>> changes{};
    Revision revision = 0;
    Status error{};
  };
  const auto received = std::make_shared<Received>();
  received->revision = after;
  const Revision target = hub_->head();
  // If progress notifications cannot be trusted, only a change shows how far the watch is. With all
  // cached keys there is one sooner.
  const bool sound = client_->progress_is_sound();
  const std::unique_ptr<EtcdWatch> watch =
      WatchKeys(sound ? prefix : etcd_.cached_prefix, after,
                [this, received, max](Result<EtcdWatchBatch> batch) {
                  MutexLock lock(mu_);
                  if (!batch) {
                    received->error = batch.error();
                  } else if (received->changes.size() < max) {
                    for (auto& change : batch->changes)
                      received->changes.push_back(std::move(change));
                    received->revision = std::max(received->revision, batch->revision);
                  }
                  changes_received_.NotifyAll();
                });
  Watch::Batch batch;
  {
    MutexLock lock(mu_);
    const auto enough = [&]() REQUIRES(mu_) {
      return stopping_ || !received->error.ok() || received->changes.size() >= max ||
             received->revision >= target;
    };
    for (auto waited = milliseconds(0); !enough() && waited < kReadChangesTimeout;
         waited += kProgressInterval) {
      if (sound) {
        lock.Unlock();
        watch->RequestProgress();
        lock.Lock();
      }
      changes_received_.WaitFor(lock, kProgressInterval, enough);
    }
    if (stopping_) return Status(StatusReason::kCancelled, "the store was closed");
    if (!received->error.ok()) return received->error;
    if (received->revision <= after) {
      if (sound) return EtcdUnavailable("etcd did not send its latest changes in time");
      // There may be no changes, or etcd has not sent them yet. The client must list again.
      return Status(StatusReason::kExpired,
                    "unknown whether etcd has changes after revision " + std::to_string(after));
    }
    batch.revision = received->revision;
    batch.changes = std::move(received->changes);
  }
  std::erase_if(batch.changes, [&prefix](const std::shared_ptr<const Change>& change) {
    return !change->key().starts_with(prefix);
  });
  return batch;
}

Status EtcdStore::Health() {
  if (revision_went_back_) return RevisionWentBackStatus();
  const Status reachable = client_->Health();
  if (!reachable.ok()) return ToClientStatus(reachable);
  MutexLock lock(mu_);
  return condition_;
}

StoreStats EtcdStore::Stats() {
  const EtcdCache::Stats cache = cache_->stats();
  StoreStats stats;
  stats.revision = std::max(latest_revision_.load(), cache.revision);
  stats.expired = cache.expired;
  stats.watches = hub_->watches();
  stats.clock_jumps = clock_guard_.jumps();
  stats.expiry_held = clock_guard_.held();
  MutexLock lock(mu_);
  stats.entries = cache.entries.value_or(count_);
  stats.bytes_on_disk = bytes_;
  stats.compacted = compacted_;
  return stats;
}

void EtcdStore::Log(LogLevel level, std::string_view message, const std::string& detail) const {
  if (!etcd_.log) return;
  LogEntry entry{.level = level, .message = message, .fields = {}};
  if (!detail.empty()) entry.fields.emplace_back("detail", detail);
  etcd_.log(entry);
}

}  // namespace herald::store
