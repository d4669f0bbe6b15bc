#include "store/etcd/store.h"

#include <algorithm>
#include <charconv>
#include <future>
#include <utility>

#include "base/check.h"
#include "store/etcd/read.h"

namespace herald::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// How long Open() waits for etcd, so that whoever is served first is not told to come again.
constexpr seconds kStartWait{3};

// How often etcd's condition is asked for, and the mirror looked after.
constexpr seconds kMaintenanceInterval{5};

// How often what is overdue is looked for, up to half of it more, so that replicas do not
// delete the same entries at the same time.
constexpr seconds kSweepInterval{60};

// What is this late was forgotten by its lease: those end up to a minute after their entries'
// time, and etcd may take a while to revoke them.
constexpr seconds kOverdue{120};

// Entries that one sweep deletes, and how many at once: clients write at the same time.
constexpr std::size_t kMostDeletes = 10'000;
constexpr std::size_t kDeletesAtOnce = 16;

// How long a lagging watch waits for etcd, and how often it asks how far etcd is. etcd looks
// after old watches every 100 ms.
constexpr seconds kHistoryWait{10};
constexpr milliseconds kHistoryProgress{100};

// Where kube-apiservers keep count of their compactions.
constexpr std::string_view kCompactionKey = "compact_rev_key";

// Entries that one slice of a read looks at: with a filter, which decodes each value, about 2 ms.
constexpr std::size_t kSliceRows = 512;

constexpr seconds kRetryAfter{1};

Status Unavailable(std::string message, seconds retry_after = kRetryAfter) {
  Status::Parts parts;
  parts.reason = StatusReason::kServiceUnavailable;
  parts.message = std::move(message);
  parts.retry_after = retry_after;
  return Status(std::move(parts));
}

// What our clients are told. That etcd does not take our word is not theirs to mend.
Status Told(const Status& status) {
  if (status.Is(StatusReason::kUnauthorized) || status.Is(StatusReason::kForbidden)) {
    return Unavailable("etcd refuses us: " + status.message());
  }
  // kube-apiserver says it without a reason, as something that should not have happened.
  if (status.Is(StatusReason::kRequestEntityTooLarge)) {
    return Status(StatusReason::kUnknown, status.message());
  }
  return status;
}

Status SetBack() {
  return Unavailable("etcd was set back to an older state; heraldd must be restarted");
}

// The first key that no longer begins with `prefix`; empty: there is none.
std::string EndOf(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty()) ++prefix.back();
  return prefix;
}

// Calls an asynchronous function and waits for its answer.
template <typename T, typename Call>
T Await(Call call) {
  const auto promise = std::make_shared<std::promise<T>>();
  call([promise](T answer) { promise->set_value(std::move(answer)); });
  return promise->get_future().get();
}

}  // namespace

// One read on its way through executors. Answers when it is dropped unanswered.
class EtcdStore::Reading {
 public:
  Reading(Query q, PageDone done) : query(std::move(q)), done_(std::move(done)) {}
  ~Reading() {
    if (done_) Answer(Status(StatusReason::kCancelled, "the store was closed"));
  }
  void Answer(Result<Page> page) { std::exchange(done_, nullptr)(std::move(page)); }
  PageDone TakeDone() { return std::exchange(done_, nullptr); }

  const Query query;
  std::unique_ptr<EtcdMirror::Reading> from_mirror;  // of `query`, once begun

 private:
  PageDone done_;
};

Result<std::unique_ptr<EtcdStore>> EtcdStore::Open(StoreOptions options, EtcdStoreOptions etcd) {
  HERALD_CHECK(etcd.mirrored.starts_with(etcd.root), "what is mirrored is below the root");
  Result<std::unique_ptr<EtcdClient>> client = EtcdClient::Open(etcd.client);
  if (!client) return client.error();
  std::unique_ptr<EtcdStore> store(new EtcdStore(std::move(options), std::move(etcd)));
  store->Start(*std::move(client));
  return store;
}

EtcdStore::EtcdStore(StoreOptions options, EtcdStoreOptions etcd)
    : options_(std::move(options)),
      etcd_(std::move(etcd)),
      clock_(options_.clock != nullptr ? *options_.clock : SystemClock()),
      // What an earlier process saw is not kept anywhere: etcd has no place that is this machine's.
      clock_guard_(&clock_, ReadBootId(), std::nullopt, etcd_.log),
      random_(RandomSeed()),
      condition_(Unavailable("etcd has not answered yet")),
      readers_(std::make_unique<Executor>(
          Executor::Options{.threads = std::max(etcd_.read_threads, 1), .clock = nullptr})),
      lagging_(std::make_unique<Executor>(Executor::Options{.threads = 2, .clock = nullptr})),
      hub_(std::make_unique<WatchHub>(
          0, 0,
          [this](const std::string& prefix, Revision after, std::size_t max) {
            return ReadHistory(prefix, after, max);
          },
          WatchHub::Options{.executor = lagging_.get()})),
      leases_(clock_,
              [this](seconds ttl, LeaseBook::Granted done) {
                client_->GrantLease(ttl, std::move(done));
              }),
      mirror_(std::make_unique<EtcdMirror>(
          EtcdMirror::Options{.schema = options_.schema,
                              .clock = &clock_,
                              .start = etcd_.mirrored,
                              .end = EndOf(etcd_.mirrored),
                              .max_bytes = etcd_.max_mirror_bytes,
                              .max_watch_window_bytes = std::min(options_.max_watch_window_bytes,
                                                                 etcd_.max_mirror_bytes / 4),
                              .watch_window = options_.watch_window,
                              .executor = readers_.get(),
                              .log = etcd_.log},
          EtcdMirror::Source{
              .range =
                  [this](EtcdRange range, std::function<void(Result<EtcdPage>)> done) {
                    Range(std::move(range), std::move(done));
                  },
              .watch =
                  [this](Revision after, std::function<void(Result<EtcdWatchBatch>)> batch) {
                    return WatchKeys(etcd_.mirrored, after, std::move(batch));
                  },
              .progress_is_sound = [this] { return client_->progress_is_sound(); }},
          hub_.get())),
      read_queue_(readers_.get(), {.concurrency = readers_->threads(), .slice_cost = kSliceRows}) {}

void EtcdStore::Start(std::unique_ptr<EtcdClient> client) {
  owned_client_ = std::move(client);
  client_ = owned_client_.get();
  mirror_->Start();
  if (mirror_->WaitUntilStarted(kStartWait)) LookAtEtcd();
  if (!options_.background) return;
  background_ = std::make_unique<Executor>();
  const SteadyTime now = background_->clock().Steady();
  background_->PostAt(now + kMaintenanceInterval, [this] { MaintainAndCallAgain(); });
  if (etcd_.compaction_interval > seconds(0)) {
    background_->PostAt(now + etcd_.compaction_interval, [this] { CompactAndCallAgain(); });
  }
}

EtcdStore::~EtcdStore() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    told_.NotifyAll();
  }
  if (background_) background_->Stop();
  lagging_->Stop();
  mirror_->Stop();
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
  const std::string last = EndOf(etcd_.root);
  const bool open = range.end.empty() || (!last.empty() && range.end >= last);
  range.start = ToEtcd(std::max(range.start, etcd_.root));
  range.end = open ? EndOf(etcd_.etcd_root) : ToEtcd(range.end);
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
    if (!page) return done(Told(page.error()));
    Saw(page->revision);
    for (EtcdKeyValue& item : page->entries) {
      item.key = FromEtcd(std::move(item.key));
    }
    done(std::move(page));
  });
}

std::unique_ptr<EtcdWatch> EtcdStore::WatchKeys(const std::string& prefix, Revision after,
                                                std::function<void(Result<EtcdWatchBatch>)> batch) {
  return client_->Watch(
      ToEtcd(prefix), after, [this, batch = std::move(batch)](Result<EtcdWatchBatch> told) {
        if (told) {
          auto& changes = told->changes;
          for (std::size_t i = 0; i < changes.size(); ++i) {
            // All keys of a lease go at one revision.
            const bool last =
                i + 1 == changes.size() || changes[i + 1]->revision() != changes[i]->revision();
            changes[i] = FromEtcd(changes[i], last);
          }
        }
        batch(std::move(told));
      });
}

void EtcdStore::Saw(Revision revision) {
  Revision seen = seen_.load();
  while (seen < revision && !seen_.compare_exchange_weak(seen, revision)) {
  }
}

void EtcdStore::WentBack(Revision from, Revision to) {
  if (went_back_.exchange(true)) return;
  Say(LogLevel::kError, "etcd was set back to an older state; restart heraldd",
      "from revision " + std::to_string(from) + " to " + std::to_string(to));
}

// ---- writes ----

void EtcdStore::Commit(Write write, WriteDone done) {
  if (!write.key.starts_with(etcd_.root)) {
    return done(Status(StatusReason::kBadRequest, "not a key of this store: " + write.key));
  }
  auto shared = std::make_shared<Write>(std::move(write));
  if (!shared->value) return CommitWith(0, std::move(shared), false, std::move(done));
  const seconds lifetime = options_.schema.lifetime
                               ? options_.schema.lifetime(shared->key, *shared->value)
                               : LeaseBook::kForEver;
  leases_.Take(lifetime, [this, shared, lifetime,
                          done = std::move(done)](Result<std::int64_t> lease) mutable {
    if (!lease) return done(Told(lease.error()));
    if (*lease == 0) return CommitWith(0, std::move(shared), false, std::move(done));
    const std::int64_t id = *lease;
    auto write_again = [this, shared, lifetime, id, done](Result<Written> written) {
      const bool lost = !written && written.error().Is(StatusReason::kNotFound);
      if (!lost || stopping_) return done(std::move(written));
      // The lease went with a failed etcd, or somebody revoked it. Nothing was written.
      leases_.Forget(id);
      leases_.Take(lifetime, [this, shared, done](const Result<std::int64_t>& other) {
        if (!other) return done(Told(other.error()));
        CommitWith(*other, shared, /*again=*/true, done);
      });
    };
    CommitWith(id, shared, false, std::move(write_again));
  });
}

void EtcdStore::CommitWith(std::int64_t lease, std::shared_ptr<Write> write, bool again,
                           WriteDone done) {
  EtcdWrite etcd{ToEtcd(write->key), write->value, write->expected, lease};
  client_->Commit(std::move(etcd), [this, again, write = std::move(write),
                                    done = std::move(done)](Result<Written> written) {
    if (!written) {
      if (again && written.error().Is(StatusReason::kNotFound)) {
        return done(Unavailable("etcd loses its leases: " + written.error().message()));
      }
      return done(Told(written.error()));
    }
    Saw(written->revision);
    if (written->current) written->current->key = write->key;
    done(std::move(written));
  });
}

// ---- reads ----

void EtcdStore::CurrentRevision(std::function<void(Result<Revision>)> done) {
  std::vector<std::function<void(Result<Revision>)>> asking;
  {
    MutexLock lock(mu_);
    next_to_ask_.push_back(std::move(done));
    if (asking_) return;
    asking_ = true;
    asking.swap(next_to_ask_);
  }
  AskRevision(std::move(asking));
}

void EtcdStore::AskRevision(std::vector<std::function<void(Result<Revision>)>> asking) {
  EtcdRange range;
  range.start = ToEtcd(etcd_.mirrored) + '\0';
  range.count_only = true;
  const Revision before = seen_.load();
  client_->Range(std::move(range),
                 [this, before, asking = std::move(asking)](Result<EtcdPage> page) {
                   if (page && page->revision < before) WentBack(before, page->revision);
                   if (page) Saw(page->revision);
                   std::vector<std::function<void(Result<Revision>)>> next;
                   {
                     MutexLock lock(mu_);
                     next.swap(next_to_ask_);
                     asking_ = !next.empty();
                   }
                   if (!next.empty()) AskRevision(std::move(next));
                   for (const auto& done : asking) {
                     if (page) {
                       done(page->revision);
                     } else {
                       done(Told(page.error()));
                     }
                   }
                 });
}

void EtcdStore::Get(std::string key, EntryDone done) {
  const bool mirrored =
      key.starts_with(etcd_.mirrored) && mirror_->revision() > 0 && client_->progress_is_sound();
  if (!mirrored) return GetFromEtcd(std::move(key), std::move(done));
  CurrentRevision([this, key = std::move(key),
                   done = std::move(done)](const Result<Revision>& revision) mutable {
    if (!revision) return done(revision.error());
    mirror_->WaitFor(*revision, [this, key = std::move(key), done = std::move(done)](bool fresh) {
      std::optional<std::optional<Entry>> entry;
      if (fresh) entry = mirror_->Get(key);
      if (entry) return done(*std::move(entry));
      if (stopping_) return done(Status(StatusReason::kCancelled, "the store was closed"));
      GetFromEtcd(key, done);
    });
  });
}

std::optional<Entry> EtcdStore::Recall(const std::string& key) {
  if (!key.starts_with(etcd_.mirrored) || went_back_) return std::nullopt;
  return mirror_->Get(key).value_or(std::nullopt);
}

void EtcdStore::GetFromEtcd(std::string key, EntryDone done) {
  EtcdRange range;
  range.start = ToEtcd(key);
  client_->Range(std::move(range),
                 [this, key = std::move(key), done = std::move(done)](Result<EtcdPage> page) {
                   if (!page) return done(Told(page.error()));
                   Saw(page->revision);
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
  const std::string last = EndOf(etcd_.mirrored);
  const bool mirrored = query.start >= etcd_.mirrored &&
                        (last.empty() || (!query.end.empty() && query.end <= last)) &&
                        mirror_->revision() > 0 && !went_back_;
  const Revision at = query.at;
  auto reading = std::make_shared<Reading>(std::move(query), std::move(done));
  if (!mirrored) return ReadFromEtcd(reading);
  if (at > 0) return ReadFromMirror(reading, at);
  CurrentRevision([this, reading](const Result<Revision>& revision) {
    if (!revision) return reading->Answer(revision.error());
    mirror_->WaitFor(*revision, [this, reading](bool fresh) {
      if (stopping_) return;
      if (fresh && !went_back_) return ReadFromMirror(reading, 0);
      ReadFromEtcd(reading);
    });
  });
}

void EtcdStore::ReadFromMirror(const std::shared_ptr<Reading>& reading, Revision at) {
  const auto slice = [this, reading, at]() -> FairQueue::Step {
    if (stopping_) return {};
    if (reading->query.is_cancelled()) {
      reading->Answer(Status(StatusReason::kCancelled, "the read was cancelled"));
      return {};
    }
    if (!reading->from_mirror) reading->from_mirror = mirror_->NewReading(reading->query, at);
    if (!reading->from_mirror) {
      ReadFromEtcd(reading);
      return {};
    }
    std::optional<Page> page = reading->from_mirror->Continue(kSliceRows);
    if (!page) return {.cost = kSliceRows, .done = false};
    reading->from_mirror.reset();
    const std::size_t cost = page->entries.size() + 1;
    reading->Answer(*std::move(page));
    return {.cost = std::min(cost, kSliceRows), .done = true};
  };
  const Query& query = reading->query;
  const Status rejected = read_queue_.Add(
      query.flow, query.background ? FairQueue::Kind::kLong : FairQueue::Kind::kShort, slice);
  if (!rejected.ok()) reading->Answer(rejected);
}

void EtcdStore::ReadFromEtcd(const std::shared_ptr<Reading>& reading) {
  EtcdRead::Start(
      [this](EtcdRange range, std::function<void(Result<EtcdPage>)> done) {
        if (stopping_) return done(Status(StatusReason::kCancelled, "the store was closed"));
        Range(std::move(range), std::move(done));
      },
      &options_.schema, readers_.get(), reading->query, reading->TakeDone());
}

// ---- watches ----

Result<std::unique_ptr<Watch>> EtcdStore::NewWatch(std::string prefix, Revision after,
                                                   std::function<void()> ready) {
  if (!prefix.starts_with(etcd_.mirrored)) {
    return Status(StatusReason::kBadRequest, "changes of " + prefix + " are not followed");
  }
  if (went_back_) return SetBack();
  // Whoever was told of a write does not want to see it as new.
  if (after == 0) after = std::max(hub_->head(), seen_.load());
  if (after == 0) return Unavailable("etcd has not answered yet");
  return hub_->NewWatch(std::move(prefix), after, std::move(ready));
}

Result<Watch::Batch> EtcdStore::ReadHistory(const std::string& prefix, Revision after,
                                            std::size_t max) {
  if (auto batch = mirror_->ReadLog(prefix, after, max)) return *std::move(batch);

  // etcd's own history, through a watch that lives for as long as this takes.
  struct Told {
    std::vector<std::shared_ptr<const Change>> changes{};
    Revision revision = 0;
    Status error{};
  };
  const auto told = std::make_shared<Told>();
  told->revision = after;
  const Revision target = hub_->head();
  // Where etcd's word on its progress does not count, only a change tells how far it is; among
  // all that are mirrored there is one sooner.
  const bool sound = client_->progress_is_sound();
  const std::unique_ptr<EtcdWatch> watch = WatchKeys(
      sound ? prefix : etcd_.mirrored, after, [this, told, max](Result<EtcdWatchBatch> batch) {
        MutexLock lock(mu_);
        if (!batch) {
          told->error = batch.error();
        } else if (told->changes.size() < max) {
          for (auto& change : batch->changes) told->changes.push_back(std::move(change));
          told->revision = std::max(told->revision, batch->revision);
        }
        told_.NotifyAll();
      });
  Watch::Batch batch;
  {
    MutexLock lock(mu_);
    const auto enough = [&]() REQUIRES(mu_) {
      return stopping_ || !told->error.ok() || told->changes.size() >= max ||
             told->revision >= target;
    };
    for (auto waited = milliseconds(0); !enough() && waited < kHistoryWait;
         waited += kHistoryProgress) {
      if (sound) {
        lock.Unlock();
        watch->RequestProgress();
        lock.Lock();
      }
      told_.WaitFor(lock, kHistoryProgress, enough);
    }
    if (stopping_) return Status(StatusReason::kCancelled, "the store was closed");
    if (!told->error.ok()) return told->error;
    if (told->revision <= after) {
      if (sound) return Unavailable("etcd does not tell what happened after its restart");
      // It may have nothing more to tell, or not yet. A list knows.
      return Status(
          StatusReason::kExpired,
          "etcd does not say whether anything happened after revision " + std::to_string(after));
    }
    batch.revision = told->revision;
    batch.changes = std::move(told->changes);
  }
  std::erase_if(batch.changes, [&prefix](const std::shared_ptr<const Change>& change) {
    return !change->key().starts_with(prefix);
  });
  return batch;
}

// ---- maintenance ----

void EtcdStore::MaintainAndCallAgain() {
  Maintain();
  background_->PostAt(background_->clock().Steady() + kMaintenanceInterval,
                      [this] { MaintainAndCallAgain(); });
}

void EtcdStore::CompactAndCallAgain() {
  CompactHistory();
  background_->PostAt(background_->clock().Steady() + etcd_.compaction_interval,
                      [this] { CompactAndCallAgain(); });
}

void EtcdStore::RefreshLifetimes() {
  refresh_ = true;
  if (background_) background_->Post([this] { Maintain(); });
}

void EtcdStore::Maintain() {
  LookAtEtcd();
  MutexLock lock(maintain_mu_);
  mirror_->Maintain();
  const std::optional<WallTime> wall = clock_guard_.Look();
  if (stopping_ || !wall) return;
  if (refresh_.exchange(false)) Refresh(*wall);
  const SteadyTime now = clock_.Steady();
  if (now < next_sweep_) return;
  next_sweep_ = now + std::chrono::duration_cast<milliseconds>(kSweepInterval) +
                milliseconds(random_.Next() % milliseconds(kSweepInterval / 2).count());
  Sweep(*wall);
}

void EtcdStore::LookAtEtcd() {
  const auto condition = Await<Result<EtcdClient::Condition>>(
      [this](auto done) { client_->GetCondition(std::move(done)); });
  std::optional<std::uint64_t> count;
  if (condition && !mirror_->stats().entries) {
    EtcdRange range{.start = etcd_.mirrored, .end = EndOf(etcd_.mirrored), .count_only = true};
    const auto page = Await<Result<EtcdPage>>(
        [this, &range](auto done) { Range(std::move(range), std::move(done)); });
    if (page) count = static_cast<std::uint64_t>(page->count);
  }
  Status status;
  if (!condition) {
    status = Told(condition.error());
  } else if (!condition->has_leader) {
    status = Unavailable("etcd has no leader");
  } else if (!condition->alarms.empty()) {
    std::string alarms;
    for (const std::string& alarm : condition->alarms) alarms.append(" ").append(alarm);
    status = Unavailable("etcd has raised an alarm and takes no writes:" + alarms);
  }
  bool changed = false;
  {
    MutexLock lock(mu_);
    changed = condition_.ok() != status.ok();
    condition_ = status;
    if (condition) bytes_ = static_cast<std::uint64_t>(condition->bytes);
    if (count) count_ = *count;
  }
  if (!changed) return;
  if (status.ok()) {
    Say(LogLevel::kInfo, "etcd is well", "");
  } else {
    Say(LogLevel::kError, "etcd is not well", status.message());
  }
}

std::vector<Entry> EtcdStore::FindOverdue(WallTime when) {
  if (auto entries = mirror_->Overdue(when, kMostDeletes)) return *std::move(entries);
  // Too many for the mirror: all of them have to be looked at.
  const Schema& schema = options_.schema;
  if (!schema.lifetime || !schema.written) return {};
  Query query;
  query.start = etcd_.mirrored;
  query.end = EndOf(etcd_.mirrored);
  query.limit = kMostDeletes;
  query.filter = [&schema, when](const Entry& entry) {
    const std::optional<WallTime> written = schema.written(entry.key, *entry.value);
    return written && schema.ExpiryOf(entry.key, *entry.value, *written) <= when;
  };
  auto page = Await<Result<Page>>([&](auto done) { Read(std::move(query), std::move(done)); });
  return page ? std::move(page->entries) : std::vector<Entry>();
}

void EtcdStore::Sweep(WallTime now) {
  const std::vector<Entry> overdue = FindOverdue(now - kOverdue);
  if (overdue.empty()) return;
  Say(LogLevel::kWarn, "deleting events whose lease did not", std::to_string(overdue.size()));
  DeleteAll(overdue);
}

void EtcdStore::Refresh(WallTime now) {
  if (auto over = mirror_->RefreshLifetimes(now)) return DeleteAll(*over);
  DeleteAll(FindOverdue(now));
}

void EtcdStore::DeleteAll(const std::vector<Entry>& entries) {
  for (std::size_t i = 0; i < entries.size() && !stopping_; i += kDeletesAtOnce) {
    const std::size_t end = std::min(entries.size(), i + kDeletesAtOnce);
    std::vector<std::future<bool>> done;
    for (std::size_t k = i; k < end; ++k) {
      const auto promise = std::make_shared<std::promise<bool>>();
      done.push_back(promise->get_future());
      // Whoever wrote or deleted it meanwhile, a client or another replica, was right.
      Commit(
          {.key = entries[k].key, .value = nullptr, .expected = entries[k].revision},
          [promise](const Result<Written>& written) { promise->set_value(written.has_value()); });
    }
    bool works = true;
    for (std::future<bool>& deleted : done) works = deleted.get() && works;
    if (!works) return;  // the next sweep finds them again
  }
}

void EtcdStore::CompactHistory() {
  MutexLock lock(maintain_mu_);
  EtcdWrite write;
  write.key = kCompactionKey;
  write.value = std::make_shared<const std::string>(std::to_string(compact_to_));
  write.expected = compaction_key_;
  const auto written = Await<Result<Written>>(
      [&](auto done) { client_->Commit(std::move(write), std::move(done)); });
  if (!written) {
    Say(LogLevel::kWarn, "cannot compact etcd", written.error().message());
    return;
  }
  const Revision to = std::exchange(compact_to_, written->revision);
  if (!written->committed) {
    // Somebody else has compacted in this interval.
    const std::optional<Entry>& current = written->current;
    compaction_key_ = current ? current->revision : 0;
    return;
  }
  compaction_key_ = written->revision;
  if (to == 0) return;
  const Status status = Await<Status>([&](auto done) { client_->Compact(to, std::move(done)); });
  if (!status.ok()) {
    Say(LogLevel::kWarn, "cannot compact etcd", status.message());
    return;
  }
  MutexLock own(mu_);
  compacted_ = to;
}

Status EtcdStore::Health() {
  if (went_back_) return SetBack();
  const Status reachable = client_->Health();
  if (!reachable.ok()) return Told(reachable);
  MutexLock lock(mu_);
  return condition_;
}

StoreStats EtcdStore::Stats() {
  const EtcdMirror::Stats mirror = mirror_->stats();
  StoreStats stats;
  stats.revision = std::max(seen_.load(), mirror.revision);
  stats.expired = mirror.expired;
  stats.watches = hub_->watches();
  stats.clock_jumps = clock_guard_.jumps();
  stats.expiry_held = clock_guard_.held();
  MutexLock lock(mu_);
  stats.entries = mirror.entries.value_or(count_);
  stats.bytes_on_disk = bytes_;
  stats.compacted = compacted_;
  return stats;
}

void EtcdStore::Say(LogLevel level, std::string_view message, const std::string& detail) const {
  if (!etcd_.log) return;
  LogEntry entry{.level = level, .message = message, .fields = {}};
  if (!detail.empty()) entry.fields.emplace_back("detail", detail);
  etcd_.log(entry);
}

}  // namespace herald::store
