#include "server/namespace_watch.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "api/event_list_writer.h"
#include "base/mutex.h"
#include "server/namespaces.h"

namespace herald::server {
namespace {

struct Watcher {
  NamespaceWatches::Request request;
  std::shared_ptr<http::Responder> responder;
  SteadyTime deadline;
  bool has_head = false;   // frames may follow
  bool has_begun = false;  // it has been told what there is
  bool needs_columns = false;
  std::set<std::string> known;
};

std::string Frame(std::string_view type, const std::string& name, store::Revision revision,
                  Watcher* watcher) {
  const Form& form = watcher->request.form;
  std::string object;
  if (form.shape == Shape::kTable) {
    object = NamespaceTableJson({.names = {name}, .revision = revision}, form.table_object,
                                form.meta_version, std::exchange(watcher->needs_columns, false));
    object.pop_back();
  } else {
    object = NamespaceJson(name, revision);
  }
  std::string frame;
  AppendJsonFrame(type, object, &frame);
  return Framed(std::move(frame), form);
}

// What is different for this watcher.
std::string Difference(const NamespaceList& list, Watcher* watcher) {
  std::set<std::string> now;
  for (const std::string& name : list.names) {
    if (watcher->request.name.empty() || watcher->request.name == name) now.insert(name);
  }
  std::string frames;
  if (watcher->has_begun || watcher->request.initial_events) {
    for (const std::string& name : now) {
      if (!watcher->known.contains(name)) frames += Frame("ADDED", name, list.revision, watcher);
    }
    for (const std::string& name : watcher->known) {
      if (!now.contains(name)) frames += Frame("DELETED", name, list.revision, watcher);
    }
  }
  watcher->has_begun = true;
  watcher->known = std::move(now);
  return frames;
}

}  // namespace

class NamespaceWatches::State : public std::enable_shared_from_this<State> {
 public:
  State(store::Store* store, Executor* executor) : store_(store), executor_(executor) {}

  Status Add(Request request, std::shared_ptr<http::Responder> responder,
             const std::function<void()>& start) {
    auto watcher = std::make_shared<Watcher>();
    watcher->deadline = executor_->clock().Steady() + request.timeout;
    watcher->needs_columns = request.form.shape == Shape::kTable;
    watcher->request = std::move(request);
    watcher->responder = std::move(responder);
    {
      MutexLock lock(mu_);
      if (stopped_) {
        return Status(StatusReason::kServiceUnavailable,
                      "the server is currently unable to handle the request");
      }
      if (watchers_.size() >= kMaxWatches) {
        Status::Parts parts;
        parts.reason = StatusReason::kTooManyRequests;
        parts.message = "too many watches are open, please try again later";
        parts.retry_after = kInterval;
        return Status(std::move(parts));
      }
      // Before it can be told that the client has gone, or that the server stops.
      watchers_.push_back(watcher);
    }
    start();
    watcher->responder->Observe({}, [self = weak_from_this(), watcher = watcher.get()] {
      if (const auto state = self.lock()) state->Remove(watcher);
    });
    bool stopped = false;
    {
      MutexLock lock(mu_);
      watcher->has_head = true;
      stopped = stopped_;
    }
    if (stopped) {
      watcher->responder->End();
    } else {
      Look();
    }
    return Status();
  }

  void Stop() {
    std::vector<std::shared_ptr<Watcher>> watchers;
    {
      MutexLock lock(mu_);
      stopped_ = true;
      watchers.swap(watchers_);
    }
    for (const auto& watcher : watchers) watcher->responder->End();
  }

 private:
  void Remove(const Watcher* gone) {
    MutexLock lock(mu_);
    std::erase_if(watchers_, [gone](const auto& watcher) { return watcher.get() == gone; });
  }

  void Look() {
    ReadNamespaces(store_, [self = shared_from_this()](const Result<NamespaceList>& list) {
      // Where the store cannot be read now, the next look may find more.
      if (list) self->Tell(*list);
      self->LookAgain();
    });
  }

  void Tell(const NamespaceList& list) {
    const SteadyTime now = executor_->clock().Steady();
    std::vector<std::pair<std::shared_ptr<Watcher>, std::string>> news;
    {
      MutexLock lock(mu_);
      if (list.revision < told_) return;  // another look was faster
      told_ = list.revision;
      for (const auto& watcher : watchers_) {
        if (!watcher->has_head) continue;  // its own look comes
        news.emplace_back(watcher, Difference(list, watcher.get()));
      }
    }
    for (auto& [watcher, frames] : news) {
      if (!frames.empty()) {
        watcher->responder->Write(std::make_shared<const std::string>(std::move(frames)));
      }
      const bool slow = watcher->responder->queued() > kMaxQueuedBytes;
      if (!slow && now < watcher->deadline) continue;
      Remove(watcher.get());
      slow ? watcher->responder->Abort() : watcher->responder->End();
    }
  }

  void LookAgain() {
    {
      MutexLock lock(mu_);
      if (waiting_ || watchers_.empty()) return;
      waiting_ = true;
    }
    executor_->PostAt(executor_->clock().Steady() + kInterval, [self = weak_from_this()] {
      const auto state = self.lock();
      if (state == nullptr) return;
      {
        MutexLock lock(state->mu_);
        state->waiting_ = false;
        if (state->stopped_ || state->watchers_.empty()) return;
      }
      state->Look();
    });
  }

  store::Store* const store_;
  Executor* const executor_;
  Mutex mu_;  // no call out is made under it
  std::vector<std::shared_ptr<Watcher>> watchers_ GUARDED_BY(mu_);
  store::Revision told_ GUARDED_BY(mu_) = 0;
  bool waiting_ GUARDED_BY(mu_) = false;  // the next look is due
  bool stopped_ GUARDED_BY(mu_) = false;
};

NamespaceWatches::NamespaceWatches(store::Store* store, Executor* executor)
    : state_(std::make_shared<State>(store, executor)) {}

NamespaceWatches::~NamespaceWatches() { Stop(); }

Status NamespaceWatches::Open(Request request, std::shared_ptr<http::Responder> responder,
                              const std::function<void()>& start) {
  return state_->Add(std::move(request), std::move(responder), start);
}

void NamespaceWatches::Stop() { state_->Stop(); }

}  // namespace herald::server
