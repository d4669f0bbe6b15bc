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

// A watch that ended sooner, and without a frame, did not do what it was asked for.
constexpr std::chrono::seconds kShortWatch{1};

bool IsExpired(const Status& status) {
  return status.Is(StatusReason::kExpired) || status.Is(StatusReason::kGone) ||
         (status.origin() == Status::Origin::kServer && status.code() == 410);
}

// The version we hold is newer than what this server has: it was restored, or is a replica
// that lags behind.
bool IsFromTheFuture(const Status& status) {
  const auto& causes = status.details().causes;
  return std::any_of(causes.begin(), causes.end(), [](const StatusCause& cause) {
    return cause.reason == "ResourceVersionTooLarge";
  });
}

// Made here, and not by a peer: the bytes of a stream made no sense.
bool IsUnreadable(const Status& status) {
  return status.origin() == Status::Origin::kLocal && status.Is(StatusReason::kBadRequest);
}

}  // namespace

// Confined to the transport's thread, but for what mu_ guards.
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
    // A handler that is running is waited for, unless it is the one that calls.
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

  // Calls a handler, unless stopped.
  template <typename Call>
  bool Tell(Call&& call) {
    {
      const MutexLock lock(mu_);
      if (state_ == ResourceWatcherState::kStopped) return false;
      handler_thread_ = std::this_thread::get_id();
    }
    try {
      call();
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
    const bool going_on = Tell([&] { on_event_(std::move(event)); });
    object = std::move(event.object);  // what the handler left: memory for the next frame
    return going_on;
  }
  void Complain(const Status& status) {
    if (on_error_) Tell([&] { on_error_(status); });
  }
  void Log(std::string_view what) {
    if (const LogFunction& log = rest_->impl().options().log) {
      log({.level = LogLevel::kError,
           .message = "A watcher's handler threw an exception",
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

  // Goes on in `state`, at once or after a wait.
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
    Complain(status);
    if (!IsExpired(status)) return GoToLater(state());
    // The pages took longer than the server remembers. All at once, then.
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
    told_init_ = false;
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
    if (initial && !std::exchange(told_init_, true) && !Emit(Kind::kInit)) return;
    std::string version = ResourceCodec<T>::ResourceVersion(object);
    bool going_on = true;
    if (frame.type == WatchType::kBookmark) {
      if (initial && ResourceCodec<T>::EndsInitialEvents(object)) {
        going_on = Emit(Kind::kInitDone) && SetState(ResourceWatcherState::kWatching);
      }
    } else if (frame.type == WatchType::kDeleted) {
      going_on = Emit(Kind::kDelete, std::move(object));
    } else {
      going_on = Emit(initial ? Kind::kInitApply : Kind::kApply, std::move(object));
    }
    // Only now: what was not told has not been seen.
    if (going_on && !version.empty()) resource_version_ = std::move(version);
  }

  void OnWatchEnd(const Status& ended) {
    if (stop_.stop_requested()) return;
    const Status& status = frame_error_.ok() ? ended : frame_error_;
    const bool initial = state() == ResourceWatcherState::kStreaming;
    const bool was_long = Now() - opened_ >= kShortWatch;
    if (was_long && frames_ > 0) backoff_.Reset();
    if (!status.ok()) Complain(status);

    if (initial && status.origin() == Status::Origin::kServer &&
        (status.code() == 400 || status.code() == 422)) {
      // A server that does not know how. It gets asked the old way from now on.
      streaming_ = false;
      return GoTo(ResourceWatcherState::kEmpty);
    }
    const bool lost = IsExpired(status) || IsFromTheFuture(status) || IsUnreadable(status);
    const ResourceWatcherState next =
        initial || lost ? ResourceWatcherState::kEmpty : ResourceWatcherState::kListed;
    // A watch that worked for a while may start again at once, whether it ended as
    // agreed or because the server has forgotten what was before.
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
  std::string resource_version_;  // all up to it has been told
  std::string continue_;          // of the next page
  // Of the watch that is open.
  SteadyTime opened_;
  std::uint64_t frames_ = 0;
  bool told_init_ = false;
  Status frame_error_;
  std::stop_source watch_stop_;

  // Guards what other threads look at. No handler runs under it.
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
