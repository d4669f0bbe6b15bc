#include "store/rocks/expirer.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "store/rocks/format.h"

namespace herald::store {
namespace {

// Rows that are handled together. A client's write waits for one such portion at most, about two
// milliseconds.
constexpr std::size_t kPortionRows = 128;

// Versions that a refresh reads before it deletes the entries that are due already.
constexpr std::size_t kRefreshRows = 20'000;

}  // namespace

struct Expirer::Portion {
  std::vector<Committer::Deletion> due{};
  MaintenanceWrite moved{};               // rows that are deleted, or moved to a later time
  WallTime first_due = WallTime::max();   // the earliest row of `due`
  WallTime first_kept = WallTime::max();  // the earliest row that has to stay where it is
  std::string next{};                     // where the next portion begins
  bool more = false;
};

struct Expirer::RefreshSlice {
  MaintenanceWrite added{};
  WallTime first_due = WallTime::max();  // the earliest row of `added`
  std::string next{};                    // the row where the next slice begins
  std::string last_key{};
  bool more = false;
};

void Expirer::Refresh() {
  if (!parts_.lifetimes->TakeRefreshRequest()) return;
  // Read before any lifetime, so that rules which change during the refresh are detected.
  MaintenanceWrite begin;
  begin.refresh_begins = parts_.lifetimes->CurrentRules();
  if (!parts_.committer->WriteAndWait(std::move(begin)).ok()) {
    parts_.lifetimes->RequestRefresh();  // for when the store can write again
    return;
  }
  const WallTime now = parts_.clock->Now();
  RefreshSlice last;
  for (bool more = true; more;) {
    Result<RefreshSlice> slice = ReadRefreshSlice(last.next, last.last_key, now);
    if (!slice) {
      // The next start tries again.
      parts_.options->Log(LogLevel::kError, "cannot apply the lifetime rules to all entries",
                          slice.error().message());
      return;
    }
    last = *std::move(slice);
    more = last.more;
    if (*parts_.stopping) return;
    if (last.added.rows.Count() == 0) continue;
    if (!parts_.committer->WriteAndWait(std::move(last.added)).ok()) {
      parts_.lifetimes->RequestRefresh();  // for when the store can write again
      return;
    }
    parts_.cursor->Lower(last.first_due);
    Expire();
  }
  MaintenanceWrite end;
  end.refresh_ends = true;
  if (!parts_.committer->WriteAndWait(std::move(end)).ok()) parts_.lifetimes->RequestRefresh();
}

Result<Expirer::RefreshSlice> Expirer::ReadRefreshSlice(const std::string& from,
                                                        const std::string& last_key,
                                                        WallTime now) const {
  const RocksDb& rocks = parts_.database->current();
  const RocksReader reader = parts_.database->ReaderOf(rocks);
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  options.total_order_seek = true;
  const std::unique_ptr<rocksdb::Iterator> rows(rocks.db().NewIterator(options, rocks.versions()));
  RefreshSlice slice{.next = from, .last_key = last_key};
  std::size_t visited = 0;
  for (rows->Seek(from); rows->Valid() && visited < kRefreshRows && !*parts_.stopping;
       rows->Next()) {
    ++visited;
    const std::string_view row_key = ToView(rows->key());
    slice.next.assign(row_key);
    slice.next += '\0';
    const auto parsed = ParseVersionKey(row_key);
    // The first row of a key is its latest version.
    if (!parsed || parsed->key == slice.last_key) continue;
    slice.last_key = parsed->key;
    const auto version = DecodeVersion(row_key, ToView(rows->value()));
    // Damage is reported by the read that needs the entry.
    if (!version || version->deleted) continue;
    const WallTime expires = parts_.schema->ExpiryOf(parsed->key, version->value, version->written);
    // Its row is not later than its old expiry. A row that became due and was moved is at the
    // expiry by the rules of that day.
    const bool has_row = version->expires > now && version->expires <= expires;
    if (has_row || expires == WallTime::max()) continue;
    const Result<Revision> created = reader.Head(parsed->key);
    if (!created || *created == 0) continue;
    const std::string row = ExpiryKey(expires, *created);
    slice.added.rows.Put(rocks.expiry(), row, EncodeExpiry(row, parsed->key));
    slice.first_due = std::min(slice.first_due, expires);
  }
  if (!rows->status().ok()) return FromRocks(rows->status());
  slice.more = visited == kRefreshRows;
  return slice;
}

void Expirer::Expire() {
  const std::optional<WallTime> now = parts_.clock_guard->Look();
  if (!now) return;
  const WallTime from = parts_.cursor->get();
  // Where the next scan begins: now, unless a row has to stay where it is.
  WallTime next_from = *now;
  std::string low = ExpiryKey(from, 0);
  const std::string high = ExpiryKey(*now + std::chrono::nanoseconds(1), 0);
  for (bool more = true; more && !*parts_.stopping;) {
    Portion portion = ReadPortion(low, high, *now);
    const std::size_t count = portion.due.size();
    const Result<std::size_t> deleted =
        parts_.committer->DeleteAndWait(std::move(portion.due), WriteCause::kExpiry);
    if (!deleted) return;
    // If a client has written an entry at the same time, its row stays for the next scan.
    if (*deleted < count) next_from = std::min(next_from, portion.first_due);
    next_from = std::min(next_from, portion.first_kept);
    if (portion.moved.rows.Count() > 0 &&
        !parts_.committer->WriteAndWait(std::move(portion.moved)).ok()) {
      return;
    }
    more = portion.more;
    low = std::move(portion.next);
  }
  if (!*parts_.stopping) parts_.cursor->Advance(from, next_from);
}

Expirer::Portion Expirer::ReadPortion(const std::string& from, const std::string& until,
                                      WallTime now) const {
  const RocksDb& rocks = parts_.database->current();
  const RocksReader reader = parts_.database->ReaderOf(rocks);
  const rocksdb::Slice lower = from;
  const rocksdb::Slice upper = until;
  rocksdb::ReadOptions options;
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> rows(rocks.db().NewIterator(options, rocks.expiry()));
  Portion portion;
  rocksdb::WriteBatch& moved = portion.moved.rows;
  std::size_t visited = 0;
  std::string row_key;
  for (rows->SeekToFirst(); rows->Valid() && visited < kPortionRows; rows->Next(), ++visited) {
    row_key.assign(ToView(rows->key()));
    const auto row = ParseExpiryKey(row_key);
    const auto key = DecodeExpiry(row_key, ToView(rows->value()));
    if (!row || !key) {
      parts_.options->Log(LogLevel::kError, "a row of the expiry index is damaged");
      moved.Delete(rocks.expiry(), row_key);
      continue;
    }
    const Result<std::optional<DueEntry>> found =
        FindDue(reader, std::string(*key), row->created, now);
    if (!found) {
      // The entry stays, so that an operator can repair it, and must not stop the others.
      parts_.options->Log(LogLevel::kError, "an entry that is due cannot be read",
                          found.error().message());
      portion.first_kept = std::min(portion.first_kept, row->when);
      continue;
    }
    const std::optional<DueEntry>& entry = *found;
    if (entry && entry->expires <= now) {
      portion.first_due = std::min(portion.first_due, row->when);
      portion.due.push_back({std::string(*key), entry->revision, row_key});
      continue;
    }
    moved.Delete(rocks.expiry(), row_key);
    if (entry && entry->next_row != WallTime::max()) {
      const std::string next_row = ExpiryKey(entry->next_row, row->created);
      moved.Put(rocks.expiry(), next_row, EncodeExpiry(next_row, *key));
    }
  }
  portion.more = visited == kPortionRows;
  portion.next = row_key + '\0';
  return portion;
}

Result<std::optional<Expirer::DueEntry>> Expirer::FindDue(const RocksReader& reader,
                                                          const std::string& key, Revision created,
                                                          WallTime now) const {
  const Result<KeyState> state = reader.NewestWithCreation(key);
  if (!state) return state.error();
  if (state->revision == 0 || state->created != created) return std::optional<DueEntry>();
  DueEntry due{.revision = state->revision,
               .expires = parts_.schema->ExpiryOf(key, *state->value, state->written)};
  // Not after the expiry in the version: BatchBuilder relies on that when the key is written again.
  due.next_row = state->expires > now ? std::min(due.expires, state->expires) : due.expires;
  return std::optional<DueEntry>(due);
}

}  // namespace herald::store
