#include "store/rocks/format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/bytes/random.h"

namespace herald::store {
namespace {

using namespace std::string_literals;

// Sorted.
const std::vector<std::string> kTexts = {
    ""s,     "\0"s,   "\0\0"s,   "\0\1"s,   "\0\xff"s,   "\1"s,
    "/a"s,   "/a\0"s, "/a\0\0"s, "/a\0\1"s, "/a\0\xff"s, "/a\0a"s + "\xff",
    "/a\1"s, "/aa"s,  "/a\xff"s, "\xff"s,   "\xff\xff"s};

std::vector<std::string> Sorted(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  return texts;
}

TEST(RocksFormatTest, SortsVersionsByKeyThenNewestFirst) {
  std::vector<std::string> rows;
  for (const std::string& key : Sorted(kTexts)) {
    for (const Revision revision : {INT64_MAX, Revision{256}, Revision{255}, Revision{1}}) {
      rows.push_back(VersionKey(key, revision));
      EXPECT_EQ(ParseVersionKey(rows.back()), (ParsedVersionKey{key, revision}));
      EXPECT_EQ(RevisionOfVersionKey(rows.back()), revision);
      EXPECT_EQ(PrefixOfVersionKey(rows.back()), PrefixOfVersionKey(VersionKey(key, 7)));
    }
  }
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
}

TEST(RocksFormatTest, TheEndOfTheVersionsOfAKeyIsBeforeThoseOfTheNextKey) {
  for (const std::string& key : kTexts) {
    const std::string end = AfterVersions(PrefixOfVersionKey(VersionKey(key, 7)));
    EXPECT_LT(VersionKey(key, 1), end);
    for (const std::string& other : kTexts) {
      if (other > key) {
        EXPECT_LT(end, VersionKey(other, INT64_MAX));
      }
    }
  }
}

TEST(RocksFormatTest, SortsIndexRowsByIndexValueKeyAndRevision) {
  std::vector<std::string> rows;
  for (const std::uint8_t index : {0, 1, 255}) {
    for (const std::string& value : Sorted(kTexts)) {
      for (const std::string& key : Sorted(kTexts)) {
        for (const Revision revision : {Revision{1}, Revision{256}}) {
          rows.push_back(IndexKey(index, value, key, revision));
          EXPECT_EQ(ParseIndexKey(rows.back()), (ParsedIndexKey{index, value, key, revision}));
          EXPECT_EQ(PrefixOfIndexKey(rows.back()),
                    PrefixOfIndexKey(IndexKey(index, value, key, 7)));
        }
      }
    }
  }
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
}

TEST(RocksFormatTest, EscapedBoundsKeepTheOrderOfStrings) {
  for (const std::string& bound : kTexts) {
    for (const std::string& text : kTexts) {
      EXPECT_EQ(VersionKey(text, 7) >= EscapedBound(bound), text >= bound);
      EXPECT_EQ(VersionKey(text, INT64_MAX) >= EscapedBound(bound), text >= bound);
    }
  }
}

TEST(RocksFormatTest, KeepsTimesAndRevisionsInOrder) {
  const std::vector<WallTime> times = {WallTime(), WallTime(std::chrono::seconds(1)),
                                       WallTime(std::chrono::hours(500'000)), WallTime::max()};
  std::vector<std::string> rows;
  for (const WallTime time : times) {
    for (const Revision revision : {Revision{1}, Revision{300}}) {
      rows.push_back(ExpiryKey(time, revision));
      EXPECT_EQ(ParseExpiryKey(rows.back()), (ParsedExpiryKey{time, revision}));
    }
  }
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  EXPECT_EQ(ParseLogKey(LogKey(12345)), 12345);
  EXPECT_EQ(DecodeHead(EncodeHead(12345)), 12345);
  EXPECT_EQ(DecodeFormat(EncodeFormat(7)), 7u);
}

TEST(RocksFormatTest, ReadsRowsBack) {
  const WallTime now(std::chrono::nanoseconds(1'767'225'600'123'456'789));
  const std::string version_key = VersionKey("/a", 5);
  const std::string version = EncodeVersion(version_key, {false, now, WallTime::max(), "value"});
  const auto read = DecodeVersion(version_key, version);
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->deleted);
  EXPECT_EQ(read->written, now);
  EXPECT_EQ(read->expires, WallTime::max());
  EXPECT_EQ(read->value, "value");

  const std::string log = EncodeLog(LogKey(5), {true, now, 3, "/a"});
  const auto logged = DecodeLog(LogKey(5), log);
  ASSERT_TRUE(logged);
  EXPECT_TRUE(logged->deleted);
  EXPECT_EQ(logged->written, now);
  EXPECT_EQ(logged->previous, 3);
  EXPECT_EQ(logged->key, "/a");

  EXPECT_EQ(DecodeExpiry(ExpiryKey(now, 3), EncodeExpiry(ExpiryKey(now, 3), "/a")), "/a");

  const State state{9, 4, 3, 2000, 1000, now};
  EXPECT_EQ(DecodeState(EncodeState(state)), state);
}

TEST(RocksFormatTest, DetectsRowsThatWereDamagedTruncatedOrMoved) {
  const std::string key = VersionKey("/a", 5);
  const std::string row = EncodeVersion(key, {false, WallTime(), WallTime(), "some value"});
  for (std::size_t bit = 0; bit < 8 * row.size(); ++bit) {
    std::string damaged = row;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(DecodeVersion(key, damaged)) << "bit " << bit;
  }
  for (std::size_t size = 0; size < row.size(); ++size) {
    EXPECT_FALSE(DecodeVersion(key, row.substr(0, size)));
  }
  EXPECT_FALSE(DecodeVersion(VersionKey("/a", 6), row));
  EXPECT_FALSE(DecodeVersion(VersionKey("/b", 5), row));
  EXPECT_FALSE(DecodeLog(LogKey(2), EncodeLog(LogKey(1), {false, WallTime(), 0, "/a"})));
  EXPECT_FALSE(
      DecodeExpiry(ExpiryKey(WallTime(), 2), EncodeExpiry(ExpiryKey(WallTime(), 1), "/a")));
  std::string state = EncodeState({9, 4, 3, 2000, 1000, WallTime()});
  state[10] ^= 1;
  EXPECT_FALSE(DecodeState(state));
}

TEST(RocksFormatTest, RejectsBytesThatAreNotAKey) {
  for (const std::string& row : {""s, "a"s, "\0"s, "a\0\1"s, "a\0\2"s + std::string(8, '\xff'),
                                 "a\0\1"s + std::string(7, '\xff'), std::string(30, 'a')}) {
    EXPECT_FALSE(ParseVersionKey(row));
    EXPECT_FALSE(ParseIndexKey(row));
    EXPECT_FALSE(ParseExpiryKey(row));
  }
  EXPECT_FALSE(ParseLogKey(std::string(7, '\0')));
  EXPECT_FALSE(ParseLogKey(std::string(9, '\0')));
  EXPECT_FALSE(ParseLogKey(std::string(8, '\xff'))) << "a negative revision";
  EXPECT_FALSE(DecodeHead(std::string(8, '\0'))) << "no write has revision 0";
}

TEST(RocksFormatTest, EncodesLifetimesAndClocksAndDetectsDamage) {
  EXPECT_EQ(DecodeLifetimes(EncodeLifetimes(0x0123456789abcdefu)), 0x0123456789abcdefu);
  const ClockRecord record{.wall = WallTime(std::chrono::nanoseconds(1'767'225'600'123'456'789)),
                           .since_boot = SteadyTime(std::chrono::hours(7)),
                           .boot_id = "8c1ff2b3"};
  EXPECT_EQ(DecodeClock(EncodeClock(record)), record);
  EXPECT_EQ(DecodeClock(EncodeClock({})), ClockRecord());
  for (std::string row : {EncodeLifetimes(7), EncodeClock(record)}) {
    EXPECT_FALSE(DecodeLifetimes(row.substr(0, row.size() - 1)));
    EXPECT_FALSE(DecodeClock(row.substr(0, row.size() - 1)));
    row.back() ^= 1;
    EXPECT_FALSE(DecodeLifetimes(row));
    EXPECT_FALSE(DecodeClock(row));
  }
  EXPECT_FALSE(DecodeLifetimes(""));
  EXPECT_FALSE(DecodeClock(""));
}

}  // namespace
}  // namespace herald::store
