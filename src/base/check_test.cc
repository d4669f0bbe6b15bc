#include "base/check.h"

#include <gtest/gtest.h>

#include <string>

namespace herald {
namespace {

TEST(CheckTest, DoesNotEvaluateTheMessageIfTheConditionIsTrue) {
  int evaluated = 0;
  auto message = [&] {
    ++evaluated;
    return std::string("never seen");
  };
  HERALD_CHECK(2 + 2 == 4);
  HERALD_CHECK(2 + 2 == 4, message());
  EXPECT_EQ(evaluated, 0);
}

TEST(CheckTest, EvaluatesTheConditionOnce) {
  int calls = 0;
  HERALD_CHECK(++calls == 1);
  EXPECT_EQ(calls, 1);
}

TEST(CheckTest, CanBeUsedInBothBranchesOfAnIf) {
  // If the macro expanded to an `if` statement, the else would belong to it.
  bool otherwise = false;
  if (otherwise)
    HERALD_CHECK(false);
  else
    otherwise = true;
  EXPECT_TRUE(otherwise);
}

TEST(CheckDeathTest, PrintsLocationConditionAndMessageBeforeItAborts) {
  const int refs = -1;
  EXPECT_EXIT(HERALD_CHECK(refs >= 0, "one release too many"), testing::KilledBySignal(SIGABRT),
              "check_test\\.cc:[0-9]+: HERALD_CHECK\\(refs >= 0\\) failed: one release too many");
}

TEST(CheckDeathTest, WorksWithoutAMessage) {
  EXPECT_EXIT(HERALD_CHECK(1 == 2), testing::KilledBySignal(SIGABRT),
              "HERALD_CHECK\\(1 == 2\\) failed\n");
}

}  // namespace
}  // namespace herald
