// What the rows of the store on RocksDB look like; doc/store_format.md describes it for
// those who read the files without this code. Bytes in, bytes out: nothing here knows
// RocksDB. All functions are pure and thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "herald/base/clock.h"
#include "store/clock_guard.h"
#include "store/store.h"

namespace herald::store {

// The version of all that this file says. A store that was written with another one is refused.
inline constexpr std::uint32_t kFormatVersion = 2;

// ---- the keys of rows ----

// heads:    key                                   -> revision that created it
// versions: escaped key, ~revision                -> VersionRow
// log:      revision                              -> LogRow
// index:    index, escaped value, escaped key, revision -> nothing
// expiry:   time, revision that created the key   -> key
// default:  "format", "state", "lifetimes", "clock" -> u32, State, u64, ClockRecord
//
// Numbers in keys are big endian, so that they sort. A revision in a version's key is
// complemented: the newest version of a key comes first. A text that something follows is
// escaped: 00 becomes 00 ff, and its end is 00 01; that keeps the order of any bytes.
void AppendEscaped(std::string_view text, std::string& out);
// The same without the end: the least row of all texts that are not less.
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
// Nothing where the bytes are no such key.
std::optional<ParsedVersionKey> ParseVersionKey(std::string_view row);
std::optional<Revision> ParseLogKey(std::string_view row);
std::optional<ParsedIndexKey> ParseIndexKey(std::string_view row);
std::optional<ParsedExpiryKey> ParseExpiryKey(std::string_view row);

// The revision at the end of a version's key, without looking at the rest.
// REQUIRES: row is not shorter than 8 bytes
Revision RevisionOfVersionKey(std::string_view row);
// What all versions of one key have in common: the row's key without the revision.
// REQUIRES: as above
std::string_view PrefixOfVersionKey(std::string_view row);
// Behind all versions that have this in common, and before those of the next key.
std::string AfterVersions(std::string_view prefix);
// What the rows of one key under one value of an index have in common.
// REQUIRES: row is not shorter than 8 bytes
std::string_view PrefixOfIndexKey(std::string_view row);

// ---- the values of rows ----
//
// Each begins with the CRC-32C of the row's key and of what follows, so that a row that
// was damaged, cut or put under another key is not believed.

struct VersionRow {
  bool deleted = false;
  WallTime written{};
  WallTime expires{};  // as it was reckoned when written; max(): never
  std::string_view value{};
};
std::string EncodeVersion(std::string_view row_key, const VersionRow& version);
// Views into `row`. Nothing where it is damaged.
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

// What the store would otherwise have to count at the start.
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

// Which rules the expiry of all entries is from (Schema::lifetime_rules); the row is there only
// while that is true of every entry.
inline constexpr std::string_view kLifetimesKey = "lifetimes";
std::string EncodeLifetimes(std::uint64_t rules);
std::optional<std::uint64_t> DecodeLifetimes(std::string_view row);

// The clocks as they stood when they were last known to be right.
inline constexpr std::string_view kClockKey = "clock";
std::string EncodeClock(const ClockRecord& record);
std::optional<ClockRecord> DecodeClock(std::string_view row);

// What an entry counts for in `live_bytes` and, once it is replaced, in `watch_window_bytes`:
// its value, its key in the rows that repeat it, and what else those hold. An estimate
// that depends on nothing but these two sizes, so that what was added can be taken away.
std::uint64_t EntryBytes(std::size_t key_size, std::size_t value_size);
// What a row of the log counts for in `watch_window_bytes`.
std::uint64_t LogBytes(std::size_t key_size);

}  // namespace herald::store
