#pragma once

#include <rocksdb/write_batch.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/thread/mutex.h"
#include "herald/base/status.h"
#include "store/store.h"

namespace herald::store {

// Why an entry is written.
enum class WriteCause : std::uint8_t { kClient, kExpiry, kEviction };

// A write of one entry that waits for the committer, with what the Schema returned for it.
struct PendingWrite {
  Write write{};
  Store::WriteDone done{};
  WriteCause cause = WriteCause::kClient;
  std::vector<IndexEntry> index{};
  std::chrono::seconds lifetime{};
  std::uint64_t lifetime_rules = 0;  // that `lifetime` follows; 0: they changed at the same time
  std::size_t bytes = 0;             // of key and value
  std::string expiry_row{};          // is deleted with the entry; empty: none
};

// Rows that maintenance wants to have written, and their effect on the State. They are no write of
// an entry, so they have no revision and watches do not see them.
struct MaintenanceWrite {
  rocksdb::WriteBatch rows{};
  Revision compacted = 0;                         // changes up to here are deleted
  std::uint64_t watch_window_bytes = 0;           // to subtract
  Revision skip_to = 0;                           // see RocksStore::SkipTo(); 0: the revision stays
  std::optional<std::uint64_t> refresh_begins{};  // by these rules; see LifetimeState
  bool refresh_ends = false;
  std::function<void(const Status&)> done{};
};

// A WriteQueue holds the writes that wait for the committer. Writes of clients are bounded; those
// of maintenance are not, because it waits for each portion before it adds the next.
//
// Thread-safe.
class WriteQueue {
 public:
  WriteQueue() = default;
  WriteQueue(const WriteQueue&) = delete;
  WriteQueue& operator=(const WriteQueue&) = delete;

  // False if too many writes wait or the queue is closed; the write is then unchanged.
  bool Add(PendingWrite& write) EXCLUDES(mu_);
  // REQUIRES: the queue is not closed
  void AddAll(std::vector<PendingWrite> writes) EXCLUDES(mu_);
  void Add(MaintenanceWrite write) EXCLUDES(mu_);

  // Moves all that waits to the arguments, which are empty before. With `wait`, waits until there
  // is something; without it, takes only maintenance writes. False: the queue is closed and empty,
  // and nothing will follow. Only the committer's thread.
  bool Take(bool wait, std::vector<PendingWrite>* writes,
            std::vector<MaintenanceWrite>* maintenance) EXCLUDES(mu_);

  // Take() still returns what was added before.
  void Close() EXCLUDES(mu_);

 private:
  Mutex mu_;  // a leaf
  CondVar not_empty_;
  std::vector<PendingWrite> writes_ GUARDED_BY(mu_);
  std::size_t bytes_ GUARDED_BY(mu_) = 0;  // of writes_
  std::vector<MaintenanceWrite> maintenance_ GUARDED_BY(mu_);
  bool closed_ GUARDED_BY(mu_) = false;
};

}  // namespace herald::store
