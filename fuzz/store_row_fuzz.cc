// Any bytes as rows of the store: decoding does not read past their end, accepted rows are encoded
// as the same bytes, and keys sort like the values that they encode.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "store/rocks/format.h"

namespace herald::store {
namespace {

void CheckKeys(std::string_view row) {
  if (const auto version = ParseVersionKey(row)) {
    HERALD_CHECK(VersionKey(version->key, version->revision) == row);
    HERALD_CHECK(RevisionOfVersionKey(row) == version->revision);
  }
  if (const auto log = ParseLogKey(row)) HERALD_CHECK(LogKey(*log) == row);
  if (const auto index = ParseIndexKey(row)) {
    HERALD_CHECK(IndexKey(index->index, index->value, index->key, index->revision) == row);
  }
  if (const auto expiry = ParseExpiryKey(row)) {
    HERALD_CHECK(ExpiryKey(expiry->when, expiry->created) == row);
  }
}

void CheckValues(std::string_view key, std::string_view row) {
  if (const auto version = DecodeVersion(key, row)) {
    HERALD_CHECK(EncodeVersion(key, *version) == row);
  }
  if (const auto log = DecodeLog(key, row)) HERALD_CHECK(EncodeLog(key, *log) == row);
  if (const auto expiry = DecodeExpiry(key, row)) HERALD_CHECK(EncodeExpiry(key, *expiry) == row);
  if (const auto state = DecodeState(row)) HERALD_CHECK(EncodeState(*state) == row);
  if (const auto head = DecodeHead(row)) HERALD_CHECK(EncodeHead(*head) == row);
  if (const auto format = DecodeFormat(row)) HERALD_CHECK(EncodeFormat(*format) == row);
}

// Adds a valid checksum, without which random bytes never reach the code behind the check.
void CheckSealed(std::string_view key, std::string_view rest) {
  VersionRow version;
  version.deleted = rest.empty();
  version.value = rest;
  const std::string row = EncodeVersion(key, version);
  const auto read = DecodeVersion(key, row);
  HERALD_CHECK(read && read->value == rest && read->deleted == rest.empty());
  LogRow log;
  log.key = rest;
  const std::string log_row = EncodeLog(key, log);
  const auto read_log = DecodeLog(key, log_row);
  HERALD_CHECK(read_log && read_log->key == rest);
  const std::string expiry_row = EncodeExpiry(key, rest);
  const auto read_expiry = DecodeExpiry(key, expiry_row);
  HERALD_CHECK(read_expiry && *read_expiry == rest);
}

void CheckOrder(std::string_view a, std::string_view b) {
  HERALD_CHECK((VersionKey(a, 7) < VersionKey(b, 7)) == (a < b));
  HERALD_CHECK((VersionKey(a, 7) < EscapedBound(b)) == (a < b));
  HERALD_CHECK((IndexKey(1, a, b, 7) < IndexKey(1, b, a, 7)) == (a < b));
  const auto index = ParseIndexKey(IndexKey(1, a, b, 7));
  HERALD_CHECK(index && index->value == a && index->key == b && index->revision == 7);
}

}  // namespace
}  // namespace herald::store

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = size == 0 ? 0 : data[0] % size;
  const std::string_view first = bytes.substr(0, cut);
  const std::string_view second = bytes.substr(cut);
  herald::store::CheckKeys(bytes);
  herald::store::CheckValues(first, second);
  herald::store::CheckSealed(first, second);
  herald::store::CheckOrder(first, second);
  return 0;
}
