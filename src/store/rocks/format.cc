#include "store/rocks/format.h"

#include <algorithm>

#include "base/bytes/crc32c.h"

namespace herald::store {
namespace {

constexpr char kEscape = '\0';
constexpr char kEscapedZero = '\xff';
constexpr char kEnd = '\1';

constexpr std::uint8_t kDeleted = 1;  // the flags of versions and of the log

void AppendFixed32(std::uint32_t number, std::string& out) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(number >> shift);
}

void AppendFixed64(std::uint64_t number, std::string& out) {
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(number >> shift);
}

void AppendTime(WallTime time, std::string& out) {
  AppendFixed64(static_cast<std::uint64_t>(time.time_since_epoch().count()), out);
}

std::uint64_t Fixed(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

// Reads a row from its beginning. After a read beyond its end, all results are 0 and ok() is false.
// Thread-confined.
class RowReader {
 public:
  explicit RowReader(std::string_view row) : rest_(row) {}

  std::uint8_t Byte() { return static_cast<std::uint8_t>(Fixed(Take(1))); }
  std::uint32_t Fixed32() { return static_cast<std::uint32_t>(Fixed(Take(4))); }
  std::uint64_t Fixed64() { return Fixed(Take(8)); }
  Revision ReadRevision() {
    const auto revision = static_cast<Revision>(Fixed64());
    if (revision < 0) ok_ = false;
    return revision;
  }
  WallTime Time() { return WallTime(WallTime::duration(static_cast<std::int64_t>(Fixed64()))); }
  std::string Escaped() {
    std::string text;
    for (;;) {
      const std::size_t escape = rest_.find(kEscape);
      if (escape == std::string_view::npos || escape + 1 == rest_.size()) break;
      text.append(rest_.substr(0, escape));
      const char what = rest_[escape + 1];
      rest_.remove_prefix(escape + 2);
      if (what == kEnd) return text;
      if (what != kEscapedZero) break;
      text += '\0';
    }
    ok_ = false;
    return {};
  }
  std::string_view Rest() { return Take(rest_.size()); }

  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }

 private:
  std::string_view Take(std::size_t size) {
    if (size > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
  bool ok_ = true;
};

void AppendUnended(std::string_view text, std::string& out) {
  for (;;) {
    const std::size_t zero = text.find(kEscape);
    out.append(text.substr(0, zero));
    if (zero == std::string_view::npos) return;
    out += kEscape;
    out += kEscapedZero;
    text.remove_prefix(zero + 1);
  }
}

// Rows begin with four bytes for the checksum, which is set when the rest is complete.
std::string Sealed(std::string_view row_key, std::string row) {
  const std::uint32_t crc = Crc32c(std::string_view(row).substr(4), Crc32c(row_key));
  std::string seal;
  AppendFixed32(crc, seal);
  std::copy(seal.begin(), seal.end(), row.begin());
  return row;
}

bool IsSealed(std::string_view row_key, std::string_view row) {
  return row.size() >= 4 && RowReader(row).Fixed32() == Crc32c(row.substr(4), Crc32c(row_key));
}

}  // namespace

void AppendEscaped(std::string_view text, std::string& out) {
  AppendUnended(text, out);
  out += kEscape;
  out += kEnd;
}

std::string EscapedBound(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 8);
  AppendUnended(text, out);
  return out;
}

std::string VersionKey(std::string_view key, Revision revision) {
  std::string row;
  row.reserve(key.size() + 10);
  AppendEscaped(key, row);
  AppendFixed64(~static_cast<std::uint64_t>(revision), row);
  return row;
}

std::string LogKey(Revision revision) {
  std::string row;
  AppendFixed64(static_cast<std::uint64_t>(revision), row);
  return row;
}

std::string IndexKey(std::uint8_t index, std::string_view value, std::string_view key,
                     Revision revision) {
  std::string row;
  row.reserve(value.size() + key.size() + 13);
  row += static_cast<char>(index);
  AppendEscaped(value, row);
  AppendEscaped(key, row);
  AppendFixed64(static_cast<std::uint64_t>(revision), row);
  return row;
}

std::string ExpiryKey(WallTime when, Revision created) {
  std::string row;
  row.reserve(16);
  // A time before 1970 is an error of the clock, and must not sort after all others.
  AppendTime(std::max(when, WallTime()), row);
  AppendFixed64(static_cast<std::uint64_t>(created), row);
  return row;
}

std::optional<ParsedVersionKey> ParseVersionKey(std::string_view row) {
  RowReader reader(row);
  ParsedVersionKey parsed;
  parsed.key = reader.Escaped();
  parsed.revision = static_cast<Revision>(~reader.Fixed64());
  if (!reader.done() || parsed.revision < 0) return std::nullopt;
  return parsed;
}

std::optional<Revision> ParseLogKey(std::string_view row) {
  RowReader reader(row);
  const Revision revision = reader.ReadRevision();
  if (!reader.done()) return std::nullopt;
  return revision;
}

std::optional<ParsedIndexKey> ParseIndexKey(std::string_view row) {
  RowReader reader(row);
  ParsedIndexKey parsed;
  parsed.index = reader.Byte();
  parsed.value = reader.Escaped();
  parsed.key = reader.Escaped();
  parsed.revision = reader.ReadRevision();
  if (!reader.done()) return std::nullopt;
  return parsed;
}

std::optional<ParsedExpiryKey> ParseExpiryKey(std::string_view row) {
  RowReader reader(row);
  ParsedExpiryKey parsed;
  parsed.when = reader.Time();
  parsed.created = reader.ReadRevision();
  if (!reader.done() || parsed.when < WallTime()) return std::nullopt;
  return parsed;
}

Revision RevisionOfVersionKey(std::string_view row) {
  return static_cast<Revision>(~Fixed(row.substr(row.size() - 8)));
}

std::string_view PrefixOfVersionKey(std::string_view row) { return row.substr(0, row.size() - 8); }

std::string AfterVersions(std::string_view prefix) {
  std::string row(prefix);
  // The last byte of the end of the key (00 01). A longer key that begins with this one has a
  // larger byte there.
  ++row.back();
  return row;
}

std::string_view PrefixOfIndexKey(std::string_view row) { return row.substr(0, row.size() - 8); }

std::string EncodeVersion(std::string_view row_key, const VersionRow& version) {
  std::string row(4, '\0');
  row.reserve(21 + version.value.size());
  row += static_cast<char>(version.deleted ? kDeleted : 0);
  AppendTime(version.written, row);
  AppendTime(version.expires, row);
  row += version.value;
  return Sealed(row_key, std::move(row));
}

std::optional<VersionRow> DecodeVersion(std::string_view row_key, std::string_view row) {
  if (!IsSealed(row_key, row)) return std::nullopt;
  RowReader reader(row.substr(4));
  VersionRow version;
  const std::uint8_t flags = reader.Byte();
  version.deleted = flags == kDeleted;
  version.written = reader.Time();
  version.expires = reader.Time();
  version.value = reader.Rest();
  if (!reader.ok() || flags > kDeleted || (version.deleted && !version.value.empty())) {
    return std::nullopt;
  }
  return version;
}

std::string EncodeLog(std::string_view row_key, const LogRow& log) {
  std::string row(4, '\0');
  row.reserve(21 + log.key.size());
  row += static_cast<char>(log.deleted ? kDeleted : 0);
  AppendTime(log.written, row);
  AppendFixed64(static_cast<std::uint64_t>(log.previous), row);
  row += log.key;
  return Sealed(row_key, std::move(row));
}

std::optional<LogRow> DecodeLog(std::string_view row_key, std::string_view row) {
  if (!IsSealed(row_key, row)) return std::nullopt;
  RowReader reader(row.substr(4));
  LogRow log;
  const std::uint8_t flags = reader.Byte();
  log.deleted = flags == kDeleted;
  log.written = reader.Time();
  log.previous = reader.ReadRevision();
  log.key = reader.Rest();
  if (!reader.ok() || flags > kDeleted) return std::nullopt;
  return log;
}

std::string EncodeHead(Revision created) { return LogKey(created); }

std::optional<Revision> DecodeHead(std::string_view row) {
  const auto revision = ParseLogKey(row);
  if (!revision || *revision == 0) return std::nullopt;
  return revision;
}

std::string EncodeExpiry(std::string_view row_key, std::string_view key) {
  std::string row(4, '\0');
  row += key;
  return Sealed(row_key, std::move(row));
}

std::optional<std::string_view> DecodeExpiry(std::string_view row_key, std::string_view row) {
  if (!IsSealed(row_key, row)) return std::nullopt;
  return row.substr(4);
}

std::string EncodeState(const State& state) {
  std::string row(4, '\0');
  AppendFixed64(static_cast<std::uint64_t>(state.revision), row);
  AppendFixed64(static_cast<std::uint64_t>(state.compacted), row);
  AppendFixed64(state.entries, row);
  AppendFixed64(state.live_bytes, row);
  AppendFixed64(state.watch_window_bytes, row);
  AppendTime(state.complete_since, row);
  return Sealed(kStateKey, std::move(row));
}

std::optional<State> DecodeState(std::string_view row) {
  if (!IsSealed(kStateKey, row)) return std::nullopt;
  RowReader reader(row.substr(4));
  State state;
  state.revision = reader.ReadRevision();
  state.compacted = reader.ReadRevision();
  state.entries = reader.Fixed64();
  state.live_bytes = reader.Fixed64();
  state.watch_window_bytes = reader.Fixed64();
  state.complete_since = reader.Time();
  if (!reader.done() || state.compacted > state.revision) return std::nullopt;
  return state;
}

std::string EncodeFormat(std::uint32_t version) {
  std::string row;
  AppendFixed32(version, row);
  return row;
}

std::optional<std::uint32_t> DecodeFormat(std::string_view row) {
  RowReader reader(row);
  const std::uint32_t version = reader.Fixed32();
  if (!reader.done()) return std::nullopt;
  return version;
}

std::string EncodeLifetimes(std::uint64_t rules) {
  std::string row(4, '\0');
  AppendFixed64(rules, row);
  return Sealed(kLifetimesKey, std::move(row));
}

std::optional<std::uint64_t> DecodeLifetimes(std::string_view row) {
  if (!IsSealed(kLifetimesKey, row)) return std::nullopt;
  RowReader reader(row.substr(4));
  const std::uint64_t rules = reader.Fixed64();
  if (!reader.done()) return std::nullopt;
  return rules;
}

std::string EncodeClock(const ClockRecord& record) {
  std::string row(4, '\0');
  AppendTime(record.wall, row);
  AppendFixed64(static_cast<std::uint64_t>(record.since_boot.time_since_epoch().count()), row);
  row += record.boot_id;
  return Sealed(kClockKey, std::move(row));
}

std::optional<ClockRecord> DecodeClock(std::string_view row) {
  if (!IsSealed(kClockKey, row)) return std::nullopt;
  RowReader reader(row.substr(4));
  ClockRecord record;
  record.wall = reader.Time();
  record.since_boot = SteadyTime(SteadyTime::duration(static_cast<std::int64_t>(reader.Fixed64())));
  record.boot_id = reader.Rest();
  if (!reader.ok()) return std::nullopt;
  return record;
}

std::uint64_t EntryBytes(std::size_t key_size, std::size_t value_size) {
  // The key is in the head, the version, the log and some rows of the index. The rest are
  // revisions, times, checksums and index values.
  return value_size + 4 * key_size + 200;
}

std::uint64_t LogBytes(std::size_t key_size) { return key_size + 40; }

}  // namespace herald::store
