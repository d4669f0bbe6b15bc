#include "server/events/list_budget.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace herald::server {
namespace {

constexpr std::size_t kList = ListBudget::kListBytes;

TEST(ListBudgetTest, ChargesEachListUntilItEnds) {
  const auto budget = std::make_shared<ListBudget>();
  std::shared_ptr<ListBudget::Charge> one = budget->Begin("a");
  std::shared_ptr<ListBudget::Charge> other = budget->Begin("b");
  ASSERT_TRUE(one);
  ASSERT_TRUE(other);
  EXPECT_EQ(budget->bytes(), 2 * kList);
  EXPECT_TRUE(one->Grow(1000));
  EXPECT_EQ(budget->bytes(), 2 * kList + 1000);
  one->Shrink(400);
  EXPECT_EQ(budget->bytes(), 2 * kList + 600);
  one.reset();
  EXPECT_EQ(budget->bytes(), kList);
  other.reset();
  EXPECT_EQ(budget->bytes(), 0U);
}

TEST(ListBudgetTest, OneUserLeavesRoomForOthers) {
  const auto budget = std::make_shared<ListBudget>(4 * kList);
  std::shared_ptr<ListBudget::Charge> first = budget->Begin("a");
  const std::shared_ptr<ListBudget::Charge> second = budget->Begin("a");
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_FALSE(budget->Begin("a"));
  EXPECT_FALSE(second->Grow(1));
  EXPECT_EQ(budget->bytes(), 2 * kList) << "a rejected list is not charged";
  EXPECT_TRUE(budget->Begin("b"));
  first.reset();
  EXPECT_TRUE(second->Grow(kList));
  EXPECT_FALSE(budget->Begin("a"));
}

}  // namespace
}  // namespace herald::server
