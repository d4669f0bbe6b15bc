#include "store/rocks/write_queue.h"

#include <utility>

#include "base/check.h"

namespace herald::store {
namespace {

// Bounds of what waits for the committer. At 20,000 writes a second, one second's worth; it is
// better to reject later writes at once than to keep them waiting.
constexpr std::size_t kMaxWrites = 20'000;
constexpr std::size_t kMaxBytes = 128u << 20;

}  // namespace

bool WriteQueue::Add(PendingWrite& write) {
  bool first = false;
  {
    MutexLock lock(mu_);
    if (closed_ || writes_.size() >= kMaxWrites || bytes_ >= kMaxBytes) return false;
    first = writes_.empty();
    bytes_ += write.bytes;
    writes_.push_back(std::move(write));
  }
  if (first) not_empty_.NotifyOne();
  return true;
}

void WriteQueue::AddAll(std::vector<PendingWrite> writes) {
  {
    MutexLock lock(mu_);
    HERALD_CHECK(!closed_, "maintenance runs after the write queue was closed");
    for (PendingWrite& write : writes) {
      bytes_ += write.bytes;
      writes_.push_back(std::move(write));
    }
  }
  not_empty_.NotifyOne();
}

void WriteQueue::Add(MaintenanceWrite write) {
  {
    MutexLock lock(mu_);
    HERALD_CHECK(!closed_, "maintenance runs after the write queue was closed");
    maintenance_.push_back(std::move(write));
  }
  not_empty_.NotifyOne();
}

bool WriteQueue::Take(bool wait, std::vector<PendingWrite>* writes,
                      std::vector<MaintenanceWrite>* maintenance) {
  MutexLock lock(mu_);
  if (wait) {
    not_empty_.Wait(lock, [this]() REQUIRES(mu_) {
      return !writes_.empty() || !maintenance_.empty() || closed_;
    });
    if (writes_.empty() && maintenance_.empty()) return false;
    writes->swap(writes_);
    bytes_ = 0;
  }
  maintenance->swap(maintenance_);
  return true;
}

void WriteQueue::Close() {
  {
    MutexLock lock(mu_);
    closed_ = true;
  }
  not_empty_.NotifyAll();
}

}  // namespace herald::store
