#include "server/watch/namespace_watch.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "api/json/event_list_writer.h"
#include "base/thread/mutex.h"
#include "server/events/stored_event.h"

namespace herald::server {
namespace {

// Changes that are taken from the store at a time.
constexpr std::size_t kBatch = 1024;

struct Watcher {
  NamespaceWatches::Request request;
  std::shared_ptr<http::Responder> responder;
  SteadyTime deadline;
  bool has_head = false;   // the head of the response was sent
  bool has_begun = false;  // the existing namespaces were sent
  bool needs_columns = false;
};

std::string Frame(std::string_view type, const NamespaceInfo& info, store::Revision revision,
                  WallTime now, Watcher* watcher) {
  const Form& form = watcher->request.form;
  std::string object;
  if (form.shape == Shape::kTable) {
    object =
        NamespaceTableJson({.items = {info}, .revision = revision}, form.table_object,
                           form.meta_version, std::exchange(watcher->needs_columns, false), now);
    object.pop_back();
  } else {
    object = NamespaceJson(info, revision);
  }
  std::string frame;
  AppendJsonFrame(type, object, &frame);
  return Framed(std::move(frame), form);
}

// A frame for all watchers that select its namespace.
struct News {
  std::string_view type;
  NamespaceInfo info;
  store::Revision revision = 0;
};

}  // namespace

// The work is one sequence of turns, of which at most one is under way at any time: `busy_`. A turn
// may wait for the store. Only a turn writes to watchers, so each sees its frames in order.
//
//   Turn: end watchers whose time is over -> send new watchers what is there -> take changes
//         -> look whether namespaces with deleted events still have others -> send the difference
class NamespaceWatches::State : public std::enable_shared_from_this<State> {
 public:
  State(store::Store* store, Namespaces* namespaces, Executor* executor)
      : store_(store), namespaces_(namespaces), executor_(executor) {}

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
        Status::Parts parts;
        parts.reason = StatusReason::kServiceUnavailable;
        parts.message = "the server is currently unable to handle the request";
        parts.retry_after = std::chrono::seconds(1);
        return Status(std::move(parts));
      }
      if (watchers_.size() >= kMaxWatches) {
        Status::Parts parts;
        parts.reason = StatusReason::kTooManyRequests;
        parts.message = "too many watches are open, please try again later";
        parts.retry_after = kRetryInterval;
        return Status(std::move(parts));
      }
      // Before the connection can report that the client has disconnected, or the server stops.
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
      return Status();
    }
    WakeAt(watcher->deadline);
    Enter(weak_from_this(), [](State& state) { state.Turn(); });
    return Status();
  }

  // After it returns, the borrowed objects are no longer used.
  void Stop() {
    std::vector<std::shared_ptr<Watcher>> watchers;
    {
      MutexLock lock(mu_);
      stopped_ = true;
      watchers.swap(watchers_);
      while (inside_ > 0) left_.Wait(lock);
      watch_.reset();
    }
    for (const auto& watcher : watchers) watcher->responder->End();
  }

 private:
  // Callbacks of the store and the executor may come after Stop(), so they do their work while they
  // hold one of these.
  class Inside {
   public:
    explicit Inside(State* state) : state_(state) {
      MutexLock lock(state_->mu_);
      entered_ = !state_->stopped_;
      if (entered_) ++state_->inside_;
    }
    ~Inside() {
      if (!entered_) return;
      MutexLock lock(state_->mu_);
      if (--state_->inside_ == 0) state_->left_.NotifyAll();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

    explicit operator bool() const { return entered_; }

   private:
    State* const state_;
    bool entered_ = false;
  };
  // Runs `work`, unless Stop() was called.
  template <typename Work>
  static void Enter(const std::weak_ptr<State>& self, Work&& work) {
    const auto state = self.lock();
    if (state == nullptr) return;
    const Inside inside(state.get());
    if (inside) work(*state);
  }

  void Remove(const Watcher* gone) {
    MutexLock lock(mu_);
    std::erase_if(watchers_, [gone](const auto& watcher) { return watcher.get() == gone; });
    if (watchers_.empty() && !busy_) Rest();
  }

  // Called when no watcher is left.
  void Rest() REQUIRES(mu_) {
    watch_.reset();
    known_.clear();
  }

  // Schedules a turn.
  void Wake() {
    executor_->Post([self = weak_from_this()] { Enter(self, [](State& state) { state.Turn(); }); });
  }
  void WakeAt(SteadyTime when) {
    executor_->PostAt(
        when, [self = weak_from_this()] { Enter(self, [](State& state) { state.Turn(); }); });
  }

  void Turn() {
    const SteadyTime now = executor_->clock().Steady();
    std::vector<std::shared_ptr<Watcher>> over;
    bool synced = false;
    {
      MutexLock lock(mu_);
      again_ = busy_;
      if (busy_ || stopped_) return;
      for (const auto& watcher : watchers_) {
        if (watcher->has_head && watcher->deadline <= now) over.push_back(watcher);
      }
      std::erase_if(watchers_, [&](const auto& watcher) {
        return watcher->has_head && watcher->deadline <= now;
      });
      if (watchers_.empty()) {
        Rest();
      } else {
        busy_ = true;
        synced = watch_ != nullptr;
      }
    }
    for (const auto& watcher : over) watcher->responder->End();
    if (!busy()) return;
    if (synced) {
      Begin();
      TakeChanges();
    } else {
      Sync();
    }
  }

  bool busy() {
    MutexLock lock(mu_);
    return busy_;
  }

  void EndTurn(bool more) {
    {
      MutexLock lock(mu_);
      busy_ = false;
      more = std::exchange(again_, false) || more;
      if (watchers_.empty()) {
        Rest();
        return;
      }
    }
    if (more) Wake();
  }

  // Reads the namespaces and watches from that revision on. If an earlier watch fell out of the
  // watch window, sends the difference.
  void Sync() {
    namespaces_->Read([self = weak_from_this()](const Result<NamespaceList>& list) {
      Enter(self, [&](State& state) { list ? state.Synced(*list) : state.RetryLater(); });
    });
  }

  void RetryLater() {
    WakeAt(executor_->clock().Steady() + kRetryInterval);
    EndTurn(false);
  }

  void Synced(const NamespaceList& list) {
    std::vector<News> news;
    {
      MutexLock lock(mu_);
      std::map<std::string, NamespaceInfo> now;
      for (const NamespaceInfo& info : list.items) now.emplace(info.name, info);
      for (const auto& [name, info] : now) {
        if (!known_.contains(name)) news.push_back({"ADDED", info, list.revision});
      }
      for (const auto& [name, info] : known_) {
        if (!now.contains(name)) news.push_back({"DELETED", info, list.revision});
      }
      known_ = std::move(now);
      revision_ = list.revision;
      if (!stopped_) {
        Result<std::unique_ptr<store::Watch>> watch = store_->NewWatch(
            std::string(kEventsPrefix), list.revision,
            [self = weak_from_this()] { Enter(self, [](State& state) { state.Wake(); }); });
        if (watch) watch_ = *std::move(watch);
      }
    }
    Send(news);
    Begin();
    bool watching = false;
    {
      MutexLock lock(mu_);
      watching = watch_ != nullptr;
    }
    watching ? TakeChanges() : RetryLater();
  }

  // Sends the existing namespaces to new watchers.
  void Begin() {
    std::vector<std::pair<std::shared_ptr<Watcher>, std::string>> frames;
    {
      MutexLock lock(mu_);
      const WallTime now = executor_->clock().Now();
      for (const auto& watcher : watchers_) {
        if (!watcher->has_head || watcher->has_begun) continue;
        watcher->has_begun = true;
        std::string text;
        for (const auto& [name, info] : known_) {
          if (!watcher->request.initial_events || !Concerns(*watcher, name)) continue;
          text += Frame("ADDED", info, revision_, now, watcher.get());
        }
        frames.emplace_back(watcher, std::move(text));
      }
    }
    Write(std::move(frames));
  }

  void TakeChanges() {
    std::vector<News> news;
    std::vector<std::string> questionable;  // namespaces that may have lost their last event
    store::Revision revision = 0;
    bool more = false;
    bool lost = false;
    {
      MutexLock lock(mu_);
      if (watch_ == nullptr) return;  // stopped
      Result<store::Watch::Batch> batch = watch_->Next(kBatch);
      if (!batch) {
        watch_.reset();
        lost = true;
      } else {
        more = !batch->changes.empty();
        std::set<std::string> deleted;
        for (const auto& change : batch->changes) {
          const std::string name(NamespaceOfKey(change->key()));
          if (name.empty()) continue;
          if (change->deleted()) {
            deleted.insert(name);
            continue;
          }
          deleted.erase(name);
          if (known_.contains(name)) continue;
          const NamespaceInfo info = namespaces_->Add(name, change->current());
          known_.emplace(name, info);
          news.push_back({"ADDED", info, change->revision()});
        }
        if (batch->revision > revision_) revision_ = batch->revision;
        revision = revision_;
        for (const std::string& name : deleted) {
          if (known_.contains(name) && !IsPermanentNamespace(name)) questionable.push_back(name);
        }
      }
    }
    Send(news);
    if (lost) return EndTurn(true);
    Check(std::move(questionable), revision, more);
  }

  // Checks one namespace after the other.
  void Check(std::vector<std::string> names, store::Revision revision, bool more) {
    if (names.empty()) return EndTurn(more);
    store::Query query;
    query.start = EventKeyPrefix(names.back());
    query.end = PrefixEnd(query.start);
    query.limit = 1;
    query.at = revision;
    store_->Read(std::move(query), [self = weak_from_this(), names = std::move(names), revision,
                                    more](const Result<store::Page>& page) mutable {
      Enter(self, [&](State& state) {
        // The revision is too old: all namespaces must be read again.
        if (!page) return state.Resync();
        if (page->entries.empty()) state.Gone(names.back(), revision);
        names.pop_back();
        // Posted, because the store may call back before its own call returns.
        state.executor_->Post([self, names = std::move(names), revision, more]() mutable {
          Enter(self, [&](State& next) { next.Check(std::move(names), revision, more); });
        });
      });
    });
  }

  void Resync() {
    {
      MutexLock lock(mu_);
      watch_.reset();
    }
    RetryLater();
  }

  void Gone(const std::string& name, store::Revision revision) {
    News news{.type = "DELETED", .info = {}, .revision = revision};
    {
      MutexLock lock(mu_);
      const auto found = known_.find(name);
      if (found == known_.end()) return;
      news.info = found->second;
      known_.erase(found);
    }
    namespaces_->Remove(name);
    Send({news});
  }

  static bool Concerns(const Watcher& watcher, const std::string& name) {
    return !watcher.request.name || *watcher.request.name == name;
  }

  // Sends it to watchers that have got the existing namespaces.
  void Send(const std::vector<News>& news) {
    if (news.empty()) return;
    std::vector<std::pair<std::shared_ptr<Watcher>, std::string>> frames;
    {
      MutexLock lock(mu_);
      const WallTime now = executor_->clock().Now();
      for (const auto& watcher : watchers_) {
        if (!watcher->has_begun) continue;
        std::string text;
        for (const News& one : news) {
          if (Concerns(*watcher, one.info.name))
            text += Frame(one.type, one.info, one.revision, now, watcher.get());
        }
        frames.emplace_back(watcher, std::move(text));
      }
    }
    Write(std::move(frames));
  }

  void Write(std::vector<std::pair<std::shared_ptr<Watcher>, std::string>> frames) {
    for (auto& [watcher, text] : frames) {
      if (text.empty()) continue;
      watcher->responder->Write(std::make_shared<const std::string>(std::move(text)));
      if (watcher->responder->queued() <= kMaxQueuedBytes) continue;
      Remove(watcher.get());
      watcher->responder->Abort();
    }
  }

  store::Store* const store_;
  Namespaces* const namespaces_;
  Executor* const executor_;
  // Only the store's watches and the Namespaces are called under it.
  Mutex mu_;
  std::vector<std::shared_ptr<Watcher>> watchers_ GUARDED_BY(mu_);
  bool stopped_ GUARDED_BY(mu_) = false;
  int inside_ GUARDED_BY(mu_) = 0;      // see Inside
  CondVar left_;                        // inside_ is 0
  bool busy_ GUARDED_BY(mu_) = false;   // a turn is under way
  bool again_ GUARDED_BY(mu_) = false;  // and another one was requested
  // Null without watchers, before Sync() is done, and after Stop(), because it must not outlive the
  // store.
  std::unique_ptr<store::Watch> watch_ GUARDED_BY(mu_);
  // The namespaces as they were sent to watchers.
  std::map<std::string, NamespaceInfo> known_ GUARDED_BY(mu_);
  store::Revision revision_ GUARDED_BY(mu_) = 0;
};

NamespaceWatches::NamespaceWatches(store::Store* store, Namespaces* namespaces, Executor* executor)
    : state_(std::make_shared<State>(store, namespaces, executor)) {}

NamespaceWatches::~NamespaceWatches() { Stop(); }

Status NamespaceWatches::Open(Request request, std::shared_ptr<http::Responder> responder,
                              const std::function<void()>& start) {
  return state_->Add(std::move(request), std::move(responder), start);
}

void NamespaceWatches::Stop() { state_->Stop(); }

}  // namespace herald::server
