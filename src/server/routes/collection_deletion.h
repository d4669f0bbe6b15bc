#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "api/delete_options.h"
#include "base/thread/async_loop.h"
#include "base/thread/mutex.h"
#include "herald/api/event.h"
#include "herald/base/status.h"
#include "server/events/event_list.h"
#include "server/events/registry.h"
#include "store/store.h"

namespace herald::server {

// A DELETE of a collection: deletes the listed events in batches while the list is read. It keeps
// itself alive until it is done.
//
// One batch runs at a time; the deletions of a batch may end on any thread.
class CollectionDeletion : public std::enable_shared_from_this<CollectionDeletion> {
 public:
  // Events that are being deleted at the same time.
  static constexpr std::size_t kBatchSize = 64;

  // The registry is borrowed and outlives this object. `done` is called once, with the last error
  // of the first batch that had one.
  CollectionDeletion(Registry* registry, EventApi api, DeleteOptions options,
                     std::shared_ptr<EventListReader> reader,
                     std::function<void(const Status&)> done);

  // Deletes one batch after the other. The deletions of a batch start together, so that they share
  // a commit.
  void Run();

 private:
  void ReadChunk();
  void DeleteOne(std::string_view key);
  void OneIsDone();

  Registry* const registry_;
  const EventApi api_;
  const DeleteOptions options_;
  const std::shared_ptr<EventListReader> reader_;
  const std::function<void(const Status&)> done_;
  AsyncLoop loop_;
  std::vector<store::Entry> chunk_;
  std::size_t next_ = 0;              // in chunk_
  std::atomic<std::size_t> open_{0};  // deletions of the batch that have not ended
  Mutex mu_;
  Status error_ GUARDED_BY(mu_);
};

}  // namespace herald::server
