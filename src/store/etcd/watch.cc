#include "store/etcd/watch.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <optional>

#include "base/bytes/random.h"
#include "base/check.h"

namespace herald::store {
namespace {

// Between attempts to open a stream. Short, because an attempt costs nothing while no endpoint
// works, and because all clients of this replica wait for it.
constexpr BackoffOptions kOpenBackoff{.initial = std::chrono::milliseconds(50),
                                      .factor = 2.0,
                                      .cap = std::chrono::seconds(2),
                                      .jitter = 0.5,
                                      .reset_after = std::chrono::nanoseconds(0)};

// A stream that lived for this long was stable: the next one is opened without a longer delay.
constexpr std::chrono::seconds kStableAfter{1};

// Maximum of changes per batch: readers wait while a batch is applied.
constexpr std::size_t kMaxPending = 256;

// How often per keepalive interval a stream is checked for silence.
constexpr int kChecksPerKeepalive = 4;

Entry ToEntry(etcdserverpb::KeyValue& kv) {
  return {std::move(*kv.mutable_key()),
          std::make_shared<const std::string>(std::move(*kv.mutable_value())), kv.mod_revision()};
}

std::shared_ptr<const Change> ToChange(etcdserverpb::Event& event) {
  const bool deleted = event.type() == etcdserverpb::Event::DELETE;
  Entry current = ToEntry(*event.mutable_kv());
  if (deleted) current.value = nullptr;
  std::optional<Entry> previous;
  if (event.has_prev_kv()) previous = ToEntry(*event.mutable_prev_kv());
  return std::make_shared<const Change>(std::move(current), std::move(previous), deleted);
}

}  // namespace

std::string EtcdPrefixEnd(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  if (prefix.empty()) return std::string(1, '\0');
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

// One gRPC stream. It owns itself from Run() until all of its operations have completed.
//
// gRPC allows at most one read and one write at a time. Finish() is called once, after the last
// read.
class EtcdWatcher::Stream final : public EtcdStream, public std::enable_shared_from_this<Stream> {
 public:
  Stream(std::shared_ptr<EtcdWatcher> watcher, std::uint64_t serial)
      : watcher_(std::move(watcher)), serial_(serial) {}

  // Chooses a member for the stream. If this returns false, the stream must not be used.
  bool Begin(EtcdEndpoints::Set avoid) {
    auto target = watcher_->rpc_->BeginStream(this, avoid);
    if (target) target_ = *std::move(target);
    return target_.connection != nullptr;
  }

  void Run(etcdserverpb::WatchRequest request) {
    self_ = shared_from_this();
    request_ = std::move(request);
    PrepareContext(&context_, /*needs_leader=*/true, target_.token);
    stream_ = target_.connection->watch.PrepareAsyncWatch(&context_, target_.connection->queue);
    stream_->StartCall(start_.Publish());
  }

  // Any thread.
  void Cancel() override {
    cancelled_ = true;
    context_.TryCancel();
  }
  void RequestProgress() {
    MutexLock lock(mu_);
    progress_wanted_ = true;
    WriteNext();
  }

  const EtcdRpc::StreamTarget& target() const { return target_; }
  std::uint64_t serial() const { return serial_; }

 private:
  // A tag that calls a member function of the stream.
  class Tag final : public CompletionTag {
   public:
    using Handler = void (Stream::*)(bool ok);
    Tag(Stream* stream, Handler handler) : stream_(stream), handler_(handler) {}

   private:
    void Run(bool ok) override { (stream_->*handler_)(ok); }

    Stream* const stream_;
    const Handler handler_;
  };

  void OnStarted(bool ok) {
    {
      MutexLock lock(mu_);
      writing_ = ok;
    }
    if (!ok) return Finish();
    stream_->Write(request_, write_.Publish());
    Read();
  }

  void Read() { stream_->Read(&response_, read_.Publish()); }

  void OnRead(bool ok) {
    if (!ok) return Finish();
    if (!watcher_->OnResponse(*this, response_)) Cancel();
    // Reads even after Cancel(), to get the end of the stream.
    response_.Clear();
    Read();
  }

  void OnWritten(bool) {
    bool all_done = false;
    {
      MutexLock lock(mu_);
      writing_ = false;
      WriteNext();
      all_done = finished_ && !writing_;
    }
    if (all_done) OnAllDone();
  }

  // gRPC does not complete the write inside this call, so the lock may be held.
  void WriteNext() REQUIRES(mu_) {
    if (!progress_wanted_ || writing_ || finishing_) return;
    progress_wanted_ = false;
    writing_ = true;
    request_.mutable_progress_request();
    stream_->Write(request_, write_.Publish());
  }

  void Finish() {
    {
      MutexLock lock(mu_);
      finishing_ = true;
    }
    stream_->Finish(&status_, finish_.Publish());
  }

  void OnFinished(bool) {
    bool all_done = false;
    {
      MutexLock lock(mu_);
      finished_ = true;
      all_done = !writing_;
    }
    if (all_done) OnAllDone();
  }

  void OnAllDone() {
    const std::shared_ptr<Stream> self = std::move(self_);
    stream_.reset();  // before its context
    if (cancelled_) return watcher_->OnStreamEnded(*this, nullptr);
    const EtcdErrorInfo error_info = ClassifyEtcdError(
        status_.ok() ? GrpcCode::kUnavailable : static_cast<GrpcCode>(status_.error_code()),
        status_.ok() ? std::string("the watch stream was closed") : status_.error_message());
    watcher_->OnStreamEnded(*this, &error_info);
  }

  const std::shared_ptr<EtcdWatcher> watcher_;
  const std::uint64_t serial_;
  EtcdRpc::StreamTarget target_;
  std::atomic<bool> cancelled_ = false;  // by us, so the end says nothing about the member
  std::shared_ptr<Stream> self_;
  grpc::ClientContext context_;
  etcdserverpb::WatchResponse response_;
  grpc::Status status_;
  std::unique_ptr<
      grpc::ClientAsyncReaderWriter<etcdserverpb::WatchRequest, etcdserverpb::WatchResponse>>
      stream_;
  Tag start_{this, &Stream::OnStarted};
  Tag read_{this, &Stream::OnRead};
  Tag write_{this, &Stream::OnWritten};
  Tag finish_{this, &Stream::OnFinished};

  // Guards all below. Acquired after EtcdWatcher's lock.
  Mutex mu_;
  etcdserverpb::WatchRequest request_;   // must not change during a write
  bool writing_ GUARDED_BY(mu_) = true;  // true until the stream has started
  bool progress_wanted_ GUARDED_BY(mu_) = false;
  bool finishing_ GUARDED_BY(mu_) = false;
  bool finished_ GUARDED_BY(mu_) = false;
};

EtcdWatcher::EtcdWatcher(EtcdRpc* rpc, std::string prefix, Revision after, Callback callback)
    : rpc_(rpc),
      prefix_(std::move(prefix)),
      keepalive_(rpc->options().keepalive),
      callback_(std::move(callback)),
      delivered_revision_(after),
      backoff_(kOpenBackoff, RandomSeed()) {}

EtcdWatcher::~EtcdWatcher() = default;

void EtcdWatcher::Start() {
  rpc_->executor().Post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Open();
  });
  ScheduleTick();
}

void EtcdWatcher::Stop() {
  Callback callback;
  MutexLock lock(mu_);
  stopped_ = true;
  if (stream_) stream_->Cancel();
  if (delivering_ == std::this_thread::get_id()) return;
  callback_done_.Wait(lock, [this]() REQUIRES(mu_) { return delivering_ == std::thread::id(); });
  callback.swap(callback_);
  lock.Unlock();  // before the callback's captures are destroyed
}

void EtcdWatcher::RequestProgress() {
  MutexLock lock(mu_);
  if (stopped_) return;
  if (stream_ && created_) {
    stream_->RequestProgress();
  } else {
    request_progress_later_ = true;
  }
}

void EtcdWatcher::Open() {
  {
    MutexLock lock(mu_);
    if (stopped_ || stream_) return;
  }
  rpc_->AwaitToken([weak = weak_from_this()](const Status& status) {
    const auto self = weak.lock();
    if (!self) return;
    if (status.ok()) {
      self->OpenStream();
    } else {
      self->RetryOpenLater();
    }
  });
}

void EtcdWatcher::RetryOpenLater() {
  MutexLock lock(mu_);
  if (stopped_) return;
  const SteadyTime now = rpc_->Now();
  rpc_->executor().PostAt(now + backoff_.Next(now), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Open();
  });
}

void EtcdWatcher::OpenStream() {
  MutexLock lock(mu_);
  if (stopped_ || stream_) return;
  const auto stream = std::make_shared<Stream>(shared_from_this(), ++serial_);
  if (!stream->Begin(avoid_)) {
    lock.Unlock();
    return RetryOpenLater();
  }
  stream_ = stream;
  opened_at_ = rpc_->Now();
  created_ = false;
  version_requested_ = false;
  progress_sound_ = ProgressSound::kUnknown;
  last_response_at_ = rpc_->Now();
  progress_requested_at_ = {};
  incomplete_revision_.clear();

  etcdserverpb::WatchRequest request;
  etcdserverpb::WatchCreateRequest& create = *request.mutable_create_request();
  create.set_key(prefix_.empty() ? std::string(1, '\0') : prefix_);
  create.set_range_end(EtcdPrefixEnd(prefix_));
  create.set_start_revision(
      std::max<Revision>(delivered_revision_, 1));  // 0 would mean "new changes only"
  create.set_progress_notify(true);
  create.set_prev_kv(true);
  create.set_fragment(true);
  lock.Unlock();
  stream->Run(std::move(request));
}

void EtcdWatcher::ScheduleTick() {
  rpc_->executor().PostAt(rpc_->Now() + keepalive_ / kChecksPerKeepalive,
                          [weak = weak_from_this()] {
                            if (const auto self = weak.lock()) self->Tick();
                          });
}

void EtcdWatcher::Tick() {
  {
    MutexLock lock(mu_);
    if (stopped_) return;
    const SteadyTime now = rpc_->Now();
    if (stream_ && created_ && progress_sound_ == ProgressSound::kUnknown) RequestVersion();
    // Nothing is read while the callback runs, so that is not silence.
    if (stream_ && delivering_ == std::thread::id() && now - last_response_at_ >= keepalive_) {
      if (created_ && progress_requested_at_ == SteadyTime()) {
        progress_requested_at_ = now;
        stream_->RequestProgress();
      } else if (!created_ || now - progress_requested_at_ >= keepalive_) {
        rpc_->Suspect(stream_->target().endpoint);
        stream_->Cancel();
      }
    }
  }
  ScheduleTick();
}

bool EtcdWatcher::OnResponse(Stream& stream, etcdserverpb::WatchResponse& response) {
  if (response.canceled()) return OnCancelled(stream, response);
  EtcdWatchBatch batch;
  std::optional<Revision> progress;
  {
    MutexLock lock(mu_);
    if (stopped_ || stream_.get() != &stream) return false;
    last_response_at_ = rpc_->Now();
    progress_requested_at_ = {};
    if (response.created()) {
      created_ = true;
      logged_cancel_reason_ = StatusReason::kOk;
      RequestVersion();
      if (std::exchange(request_progress_later_, false)) stream.RequestProgress();
    } else if (response.events_size() > 0) {
      batch = TakeChanges(response);
    } else if (progress_sound_ == ProgressSound::kUnknown) {
      request_progress_later_ = true;  // when the version is known
    } else if (incomplete_revision_.empty() && progress_sound_ == ProgressSound::kYes &&
               rpc_->progress_is_sound()) {
      delivered_revision_ = std::max(delivered_revision_, response.header().revision());
      progress = delivered_revision_;
    }
  }
  if (!batch.changes.empty()) AddToPending(std::move(batch));
  if (progress) {
    DeliverPending();
    Deliver(EtcdWatchBatch{.changes = {}, .revision = *progress});
  }
  MutexLock lock(mu_);
  return !stopped_;
}

void EtcdWatcher::AddToPending(EtcdWatchBatch batch) {
  if (pending_.changes.empty()) {
    pending_ = std::move(batch);
    rpc_->Postpone([self = shared_from_this()] { self->DeliverPending(); });
  } else {
    std::move(batch.changes.begin(), batch.changes.end(), std::back_inserter(pending_.changes));
    pending_.revision = batch.revision;
  }
  if (pending_.changes.size() >= kMaxPending) DeliverPending();
}

void EtcdWatcher::DeliverPending() {
  if (!pending_.changes.empty()) Deliver(std::exchange(pending_, {}));
}

EtcdWatchBatch EtcdWatcher::TakeChanges(etcdserverpb::WatchResponse& response) {
  EtcdWatchBatch batch{.changes = std::move(incomplete_revision_), .revision = 0};
  incomplete_revision_.clear();
  batch.changes.reserve(batch.changes.size() + static_cast<std::size_t>(response.events_size()));
  for (etcdserverpb::Event& event : *response.mutable_events()) {
    if (event.kv().mod_revision() > delivered_revision_) batch.changes.push_back(ToChange(event));
  }
  if (response.fragment() && !batch.changes.empty()) {
    const Revision last = batch.changes.back()->revision();
    const auto cut =
        std::find_if(batch.changes.begin(), batch.changes.end(),
                     [last](const auto& change) { return change->revision() == last; });
    incomplete_revision_.assign(std::make_move_iterator(cut),
                                std::make_move_iterator(batch.changes.end()));
    batch.changes.erase(cut, batch.changes.end());
  }
  if (!batch.changes.empty()) delivered_revision_ = batch.changes.back()->revision();
  batch.revision = delivered_revision_;
  return batch;
}

bool EtcdWatcher::OnCancelled(Stream& stream, const etcdserverpb::WatchResponse& response) {
  const std::string_view message = WatchCancelMessage(response.cancel_reason());
  const EtcdErrorInfo error_info = ClassifyEtcdError(GrpcCode::kUnavailable, message);
  if (response.compact_revision() > 0 || error_info.status.Is(StatusReason::kExpired)) {
    DeliverPending();
    Deliver(
        Status(StatusReason::kExpired, "etcdserver: mvcc: required revision has been compacted"));
    MutexLock lock(mu_);
    stopped_ = true;
    return false;
  }
  if (error_info.needs_new_token) rpc_->DiscardToken(stream.target().token);
  bool changed = false;
  {
    MutexLock lock(mu_);
    changed = std::exchange(logged_cancel_reason_, error_info.status.reason()) !=
              error_info.status.reason();
  }
  if (changed && !error_info.needs_new_token) {
    rpc_->Log(LogLevel::kWarn, "etcd rejected a watch", {{"error", error_info.status.message()}});
  }
  return false;
}

void EtcdWatcher::RequestVersion() {
  if (std::exchange(version_requested_, true)) return;
  rpc_->RequestVersion(stream_->target(), [weak = weak_from_this(),
                                           serial = stream_->serial()](std::optional<bool> sound) {
    if (const auto self = weak.lock()) self->OnVersion(serial, sound);
  });
}

void EtcdWatcher::OnVersion(std::uint64_t serial, std::optional<bool> sound) {
  MutexLock lock(mu_);
  // The version is that of the stream's process, because both used the same connection and the
  // stream is still open.
  if (stopped_ || !stream_ || stream_->serial() != serial) return;
  version_requested_ = false;
  if (!sound) return;  // Tick() retries
  progress_sound_ = *sound ? ProgressSound::kYes : ProgressSound::kNo;
  if (std::exchange(request_progress_later_, false)) stream_->RequestProgress();
}

void EtcdWatcher::Deliver(Result<EtcdWatchBatch> batch) {
  Callback* callback = nullptr;
  {
    MutexLock lock(mu_);
    if (stopped_) return;
    delivering_ = std::this_thread::get_id();
    callback = &callback_;
  }
  // No one else uses it now: Stop() waits, and there is one stream at a time.
  (*callback)(std::move(batch));
  Callback stopped_callback;
  MutexLock lock(mu_);
  delivering_ = {};
  last_response_at_ = rpc_->Now();
  if (stopped_) stopped_callback.swap(callback_);
  callback_done_.NotifyAll();
  lock.Unlock();  // before the callback's captures are destroyed
}

void EtcdWatcher::OnStreamEnded(Stream& stream, const EtcdErrorInfo* error_info) {
  // After the end of all streams there must be no callbacks.
  DeliverPending();
  bool stopped = false;
  {
    MutexLock lock(mu_);
    HERALD_CHECK(stream_.get() == &stream);
    stream_.reset();
    avoid_ = EtcdEndpoints::Set{1} << stream.target().endpoint;
    if (created_ && rpc_->Now() - opened_at_ >= kStableAfter) backoff_.Reset();
    stopped = stopped_;
  }
  if (!stopped) RetryOpenLater();
  rpc_->EndStream(&stream, stream.target(), stopped ? nullptr : error_info);
}

}  // namespace herald::store
