#include "store/rocks/batch_builder.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace herald::store {

Result<KeyState> BatchBuilder::Find(const std::string& key) const {
  const auto changed = changed_keys_.find(key);
  if (changed != changed_keys_.end()) return changed->second;
  return reader_.NewestWithCreation(key);
}

Revision BatchBuilder::Add(PendingWrite& pending, const KeyState& old, WallTime now) {
  const std::string& key = pending.write.key;
  const Bytes& value = pending.write.value;
  const Revision revision = ++state_.revision;

  KeyState current;
  if (value) {
    current = {revision, old.revision != 0 ? old.created : revision, value, now,
               AddLifetime(now, pending.lifetime)};
  }

  std::string version_key = VersionKey(key, revision);
  std::string version =
      EncodeVersion(version_key, {value == nullptr, now, current.expires,
                                  value ? std::string_view(*value) : std::string_view()});
  versions_.push_back({std::move(version_key), std::move(version)});
  const std::string log_key = LogKey(revision);
  rows_.Put(rocks_.log(), log_key, EncodeLog(log_key, {value == nullptr, now, old.revision, key}));
  state_.watch_window_bytes += LogBytes(key.size());

  if (old.revision != 0) {
    const std::uint64_t bytes = EntryBytes(key.size(), old.value->size());
    state_.live_bytes -= bytes;
    state_.watch_window_bytes += bytes;
    --state_.entries;
  }
  if (value) {
    AddIndexRows(pending, old, revision);
    AddExpiryRow(key, old, current, now);
    state_.live_bytes += EntryBytes(key.size(), value->size());
    ++state_.entries;
  } else {
    DeleteExpiryRows(old, pending.expiry_row);
    if (pending.cause == WriteCause::kEviction) {
      state_.complete_since = std::max(state_.complete_since, old.written);
    }
  }

  std::optional<Entry> previous;
  if (old.revision != 0) previous = Entry{key, old.value, old.revision};
  changes_.push_back(std::make_shared<const Change>(Entry{key, value, revision},
                                                    std::move(previous), value == nullptr));
  changed_keys_[key] = std::move(current);
  return revision;
}

// Only index entries that the key did not have before: a row contains since when it has one.
void BatchBuilder::AddIndexRows(const PendingWrite& pending, const KeyState& old,
                                Revision revision) {
  const std::string& key = pending.write.key;
  std::vector<IndexEntry> before;
  if (old.revision != 0 && schema_.index) before = schema_.index(key, *old.value);
  for (const IndexEntry& entry : pending.index) {
    if (std::find(before.begin(), before.end(), entry) != before.end()) continue;
    index_.push_back({IndexKey(entry.index, entry.value, key, revision), {}});
  }
}

// A key that exists has an expiry row that is early enough for its old state. Expirer moves that
// row when it becomes due, so a key that is written often costs one row per lifetime.
void BatchBuilder::AddExpiryRow(const std::string& key, const KeyState& old,
                                const KeyState& current, WallTime now) {
  const bool has_row = old.revision != 0 && old.expires > now && old.expires <= current.expires;
  if (has_row || current.expires == WallTime::max()) return;
  const std::string row = ExpiryKey(current.expires, current.created);
  rows_.Put(rocks_.expiry(), row, EncodeExpiry(row, key));
  first_expiry_row_ = std::min(first_expiry_row_, current.expires);
}

// Deletes the row that Expirer has found, and the one that exists if the key was written once.
// Another row may remain until it becomes due.
void BatchBuilder::DeleteExpiryRows(const KeyState& old, const std::string& known_row) {
  if (!known_row.empty()) rows_.Delete(rocks_.expiry(), known_row);
  if (old.expires == WallTime::max()) return;
  const std::string row = ExpiryKey(old.expires, old.created);
  if (row != known_row) rows_.Delete(rocks_.expiry(), row);
}

// Rows that have no order of their own are sorted: RocksDB inserts a row next to the previous one
// into its skip list at half the cost of any other place, and that is most of what a write costs.
rocksdb::WriteBatch& BatchBuilder::BuildRows() {
  std::vector<const KeyStates::value_type*> heads;
  heads.reserve(changed_keys_.size());
  for (const auto& changed : changed_keys_) {
    const KeyState& state = changed.second;
    if (state.revision == 0 || state.created >= first_revision_) heads.push_back(&changed);
  }
  std::sort(heads.begin(), heads.end(),
            [](const auto* a, const auto* b) { return a->first < b->first; });
  for (const auto* head : heads) {
    if (head->second.revision == 0) {
      rows_.Delete(rocks_.heads(), head->first);
    } else {
      rows_.Put(rocks_.heads(), head->first, EncodeHead(head->second.created));
    }
  }
  for (auto* rows : {&versions_, &index_}) {
    std::sort(rows->begin(), rows->end(), [](const Row& a, const Row& b) { return a.key < b.key; });
  }
  for (const Row& row : versions_) rows_.Put(rocks_.versions(), row.key, row.value);
  for (const Row& row : index_) rows_.Put(rocks_.index(), row.key, row.value);
  rows_.Put(rocks_.meta(), ToSlice(kStateKey), EncodeState(state_));
  return rows_;
}

}  // namespace herald::store
