#include "store/memory/store.h"

#include <gtest/gtest.h>

#include "store/testing/suite.h"

namespace herald::store {
namespace {

class MemoryHarness final : public StoreHarness {
 public:
  StoreCapabilities capabilities() const override { return {}; }
  std::unique_ptr<Store> Open(const StoreOptions& options) override {
    return std::make_unique<MemoryStore>(options);
  }
};

INSTANTIATE_TEST_SUITE_P(Memory, StoreSuite,
                         testing::Values(StoreBackend{
                             "Memory", [] { return std::make_unique<MemoryHarness>(); }}),
                         StoreBackendName);

// More changes than fit into the ring of the hub, so the watch reads the rest from the log.
TEST(MemoryStoreTest, SendsASlowWatchTheChangesThatLeftTheRing) {
  StoreOptions options;
  options.background = false;
  MemoryStore store(options);
  SuiteWatch watch(store, "/", 0);
  constexpr int kWrites = 40'000;
  for (int i = 0; i < kWrites; ++i) {
    store.Commit({"/" + std::to_string(i % 100), std::make_shared<const std::string>("v")},
                 [](const Result<Written>& written) { EXPECT_TRUE(written); });
  }
  const auto changes = watch.Take(kWrites, 1'000);
  ASSERT_EQ(changes.size(), static_cast<std::size_t>(kWrites));
  for (int i = 0; i < kWrites; ++i) ASSERT_EQ(changes[i]->revision(), i + 1);
}

}  // namespace
}  // namespace herald::store
