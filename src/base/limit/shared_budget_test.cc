#include "base/limit/shared_budget.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace herald {
namespace {

// Takes shares of 1 until Take() fails, and returns their number.
std::size_t TakeAll(SharedBudget& budget, const std::string& client,
                    std::vector<SharedBudget::Share>& shares) {
  std::size_t taken = 0;
  while (auto share = budget.Take(client, 1)) {
    shares.push_back(*std::move(share));
    ++taken;
  }
  return taken;
}

TEST(SharedBudgetTest, LeavesAsMuchAsTheLargestClientHas) {
  SharedBudget budget(120);
  std::vector<SharedBudget::Share> shares;
  EXPECT_EQ(TakeAll(budget, "a", shares), 60U);
  EXPECT_EQ(TakeAll(budget, "b", shares), 30U);
  EXPECT_EQ(TakeAll(budget, "c", shares), 15U);
  EXPECT_EQ(budget.taken(), 105U);
  EXPECT_TRUE(budget.Take("d", 15)) << "a client without shares may take all that is left";
}

TEST(SharedBudgetTest, ABudgetOfOneHasOneShareAtATime) {
  SharedBudget budget(1);
  auto share = budget.Take("a", 1);
  EXPECT_TRUE(share);
  EXPECT_FALSE(budget.Take("a", 1));
  EXPECT_FALSE(budget.Take("b", 1));
  share.reset();
  EXPECT_TRUE(budget.Take("b", 1));
}

TEST(SharedBudgetTest, AClientWithLargeSharesWaitsForSmallerOnes) {
  SharedBudget budget(90);
  std::vector<SharedBudget::Share> a;
  std::vector<SharedBudget::Share> b;
  TakeAll(budget, "a", a);
  while (a.size() > b.size()) {
    a.pop_back();
    TakeAll(budget, "b", b);
    EXPECT_FALSE(budget.Take("a", 1)) << "the client with less takes what it returns";
  }
  EXPECT_EQ(a.size(), 30U);
  EXPECT_EQ(b.size(), 30U);
}

TEST(SharedBudgetTest, AShareCanBeResized) {
  SharedBudget budget(100);
  auto share = budget.Take("a", 1);
  ASSERT_TRUE(share);
  EXPECT_TRUE(share->Resize(50));
  EXPECT_FALSE(share->Resize(51));
  EXPECT_EQ(share->amount(), 50U);
  EXPECT_TRUE(share->Resize(10));
  EXPECT_EQ(budget.taken(), 10U);
  share.reset();
  EXPECT_EQ(budget.taken(), 0U);
}

TEST(SharedBudgetTest, AMovedShareIsReturnedOnce) {
  SharedBudget budget(100);
  SharedBudget::Share kept;
  {
    auto share = budget.Take("a", 5);
    kept = *std::move(share);
  }
  EXPECT_EQ(budget.taken(), 5U);
  SharedBudget::Share other(std::move(kept));
  kept.Reset();
  EXPECT_EQ(budget.taken(), 5U);
  other.Reset();
  EXPECT_EQ(budget.taken(), 0U);
}

TEST(SharedBudgetTest, HugeAmountsDoNotOverflow) {
  SharedBudget budget(100);
  EXPECT_FALSE(budget.Take("a", 101));
  EXPECT_FALSE(budget.Take("a", static_cast<std::size_t>(-1)));
  auto share = budget.Take("a", 1);
  EXPECT_FALSE(share->Resize(static_cast<std::size_t>(-1)));
}

}  // namespace
}  // namespace herald
