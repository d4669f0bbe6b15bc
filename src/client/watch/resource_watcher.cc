#include "herald/client/resource_watcher.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/bytes/random.h"
#include "base/limit/backoff.h"
#include "base/thread/mutex.h"
#include "client/rest/resource_client.h"
#include "client/rest/rest_impl.h"

namespace herald {
namespace {

// A watch that ended sooner and without a frame counts as a failure: the next one is delayed.
constexpr std::chrono::seconds kShortWatch{1};

bool IsExpired(const Status& status) {
  return status.Is(StatusReason::kExpired) || status.Is(StatusReason::kGone) ||
         (status.origin() == Status::Origin::kServer && status.code() == 410);
}

// Our resource version is newer than the server's latest one: the server was restored from a
// backup, or it is a replica that lags behind.
bool IsTooLargeVersion(const Status& status) {
  const auto& causes = status.details().causes;
  return std::any_of(causes.begin(), causes.end(), [](const StatusCause& cause) {
    return cause.reason == "ResourceVersionTooLarge";
  });
}

// A frame could not be decoded. Such a status is made here, not by the server.
bool IsDecodeError(const Status& status) {
  return status.origin() == Status::Origin::kLocal && status.Is(StatusReason::kBadRequest);
}

}  // namespace

// Confined to the transport's thread, except the members that mu_ guards.
template <typename T>
class ResourceWatcher<T>::Core : public std::enable_shared_from_this<Core> {
 public:
  using Kind = typename ResourceWatcherEvent<T>::Kind;
  using List = typename ResourceCodec<T>::List;
  using Frame = typename ResourceCodec<T>::Frame;

  Core(std::shared_ptr<RestClient> rest, Resource resource, ResourceWatcherOptions options,
       Handler on_event, ErrorHandler on_error)
      : rest_(std::move(rest)),
        resource_(std::move(resource)),
        options_(std::move(options)),
        on_event_(std::move(on_event)),
        on_error_(std::move(on_error)),
        streaming_(options_.initial_list == InitialList::kStreaming),
        random_(options_.seed != 0 ? options_.seed : RandomSeed()),
        backoff_(BackoffOptions(), random_.Next()) {}

  void Start() {
    transport().Post([self = this->shared_from_this()] { self->Step(); });
  }

  void Stop() {
    stop_.request_stop();
    MutexLock lock(mu_);
    state_ = ResourceWatcherState::kStopped;
    // Waits for a running handler, unless this is called by the handler.
    while (handler_thread_ && *handler_thread_ != std::this_thread::get_id()) idle_.Wait(lock);
  }

  ResourceWatcherState state() const {
    const MutexLock lock(mu_);
    return state_;
  }

 private:
  ResourceClient<T> client() const { return {*rest_, resource_, options_.format}; }
  Transport& transport() { return rest_->impl().transport(); }
  SteadyTime Now() { return transport().clock().Steady(); }

  bool SetState(ResourceWatcherState state) {
    const MutexLock lock(mu_);
    if (state_ == ResourceWatcherState::kStopped) return false;
    state_ = state;
    return true;
  }

  // Calls a handler, unless stopped. Returns whether the watcher continues.
  template <typename Function>
  bool RunHandler(Function&& function) {
    {
      const MutexLock lock(mu_);
      if (state_ == ResourceWatcherState::kStopped) return false;
      handler_thread_ = std::this_thread::get_id();
    }
    try {
      function();
    } catch (const std::exception& e) {
      Log(e.what());
    } catch (...) {
      Log("unknown exception");
    }
    const MutexLock lock(mu_);
    handler_thread_.reset();
    idle_.NotifyAll();
    return state_ != ResourceWatcherState::kStopped;
  }
  bool Emit(Kind kind, T&& object = {}) {
    ResourceWatcherEvent<T> event{kind, std::move(object)};
    const bool continues = RunHandler([&] { on_event_(std::move(event)); });
    object = std::move(event.object);  // what the handler did not take is reused
    return continues;
  }
  void ReportError(const Status& status) {
    if (on_error_) RunHandler([&] { on_error_(status); });
  }
  void Log(std::string_view what) {
    if (const LogFunction& log = rest_->impl().options().log) {
      log({.level = LogLevel::kError,
           .message = "The handler of a resource watcher threw an exception",
           .fields = {{"error", what}, {"resource", resource_.resource}}});
    }
  }

  void Step() {
    switch (state()) {
      case ResourceWatcherState::kEmpty:
        resource_version_.clear();
        continue_.clear();
        if (streaming_) return OpenWatch(true);
        return GetPage();
      case ResourceWatcherState::kListing:
        return GetPage();
      case ResourceWatcherState::kListed:
        return OpenWatch(false);
      case ResourceWatcherState::kStreaming:
      case ResourceWatcherState::kWatching:
      case ResourceWatcherState::kStopped:
        return;
    }
  }

  // Continues in `state`, at once or after the backoff delay.
  void GoTo(ResourceWatcherState state) {
    if (SetState(state)) Step();
  }
  void GoToLater(ResourceWatcherState state) {
    if (!SetState(state)) return;
    transport().PostAfter(backoff_.Next(Now()), [weak = this->weak_from_this()] {
      if (const auto self = weak.lock()) self->Step();
    });
  }

  void GetPage() {
    client().ListPage(
        {.namespace_ = options_.namespace_,
         .label_selector = options_.label_selector,
         .field_selector = options_.field_selector,
         .limit = unpaged_ ? 0 : options_.page_size,
         .continue_ = continue_},
        [self = this->shared_from_this()](Result<List> list) { self->OnPage(std::move(list)); },
        stop_.get_token());
  }

  void OnPage(Result<List> list) {
    if (stop_.stop_requested()) return;
    if (!list) return OnListFailed(list.error());
    if (continue_.empty() && !Emit(Kind::kInit)) return;
    for (T& object : list->items) {
      if (!Emit(Kind::kInitApply, std::move(object))) return;
    }
    continue_ = list->metadata.continue_;
    if (!continue_.empty()) return GoTo(ResourceWatcherState::kListing);
    resource_version_ = list->metadata.resource_version;
    unpaged_ = false;
    if (!Emit(Kind::kInitDone)) return;
    GoTo(ResourceWatcherState::kListed);
  }

  void OnListFailed(const Status& status) {
    ReportError(status);
    if (!IsExpired(status)) return GoToLater(state());
    // The server does not have the revision of the first page any more. The next list has one
    // page with all objects.
    unpaged_ = true;
    GoToLater(ResourceWatcherState::kEmpty);
  }

  void OpenWatch(bool initial) {
    const double timeout =
        static_cast<double>(options_.watch_timeout.count()) * (1 + random_.Unit());
    WatchOptions watch{.namespace_ = options_.namespace_,
                       .label_selector = options_.label_selector,
                       .field_selector = options_.field_selector,
                       .resource_version = resource_version_,
                       .timeout = std::chrono::seconds(static_cast<std::int64_t>(timeout))};
    if (initial) watch.send_initial_events = true;
    if (!SetState(initial ? ResourceWatcherState::kStreaming : ResourceWatcherState::kWatching))
      return;
    opened_ = Now();
    frames_ = 0;
    frame_error_ = Status();
    init_emitted_ = false;
    watch_stop_ = std::stop_source();
    const auto forward = std::make_shared<std::stop_callback<std::function<void()>>>(
        stop_.get_token(), [source = watch_stop_]() mutable { source.request_stop(); });
    client().Watch(
        watch,
        [self = this->shared_from_this()](Frame&& frame) { self->OnFrame(std::move(frame)); },
        [self = this->shared_from_this(), forward](const Status& status) {
          self->OnWatchEnd(status);
        },
        watch_stop_.get_token());
  }

  void OnFrame(Frame&& frame) {
    if (!frame_error_.ok()) return;
    if (frame.type == WatchType::kError) {
      frame_error_ = std::get<Status>(frame.object);
      if (frame_error_.ok()) {
        frame_error_ = Status(StatusReason::kInternalError, "the watch failed without a reason");
      }
      watch_stop_.request_stop();
      return;
    }
    ++frames_;
    T& object = std::get<T>(frame.object);
    const bool initial = state() == ResourceWatcherState::kStreaming;
    if (initial && !std::exchange(init_emitted_, true) && !Emit(Kind::kInit)) return;
    std::string version = ResourceCodec<T>::ResourceVersion(object);
    bool continues = true;
    if (frame.type == WatchType::kBookmark) {
      if (initial && ResourceCodec<T>::EndsInitialEvents(object)) {
        continues = Emit(Kind::kInitDone) && SetState(ResourceWatcherState::kWatching);
      }
    } else if (frame.type == WatchType::kDeleted) {
      continues = Emit(Kind::kDelete, std::move(object));
    } else {
      continues = Emit(initial ? Kind::kInitApply : Kind::kApply, std::move(object));
    }
    // Only after the handler was called: otherwise a new watch would skip this change.
    if (continues && !version.empty()) resource_version_ = std::move(version);
  }

  void OnWatchEnd(const Status& ended) {
    if (stop_.stop_requested()) return;
    const Status& status = frame_error_.ok() ? ended : frame_error_;
    const bool initial = state() == ResourceWatcherState::kStreaming;
    const bool was_long = Now() - opened_ >= kShortWatch;
    if (was_long && frames_ > 0) backoff_.Reset();
    if (!status.ok()) ReportError(status);

    if (initial && status.origin() == Status::Origin::kServer &&
        (status.code() == 400 || status.code() == 422)) {
      // The server does not support sendInitialEvents. Use lists from now on.
      streaming_ = false;
      return GoTo(ResourceWatcherState::kEmpty);
    }
    const bool lost = IsExpired(status) || IsTooLargeVersion(status) || IsDecodeError(status);
    const ResourceWatcherState next =
        initial || lost ? ResourceWatcherState::kEmpty : ResourceWatcherState::kListed;
    // After a watch that worked for a while the next one starts at once, whether it ended normally
    // or because its resource version expired.
    const bool at_once = (status.ok() || IsExpired(status)) && (was_long || frames_ > 0);
    if (at_once) return GoTo(next);
    GoToLater(next);
  }

  const std::shared_ptr<RestClient> rest_;
  const Resource resource_;
  const ResourceWatcherOptions options_;
  const Handler on_event_;
  const ErrorHandler on_error_;
  std::stop_source stop_;

  bool streaming_;
  bool unpaged_ = false;
  Random random_;
  Backoff backoff_;
  std::string resource_version_;  // all changes up to it have been reported
  std::string continue_;          // of the next page
  // About the open watch.
  SteadyTime opened_;
  std::uint64_t frames_ = 0;
  bool init_emitted_ = false;
  Status frame_error_;
  std::stop_source watch_stop_;

  // Guards the members that other threads use. Not held while a handler runs.
  mutable Mutex mu_;
  CondVar idle_;
  ResourceWatcherState state_ GUARDED_BY(mu_) = ResourceWatcherState::kEmpty;
  std::optional<std::thread::id> handler_thread_ GUARDED_BY(mu_);  // while one runs
};

template <typename T>
ResourceWatcher<T>::ResourceWatcher(std::shared_ptr<RestClient> rest, Resource resource,
                                    ResourceWatcherOptions options, Handler on_event,
                                    ErrorHandler on_error)
    : core_(std::make_shared<Core>(std::move(rest), std::move(resource), std::move(options),
                                   std::move(on_event), std::move(on_error))) {}

template <typename T>
ResourceWatcher<T>::~ResourceWatcher() {
  Stop();
}

template <typename T>
void ResourceWatcher<T>::Start() {
  core_->Start();
}

template <typename T>
void ResourceWatcher<T>::Stop() {
  core_->Stop();
}

template <typename T>
ResourceWatcherState ResourceWatcher<T>::state() const {
  return core_->state();
}

template class ResourceWatcher<Event>;
template class ResourceWatcher<Object>;

}  // namespace herald
