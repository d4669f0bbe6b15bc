#include "store/rocks_store.h"

#include <gtest/gtest.h>

#include "store/store_suite.h"
#include "store/temporary_directory.h"

namespace herald::store {
namespace {

class RocksHarness final : public StoreHarness {
 public:
  StoreCapabilities capabilities() const override { return {.persistent = true}; }
  std::unique_ptr<Store> Open(const StoreOptions& options) override {
    RocksStoreOptions rocks;
    rocks.db.directory = directory_.path() / "store";
    auto store = RocksStore::Open(options, rocks);
    EXPECT_TRUE(store) << store.error().ToString();
    return store ? std::move(*store) : nullptr;
  }

 private:
  TemporaryDirectory directory_;
};

INSTANTIATE_TEST_SUITE_P(Rocks, StoreSuite,
                         testing::Values(StoreBackend{
                             "Rocks", [] { return std::make_unique<RocksHarness>(); }}),
                         StoreBackendName);

}  // namespace
}  // namespace herald::store
