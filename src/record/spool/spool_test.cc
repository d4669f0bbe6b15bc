#include "record/spool/spool.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/temporary_directory.h"
#include "herald/record/broadcaster.h"
#include "herald/record/fakes.h"

namespace herald {
namespace {

using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using Strings = std::vector<std::string>;
using Verb = SinkRequest::Verb;

// Where a spool may be; gone at the end.
class SpoolDirectory {
 public:
  // Not made yet.
  std::string path() const { return root_.path() / "spool"; }

  Strings Files() const {
    std::set<std::string> names;
    std::error_code none;  // there is no directory
    for (const auto& entry : std::filesystem::directory_iterator(path(), none))
      names.insert(entry.path().filename());
    return {names.begin(), names.end()};
  }
  Strings Segments() const {
    Strings names;
    for (const std::string& name : Files()) {
      if (name != "LOCK") names.push_back(path() + "/" + name);
    }
    return names;
  }

 private:
  const TemporaryDirectory root_;
};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

SpooledWrite Create(const std::string& name, std::string message = "m") {
  auto event = std::make_shared<Event>();
  event->metadata.namespace_ = "ns";
  event->metadata.name = name;
  event->involved_object = {.kind = "Pod", .namespace_ = "ns", .name = "web-0"};
  event->reason = "R";
  event->message = std::move(message);
  event->type = kNormal;
  event->count = 1;
  event->first_timestamp = event->last_timestamp = Time(1'700'000'000, 0);
  return {.request = {.verb = Verb::kCreate, .api = EventApi::kCoreV1, .event = std::move(event)}};
}

Strings NamesOf(const std::vector<SpooledWrite>& writes) {
  Strings names;
  for (const SpooledWrite& write : writes) names.push_back(write.request.event->metadata.name);
  return names;
}

std::unique_ptr<Spool> OpenIn(const SpoolDirectory& directory, SpoolOptions options = {},
                              Spool::FaultHook fault = nullptr) {
  options.directory = directory.path();
  auto spool = Spool::Open(options, std::move(fault));
  EXPECT_TRUE(spool) << spool.error().ToString();
  return *std::move(spool);
}

// Everything, delivered at once.
Strings TakeAll(Spool* spool) {
  Strings names;
  while (auto segment = spool->Take()) {
    for (std::string& name : NamesOf(segment->writes)) names.push_back(std::move(name));
    spool->Release();
  }
  return names;
}

TEST(SpoolRecordTest, AWriteIsReadAsItWasWritten) {
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

TEST(SpoolRecordTest, TheFormatIsWhatItsDocumentSays) {
  const std::string record = EncodeSpoolRecord(Create("a"));
  EXPECT_EQ(record.substr(0, 4), "ZHR1");
  const std::string payload = record.substr(12);
  EXPECT_EQ(static_cast<unsigned char>(record[4]) + 256 * static_cast<unsigned char>(record[5]),
            static_cast<int>(payload.size()));
  EXPECT_EQ(payload.substr(0, 10), std::string("\0\0\1\0\0\0\0\0\0\0", 10));
  EXPECT_EQ(payload.substr(10, 4), std::string("k8s\0", 4));
}

TEST(SpoolRecordTest, ATornEndIsNoDamageWhereverItIsTorn) {
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
TEST(SpoolRecordTest, ADamagedRecordIsNeitherDeliveredNorInTheWayOfOthers) {
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

TEST(SpoolRecordTest, AForgedSegmentCostsNoMoreThanItsSize) {
  // Each marker claims all that follows it: without a bound, half a billion bytes.
  std::string forged(kSpoolMagic);
  for (int i = 0; i < 30'000; ++i) forged += std::string("ZHR1\0\0\4\0\0\0\0\0", 12);
  const SpoolSegment segment = ReadSpoolSegment(forged + std::string(1 << 18, 'x'));
  EXPECT_TRUE(segment.writes.empty());
  EXPECT_GE(segment.corrupted, 1u);
}

TEST(SpoolTest, WhatWasAppendedIsThereAfterARestartInItsOrder) {
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

TEST(SpoolTest, OnlyOneMayHaveTheDirectory) {
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

TEST(SpoolTest, SaysWhyItCannotBeOpened) {
  EXPECT_TRUE(Spool::Open({}).error().Is(StatusReason::kInvalid));
  const SpoolDirectory directory;
  const auto spool = Spool::Open({.directory = directory.path() + "/no/such/place"});
  ASSERT_FALSE(spool);
  EXPECT_NE(spool.error().message().find("No such file"), std::string::npos);
}

TEST(SpoolTest, TheOldestMakeRoomAndAreCounted) {
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

TEST(SpoolTest, WhatIsBeingDeliveredIsNotDroppedToMakeRoom) {
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

TEST(SpoolTest, AnEventThatIsTooLargeIsRefused) {
  const SpoolDirectory directory;
  const auto spool = OpenIn(directory, {.max_bytes = 64 << 10});
  const Status status = spool->Append(Create("a", std::string(80 << 10, 'x')));
  EXPECT_TRUE(status.Is(StatusReason::kRequestEntityTooLarge));
  EXPECT_TRUE(spool->empty());
}

TEST(SpoolTest, DamageOnDiskIsCountedOnceAndPassedOver) {
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

TEST(SpoolTest, ASegmentThatCannotBeReadIsLeftAloneAndNotInTheWay) {
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
TEST(SpoolTest, ADiskThatIsFullInTheMiddleOfARecordSpoilsNoOther) {
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

// Crashes. A child writes and says what it was told is safe; it is killed at its n-th
// step, for every n, and whoever comes after it must find all of that and nothing else.

// Runs a function in a child, which dies at the n-th call of the hook; the lines that it
// told. *finished: it came to its end before.
Strings RunAndKill(int n, bool* finished,
                   const std::function<void(const Spool::FaultHook&, int tell)>& run) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  EXPECT_GE(child, 0);
  if (child == 0) {
    close(ends[0]);
    int step = 0;
    run(
        [&](std::string_view) {
          if (++step == n) raise(SIGKILL);
        },
        ends[1]);
    _exit(0);
  }
  close(ends[1]);
  std::string told;
  char buffer[4096];
  ssize_t count = 0;
  while ((count = read(ends[0], buffer, sizeof(buffer))) > 0) {
    told.append(buffer, static_cast<std::size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  *finished = WIFEXITED(status);
  EXPECT_TRUE(WIFEXITED(status) || WTERMSIG(status) == SIGKILL);
  Strings lines;
  for (std::size_t begin = 0, end = 0; (end = told.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    lines.push_back(told.substr(begin, end - begin));
  }
  return lines;
}

void TellLine(int fd, const std::string& line) {
  const std::string text = line + "\n";
  if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(3);
}

TEST(SpoolCrashTest, WhateverWasReportedIsThereAfterAKillAtAnyStep) {
  constexpr int kMaxSteps = 1000;
  int n = 1;
  for (bool finished = false; !finished && n < kMaxSteps; ++n) {
    const SpoolDirectory directory;
    // Small, so that segments end and begin in between.
    const SpoolOptions options{.directory = directory.path(), .segment_bytes = 600};
    std::set<std::string> safe;
    for (const std::string& line :
         RunAndKill(n, &finished, [&](const Spool::FaultHook& fault, int tell) {
           auto spool = Spool::Open(options, fault);
           if (!spool) _exit(1);
           for (int i = 0; i < 8; ++i) {
             const std::string name = fmt::format("e{}", i);
             if (!(*spool)->Append(Create(name)).ok()) _exit(2);
             TellLine(tell, name);
             if (i != 4) continue;
             // In the middle the first segment is delivered and leaves.
             const auto segment = (*spool)->Take();
             for (const std::string& gone : NamesOf(segment->writes)) TellLine(tell, "-" + gone);
             (*spool)->Release();
           }
         })) {
      if (line[0] == '-') {
        safe.erase(line.substr(1));
      } else {
        safe.insert(line);
      }
    }
    SCOPED_TRACE(n);
    const auto spool = Spool::Open(options);
    ASSERT_TRUE(spool);
    std::set<std::string> found;
    while (const auto segment = (*spool)->Take()) {
      for (const SpooledWrite& write : segment->writes) {
        const std::string& name = write.request.event->metadata.name;
        EXPECT_EQ(*write.request.event, *Create(name).request.event);
        EXPECT_TRUE(found.insert(name).second) << name;
      }
      (*spool)->Release();
    }
    EXPECT_EQ((*spool)->stats().corrupted, 0u);
    for (const std::string& name : safe) EXPECT_TRUE(found.contains(name)) << name;
  }
  EXPECT_GT(n, 30) << "the child has more steps than that";
  EXPECT_LT(n, kMaxSteps);
}

// The whole pipeline, in a process that is killed from outside at some time or other.
TEST(SpoolCrashTest, EventsThatEndedAsSpooledAreDeliveredByTheNextProcess) {
  const SpoolDirectory directory;
  const SinkOptions options{
      .max_tries = 1, .spool = SpoolOptions{.directory = directory.path(), .segment_bytes = 4096}};
  std::set<std::string> spooled;
  for (int round = 0; round < 20; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(ends[0]);
      FakeClock clock{WallTime(seconds(1'700'000'000 + round * 1000))};
      Executor executor({.threads = 0, .clock = &clock});
      Broadcaster broadcaster({.executor = &executor});
      const auto sink = std::make_shared<MemorySink>();
      sink->SetFault(
          [](const SinkRequest&) { return Status(StatusReason::kUnreachable, "no route"); });
      if (!broadcaster.StartRecordingToSink(sink, options).ok()) _exit(1);
      const Recorder recorder = broadcaster.NewRecorder({.component = "c"});
      for (int i = 0;; ++i) {
        const std::string pod = fmt::format("pod-{}-{}", round, i);
        Recorder(recorder).Record({.kind = "Pod", .namespace_ = "ns", .name = pod},
                                  {.reason = "R",
                                   .on_outcome =
                                       [&](Outcome outcome, const Status&) {
                                         if (outcome == Outcome::kSpooled) TellLine(ends[1], pod);
                                       }},
                                  "{}", pod);
        executor.RunUntilIdle();
      }
    }
    close(ends[1]);
    std::string told;
    char buffer[256];
    // Killed after a number of reports, in the middle of whatever it does next.
    while (told.size() < static_cast<std::size_t>(100 + 97 * round)) {
      const ssize_t count = read(ends[0], buffer, sizeof(buffer));
      ASSERT_GT(count, 0);
      told.append(buffer, static_cast<std::size_t>(count));
    }
    kill(child, SIGKILL);
    ssize_t count = 0;
    while ((count = read(ends[0], buffer, sizeof(buffer))) > 0) {
      told.append(buffer, static_cast<std::size_t>(count));
    }
    close(ends[0]);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    for (std::size_t begin = 0, end = 0; (end = told.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      spooled.insert(told.substr(begin, end - begin));
    }
  }
  FakeClock clock{WallTime(seconds(1'800'000'000))};
  Executor executor({.threads = 0, .clock = &clock});
  Broadcaster broadcaster({.executor = &executor});
  const auto sink = std::make_shared<MemorySink>();
  ASSERT_TRUE(broadcaster.StartRecordingToSink(sink, options).ok());
  executor.RunUntilIdle();
  std::set<std::string> delivered;
  for (const Event& event : sink->Events()) {
    EXPECT_EQ(event.message, event.involved_object.name);
    delivered.insert(event.involved_object.name);
  }
  for (const std::string& pod : spooled) EXPECT_TRUE(delivered.contains(pod)) << pod;
  EXPECT_EQ(broadcaster.Stats().at(0).spool_corrupted, 0u);
  EXPECT_EQ(broadcaster.Stats().at(0).spool_bytes, 0u);
}

// The pipeline around it.

class SpoolDeliveryTest : public ::testing::Test {
 protected:
  // A process: its broadcaster, and the sink that it writes to.
  struct Process {
    explicit Process(SpoolDeliveryTest* test, BroadcasterOptions options = {},
                     SinkOptions sink_options = {})
        : broadcaster([&] {
            options.executor = &test->executor_;
            return options;
          }()),
          recorder(broadcaster.NewRecorder({.component = "c", .host = "h"})),
          new_style(broadcaster.NewRecorder(
              {.component = "c", .host = "h", .api = EventApi::kEventsV1})) {
      SpoolOptions spool = sink_options.spool.value_or(SpoolOptions());
      spool.directory = test->directory_.path();
      sink_options.spool = spool;
      started = broadcaster.StartRecordingToSink(test->server_, sink_options);
    }
    SinkStats Stats() const { return broadcaster.Stats().at(0); }

    Broadcaster broadcaster;
    Recorder recorder;
    Recorder new_style;
    Status started;
  };

  void SetDown(bool down) {
    server_->SetFault([down](const SinkRequest&) -> std::optional<Status> {
      if (!down) return std::nullopt;
      return Status(StatusReason::kUnreachable, "no route");
    });
  }
  void Advance(nanoseconds by) {
    for (const nanoseconds end = clock_.Steady().time_since_epoch() + by;
         clock_.Steady().time_since_epoch() < end;) {
      clock_.Advance(seconds(5));
      executor_.RunUntilIdle();
    }
  }
  static void ExpectAccounted(const SinkStats& stats) {
    std::uint64_t ended = 0;
    for (const std::uint64_t count : stats.outcomes) ended += count;
    EXPECT_EQ(stats.recorded, ended + stats.in_flight);
  }

  const ObjectReference pod_{.kind = "Pod", .namespace_ = "ns", .name = "web-0", .uid = "u1"};
  const SpoolDirectory directory_;
  FakeClock clock_{WallTime(seconds(1'700'000'000))};
  Executor executor_{{.threads = 0, .clock = &clock_}};
  const std::shared_ptr<MemorySink> server_ = std::make_shared<MemorySink>();
};

TEST_F(SpoolDeliveryTest, WhatIsLeftAtShutdownIsDeliveredByTheNextProcessAsItWas) {
  SetDown(true);
  {
    Process first(this);
    ASSERT_TRUE(first.started.ok());
    first.recorder.Event(pod_, kWarning, "BackOff", "old style");
    first.new_style.Event(pod_, kNormal, "Bound", "new style");
    executor_.RunUntilIdle();
    first.broadcaster.Shutdown(nanoseconds(0));
    EXPECT_EQ(first.Stats()[Outcome::kSpooled], 2u);
    EXPECT_EQ(first.Stats().in_flight, 0u);
    ExpectAccounted(first.Stats());
  }
  const SinkRequest tried = server_->Requests().at(0);
  clock_.Advance(minutes(30));
  SetDown(false);
  Process second(this);
  executor_.RunUntilIdle();
  ASSERT_EQ(server_->Events().size(), 2u);
  for (const Event& event : server_->Events()) {
    if (event.message != "old style") {
      EXPECT_EQ(event.event_time.seconds(), 1'700'000'000);
      continue;
    }
    EXPECT_EQ(event.metadata.name, tried.event->metadata.name);
    EXPECT_EQ(event.first_timestamp.seconds(), 1'700'000'000);
    EXPECT_EQ(event.last_timestamp.seconds(), 1'700'000'000);
  }
  EXPECT_EQ(second.Stats().recorded, 2u);
  EXPECT_EQ(second.Stats()[Outcome::kWritten], 2u);
  EXPECT_EQ(directory_.Segments(), Strings());
  ExpectAccounted(second.Stats());
}

TEST_F(SpoolDeliveryTest, WhatWasGivenUpIsTriedAgainByTheSameProcess) {
  SetDown(true);
  Process process(this);
  std::vector<Outcome> outcomes;
  process.recorder.Event(pod_, kNormal, "R", "m");
  Advance(minutes(3));
  EXPECT_EQ(process.Stats()[Outcome::kSpooled], 1u);
  EXPECT_EQ(process.Stats()[Outcome::kGaveUp], 0u);
  SetDown(false);
  Advance(minutes(3));
  EXPECT_EQ(server_->Events().size(), 1u);
  EXPECT_EQ(process.Stats().recorded, 2u);
  EXPECT_EQ(process.Stats()[Outcome::kWritten], 1u);
  EXPECT_EQ(process.Stats().spool_bytes, 0u);
  ExpectAccounted(process.Stats());
}

TEST_F(SpoolDeliveryTest, AnOutageThatGoesOnKeepsEverythingWhereItIs) {
  SetDown(true);
  Process process(this);
  for (int i = 0; i < 5; ++i) process.recorder.Eventf(pod_, kNormal, "R", "m{}", i);
  Advance(minutes(60));
  ExpectAccounted(process.Stats());
  // The one that is being tried, and one for what came meanwhile.
  EXPECT_EQ(directory_.Segments().size(), 2u);
  SetDown(false);
  Advance(minutes(5));
  EXPECT_EQ(server_->Events().size(), 5u);
  EXPECT_EQ(process.Stats().in_flight, 0u);
  ExpectAccounted(process.Stats());
}

TEST_F(SpoolDeliveryTest, OneEventThatIsNeverTakenHoldsUpNoOther) {
  const auto refuse_bad = [](const SinkRequest& request) -> std::optional<Status> {
    if (request.event->reason != "Bad") return std::nullopt;
    return Status({.reason = StatusReason::kInternalError, .origin = Status::Origin::kServer});
  };
  SetDown(true);
  {
    Process first(this, {}, {.max_tries = 1});
    first.recorder.Event(pod_, kNormal, "Bad", "m");
    first.recorder.Event(pod_, kNormal, "Good", "m");
    executor_.RunUntilIdle();
    first.broadcaster.Shutdown(nanoseconds(0));
  }
  server_->SetFault(refuse_bad);
  Process second(this, {}, {.max_tries = 1});
  second.recorder.Event(pod_, kNormal, "Bad", "another");
  executor_.RunUntilIdle();
  ASSERT_EQ(server_->Events().size(), 1u);
  EXPECT_EQ(server_->Events().at(0).reason, "Good");
  const std::size_t requests = server_->Requests().size();
  Advance(minutes(2));
  // Both bad ones are tried, and no event that was delivered.
  EXPECT_GE(server_->Requests().size(), requests + 2);
  for (std::size_t i = requests; i < server_->Requests().size(); ++i) {
    EXPECT_EQ(server_->Requests()[i].event->reason, "Bad");
  }
  ExpectAccounted(second.Stats());
  second.broadcaster.Shutdown(nanoseconds(0));
  EXPECT_GT(second.Stats().spool_bytes, 0u);
}

TEST_F(SpoolDeliveryTest, ACountOnDiskDoesNotSetTheServersBack) {
  Process process(this, {}, {.max_tries = 1});
  process.recorder.Event(pod_, kNormal, "R", "m");
  executor_.RunUntilIdle();
  SetDown(true);
  process.recorder.Event(pod_, kNormal, "R", "m");
  executor_.RunUntilIdle();
  ASSERT_EQ(process.Stats()[Outcome::kSpooled], 1u);
  SetDown(false);
  process.recorder.Event(pod_, kNormal, "R", "m");
  executor_.RunUntilIdle();
  ASSERT_EQ(server_->Events().at(0).count, 3);
  const std::size_t requests = server_->Requests().size();
  Advance(minutes(2));
  EXPECT_EQ(server_->Events().at(0).count, 3);
  ASSERT_EQ(server_->Requests().size(), requests + 1);
  EXPECT_EQ(server_->Requests().back().patch, "{}") << "only asks for the count";
  EXPECT_EQ(process.Stats()[Outcome::kMerged], 2u);
  EXPECT_EQ(process.Stats().spool_bytes, 0u);
  ExpectAccounted(process.Stats());
}

// Processes that end before their patches are replayed. Only the server knows what it has.
TEST_F(SpoolDeliveryTest, TheNextProcessDoesNotLowerACountThatTheServerHas) {
  {
    Process first(this, {}, {.max_tries = 1});
    first.recorder.Event(pod_, kNormal, "R", "m");
    executor_.RunUntilIdle();
    SetDown(true);
    first.recorder.Event(pod_, kNormal, "R", "m");
    executor_.RunUntilIdle();
    ASSERT_EQ(first.Stats()[Outcome::kSpooled], 1u);
    SetDown(false);
    first.recorder.Event(pod_, kNormal, "R", "m");
    executor_.RunUntilIdle();
    ASSERT_EQ(server_->Events().at(0).count, 3);
  }
  ASSERT_EQ(directory_.Segments().size(), 1u);
  Process second(this);
  executor_.RunUntilIdle();
  EXPECT_EQ(server_->Events().at(0).count, 3);
  EXPECT_EQ(second.Stats()[Outcome::kMerged], 1u);
  EXPECT_EQ(directory_.Segments(), Strings());
  ExpectAccounted(second.Stats());
}

TEST_F(SpoolDeliveryTest, WritesTheHighestCountWhateverTheOrderOnDisk) {
  struct Case {
    const char* name;
    std::vector<int> on_disk;  // 0: the create
    int on_server;             // 0: nothing
    int expected;
  };
  const Case cases[] = {
      {"in order", {5, 8}, 1, 8},
      {"queued again behind a later one", {8, 5}, 1, 8},
      {"behind several", {6, 8, 5, 7}, 1, 8},
      {"the server has more", {5, 8}, 9, 9},
      {"the server has one of them", {5, 8}, 5, 8},
      {"the server has forgotten it", {8, 5}, 0, 8},
      {"a create behind the patches", {8, 5, 0}, 0, 8},
      {"a create that was written", {0, 5}, 7, 7},
  };
  for (const bool series : {false, true}) {
    // One segment for all, and one for each.
    for (const std::uint64_t segment_bytes : {1 << 20, 1}) {
      for (const Case& c : cases) {
        SCOPED_TRACE(std::string(c.name) + (series ? ", series" : ""));
        const auto event_with = [&](int count) {
          auto event = std::make_shared<Event>(*Create("e").request.event);
          if (series) {
            event->event_time = MicroTime(1'700'000'000, 0);
            event->count = 0;
            if (count > 1) event->series = EventSeries{.count = count};
          } else {
            event->count = count;
          }
          return event;
        };
        {
          const auto spool = OpenIn(directory_, {.segment_bytes = segment_bytes});
          for (const int count : c.on_disk) {
            SinkRequest request{.verb = count == 0 ? Verb::kCreate : Verb::kPatch,
                                .api = series ? EventApi::kEventsV1 : EventApi::kCoreV1,
                                .event = event_with(std::max(count, 1))};
            const std::string number = std::to_string(count);
            if (count > 0) {
              request.patch =
                  series ? R"({"series":{"count":)" + number + "}}" : R"({"count":)" + number + "}";
            }
            ASSERT_TRUE(spool->Append({.request = request}).ok());
          }
        }
        server_->Expire("ns", "e");
        if (c.on_server > 0) {
          server_->Send({.api = series ? EventApi::kEventsV1 : EventApi::kCoreV1,
                         .event = event_with(c.on_server)},
                        [](const Result<Event>& result) { ASSERT_TRUE(result); });
        }
        // A process that delivers nothing, then one that fails at every other write, then
        // one that does its work.
        SetDown(true);
        {
          const Process process(this, {}, {.max_tries = 1});
        }
        server_->SetFault([n = 0](const SinkRequest&) mutable -> std::optional<Status> {
          if (++n % 2 == 0) return std::nullopt;
          return Status(StatusReason::kUnreachable, "no route");
        });
        {
          const Process process(this, {}, {.max_tries = 1});
          Advance(minutes(2));
        }
        SetDown(false);
        const Process process(this);
        executor_.RunUntilIdle();
        ASSERT_EQ(server_->Events().size(), 1u);
        const Event& event = server_->Events().at(0);
        EXPECT_EQ(series ? event.series.value_or(EventSeries()).count : event.count, c.expected);
        EXPECT_EQ(directory_.Segments(), Strings());
        ExpectAccounted(process.Stats());
      }
    }
  }
}

TEST_F(SpoolDeliveryTest, SegmentsOfWhichNothingIsLeftToTellAreNoHindrance) {
  // A segment for each write.
  Process process(this, {}, {.max_tries = 1, .spool = SpoolOptions{.segment_bytes = 1}});
  process.recorder.Event(pod_, kNormal, "R", "m");
  executor_.RunUntilIdle();
  SetDown(true);
  for (int i = 0; i < 3; ++i) process.recorder.Event(pod_, kNormal, "R", "m");
  process.recorder.Event(pod_, kNormal, "Other", "m");
  executor_.RunUntilIdle();
  ASSERT_EQ(directory_.Segments().size(), 4u);
  SetDown(false);
  process.recorder.Event(pod_, kNormal, "R", "m");
  executor_.RunUntilIdle();
  clock_.Advance(minutes(1));
  executor_.RunUntilIdle();
  EXPECT_EQ(directory_.Segments(), Strings());
  EXPECT_EQ(server_->Events().size(), 2u);
  EXPECT_EQ(process.Stats().in_flight, 0u);
  ExpectAccounted(process.Stats());
}

TEST_F(SpoolDeliveryTest, TheCountOfASeriesSurvivesWithAllThatItStandsFor) {
  {
    Process first(this);
    for (int i = 0; i < 5; ++i) first.new_style.Event(pod_, kNormal, "R", "again");
    executor_.RunUntilIdle();
    SetDown(true);
    first.broadcaster.Shutdown(nanoseconds(0));
    EXPECT_EQ(first.Stats()[Outcome::kSpooled], 3u);
    ExpectAccounted(first.Stats());
  }
  SetDown(false);
  Process second(this);
  executor_.RunUntilIdle();
  ASSERT_EQ(server_->Events().size(), 1u);
  ASSERT_TRUE(server_->Events().at(0).series);
  EXPECT_EQ(server_->Events().at(0).series.value_or(EventSeries()).count, 5);
  EXPECT_EQ(second.Stats()[Outcome::kMerged], 3u);
  ExpectAccounted(second.Stats());
}

TEST_F(SpoolDeliveryTest, AnEventThatArrivedAfterAllCountsAsWritten) {
  // The server took it, but its answer was lost.
  server_->SetFault(nullptr);
  {
    Process first(this, {}, {.max_tries = 1});
    server_->SetFault([this](const SinkRequest& request) -> std::optional<Status> {
      server_->SetFault(nullptr);
      server_->Send(request, [](const Result<Event>&) {});
      return Status(StatusReason::kUnreachable, "connection reset");
    });
    first.recorder.Event(pod_, kNormal, "R", "m");
    executor_.RunUntilIdle();
    first.broadcaster.Shutdown(nanoseconds(0));
    EXPECT_EQ(first.Stats()[Outcome::kSpooled], 1u);
  }
  Process second(this);
  executor_.RunUntilIdle();
  EXPECT_EQ(server_->Events().size(), 1u);
  EXPECT_EQ(second.Stats()[Outcome::kWritten], 1u);
}

TEST_F(SpoolDeliveryTest, WhatTheServerRefusesIsNotKept) {
  server_->SetFault([](const SinkRequest&) {
    return Status({.reason = StatusReason::kInvalid, .origin = Status::Origin::kServer});
  });
  Process process(this);
  process.recorder.Event(pod_, kNormal, "R", "m");
  executor_.RunUntilIdle();
  process.broadcaster.Shutdown(nanoseconds(0));
  EXPECT_EQ(process.Stats()[Outcome::kRejected], 1u);
  EXPECT_EQ(directory_.Segments(), Strings());
}

TEST_F(SpoolDeliveryTest, WhatStillWaitsForTheChoiceOfAnApiIsKeptForTheNewOne) {
  {
    Process first(this);
    first.broadcaster.NewRecorder({.component = "c", .api_choice = std::make_shared<ApiChoice>()})
        .Event(pod_, kNormal, "R", "m");
    executor_.RunUntilIdle();
    first.broadcaster.Shutdown(nanoseconds(0));
    EXPECT_EQ(first.Stats()[Outcome::kSpooled], 1u);
  }
  Process second(this);
  executor_.RunUntilIdle();
  ASSERT_EQ(server_->Requests().size(), 1u);
  EXPECT_EQ(server_->Requests().at(0).api, EventApi::kEventsV1);
  EXPECT_EQ(second.Stats()[Outcome::kWritten], 1u);
}

TEST_F(SpoolDeliveryTest, UpstreamExactRefusesIt) {
  Process process(this, {.upstream_exact = true});
  EXPECT_TRUE(process.started.Is(StatusReason::kInvalid));
}

TEST_F(SpoolDeliveryTest, ASecondSinkCannotHaveTheSameDirectory) {
  Process first(this);
  {
    Process second(this);
    EXPECT_TRUE(second.started.Is(StatusReason::kConflict));
  }
  // A recorder that outlives its broadcaster does not keep the directory.
  first.broadcaster.Shutdown(nanoseconds(0));
  Process third(this);
  EXPECT_TRUE(third.started.ok());
}

TEST_F(SpoolDeliveryTest, WhereTheDiskFailsTheEventIsLostAndCounted) {
  SetDown(true);
  std::vector<std::string> complaints;
  Process process(this,
                  {.log = [&](const LogEntry& entry) { complaints.emplace_back(entry.message); }});
  // A directory in the place of the first segment.
  ASSERT_EQ(mkdir((directory_.path() + "/0000000000000001.spool").c_str(), 0700), 0);
  process.recorder.Event(pod_, kNormal, "R", "m");
  executor_.RunUntilIdle();
  process.broadcaster.Shutdown(nanoseconds(0));
  EXPECT_EQ(process.Stats()[Outcome::kLost], 1u);
  EXPECT_EQ(complaints.back(), "Unable to spool event");
  ExpectAccounted(process.Stats());
}

}  // namespace
}  // namespace herald
