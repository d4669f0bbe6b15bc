#include "store/rocks/disk_budget.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace herald::store {
namespace {

TEST(DiskBudgetTest, ThePartsFitTheCap) {
  for (std::uint64_t cap = DiskBudget::kSmallestCap; cap < 1ull << 60; cap += cap / 3) {
    const DiskBudget budget(cap);
    EXPECT_LT(budget.evict_to, budget.evict_above) << cap;
    EXPECT_LT(budget.evict_above, budget.reject_above) << cap;
    EXPECT_LT(budget.reject_above, cap) << cap;
    EXPECT_GE(budget.evict_to, cap * 2 / 5) << "much of the cap is for entries: " << cap;
    // What may still be written after the last entry was accepted: the log of two sets of
    // memtables, the bytes since the last measurement, and the output of a compaction of the first
    // level with six new files, where four are enough to start one. Half of the memtables are that
    // of the values.
    const std::uint64_t largest = 6 * budget.write_buffer_bytes / 2 + budget.level_base_bytes;
    EXPECT_LE(budget.reject_above + 2 * budget.write_buffer_bytes + budget.measure_every +
                  budget.batch_bytes + std::max(largest, 3 * budget.compaction_bytes),
              cap)
        << cap;
    EXPECT_GT(budget.write_buffer_bytes, 1u << 20) << cap;
  }
}

TEST(DiskBudgetTest, WithoutACapNothingIsRejectedOrEvicted) {
  EXPECT_EQ(DiskBudget(0).reject_above, UINT64_MAX);
  EXPECT_EQ(DiskBudget(0).measure_every, UINT64_MAX);
}

TEST(DiskBudgetTest, ALargeCapLeavesTheDefaultSizes) {
  const DiskBudget large(100ull << 30);
  EXPECT_EQ(large.write_buffer_bytes, DiskBudget().write_buffer_bytes);
  EXPECT_EQ(large.file_bytes, DiskBudget().file_bytes);
  EXPECT_EQ(large.evict_above, 99ull << 30);
}

}  // namespace
}  // namespace herald::store
