#include "record/delivery/spool_replay.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "record/spool/testing/spool_fixture.h"

namespace herald {
namespace {

using Next = SpoolReplay::Next;
using Strings = std::vector<std::string>;

class SpoolReplayTest : public ::testing::Test {
 protected:
  void Append(const std::string& name, std::uint64_t events = 1) {
    ASSERT_TRUE(replay_.Append(Create(name).request, events).ok());
  }
  Strings Take() {
    Strings names;
    std::size_t index = 0;
    for (const PlannedWrite& write : replay_.TakeSegment()) {
      EXPECT_EQ(write.replay, index++);
      names.push_back(write.correlation.request.event->metadata.name);
    }
    return names;
  }

  const SpoolDirectory directory_;
  SpoolReplay replay_{OpenIn(directory_)};
};

TEST_F(SpoolReplayTest, RemovesASegmentOfWhichAllEndedAndTakesTheNext) {
  Append("a", 3);
  Append("b");
  EXPECT_EQ(Take(), (Strings{"a", "b"}));
  EXPECT_EQ(replay_.events(0), 3u);
  Append("c");
  EXPECT_EQ(Take(), Strings()) << "one segment at a time";
  EXPECT_EQ(replay_.End(1, /*for_good=*/true), Next::kWait);
  EXPECT_EQ(replay_.End(0, /*for_good=*/true), Next::kTakeNow);
  EXPECT_EQ(Take(), Strings{"c"});
  EXPECT_EQ(directory_.Segments().size(), 1u);
  EXPECT_EQ(replay_.End(0, /*for_good=*/true), Next::kTakeNow);
  EXPECT_EQ(directory_.Segments(), Strings());
}

TEST_F(SpoolReplayTest, AppendsTheRestOfASegmentBehindEverythingElse) {
  Append("bad");
  Append("good");
  Take();
  Append("later");
  replay_.End(0, /*for_good=*/false);
  EXPECT_EQ(replay_.End(1, /*for_good=*/true), Next::kTakeLater);
  EXPECT_EQ(Take(), Strings()) << "not before Resume()";
  replay_.Resume();
  EXPECT_EQ(Take(), (Strings{"later", "bad"}));
}

TEST_F(SpoolReplayTest, LeavesASegmentOfWhichNothingEndedWhereItIs) {
  Append("a");
  Take();
  Append("b");
  EXPECT_EQ(replay_.End(0, /*for_good=*/false), Next::kTakeLater);
  replay_.Resume();
  EXPECT_EQ(Take(), Strings{"a"});
}

TEST_F(SpoolReplayTest, TakesNothingAfterStop) {
  Append("a");
  replay_.Stop();
  EXPECT_EQ(Take(), Strings());
  EXPECT_EQ(directory_.Segments().size(), 1u);
}

}  // namespace
}  // namespace herald
