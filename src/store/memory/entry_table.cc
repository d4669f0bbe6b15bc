#include "store/memory/entry_table.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace herald::store {
namespace {

// Changes that are read or deleted while the owner's lock is held once.
constexpr std::size_t kChunk = 256;

// Bytes that an entry uses besides its key and its value: nodes of the four trees, half a dozen
// index rows, the control block of its value.
constexpr std::uint64_t kEntryOverhead = 1'000;
// Bytes that a change uses: itself, its place in the log, the version that it replaced.
constexpr std::uint64_t kChangeOverhead = 1'000;

std::size_t SizeOf(std::string_view key, const Bytes& value) {
  return key.size() + (value ? value->size() : 0);
}

bool InRange(std::string_view key, const Query& query) {
  return key >= query.start && (query.end.empty() || key < query.end);
}

}  // namespace

PageMaker::PageMaker(const Query& query, Revision at) : query_(query) { page_.revision = at; }

bool PageMaker::Take(Entry entry, std::string_view value) {
  const bool full =
      at_limit() || (query_.max_bytes > 0 && bytes_ >= query_.max_bytes && !page_.entries.empty());
  // Entries beyond `max_bytes` are not counted: the caller reads them next.
  if (full && !(query_.count_remaining && at_limit())) {
    page_.more = true;
    return false;
  }
  if (query_.filter && !query_.filter(entry)) return true;
  if (!full) {
    bytes_ += entry.value->size();
    page_.entries.push_back(std::move(entry));
    page_.last.value = value;
    return true;
  }
  page_.more = true;
  if (++page_.remaining <= Query::kMaxCounted) return true;
  page_.remaining = Page::kManyRemain;
  return false;
}

Page PageMaker::Finish() {
  if (page_.more) page_.last.key = page_.entries.back().key;
  return std::move(page_);
}

std::uint64_t EntryTable::memory_bytes() const {
  return live_bytes_ + watch_window_bytes_ + entries_ * kEntryOverhead +
         log_.size() * kChangeOverhead;
}

const EntryTable::Version* EntryTable::Newest(std::string_view key) const {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return nullptr;
  const Version& newest = found->second.rbegin()->second;
  return newest.value ? &newest : nullptr;
}

const EntryTable::Version* EntryTable::At(const Versions& versions, Revision at) {
  const auto later = versions.upper_bound(at);
  if (later == versions.begin()) return nullptr;
  const Version& version = std::prev(later)->second;
  return version.value ? &version : nullptr;
}

std::shared_ptr<const Change> EntryTable::MakeChange(const std::string& key, Bytes value,
                                                     Revision revision, bool last) const {
  std::optional<Entry> previous;
  if (const Version* old = Newest(key)) previous = Entry{key, old->value, old->revision};
  HERALD_CHECK(value || previous, "there is nothing to delete");
  const bool deleted = value == nullptr;
  return std::make_shared<const Change>(Entry{key, std::move(value), revision}, std::move(previous),
                                        deleted, last);
}

void EntryTable::RemoveFromLive(const std::string& key, const LinkedVersion& version) {
  due_.erase(version.due);
  live_bytes_ -= SizeOf(key, version.value);
  --entries_;
}

void EntryTable::Insert(Keys::value_type& key, Version version, std::vector<IndexEntry> index) {
  auto& [name, versions] = key;
  LinkedVersion linked{std::move(version)};
  if (linked.value) {
    // Most expire after all others.
    linked.due = due_.emplace_hint(due_.end(), linked.expires, &name);
    live_bytes_ += SizeOf(name, linked.value);
    ++entries_;
    linked.rows.reserve(index.size());
    for (IndexEntry& entry : index) {
      const auto [row, is_new] =
          index_.insert({entry.index, std::move(entry.value), &name, linked.revision});
      if (is_new) linked.rows.push_back(row);
    }
  }
  versions.emplace_hint(versions.end(), linked.revision, std::move(linked));
}

void EntryTable::Apply(std::shared_ptr<const Change> change, Facts facts) {
  HERALD_CHECK(change->revision() >= revision_, "changes must come in order");
  revision_ = change->revision();
  const auto key =
      change->deleted() ? keys_.find(change->key()) : keys_.try_emplace(change->key()).first;
  if (key == keys_.end()) return;
  const auto& [name, versions] = *key;
  const LinkedVersion* const old = versions.empty() ? nullptr : &versions.rbegin()->second;
  const bool lives = old != nullptr && old->value;
  if (change->deleted() && !lives) return;
  std::size_t window_bytes = name.size();
  if (lives) {
    window_bytes += SizeOf(name, old->value);
    RemoveFromLive(name, *old);
  }
  Insert(*key, {change->revision(), change->current().value, facts.written, facts.expires},
         std::move(facts.index));
  watch_window_bytes_ += window_bytes;
  log_.push_back({std::move(change), facts.written, window_bytes});
}

void EntryTable::Load(Entry entry, Facts facts) {
  const auto [key, is_new] = keys_.try_emplace(std::move(entry.key));
  HERALD_CHECK(is_new && log_.empty(), "loaded entries have no old versions");
  Insert(*key, {entry.revision, std::move(entry.value), facts.written, facts.expires},
         std::move(facts.index));
}

void EntryTable::Advance(Revision revision) { revision_ = std::max(revision_, revision); }

std::vector<Entry> EntryTable::Due(WallTime now, std::size_t max) const {
  std::vector<Entry> entries;
  for (auto it = due_.begin(); it != due_.end() && it->first <= now && entries.size() < max; ++it) {
    const std::string& key = *it->second;
    const Version* const version = Newest(key);
    HERALD_CHECK(version != nullptr, "an entry in the expiry order is live");
    entries.push_back({key, version->value, version->revision});
  }
  return entries;
}

std::vector<std::pair<std::string, EntryTable::Version>> EntryTable::Live(std::string_view from,
                                                                          std::size_t max) const {
  std::vector<std::pair<std::string, Version>> entries;
  for (auto it = keys_.lower_bound(from); it != keys_.end() && entries.size() < max; ++it) {
    const Version& version = it->second.rbegin()->second;
    if (version.value) entries.emplace_back(it->first, version);
  }
  return entries;
}

void EntryTable::SetExpiry(const std::string& key, Revision revision, WallTime expires) {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return;
  LinkedVersion& now = found->second.rbegin()->second;
  if (!now.value || now.revision != revision) return;
  due_.erase(now.due);
  now.expires = expires;
  now.due = due_.emplace(expires, &found->first);
}

Status EntryTable::CheckRevision(Revision at) const {
  if (at > revision_) {
    return Status(StatusReason::kBadRequest, "revision " + std::to_string(at) +
                                                 " is in the future: the latest is " +
                                                 std::to_string(revision_));
  }
  if (at < compacted_) {
    return Status(StatusReason::kExpired, "revision " + std::to_string(at) +
                                              " is no longer kept: the watch window begins at " +
                                              std::to_string(compacted_));
  }
  return Status();
}

void EntryTable::Pin(Revision at) { pinned_.insert(at); }

void EntryTable::Unpin(Revision at) {
  const auto found = pinned_.find(at);
  HERALD_CHECK(found != pinned_.end());
  pinned_.erase(found);
}

std::vector<EntryTable::Found> EntryTable::Read(const Query& query, Revision at,
                                                Cursor& cursor) const {
  std::vector<Found> out;
  if (query.by) {
    ReadIndex(query, *query.by, at, cursor, out);
  } else {
    ReadKeys(query, at, cursor, out);
  }
  return out;
}

void EntryTable::ReadKeys(const Query& query, Revision at, Cursor& cursor,
                          std::vector<Found>& out) const {
  auto it = keys_.lower_bound(std::max(query.start, cursor.key_));
  for (std::size_t seen = 0; seen < kRowsAtOnce; ++seen, ++it) {
    if (it == keys_.end() || !InRange(it->first, query)) {
      cursor.done_ = true;
      return;
    }
    if (const Version* version = At(it->second, at)) {
      out.push_back({{it->first, version->value, version->revision}, {}});
    }
  }
  if (it == keys_.end()) {
    cursor.done_ = true;
  } else {
    cursor.key_ = it->first;
  }
}

void EntryTable::ReadIndex(const Query& query, const IndexRange& by, Revision at, Cursor& cursor,
                           std::vector<Found>& out) const {
  constexpr Revision kLast = std::numeric_limits<Revision>::max();
  // Rows in [low, high) of this query, after the last page.
  const bool resumes = !by.after_value.empty() || !by.after_key.empty();
  RowPlace low{by.index, by.from, {}, 0};
  RowPlace high{by.index, by.to, {}, 0};
  if (resumes && !by.descending) {
    low = std::max(low, RowPlace{by.index, by.after_value, by.after_key, kLast});
  }
  if (resumes && by.descending) {
    high = std::min(high, RowPlace{by.index, by.after_value, by.after_key, 0});
  }
  if (cursor.row_) {
    const auto& [value, key, revision] = *cursor.row_;
    (by.descending ? high : low) = RowPlace{by.index, value, key, revision};
  }

  const auto take = [&](const IndexRow& row) {
    const std::string& key = *row.key;
    if (row.revision > at || !InRange(key, query)) return;
    const Version* const version = At(keys_.find(key)->second, at);
    // Rows of other versions of the key belong to other revisions.
    if (version == nullptr || version->revision != row.revision) return;
    out.push_back({{key, version->value, version->revision}, row.value});
  };
  if (!(low < high)) {
    cursor.done_ = true;
    return;
  }
  auto it = index_.lower_bound(by.descending ? high : low);
  std::size_t seen = 0;
  if (by.descending) {
    const auto begin = index_.lower_bound(low);
    for (; seen < kRowsAtOnce && it != begin; ++seen) take(*--it);
    cursor.done_ = it == begin;
    // Exclusive, so that this row is not read twice.
  } else {
    const auto end = index_.lower_bound(high);
    for (; seen < kRowsAtOnce && it != end; ++seen, ++it) take(*it);
    cursor.done_ = it == end;
  }
  if (!cursor.done_) cursor.row_.emplace(it->value, *it->key, it->revision);
}

Result<Watch::Batch> EntryTable::ReadLog(std::string_view prefix, Revision after,
                                         std::size_t max) const {
  if (after < compacted_) {
    return Status(StatusReason::kExpired, "changes after revision " + std::to_string(after) +
                                              " are no longer kept: the watch window begins at " +
                                              std::to_string(compacted_));
  }
  Watch::Batch batch;
  batch.revision = after;
  auto it = std::upper_bound(log_.begin(), log_.end(), after,
                             [](Revision revision, const LoggedChange& logged) {
                               return revision < logged.change->revision();
                             });
  for (std::size_t seen = 0; it != log_.end(); ++it, ++seen) {
    const auto& change = it->change;
    const bool enough = seen >= kChunk || batch.changes.size() >= max;
    if (enough && change->revision() != batch.revision) return batch;
    batch.revision = change->revision();
    if (change->key().starts_with(prefix)) batch.changes.push_back(change);
  }
  batch.revision = std::max(batch.revision, revision_);
  return batch;
}

std::vector<std::shared_ptr<const Change>> EntryTable::Compact(WallTime keep_from,
                                                               std::uint64_t max_bytes) {
  std::vector<std::shared_ptr<const Change>> gone;
  while (!log_.empty() && gone.size() < kChunk &&
         (log_.front().written < keep_from || watch_window_bytes_ > max_bytes)) {
    const Change& change = *log_.front().change;
    if (!pinned_.empty() && change.revision() > *pinned_.begin()) break;
    // No revision that is kept needs the version that this change replaced.
    const auto found = keys_.find(change.key());
    Versions& versions = found->second;
    while (versions.begin()->first < change.revision()) {
      for (const auto& row : versions.begin()->second.rows) index_.erase(row);
      versions.erase(versions.begin());
    }
    if (change.deleted()) versions.erase(versions.begin());
    if (versions.empty()) keys_.erase(found);
    compacted_ = change.revision();
    watch_window_bytes_ -= log_.front().bytes;
    gone.push_back(std::move(log_.front().change));
    log_.pop_front();
  }
  return gone;
}

}  // namespace herald::store
