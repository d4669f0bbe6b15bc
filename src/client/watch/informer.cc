#include "herald/client/informer.h"

#include <exception>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/string_hash.h"
#include "base/thread/mutex.h"
#include "client/rest/resource_codec.h"
#include "client/rest/rest_impl.h"

namespace herald {
namespace {

template <typename Value>
using ByName = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

}  // namespace

// Thread-safe. The objects are changed only on the transport's thread, under mu_. They are read
// under mu_ on other threads, and without it on the transport's thread.
template <typename T>
class Informer<T>::Core : public std::enable_shared_from_this<Core> {
 public:
  using Kind = typename ResourceWatcherEvent<T>::Kind;
  using Handler = InformerHandler<T>;

  Core(std::shared_ptr<RestClient> rest, Resource resource, InformerOptions options)
      : rest_(std::move(rest)), resource_(std::move(resource)), options_(std::move(options)) {}

  void AddIndexer(std::string name, IndexFunction function) {
    const MutexLock lock(mu_);
    HERALD_CHECK(!watcher_, "AddIndexer() must be called before Start()");
    indexes_[std::move(name)].function = std::move(function);
  }

  void AddHandler(Handler handler) {
    auto shared = std::make_shared<const Handler>(std::move(handler));
    {
      const MutexLock lock(mu_);
      if (!watcher_) {
        handlers_.push_back(std::move(shared));
        return;
      }
    }
    // Runs between two changes, so that the handler gets each change exactly once.
    transport().Post([self = this->shared_from_this(), shared] { self->Join(shared); });
  }

  void SetErrorHandler(std::function<void(const Status&)> on_error) {
    on_error_ = std::move(on_error);
  }

  void Start() {
    {
      const MutexLock lock(mu_);
      HERALD_CHECK(!watcher_, "Start() must be called only once");
      watcher_.emplace(
          rest_, resource_, options_.watch,
          [weak = this->weak_from_this()](ResourceWatcherEvent<T> event) {
            if (const auto self = weak.lock()) self->OnEvent(std::move(event));
          },
          on_error_);
    }
    watcher()->Start();
    if (options_.resync.count() > 0) ArmResync();
  }

  void Stop() {
    ResourceWatcher<T>* const started = watcher();
    if (started != nullptr) started->Stop();
    MutexLock lock(mu_);
    stopped_ = true;
    synced_changed_.NotifyAll();
    // The watcher's Stop() does not wait for calls of a resync or of a handler that was added late.
    while (handler_thread_ && *handler_thread_ != std::this_thread::get_id()) idle_.Wait(lock);
  }

  bool HasSynced() const {
    const MutexLock lock(mu_);
    return synced_;
  }

  bool WaitForSync(std::chrono::milliseconds timeout, const std::stop_token& stop) {
    const std::stop_callback wake(stop, [this] {
      const MutexLock lock(mu_);
      synced_changed_.NotifyAll();
    });
    MutexLock lock(mu_);
    synced_changed_.WaitFor(lock, timeout, [&]() REQUIRES(mu_) {
      return synced_ || stopped_ || stop.stop_requested();
    });
    return synced_;
  }

  Pointer Get(std::string_view key) const {
    const MutexLock lock(mu_);
    const auto it = objects_.find(key);
    return it != objects_.end() ? it->second : nullptr;
  }

  std::vector<Pointer> List() const {
    const MutexLock lock(mu_);
    std::vector<Pointer> out;
    out.reserve(objects_.size());
    for (const auto& [key, object] : objects_) out.push_back(object);
    return out;
  }

  std::vector<Pointer> ByIndex(std::string_view name, std::string_view value) const {
    const MutexLock lock(mu_);
    std::vector<Pointer> out;
    const auto index = indexes_.find(name);
    HERALD_CHECK(index != indexes_.end(), "unknown index");
    const auto keys = index->second.keys.find(value);
    if (keys == index->second.keys.end()) return out;
    for (const std::string& key : keys->second) out.push_back(objects_.find(key)->second);
    return out;
  }

  std::size_t size() const {
    const MutexLock lock(mu_);
    return objects_.size();
  }

 private:
  struct Index {
    IndexFunction function;
    ByName<std::set<std::string, std::less<>>>
        keys{};  // by value; sorted, so that the order is stable
  };

  Transport& transport() { return rest_->impl().transport(); }
  ResourceWatcher<T>* watcher() {
    const MutexLock lock(mu_);
    return watcher_ ? &*watcher_ : nullptr;
  }

  bool IsStopped() const {
    const MutexLock lock(mu_);
    return stopped_;
  }

  void OnEvent(ResourceWatcherEvent<T> event) {
    switch (event.kind) {
      case Kind::kInit:
        fresh_.clear();
        return;
      case Kind::kInitApply: {
        auto object = std::make_shared<const T>(std::move(event.object));
        fresh_[ResourceCodec<T>::Key(*object)] = object;
        return;
      }
      case Kind::kInitDone:
        return Replace();
      case Kind::kApply: {
        auto object = std::make_shared<const T>(std::move(event.object));
        const std::string key = ResourceCodec<T>::Key(*object);
        return Apply(key, object);
      }
      case Kind::kDelete: {
        const auto last = std::make_shared<const T>(std::move(event.object));
        return Delete(ResourceCodec<T>::Key(*last), last);
      }
    }
  }

  void Replace() {
    ByName<Pointer> fresh = std::exchange(fresh_, {});
    std::vector<std::pair<std::string, Pointer>> gone;
    for (const auto& [key, object] : objects_) {
      if (fresh.find(key) == fresh.end()) gone.emplace_back(key, object);
    }
    for (const auto& [key, object] : gone) Delete(key, object);
    for (auto& [key, object] : fresh) Apply(key, object);
    const MutexLock lock(mu_);
    synced_ = true;
    synced_changed_.NotifyAll();
  }

  void Apply(const std::string& key, const Pointer& object) {
    Pointer before;
    {
      const MutexLock lock(mu_);
      Pointer& place = objects_[key];
      before = place;
      // A list after a lost watch contains mostly objects that have not changed.
      const std::string& version = ResourceCodec<T>::ResourceVersion(*object);
      if (before && !version.empty() && version == ResourceCodec<T>::ResourceVersion(*before)) {
        return;
      }
      if (before) Unindex(key, *before);
      place = object;
      for (auto& [name, index] : indexes_) {
        for (std::string& value : index.function(*object)) {
          index.keys[std::move(value)].insert(key);
        }
      }
    }
    RunHandlers([&](const Handler& handler) {
      if (before) {
        if (handler.on_update) handler.on_update(before, object);
      } else if (handler.on_add) {
        handler.on_add(object);
      }
    });
  }

  void Delete(const std::string& key, const Pointer& last) {
    {
      const MutexLock lock(mu_);
      const auto it = objects_.find(key);
      if (it == objects_.end()) return;  // handlers do not know it
      Unindex(key, *it->second);
      objects_.erase(it);
    }
    RunHandlers([&](const Handler& handler) {
      if (handler.on_delete) handler.on_delete(last);
    });
  }

  void Unindex(const std::string& key, const T& object) REQUIRES(mu_) {
    for (auto& [name, index] : indexes_) {
      for (const std::string& value : index.function(object)) {
        const auto it = index.keys.find(value);
        if (it == index.keys.end()) continue;
        it->second.erase(key);
        if (it->second.empty()) index.keys.erase(it);
      }
    }
  }

  void Join(const std::shared_ptr<const Handler>& handler) {
    std::vector<Pointer> objects = List();
    {
      const MutexLock lock(mu_);
      handlers_.push_back(handler);
    }
    RunHandlers(
        [&](const Handler& one) {
          if (!one.on_add) return;
          for (const Pointer& object : objects) one.on_add(object);
        },
        handler);
  }

  void ArmResync() {
    transport().PostAfter(options_.resync, [weak = this->weak_from_this()] {
      const auto self = weak.lock();
      if (!self || self->IsStopped()) return;
      for (const Pointer& object : self->List()) {
        self->RunHandlers([&](const Handler& handler) {
          if (handler.on_update) handler.on_update(object, object);
        });
      }
      self->ArmResync();
    });
  }

  // Calls `function` with each handler, or with `only` if it is given, unless stopped.
  template <typename Function>
  void RunHandlers(Function&& function, std::shared_ptr<const Handler> only = nullptr) {
    std::vector<std::shared_ptr<const Handler>> handlers;
    {
      const MutexLock lock(mu_);
      if (stopped_) return;
      if (only) {
        handlers.push_back(std::move(only));
      } else {
        handlers = handlers_;
      }
      handler_thread_ = std::this_thread::get_id();
    }
    for (const auto& handler : handlers) {
      try {
        function(*handler);
      } catch (const std::exception& e) {
        Log(e.what());
      } catch (...) {
        Log("unknown exception");
      }
    }
    const MutexLock lock(mu_);
    handler_thread_.reset();
    idle_.NotifyAll();
  }
  void Log(std::string_view what) {
    if (const LogFunction& log = rest_->impl().options().log) {
      log({.level = LogLevel::kError,
           .message = "The handler of an informer threw an exception",
           .fields = {{"error", what}, {"resource", resource_.resource}}});
    }
  }

  const std::shared_ptr<RestClient> rest_;
  const Resource resource_;
  const InformerOptions options_;
  std::function<void(const Status&)> on_error_;  // changed only before Start()
  ByName<Pointer> fresh_;  // objects of a list that is not complete; transport's thread only

  // Guards all below. Not held while a handler runs; index functions run under it.
  mutable Mutex mu_;
  mutable CondVar synced_changed_;
  CondVar idle_;
  bool synced_ GUARDED_BY(mu_) = false;
  bool stopped_ GUARDED_BY(mu_) = false;
  std::optional<std::thread::id> handler_thread_ GUARDED_BY(mu_);  // while handlers run
  ByName<Pointer> objects_;
  std::map<std::string, Index, std::less<>> indexes_ GUARDED_BY(mu_);
  std::vector<std::shared_ptr<const Handler>> handlers_ GUARDED_BY(mu_);
  std::optional<ResourceWatcher<T>> watcher_ GUARDED_BY(mu_);
};

template <typename T>
Informer<T>::Informer(std::shared_ptr<RestClient> rest, Resource resource, InformerOptions options)
    : core_(std::make_shared<Core>(std::move(rest), std::move(resource), std::move(options))) {}

template <typename T>
Informer<T>::~Informer() {
  Stop();
}

template <typename T>
void Informer<T>::AddIndexer(std::string name, IndexFunction function) {
  core_->AddIndexer(std::move(name), std::move(function));
}

template <typename T>
void Informer<T>::AddHandler(InformerHandler<T> handler) {
  core_->AddHandler(std::move(handler));
}

template <typename T>
void Informer<T>::SetErrorHandler(std::function<void(const Status&)> on_error) {
  core_->SetErrorHandler(std::move(on_error));
}

template <typename T>
void Informer<T>::Start() {
  core_->Start();
}

template <typename T>
void Informer<T>::Stop() {
  core_->Stop();
}

template <typename T>
bool Informer<T>::HasSynced() const {
  return core_->HasSynced();
}

template <typename T>
bool Informer<T>::WaitForSync(std::chrono::milliseconds timeout,
                              const std::stop_token& stop) const {
  return core_->WaitForSync(timeout, stop);
}

template <typename T>
typename Informer<T>::Pointer Informer<T>::Get(std::string_view key) const {
  return core_->Get(key);
}

template <typename T>
std::vector<typename Informer<T>::Pointer> Informer<T>::List() const {
  return core_->List();
}

template <typename T>
std::vector<typename Informer<T>::Pointer> Informer<T>::ByIndex(std::string_view index,
                                                                std::string_view value) const {
  return core_->ByIndex(index, value);
}

template <typename T>
std::size_t Informer<T>::size() const {
  return core_->size();
}

template class Informer<Event>;
template class Informer<Object>;

}  // namespace herald
