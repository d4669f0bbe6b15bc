#include "store/memory_store.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/check.h"

namespace herald::store {
namespace {

// Entries that are looked at under one hold of the lock, so that a list of everything
// does not hold up writers for longer than tens of microseconds.
constexpr std::size_t kChunk = 256;

// How often the store looks for what is due. Entries expire within this of their time.
constexpr std::chrono::seconds kMaintenanceInterval{1};

std::size_t SizeOf(const std::string& key, const Bytes& value) {
  return key.size() + (value ? value->size() : 0);
}

bool InRange(std::string_view key, const Query& query) {
  return key >= query.start && (query.end.empty() || key < query.end);
}

}  // namespace

MemoryStore::MemoryStore(StoreOptions options)
    : options_(std::move(options)),
      clock_(options_.clock != nullptr ? *options_.clock : SystemClock()),
      hub_(
          0, 0,
          [this](const std::string& prefix, Revision after, std::size_t max) {
            return ReadLog(prefix, after, max);
          },
          WatchHub::Options()) {
  if (options_.background) {
    executor_ = std::make_unique<Executor>();
    executor_->PostAt(executor_->clock().Steady() + kMaintenanceInterval,
                      [this] { MaintainAndCallAgain(); });
  }
}

MemoryStore::~MemoryStore() {
  if (executor_) executor_->Stop();
}

void MemoryStore::MaintainAndCallAgain() {
  Maintain();
  executor_->PostAt(executor_->clock().Steady() + kMaintenanceInterval,
                    [this] { MaintainAndCallAgain(); });
}

WallTime MemoryStore::ExpiryOf(const std::string& key, const std::string& value,
                               WallTime written) const {
  if (!options_.schema.lifetime) return WallTime::max();
  const std::chrono::seconds lifetime = options_.schema.lifetime(key, value);
  // Rules may say "for ever" with a number that cannot be added.
  if (lifetime >= std::chrono::floor<std::chrono::seconds>(WallTime::max() - written)) {
    return WallTime::max();
  }
  return written + std::max(lifetime, std::chrono::seconds(1));
}

const MemoryStore::Version* MemoryStore::Newest(const std::string& key) const {
  const auto found = keys_.find(key);
  if (found == keys_.end() || !found->second.back().value) return nullptr;
  return &found->second.back();
}

const MemoryStore::Version* MemoryStore::At(const Versions& versions, Revision at) {
  const auto later =
      std::upper_bound(versions.begin(), versions.end(), at,
                       [](Revision r, const Version& version) { return r < version.revision; });
  if (later == versions.begin() || !std::prev(later)->value) return nullptr;
  return &*std::prev(later);
}

std::shared_ptr<const Change> MemoryStore::Apply(const std::string& key, Bytes value,
                                                 std::vector<IndexEntry> index, WallTime written,
                                                 WallTime expires) {
  const Revision revision = ++stats_.revision;
  std::optional<Entry> previous;
  std::size_t history = key.size();
  if (const Version* old = Newest(key)) {
    previous = Entry{key, old->value, old->revision};
    history += SizeOf(key, old->value);
    due_.erase({old->expires, old->revision});
    by_age_.erase(old->revision);
    live_bytes_ -= SizeOf(key, old->value);
    --stats_.entries;
  }
  HERALD_CHECK(value || previous, "there is nothing to delete");
  if (value) {
    due_.emplace(std::pair(expires, revision), key);
    by_age_.emplace(revision, key);
    live_bytes_ += SizeOf(key, value);
    ++stats_.entries;
    for (const IndexEntry& entry : index) {
      index_.insert(IndexRow{entry.index, entry.value, key, revision});
    }
  }
  auto change = std::make_shared<const Change>(Entry{key, value, revision}, std::move(previous),
                                               /*deleted=*/value == nullptr);
  keys_[key].push_back({revision, std::move(value), written, expires, std::move(index)});
  log_.push_back({change, written, history});
  log_bytes_ += history;
  return change;
}

void MemoryStore::Commit(Write write, WriteDone done) {
  const WallTime now = clock_.Now();
  std::vector<IndexEntry> index;
  WallTime expires;
  if (write.value) {
    if (options_.schema.index) index = options_.schema.index(write.key, *write.value);
    expires = ExpiryOf(write.key, *write.value, now);
  }
  Written written;
  WatchHub::Woken woken;
  {
    MutexLock lock(mu_);
    const Version* current = Newest(write.key);
    const Revision standing = current != nullptr ? current->revision : 0;
    if ((write.expected != Write::kAny && write.expected != standing) ||
        (!write.value && current == nullptr)) {
      written.revision = stats_.revision;
      if (current != nullptr) written.current = Entry{write.key, current->value, standing};
    } else {
      const auto change = Apply(write.key, std::move(write.value), std::move(index), now, expires);
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
    if (const Version* version = Newest(key)) {
      entry = Entry{std::move(key), version->value, version->revision};
    }
  }
  done(std::move(entry));
}

void MemoryStore::CurrentRevision(std::function<void(Result<Revision>)> done) {
  Revision revision = 0;
  {
    MutexLock lock(mu_);
    revision = stats_.revision;
  }
  done(revision);
}

void MemoryStore::Read(Query query, PageDone done) {
  Page page;
  Status refused;
  {
    MutexLock lock(mu_);
    page.revision = query.at == 0 ? stats_.revision : query.at;
    if (query.at > stats_.revision) {
      refused = Status(StatusReason::kBadRequest, "revision " + std::to_string(query.at) +
                                                      " is yet to come: the latest is " +
                                                      std::to_string(stats_.revision));
    } else if (page.revision < stats_.compacted) {
      refused = Status(StatusReason::kExpired, "revision " + std::to_string(query.at) +
                                                   " is no longer kept: history begins at " +
                                                   std::to_string(stats_.compacted));
    } else {
      pinned_.insert(page.revision);
    }
  }
  if (!refused.ok()) {
    done(std::move(refused));
    return;
  }
  Cursor cursor;
  while (!cursor.done) {
    for (Entry& entry : ReadChunk(query, page.revision, cursor)) {
      const bool full = query.limit > 0 && page.entries.size() >= query.limit;
      if (full) {
        page.more = true;
        if (!query.count_remaining) {
          cursor.done = true;
          break;
        }
      }
      if (query.filter && !query.filter(entry)) continue;
      if (full) {
        ++page.remaining;
      } else {
        page.entries.push_back(std::move(entry));
      }
    }
  }
  {
    MutexLock lock(mu_);
    pinned_.erase(pinned_.find(page.revision));
  }
  if (query.count_remaining) page.more = page.remaining > 0;
  done(std::move(page));
}

std::vector<Entry> MemoryStore::ReadChunk(const Query& query, Revision at, Cursor& cursor) {
  std::vector<Entry> out;
  MutexLock lock(mu_);
  if (query.by) {
    ReadChunkOfIndex(query, at, cursor, out);
  } else {
    ReadChunkOfKeys(query, at, cursor, out);
  }
  return out;
}

void MemoryStore::ReadChunkOfKeys(const Query& query, Revision at, Cursor& cursor,
                                  std::vector<Entry>& out) {
  auto it = keys_.lower_bound(std::max(query.start, cursor.key));
  for (std::size_t seen = 0; seen < kChunk; ++seen, ++it) {
    if (it == keys_.end() || !InRange(it->first, query)) {
      cursor.done = true;
      return;
    }
    if (const Version* version = At(it->second, at)) {
      out.push_back({it->first, version->value, version->revision});
    }
  }
  if (it == keys_.end()) {
    cursor.done = true;
  } else {
    cursor.key = it->first;
  }
}

void MemoryStore::ReadChunkOfIndex(const Query& query, Revision at, Cursor& cursor,
                                   std::vector<Entry>& out) {
  if (!query.by) return;
  const Query::By& by = *query.by;
  constexpr Revision kLast = std::numeric_limits<Revision>::max();
  // Rows in [first, last) of this query, and of these what is behind the last page.
  const bool resumes = !by.after_value.empty() || !by.after_key.empty();
  IndexRow low{by.index, by.from, {}, 0};
  IndexRow high{by.index, by.to, {}, 0};
  if (resumes && !by.descending) {
    low = std::max(low, IndexRow{by.index, by.after_value, by.after_key, kLast});
  }
  if (resumes && by.descending) {
    high = std::min(high, IndexRow{by.index, by.after_value, by.after_key, 0});
  }
  if (cursor.row) (by.descending ? high : low) = *cursor.row;

  const auto take = [&](const IndexRow& row) REQUIRES(mu_) {
    if (row.revision > at || !InRange(row.key, query)) return;
    const auto found = keys_.find(row.key);
    const Version* version = found != keys_.end() ? At(found->second, at) : nullptr;
    // Rows of other versions of the key say what it was, or will be, found by.
    if (version == nullptr || version->revision != row.revision) return;
    out.push_back({row.key, version->value, version->revision});
  };
  if (!(low < high)) {
    cursor.done = true;
    return;
  }
  if (by.descending) {
    const auto begin = index_.lower_bound(low);
    auto it = index_.lower_bound(high);
    for (std::size_t seen = 0; seen < kChunk && it != begin; ++seen) take(*--it);
    cursor.done = it == begin;
    // Exclusive, and so the row itself is not seen twice.
    if (!cursor.done) cursor.row = *it;
  } else {
    auto it = index_.lower_bound(low);
    std::size_t seen = 0;
    for (; seen < kChunk && it != index_.end() && *it < high; ++seen, ++it) take(*it);
    cursor.done = it == index_.end() || !(*it < high);
    if (!cursor.done) cursor.row = *it;
  }
}

Result<std::unique_ptr<Watch>> MemoryStore::NewWatch(std::string prefix, Revision after,
                                                     std::function<void()> ready) {
  return hub_.NewWatch(std::move(prefix), after, std::move(ready));
}

Result<Watch::Batch> MemoryStore::ReadLog(const std::string& prefix, Revision after,
                                          std::size_t max) {
  Watch::Batch batch;
  MutexLock lock(mu_);
  if (after < stats_.compacted) {
    return Status(StatusReason::kExpired, "changes after revision " + std::to_string(after) +
                                              " are no longer kept: history begins at " +
                                              std::to_string(stats_.compacted));
  }
  batch.revision = after;
  // Revisions have no gaps, so the log is an array of them.
  std::size_t i = static_cast<std::size_t>(after - stats_.compacted);
  for (std::size_t seen = 0; i < log_.size() && seen < kChunk && batch.changes.size() < max;
       ++i, ++seen) {
    const auto& change = log_[i].change;
    batch.revision = change->revision();
    if (change->key().starts_with(prefix)) batch.changes.push_back(change);
  }
  return batch;
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
  struct Item {
    std::string key;
    Version version;
  };
  std::string from;
  for (;;) {
    std::vector<Item> items;
    {
      MutexLock lock(mu_);
      auto it = keys_.lower_bound(from);
      for (; it != keys_.end() && items.size() < kChunk; ++it) {
        if (it->second.back().value) items.push_back({it->first, it->second.back()});
      }
      from = it != keys_.end() ? it->first : std::string();
    }
    for (Item& item : items) {
      item.version.expires = ExpiryOf(item.key, *item.version.value, item.version.written);
    }
    {
      MutexLock lock(mu_);
      for (const Item& item : items) {
        const auto found = keys_.find(item.key);
        if (found == keys_.end()) continue;
        Version& now = found->second.back();
        if (now.revision != item.version.revision) continue;  // written since, by the new rules
        due_.erase({now.expires, now.revision});
        now.expires = item.version.expires;
        due_.emplace(std::pair(now.expires, now.revision), item.key);
      }
    }
    if (from.empty()) return;
  }
}

void MemoryStore::Expire() {
  const WallTime now = clock_.Now();
  for (;;) {
    std::vector<std::shared_ptr<const Change>> changes;
    WatchHub::Woken woken;
    {
      MutexLock lock(mu_);
      while (!due_.empty() && due_.begin()->first.first <= now && changes.size() < kChunk) {
        const std::string key = due_.begin()->second;
        changes.push_back(Apply(key, nullptr, {}, now, {}));
        ++stats_.expired;
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
      while (live_bytes_ > options_.max_bytes && !by_age_.empty() && changes.size() < kChunk) {
        const std::string key = by_age_.begin()->second;
        stats_.complete_since = std::max(stats_.complete_since, Newest(key)->written);
        changes.push_back(Apply(key, nullptr, {}, now, {}));
        ++stats_.evicted;
      }
      if (changes.empty()) return;
      woken = hub_.Append(changes, changes.back()->revision());
    }
    WatchHub::Wake(woken);
  }
}

void MemoryStore::Compact() {
  const WallTime keep_from = clock_.Now() - options_.history;
  for (;;) {
    std::vector<Logged> gone;  // destroyed without the lock
    MutexLock lock(mu_);
    while (!log_.empty() && gone.size() < kChunk &&
           (log_.front().written < keep_from || log_bytes_ > options_.max_history_bytes)) {
      const Change& change = *log_.front().change;
      if (!pinned_.empty() && change.revision() > *pinned_.begin()) break;
      // The version that this change replaced stood up to here only.
      const auto found = keys_.find(change.key());
      Versions& versions = found->second;
      while (versions.front().revision < change.revision()) {
        for (const IndexEntry& entry : versions.front().index) {
          index_.erase(IndexRow{entry.index, entry.value, change.key(), versions.front().revision});
        }
        versions.pop_front();
      }
      if (change.deleted()) versions.pop_front();
      if (versions.empty()) keys_.erase(found);
      stats_.compacted = change.revision();
      log_bytes_ -= log_.front().bytes;
      gone.push_back(std::move(log_.front()));
      log_.pop_front();
    }
    if (gone.empty()) return;
    hub_.Compacted(stats_.compacted);
    lock.Unlock();
  }
}

StoreStats MemoryStore::Stats() {
  MutexLock lock(mu_);
  StoreStats stats = stats_;
  stats.watches = hub_.watches();
  return stats;
}

}  // namespace herald::store
