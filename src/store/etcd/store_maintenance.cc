// EtcdStore's periodic work: it checks etcd, deletes expired entries and compacts.
#include <algorithm>
#include <future>
#include <utility>

#include "store/etcd/error.h"
#include "store/etcd/store.h"

namespace herald::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// How often etcd is checked and the cache is maintained.
constexpr seconds kMaintenanceInterval{5};

// How often overdue entries are searched, plus up to half of it, so that replicas do not delete the
// same entries at the same time.
constexpr seconds kSweepInterval{60};

// An entry that expired this long ago was not deleted by its lease: leases end up to a minute after
// the lifetime of their entries, and etcd may take some time to revoke them.
constexpr seconds kOverdueAfter{120};

// Maximum of deletes per sweep, and of concurrent ones, because clients write at the same time.
constexpr std::size_t kMaxDeletes = 10'000;
constexpr std::size_t kDeletesAtOnce = 16;

// The key with which kube-apiservers coordinate compactions.
constexpr std::string_view kCompactionKey = "compact_rev_key";

// Calls an asynchronous function and waits for its result.
template <typename T, typename Call>
T Await(Call call) {
  const auto promise = std::make_shared<std::promise<T>>();
  call([promise](T answer) { promise->set_value(std::move(answer)); });
  return promise->get_future().get();
}

}  // namespace

void EtcdStore::StartMaintenance() {
  background_ = std::make_unique<Executor>();
  const SteadyTime now = background_->clock().Steady();
  background_->PostAt(now + kMaintenanceInterval, [this] { MaintainAndReschedule(); });
  if (etcd_.compaction_interval > seconds(0)) {
    background_->PostAt(now + etcd_.compaction_interval, [this] { CompactAndReschedule(); });
  }
}

void EtcdStore::MaintainAndReschedule() {
  Maintain();
  background_->PostAt(background_->clock().Steady() + kMaintenanceInterval,
                      [this] { MaintainAndReschedule(); });
}

void EtcdStore::CompactAndReschedule() {
  CompactHistory();
  background_->PostAt(background_->clock().Steady() + etcd_.compaction_interval,
                      [this] { CompactAndReschedule(); });
}

void EtcdStore::RefreshLifetimes() {
  refresh_ = true;
  if (background_) background_->Post([this] { Maintain(); });
}

void EtcdStore::Maintain() {
  CheckEtcd();
  MutexLock lock(maintain_mu_);
  cache_->Maintain();
  const std::optional<WallTime> wall = clock_guard_.Look();
  if (stopping_ || !wall) return;
  if (refresh_.exchange(false)) Refresh(*wall);
  const SteadyTime now = clock_.Steady();
  if (now < next_sweep_) return;
  next_sweep_ = now + std::chrono::duration_cast<milliseconds>(kSweepInterval) +
                milliseconds(random_.Next() % milliseconds(kSweepInterval / 2).count());
  Sweep(*wall);
}

void EtcdStore::CheckEtcd() {
  const auto condition = Await<Result<EtcdClient::Condition>>(
      [this](auto done) { client_->GetCondition(std::move(done)); });
  std::optional<std::uint64_t> count;
  if (condition && !cache_->stats().entries) {
    EtcdRange range{.start = etcd_.cached_prefix, .end = cached_end_, .count_only = true};
    const auto page = Await<Result<EtcdPage>>(
        [this, &range](auto done) { Range(std::move(range), std::move(done)); });
    if (page) count = static_cast<std::uint64_t>(page->count);
  }
  Status status;
  if (!condition) {
    status = ToClientStatus(condition.error());
  } else if (!condition->has_leader) {
    status = EtcdUnavailable("etcd has no leader");
  } else if (!condition->alarms.empty()) {
    std::string alarms;
    for (const std::string& alarm : condition->alarms) alarms.append(" ").append(alarm);
    status = EtcdUnavailable("etcd has raised alarms and rejects writes:" + alarms);
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
    Log(LogLevel::kInfo, "etcd is healthy", "");
  } else {
    Log(LogLevel::kError, "etcd is unhealthy", status.message());
  }
}

std::vector<Entry> EtcdStore::FindOverdue(WallTime when) {
  if (auto entries = cache_->Overdue(when, kMaxDeletes)) return *std::move(entries);
  // The cache has no table, so all entries must be read.
  const Schema& schema = options_.schema;
  if (!schema.lifetime || !schema.written) return {};
  Query query;
  query.start = etcd_.cached_prefix;
  query.end = cached_end_;
  query.limit = kMaxDeletes;
  query.filter = [&schema, when](const Entry& entry) {
    const std::optional<WallTime> written = schema.written(entry.key, *entry.value);
    return written && schema.ExpiryOf(entry.key, *entry.value, *written) <= when;
  };
  auto page = Await<Result<Page>>([&](auto done) { Read(std::move(query), std::move(done)); });
  return page ? std::move(page->entries) : std::vector<Entry>();
}

void EtcdStore::Sweep(WallTime now) {
  const std::vector<Entry> overdue = FindOverdue(now - kOverdueAfter);
  if (overdue.empty()) return;
  Log(LogLevel::kWarn, "deleting expired events that their leases did not delete",
      std::to_string(overdue.size()));
  DeleteEntries(overdue);
}

void EtcdStore::Refresh(WallTime now) {
  if (auto expired = cache_->RefreshLifetimes(now)) return DeleteEntries(*expired);
  DeleteEntries(FindOverdue(now));
}

void EtcdStore::DeleteEntries(const std::vector<Entry>& entries) {
  for (std::size_t i = 0; i < entries.size() && !stopping_; i += kDeletesAtOnce) {
    const std::size_t end = std::min(entries.size(), i + kDeletesAtOnce);
    std::vector<std::future<bool>> done;
    for (std::size_t k = i; k < end; ++k) {
      const auto promise = std::make_shared<std::promise<bool>>();
      done.push_back(promise->get_future());
      // If a client or another replica has changed the entry meanwhile, it stays.
      Commit(
          {.key = entries[k].key, .value = nullptr, .expected = entries[k].revision},
          [promise](const Result<Written>& written) { promise->set_value(written.has_value()); });
    }
    bool works = true;
    for (std::future<bool>& deleted : done) works = deleted.get() && works;
    if (!works) return;  // the next sweep retries
  }
}

void EtcdStore::CompactHistory() {
  MutexLock lock(maintain_mu_);
  EtcdWrite write;
  write.key = kCompactionKey;
  write.value = std::make_shared<const std::string>(std::to_string(compact_next_));
  write.expected = compaction_key_;
  const auto written = Await<Result<Written>>(
      [&](auto done) { client_->Commit(std::move(write), std::move(done)); });
  if (!written) {
    Log(LogLevel::kWarn, "cannot compact etcd", written.error().message());
    return;
  }
  const Revision to = std::exchange(compact_next_, written->revision);
  if (!written->committed) {
    // Another process has compacted in this interval.
    const std::optional<Entry>& current = written->current;
    compaction_key_ = current ? current->revision : 0;
    return;
  }
  compaction_key_ = written->revision;
  if (to == 0) return;
  const Status status = Await<Status>([&](auto done) { client_->Compact(to, std::move(done)); });
  if (!status.ok()) {
    Log(LogLevel::kWarn, "cannot compact etcd", status.message());
    return;
  }
  MutexLock own(mu_);
  compacted_ = to;
}

}  // namespace herald::store
