#include "store/memory/store.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace herald::store {
namespace {

// Entries that are deleted or read while the lock is held once.
constexpr std::size_t kChunk = 256;

// How often maintenance runs. Entries expire at most this long after their time.
constexpr std::chrono::seconds kMaintenanceInterval{1};

}  // namespace

MemoryStore::MemoryStore(StoreOptions options)
    : options_(std::move(options)),
      clock_(options_.clock != nullptr ? *options_.clock : SystemClock()),
      clock_guard_(&clock_, ReadBootId(), std::nullopt, LogFunction()),
      hub_(
          0, 0,
          [this](const std::string& prefix, Revision after, std::size_t max) {
            return ReadLog(prefix, after, max);
          },
          WatchHub::Options()) {
  if (options_.background) {
    executor_ = std::make_unique<Executor>();
    executor_->PostAt(executor_->clock().Steady() + kMaintenanceInterval,
                      [this] { MaintainAndRepeat(); });
  }
}

MemoryStore::~MemoryStore() {
  if (executor_) executor_->Stop();
}

void MemoryStore::MaintainAndRepeat() {
  Maintain();
  executor_->PostAt(executor_->clock().Steady() + kMaintenanceInterval,
                    [this] { MaintainAndRepeat(); });
}

std::shared_ptr<const Change> MemoryStore::Apply(const std::string& key, Bytes value,
                                                 EntryTable::Facts facts) {
  auto change = table_.MakeChange(key, std::move(value), table_.revision() + 1);
  if (const auto& previous = change->previous()) by_age_.erase(previous->revision);
  if (!change->deleted()) by_age_.emplace(change->revision(), key);
  table_.Apply(change, std::move(facts));
  return change;
}

void MemoryStore::Commit(Write write, WriteDone done) {
  EntryTable::Facts facts{.written = clock_.Now()};
  if (write.value) {
    if (options_.schema.index) facts.index = options_.schema.index(write.key, *write.value);
    facts.expires = options_.schema.ExpiryOf(write.key, *write.value, facts.written);
  }
  Written written;
  WatchHub::Woken woken;
  {
    MutexLock lock(mu_);
    const EntryTable::Version* current = table_.Newest(write.key);
    const Revision standing = current != nullptr ? current->revision : 0;
    if ((write.expected != Write::kAny && write.expected != standing) ||
        (!write.value && current == nullptr)) {
      written.revision = table_.revision();
      if (current != nullptr) written.current = Entry{write.key, current->value, standing};
    } else {
      const auto change = Apply(write.key, std::move(write.value), std::move(facts));
      written.committed = true;
      written.revision = change->revision();
      woken = hub_.Append({change}, change->revision());
    }
  }
  WatchHub::Wake(woken);
  done(std::move(written));
}

void MemoryStore::Get(std::string key, EntryDone done) {
  std::optional<Entry> entry;
  {
    MutexLock lock(mu_);
    if (const EntryTable::Version* version = table_.Newest(key)) {
      entry = Entry{std::move(key), version->value, version->revision};
    }
  }
  done(std::move(entry));
}

void MemoryStore::CurrentRevision(std::function<void(Result<Revision>)> done) {
  Revision revision = 0;
  {
    MutexLock lock(mu_);
    revision = table_.revision();
  }
  done(revision);
}

void MemoryStore::Read(Query query, PageDone done) {
  Revision at = query.at;
  Status refused;
  {
    MutexLock lock(mu_);
    if (at == 0) at = table_.revision();
    refused = table_.CheckRevision(at);
    if (refused.ok()) table_.Pin(at);
  }
  if (!refused.ok()) {
    done(std::move(refused));
    return;
  }
  PageMaker page(query, at);
  EntryTable::Cursor cursor;
  for (bool enough = false; !enough && !cursor.done();) {
    if (query.is_cancelled()) break;
    std::vector<EntryTable::Found> entries;
    {
      MutexLock lock(mu_);
      entries = table_.Read(query, at, cursor);
    }
    for (EntryTable::Found& found : entries) {
      enough = !page.Take(std::move(found.entry), found.value);
      if (enough) break;
    }
  }
  {
    MutexLock lock(mu_);
    table_.Unpin(at);
  }
  if (query.is_cancelled()) return done(Status(StatusReason::kCancelled, "the read was cancelled"));
  done(page.Finish());
}

Result<std::unique_ptr<Watch>> MemoryStore::NewWatch(std::string prefix, Revision after,
                                                     std::function<void()> ready) {
  return hub_.NewWatch(std::move(prefix), after, std::move(ready));
}

Result<Watch::Batch> MemoryStore::ReadLog(const std::string& prefix, Revision after,
                                          std::size_t max) {
  MutexLock lock(mu_);
  return table_.ReadLog(prefix, after, max);
}

void MemoryStore::RefreshLifetimes() {
  {
    MutexLock lock(mu_);
    refresh_ = true;
  }
  if (executor_) executor_->Post([this] { Maintain(); });
}

void MemoryStore::Maintain() {
  MutexLock lock(maintain_mu_);
  Refresh();
  Expire();
  Evict();
  Compact();
}

void MemoryStore::Refresh() {
  {
    MutexLock lock(mu_);
    if (!refresh_) return;
    refresh_ = false;
  }
  std::string from;
  for (;;) {
    std::vector<std::pair<std::string, EntryTable::Version>> entries;
    {
      MutexLock lock(mu_);
      entries = table_.Live(from, kChunk);
    }
    if (entries.empty()) return;
    from = entries.back().first + '\0';
    for (auto& [key, version] : entries) {
      version.expires = options_.schema.ExpiryOf(key, *version.value, version.written);
    }
    MutexLock lock(mu_);
    // Entries that were written since follow the new rules already.
    for (const auto& [key, version] : entries) {
      table_.SetExpiry(key, version.revision, version.expires);
    }
  }
}

void MemoryStore::Expire() {
  const std::optional<WallTime> looked = clock_guard_.Look();
  if (!looked) return;
  const WallTime now = *looked;
  for (;;) {
    std::vector<std::shared_ptr<const Change>> changes;
    WatchHub::Woken woken;
    {
      MutexLock lock(mu_);
      for (const Entry& entry : table_.Due(now, kChunk)) {
        changes.push_back(Apply(entry.key, nullptr, {.written = now}));
        ++expired_;
      }
      if (changes.empty()) return;
      woken = hub_.Append(changes, changes.back()->revision());
    }
    WatchHub::Wake(woken);
  }
}

void MemoryStore::Evict() {
  if (options_.max_bytes == 0) return;
  const WallTime now = clock_.Now();
  for (;;) {
    std::vector<std::shared_ptr<const Change>> changes;
    WatchHub::Woken woken;
    {
      MutexLock lock(mu_);
      while (table_.live_bytes() > options_.max_bytes && !by_age_.empty() &&
             changes.size() < kChunk) {
        const std::string key = by_age_.begin()->second;
        complete_since_ = std::max(complete_since_, table_.Newest(key)->written);
        changes.push_back(Apply(key, nullptr, {.written = now}));
        ++evicted_;
      }
      if (changes.empty()) return;
      woken = hub_.Append(changes, changes.back()->revision());
    }
    WatchHub::Wake(woken);
  }
}

void MemoryStore::Compact() {
  const std::optional<WallTime> now = clock_guard_.Look();
  // While the clock cannot be trusted, only the bytes count.
  const WallTime keep_from = now ? *now - options_.watch_window : WallTime();
  for (;;) {
    std::vector<std::shared_ptr<const Change>> gone;  // destroyed without the lock
    MutexLock lock(mu_);
    gone = table_.Compact(keep_from, options_.max_watch_window_bytes);
    if (gone.empty()) return;
    hub_.Compacted(table_.compacted());
    lock.Unlock();
  }
}

StoreStats MemoryStore::Stats() {
  MutexLock lock(mu_);
  StoreStats stats;
  stats.revision = table_.revision();
  stats.compacted = table_.compacted();
  stats.entries = table_.entries();
  stats.expired = expired_;
  stats.evicted = evicted_;
  stats.complete_since = complete_since_;
  stats.watches = hub_.watches();
  stats.clock_jumps = clock_guard_.jumps();
  stats.expiry_held = clock_guard_.held();
  return stats;
}

}  // namespace herald::store
