// The format of the rows of the store on RocksDB. doc/store_format.md describes it for readers of
// the files without this code. These functions convert bytes and do not use RocksDB. All are pure
// and thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "herald/base/clock.h"
#include "store/clock_guard.h"
#include "store/store.h"

namespace herald::store {

// The version of this format. A store with another version cannot be opened.
inline constexpr std::uint32_t kFormatVersion = 2;

// ---- the keys of rows ----

// heads:    key                                   -> revision that created it
// versions: escaped key, ~revision                -> VersionRow
// log:      revision                              -> LogRow
// index:    index, escaped value, escaped key, revision -> nothing
// expiry:   time, revision that created the key   -> key
// default:  "format", "state", "lifetimes", "clock" -> u32, State, u64, ClockRecord
//
// Numbers in keys are big endian, so that they sort. A revision in the key of a version is
// complemented, so that the latest version of a key comes first. A string that is not at the end is
// escaped: 00 becomes 00 ff, and its end is 00 01. This keeps the order of any bytes.
void AppendEscaped(std::string_view text, std::string& out);
// The same without the end: a lower bound for the rows of all strings that are not less.
std::string EscapedBound(std::string_view text);

std::string VersionKey(std::string_view key, Revision revision);
std::string LogKey(Revision revision);
std::string IndexKey(std::uint8_t index, std::string_view value, std::string_view key,
                     Revision revision);
std::string ExpiryKey(WallTime when, Revision created);

struct ParsedVersionKey {
  std::string key{};
  Revision revision = 0;
  bool operator==(const ParsedVersionKey&) const = default;
};
struct ParsedIndexKey {
  std::uint8_t index = 0;
  std::string value{};
  std::string key{};
  Revision revision = 0;
  bool operator==(const ParsedIndexKey&) const = default;
};
struct ParsedExpiryKey {
  WallTime when{};
  Revision created = 0;
  bool operator==(const ParsedExpiryKey&) const = default;
};
// Nothing if the bytes are not a valid key of this kind.
std::optional<ParsedVersionKey> ParseVersionKey(std::string_view row);
std::optional<Revision> ParseLogKey(std::string_view row);
std::optional<ParsedIndexKey> ParseIndexKey(std::string_view row);
std::optional<ParsedExpiryKey> ParseExpiryKey(std::string_view row);

// The revision at the end of a version's key, without parsing the rest.
// REQUIRES: row is not shorter than 8 bytes
Revision RevisionOfVersionKey(std::string_view row);
// The common prefix of all versions of one key: the row's key without the revision.
// REQUIRES: as above
std::string_view PrefixOfVersionKey(std::string_view row);
// A row key after all versions with this prefix, and before those of the next key.
std::string AfterVersions(std::string_view prefix);
// The common prefix of the rows of one key and one value in an index.
// REQUIRES: row is not shorter than 8 bytes
std::string_view PrefixOfIndexKey(std::string_view row);

// ---- the values of rows ----
//
// Each begins with the CRC-32C of the row's key and of the rest of the value, so that a row that
// was damaged, truncated or stored under another key is detected.

struct VersionRow {
  bool deleted = false;
  WallTime written{};
  WallTime expires{};  // by the lifetime rules at the time of the write; max(): never
  std::string_view value{};
};
std::string EncodeVersion(std::string_view row_key, const VersionRow& version);
// Contains views into `row`. Nothing if it is damaged.
std::optional<VersionRow> DecodeVersion(std::string_view row_key, std::string_view row);

struct LogRow {
  bool deleted = false;
  WallTime written{};
  Revision previous = 0;  // the version that this write replaced; 0: there was none
  std::string_view key{};
};
std::string EncodeLog(std::string_view row_key, const LogRow& log);
std::optional<LogRow> DecodeLog(std::string_view row_key, std::string_view row);

std::string EncodeHead(Revision created);
std::optional<Revision> DecodeHead(std::string_view row);

std::string EncodeExpiry(std::string_view row_key, std::string_view key);
std::optional<std::string_view> DecodeExpiry(std::string_view row_key, std::string_view row);

// Counters of the store, so that it does not have to count at the start. A value.
struct State {
  Revision revision = 0;
  Revision compacted = 0;
  std::uint64_t entries = 0;
  std::uint64_t live_bytes = 0;          // see EntryBytes()
  std::uint64_t watch_window_bytes = 0;  // see EntryBytes()
  WallTime complete_since{};

  bool operator==(const State&) const = default;
};
inline constexpr std::string_view kStateKey = "state";
inline constexpr std::string_view kFormatKey = "format";
std::string EncodeState(const State& state);
std::optional<State> DecodeState(std::string_view row);

std::string EncodeFormat(std::uint32_t version);
std::optional<std::uint32_t> DecodeFormat(std::string_view row);

// The rules (Schema::lifetime_rules) that the expiry of all entries follows. The row exists only
// while that is true for every entry.
inline constexpr std::string_view kLifetimesKey = "lifetimes";
std::string EncodeLifetimes(std::uint64_t rules);
std::optional<std::uint64_t> DecodeLifetimes(std::string_view row);

// The clocks at the last time when they were trusted; see ClockGuard.
inline constexpr std::string_view kClockKey = "clock";
std::string EncodeClock(const ClockRecord& record);
std::optional<ClockRecord> DecodeClock(std::string_view row);

// The size of an entry in `live_bytes` and, after it was replaced, in `watch_window_bytes`: its
// value, its key in each row that repeats it, and the rest of those rows. An estimate that depends
// only on these two sizes, so that what was added can be subtracted again.
std::uint64_t EntryBytes(std::size_t key_size, std::size_t value_size);
// The size of a row of the log in `watch_window_bytes`.
std::uint64_t LogBytes(std::size_t key_size);

}  // namespace herald::store
