#include "server/routes/collection_deletion.h"

#include <algorithm>
#include <utility>

#include "server/events/stored_event.h"

namespace herald::server {

CollectionDeletion::CollectionDeletion(Registry* registry, EventApi api, DeleteOptions options,
                                       std::shared_ptr<EventListReader> reader,
                                       std::function<void(const Status&)> done)
    : registry_(registry),
      api_(api),
      options_(std::move(options)),
      reader_(std::move(reader)),
      done_(std::move(done)) {}

void CollectionDeletion::Run() {
  loop_.Run([this] {
    if (next_ == chunk_.size()) return ReadChunk();
    const std::size_t end = std::min(next_ + kBatchSize, chunk_.size());
    // One more for this loop itself, so that the batch cannot end before all of it has started.
    open_.store(end - next_ + 1);
    for (; next_ < end; ++next_) DeleteOne(chunk_[next_].key);
    OneIsDone();
  });
}

void CollectionDeletion::ReadChunk() {
  if (reader_->is_done()) return done_(Status());
  reader_->Next([self = shared_from_this()](Result<std::vector<store::Entry>> chunk) {
    if (!chunk) return self->done_(chunk.error());
    self->chunk_ = *std::move(chunk);
    self->next_ = 0;
    if (self->loop_.Again()) self->Run();
  });
}

void CollectionDeletion::DeleteOne(std::string_view key) {
  Registry::Target target;
  target.api = api_;
  target.namespace_ = NamespaceOfKey(key);
  target.name = key.substr(EventKeyPrefix(target.namespace_).size());
  target.dry_run = !options_.dry_run.empty();
  registry_->Delete(std::move(target), options_,
                    [self = shared_from_this()](const Result<Registry::EventResult>& result) {
                      // Another client may have deleted it meanwhile.
                      if (!result && !result.error().Is(StatusReason::kNotFound)) {
                        MutexLock lock(self->mu_);
                        self->error_ = result.error();
                      }
                      self->OneIsDone();
                    });
}

void CollectionDeletion::OneIsDone() {
  if (open_.fetch_sub(1) != 1) return;
  Status error;
  {
    MutexLock lock(mu_);
    error = error_;
  }
  if (!error.ok()) return done_(error);
  if (loop_.Again()) Run();
}

}  // namespace herald::server
