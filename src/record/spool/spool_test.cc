#include "record/spool/spool.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "record/spool/testing/spool_fixture.h"

namespace herald {
namespace {

using Strings = std::vector<std::string>;
using Verb = SinkRequest::Verb;

TEST(SpoolRecordTest, DecodesWhatWasEncoded) {
  SpooledWrite patch = Create("b", std::string("\xff\0 no text", 10));
  patch.events = 7;
  patch.request.verb = Verb::kPatch;
  patch.request.api = EventApi::kEventsV1;
  patch.request.patch = R"({"series":{"count":7}})";
  auto event = std::make_shared<Event>(*patch.request.event);
  event->count = 0;
  event->first_timestamp = event->last_timestamp = Time();
  event->event_time = MicroTime(1'700'000'000, 123'456'000);
  event->series = EventSeries{.count = 7, .last_observed_time = MicroTime(1'700'000'100, 1000)};
  event->metadata.annotations = {{"k", "v"}};
  event->related = ObjectReference{.kind = "Node", .name = "n"};
  patch.request.event = event;
  const SpooledWrite create = Create("a");

  const SpoolSegment segment = ReadSpoolSegment(
      std::string(kSpoolMagic) + EncodeSpoolRecord(create) + EncodeSpoolRecord(patch));
  EXPECT_EQ(segment.corrupted, 0u);
  EXPECT_FALSE(segment.torn);
  ASSERT_EQ(segment.writes.size(), 2u);
  EXPECT_EQ(segment.writes[0].events, 1u);
  EXPECT_EQ(segment.writes[0].request.verb, Verb::kCreate);
  EXPECT_EQ(segment.writes[0].request.api, EventApi::kCoreV1);
  EXPECT_EQ(*segment.writes[0].request.event, *create.request.event);
  EXPECT_EQ(segment.writes[1].events, 7u);
  EXPECT_EQ(segment.writes[1].request.verb, Verb::kPatch);
  EXPECT_EQ(segment.writes[1].request.api, EventApi::kEventsV1);
  EXPECT_EQ(segment.writes[1].request.patch, patch.request.patch);
  EXPECT_EQ(*segment.writes[1].request.event, *event);
}

TEST(SpoolRecordTest, TheFormatIsTheDocumentedOne) {
  const std::string record = EncodeSpoolRecord(Create("a"));
  EXPECT_EQ(record.substr(0, 4), "ZHR1");
  const std::string payload = record.substr(12);
  EXPECT_EQ(static_cast<unsigned char>(record[4]) + 256 * static_cast<unsigned char>(record[5]),
            static_cast<int>(payload.size()));
  EXPECT_EQ(payload.substr(0, 10), std::string("\0\0\1\0\0\0\0\0\0\0", 10));
  EXPECT_EQ(payload.substr(10, 4), std::string("k8s\0", 4));
}

TEST(SpoolRecordTest, ATornEndIsNotCorruption) {
  const std::string first = std::string(kSpoolMagic) + EncodeSpoolRecord(Create("a"));
  const std::string whole = first + EncodeSpoolRecord(Create("b"));
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const SpoolSegment segment = ReadSpoolSegment(std::string_view(whole).substr(0, length));
    EXPECT_EQ(segment.corrupted, 0u) << length;
    const std::size_t expected = length == whole.size() ? 2 : length >= first.size() ? 1 : 0;
    EXPECT_EQ(segment.writes.size(), expected) << length;
    const bool at_an_end = length == 0 || length == kSpoolMagic.size() || length == first.size() ||
                           length == whole.size();
    EXPECT_EQ(segment.torn, !at_an_end) << length;
  }
}

// One byte at a time, all over a segment of three records.
TEST(SpoolRecordTest, ADamagedRecordIsSkipped) {
  const Strings names = {"a", "b", "c"};
  std::string whole(kSpoolMagic);
  std::vector<std::size_t> ends = {whole.size()};
  for (const std::string& name : names) {
    whole += EncodeSpoolRecord(Create(name));
    ends.push_back(whole.size());
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char flip : {'\x01', '\x80', '\xff'}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      const SpoolSegment segment = ReadSpoolSegment(damaged);
      Strings expected;
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (at < ends[i] || at >= ends[i + 1]) expected.push_back(names[i]);
      }
      EXPECT_EQ(NamesOf(segment.writes), expected) << at;
      // The length of the last one may make it look torn.
      EXPECT_EQ(segment.corrupted + (segment.torn ? 1 : 0), 1u) << at;
    }
  }
}

TEST(SpoolRecordTest, TheCostOfAForgedSegmentIsLinear) {
  // Each marker claims all that follows it: without a bound, half a billion bytes.
  std::string forged(kSpoolMagic);
  for (int i = 0; i < 30'000; ++i) forged += std::string("ZHR1\0\0\4\0\0\0\0\0", 12);
  const SpoolSegment segment = ReadSpoolSegment(forged + std::string(1 << 18, 'x'));
  EXPECT_TRUE(segment.writes.empty());
  EXPECT_GE(segment.corrupted, 1u);
}

TEST(SpoolTest, AppendedWritesAreInOrderAfterARestart) {
  const SpoolDirectory directory;
  {
    const auto spool = OpenIn(directory);
    EXPECT_TRUE(spool->empty());
    for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(spool->Append(Create(name)).ok());
    EXPECT_FALSE(spool->empty());
  }
  const auto spool = OpenIn(directory);
  EXPECT_GT(spool->stats().bytes, 0u);
  EXPECT_EQ(TakeAll(spool.get()), (Strings{"a", "b", "c"}));
  EXPECT_TRUE(spool->empty());
  EXPECT_EQ(spool->stats().bytes, 0u);
  EXPECT_EQ(directory.Segments(), Strings());
}

TEST(SpoolTest, ASegmentStaysOnDiskUntilItIsReleased) {
  const SpoolDirectory directory;
  {
    const auto spool = OpenIn(directory);
    ASSERT_TRUE(spool->Append(Create("a")).ok());
    ASSERT_TRUE(spool->Take());
    // What comes meanwhile goes to another one.
    ASSERT_TRUE(spool->Append(Create("b")).ok());
    EXPECT_EQ(directory.Segments().size(), 2u);
    EXPECT_EQ(NamesOf(spool->Take()->writes), Strings{"a"});
  }
  const auto spool = OpenIn(directory);
  EXPECT_EQ(TakeAll(spool.get()), (Strings{"a", "b"}));
}

TEST(SpoolTest, OnlyOneSpoolMayUseTheDirectory) {
  const SpoolDirectory directory;
  auto spool = OpenIn(directory);
  const auto second = Spool::Open({.directory = directory.path()});
  ASSERT_FALSE(second);
  EXPECT_TRUE(second.error().Is(StatusReason::kConflict));
  EXPECT_EQ(second.error().message(),
            "the spool " + directory.path() + " is in use by another process or another sink");
  spool->Close();
  EXPECT_TRUE(Spool::Open({.directory = directory.path()}));
}

TEST(SpoolTest, ReportsWhyItCannotBeOpened) {
  EXPECT_TRUE(Spool::Open({}).error().Is(StatusReason::kInvalid));
  const SpoolDirectory directory;
  const auto spool = Spool::Open({.directory = directory.path() + "/no/such/place"});
  ASSERT_FALSE(spool);
  EXPECT_NE(spool.error().message().find("No such file"), std::string::npos);
}

TEST(SpoolTest, DropsTheOldestSegmentsAndCountsTheirEvents) {
  const SpoolDirectory directory;
  const SpoolOptions options{.max_bytes = 64 << 10, .segment_bytes = 16 << 10};
  const auto spool = OpenIn(directory, options);
  constexpr int kWrites = 100;
  for (int i = 0; i < kWrites; ++i) {
    SpooledWrite write = Create(fmt::format("e{:03}", i), std::string(2000, 'x'));
    write.events = 2;
    ASSERT_TRUE(spool->Append(write).ok()) << i;
    ASSERT_LE(spool->stats().bytes, options.max_bytes) << i;
  }
  std::uint64_t on_disk = 0;
  for (const std::string& path : directory.Segments()) on_disk += ReadFile(path).size();
  EXPECT_EQ(on_disk, spool->stats().bytes);
  const Strings left = TakeAll(spool.get());
  ASSERT_FALSE(left.empty());
  EXPECT_LT(left.size(), std::size_t{kWrites});
  EXPECT_EQ(left.back(), "e099");
  EXPECT_EQ(spool->stats().dropped, 2 * (kWrites - left.size()));
  // None is missing in between.
  EXPECT_EQ(left.front(), fmt::format("e{:03}", kWrites - left.size()));
}

TEST(SpoolTest, DoesNotDropTheSegmentThatIsBeingDelivered) {
  const SpoolDirectory directory;
  const auto spool = OpenIn(directory, {.max_bytes = 64 << 10, .segment_bytes = 16 << 10});
  ASSERT_TRUE(spool->Append(Create("first")).ok());
  ASSERT_TRUE(spool->Take());
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(spool->Append(Create("later", std::string(2000, 'x'))).ok());
  }
  EXPECT_EQ(NamesOf(spool->Take()->writes), Strings{"first"});
  spool->PutBack();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(spool->Append(Create("later", std::string(2000, 'x'))).ok());
  }
  EXPECT_EQ(NamesOf(spool->Take()->writes).front(), "later");
}

TEST(SpoolTest, RejectsAnEventThatIsTooLarge) {
  const SpoolDirectory directory;
  const auto spool = OpenIn(directory, {.max_bytes = 64 << 10});
  const Status status = spool->Append(Create("a", std::string(80 << 10, 'x')));
  EXPECT_TRUE(status.Is(StatusReason::kRequestEntityTooLarge));
  EXPECT_TRUE(spool->empty());
}

TEST(SpoolTest, CountsDamageOnceAndSkipsIt) {
  const SpoolDirectory directory;
  {
    const auto spool = OpenIn(directory);
    for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(spool->Append(Create(name)).ok());
  }
  const std::string path = directory.Segments().at(0);
  std::string bytes = ReadFile(path);
  bytes[kSpoolMagic.size() + EncodeSpoolRecord(Create("a")).size() + 20] ^= 1;
  WriteFile(path, bytes);
  WriteFile(directory.path() + "/00000000000000ff.spool", "this was never ours");
  const auto spool = OpenIn(directory);
  ASSERT_TRUE(spool->Take());
  EXPECT_EQ(TakeAll(spool.get()), (Strings{"a", "c"}));
  EXPECT_EQ(spool->stats().corrupted, 2u);
}

TEST(SpoolTest, ASegmentThatCannotBeReadIsSkippedAndKept) {
  if (geteuid() == 0) {
    // Root reads everything; a directory of that name it cannot read either.
  }
  const SpoolDirectory directory;
  {
    const auto spool = OpenIn(directory);
  }
  const std::string unreadable = directory.path() + "/0000000000000001.spool";
  ASSERT_EQ(mkdir(unreadable.c_str(), 0700), 0);
  {
    const auto spool = OpenIn(directory);
    ASSERT_TRUE(spool->Append(Create("a")).ok());
    EXPECT_EQ(TakeAll(spool.get()), Strings{"a"});
    EXPECT_EQ(spool->stats().corrupted, 1u);
  }
  EXPECT_EQ(directory.Segments(), Strings{unreadable});
}

// In a child, because the limit is the process' and its other files have a size, too.
TEST(SpoolTest, AFullDiskInTheMiddleOfARecordDamagesNoOther) {
  const SpoolDirectory directory;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    auto spool = Spool::Open({.directory = directory.path()});
    if (!spool || !(*spool)->Append(Create("first")).ok()) _exit(1);
    const std::uint64_t bytes = (*spool)->stats().bytes;
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    const rlimit tight{.rlim_cur = bytes + 50, .rlim_max = limit.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tight);
    if ((*spool)->Append(Create("too much")).ok()) _exit(2);
    if ((*spool)->stats().bytes != bytes) _exit(3);
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit((*spool)->Append(Create("second")).ok() ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const auto spool = OpenIn(directory);
  EXPECT_EQ(TakeAll(spool.get()), (Strings{"first", "second"}));
  EXPECT_EQ(spool->stats().corrupted, 0u);
}

}  // namespace
}  // namespace herald
