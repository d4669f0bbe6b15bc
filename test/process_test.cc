// Tests the guarantees in the README about fork() and the end of a process.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>

#include "herald/api/codec.h"
#include "herald/base/clock.h"
#include "herald/record/broadcaster.h"
#include "herald/record/fakes.h"

namespace herald {
namespace {

const ObjectReference kPod{.kind = "Pod", .namespace_ = "default", .name = "web-0"};

bool RecordsOneEvent() {
  const auto sink = std::make_shared<MemorySink>();
  Broadcaster broadcaster;
  if (!broadcaster.StartRecordingToSink(sink).ok()) return false;
  broadcaster.NewRecorder({.component = "test"}).Event(kPod, kNormal, "R", "m");
  return broadcaster.Shutdown(std::chrono::seconds(30)).complete && sink->Events().size() == 1;
}

TEST(Fork, AChildProcessCanRecordWithANewBroadcaster) {
  ASSERT_TRUE(RecordsOneEvent());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(RecordsOneEvent() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Uses the library during static destruction.
struct Last {
  ~Last() {
    recorder.Event(kPod, kNormal, "R", "after the broadcaster");
    std::string json;
    JsonCodec().AppendStatus(Status(StatusReason::kGone, "too late"), &json);
    ProtobufCodec().AppendEvent(Event(), EventApi::kCoreV1, &json);
    if (json.empty() || SystemClock().Now() == WallTime() || !Status().message().empty()) {
      std::_Exit(1);
    }
  }
  Recorder recorder;
};

TEST(StaticDestruction, ARecorderAndTheCodecsWorkAfterAStaticBroadcasterIsDestroyed) {
  EXPECT_EXIT(
      {
        static Last last;
        static Broadcaster broadcaster;  // destroyed before `last`
        last.recorder = broadcaster.NewRecorder({.component = "test"});
        last.recorder.Event(kPod, kNormal, "R", "m");
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace herald
