#include "store/store.h"

#include <atomic>
#include <utility>

namespace herald::store {

std::shared_ptr<void> Change::attachment() const { return std::atomic_load(&attachment_); }

std::shared_ptr<void> Change::Attach(std::shared_ptr<void> attachment) const {
  std::shared_ptr<void> winner;
  if (std::atomic_compare_exchange_strong(&attachment_, &winner, attachment)) return attachment;
  return winner;
}

}  // namespace herald::store
