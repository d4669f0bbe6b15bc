#include "store/etcd/watch.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <optional>

#include "base/bytes/random.h"
#include "base/check.h"

namespace herald::store {
namespace {

// Between tries to open a stream. Short, because it costs nothing while no endpoint works, and
// because every client of this replica waits for it.
constexpr BackoffOptions kOpenBackoff{.initial = std::chrono::milliseconds(50),
                                      .factor = 2.0,
                                      .cap = std::chrono::seconds(2),
                                      .jitter = 0.5,
                                      .reset_after = std::chrono::nanoseconds(0)};

// A stream that lived as long as this was a good one: the next is opened without delay.
constexpr std::chrono::seconds kWorked{1};

// So many changes are told without waiting for more: while a batch is applied, readers wait.
constexpr std::size_t kMaxGathered = 256;

// How often, within the time that a silent stream is trusted, somebody looks at it.
constexpr int kLooksPerKeepalive = 4;

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

// One gRPC stream. It owns itself from Run() until gRPC has given back all that it was lent.
//
// At most one read and one write are under way, as gRPC demands; Finish() is asked for once
// when reading has ended.
class EtcdWatcher::Stream final : public EtcdStream, public std::enable_shared_from_this<Stream> {
 public:
  Stream(std::shared_ptr<EtcdWatcher> watcher, std::uint64_t serial)
      : watcher_(std::move(watcher)), serial_(serial) {}

  // Finds a place for it. Where that is false it is of no use.
  bool Begin(EtcdEndpoints::Set avoid) {
    auto place = watcher_->rpc_->BeginStream(this, avoid);
    if (place) place_ = *std::move(place);
    return place_.connection != nullptr;
  }

  void Run(etcdserverpb::WatchRequest request) {
    self_ = shared_from_this();
    request_ = std::move(request);
    PrepareContext(&context_, /*needs_leader=*/true, place_.token);
    stream_ = place_.connection->watch.PrepareAsyncWatch(&context_, place_.connection->queue);
    stream_->StartCall(start_.Lend());
  }

  // Any thread.
  void Cancel() override {
    cancelled_ = true;
    context_.TryCancel();
  }
  void AskProgress() {
    MutexLock lock(mu_);
    ask_ = true;
    WriteNext();
  }

  const EtcdRpc::Place& place() const { return place_; }
  std::uint64_t serial() const { return serial_; }

 private:
  // What a queue hands back, and the member that it is for.
  class Tag final : public EtcdTag {
   public:
    using Handler = void (Stream::*)(bool ok);
    Tag(Stream* stream, Handler handler) : stream_(stream), handler_(handler) {}

   private:
    void Run(bool ok) override { (stream_->*handler_)(ok); }

    Stream* const stream_;
    const Handler handler_;
  };

  void Started(bool ok) {
    {
      MutexLock lock(mu_);
      writing_ = ok;
    }
    if (!ok) return Finish();
    stream_->Write(request_, write_.Lend());
    Read();
  }

  void Read() { stream_->Read(&response_, read_.Lend()); }

  void HaveRead(bool ok) {
    if (!ok) return Finish();
    if (!watcher_->Received(*this, response_)) Cancel();
    // Also after that, to learn of the end.
    response_.Clear();
    Read();
  }

  void Written(bool) {
    bool over = false;
    {
      MutexLock lock(mu_);
      writing_ = false;
      WriteNext();
      over = finished_ && !writing_;
    }
    if (over) Over();
  }

  // gRPC does not complete it inside, so the lock may be held.
  void WriteNext() REQUIRES(mu_) {
    if (!ask_ || writing_ || finishing_) return;
    ask_ = false;
    writing_ = true;
    request_.mutable_progress_request();
    stream_->Write(request_, write_.Lend());
  }

  void Finish() {
    {
      MutexLock lock(mu_);
      finishing_ = true;
    }
    stream_->Finish(&status_, finish_.Lend());
  }

  void Finished(bool) {
    bool over = false;
    {
      MutexLock lock(mu_);
      finished_ = true;
      over = !writing_;
    }
    if (over) Over();
  }

  void Over() {
    const std::shared_ptr<Stream> self = std::move(self_);
    stream_.reset();  // before the context that it lives in
    if (cancelled_) return watcher_->Ended(*this, nullptr);
    const EtcdVerdict verdict = JudgeEtcdError(
        status_.ok() ? GrpcCode::kUnavailable : static_cast<GrpcCode>(status_.error_code()),
        status_.ok() ? std::string("the watch was closed") : status_.error_message());
    watcher_->Ended(*this, &verdict);
  }

  const std::shared_ptr<EtcdWatcher> watcher_;
  const std::uint64_t serial_;
  EtcdRpc::Place place_;
  std::atomic<bool> cancelled_ = false;  // by us, so its end says nothing of its member
  std::shared_ptr<Stream> self_;
  grpc::ClientContext context_;
  etcdserverpb::WatchResponse response_;
  grpc::Status status_;
  std::unique_ptr<
      grpc::ClientAsyncReaderWriter<etcdserverpb::WatchRequest, etcdserverpb::WatchResponse>>
      stream_;
  Tag start_{this, &Stream::Started};
  Tag read_{this, &Stream::HaveRead};
  Tag write_{this, &Stream::Written};
  Tag finish_{this, &Stream::Finished};

  // Guards all below. Inside of EtcdWatcher's.
  Mutex mu_;
  etcdserverpb::WatchRequest request_;   // while writing: what is written
  bool writing_ GUARDED_BY(mu_) = true;  // until it has started
  bool ask_ GUARDED_BY(mu_) = false;
  bool finishing_ GUARDED_BY(mu_) = false;
  bool finished_ GUARDED_BY(mu_) = false;
};

EtcdWatcher::EtcdWatcher(EtcdRpc* rpc, std::string prefix, Revision after, Callback callback)
    : rpc_(rpc),
      prefix_(std::move(prefix)),
      keepalive_(rpc->options().keepalive),
      callback_(std::move(callback)),
      told_(after),
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
  delivered_.Wait(lock, [this]() REQUIRES(mu_) { return delivering_ == std::thread::id(); });
  callback.swap(callback_);
  lock.Unlock();  // before what it holds is destroyed
}

void EtcdWatcher::RequestProgress() {
  MutexLock lock(mu_);
  if (stopped_) return;
  if (stream_ && created_) {
    stream_->AskProgress();
  } else {
    want_progress_ = true;
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
      self->OpenLater();
    }
  });
}

void EtcdWatcher::OpenLater() {
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
    return OpenLater();
  }
  stream_ = stream;
  opened_ = rpc_->Now();
  created_ = false;
  asking_version_ = false;
  sound_ = Sound::kUnknown;
  heard_ = rpc_->Now();
  asked_ = {};
  held_.clear();

  etcdserverpb::WatchRequest request;
  etcdserverpb::WatchCreateRequest& create = *request.mutable_create_request();
  create.set_key(prefix_.empty() ? std::string(1, '\0') : prefix_);
  create.set_range_end(EtcdPrefixEnd(prefix_));
  create.set_start_revision(std::max<Revision>(told_, 1));  // 0 would mean "from now on"
  create.set_progress_notify(true);
  create.set_prev_kv(true);
  create.set_fragment(true);
  lock.Unlock();
  stream->Run(std::move(request));
}

void EtcdWatcher::ScheduleTick() {
  rpc_->executor().PostAt(rpc_->Now() + keepalive_ / kLooksPerKeepalive, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Tick();
  });
}

void EtcdWatcher::Tick() {
  {
    MutexLock lock(mu_);
    if (stopped_) return;
    const SteadyTime now = rpc_->Now();
    if (stream_ && created_ && sound_ == Sound::kUnknown) AskVersion();
    // Nothing is read while the callback runs.
    if (stream_ && delivering_ == std::thread::id() && now - heard_ >= keepalive_) {
      if (created_ && asked_ == SteadyTime()) {
        asked_ = now;
        stream_->AskProgress();
      } else if (!created_ || now - asked_ >= keepalive_) {
        rpc_->Suspect(stream_->place().endpoint);
        stream_->Cancel();
      }
    }
  }
  ScheduleTick();
}

bool EtcdWatcher::Received(Stream& stream, etcdserverpb::WatchResponse& response) {
  if (response.canceled()) return Cancelled(stream, response);
  EtcdWatchBatch batch;
  std::optional<Revision> progress;
  {
    MutexLock lock(mu_);
    if (stopped_ || stream_.get() != &stream) return false;
    heard_ = rpc_->Now();
    asked_ = {};
    if (response.created()) {
      created_ = true;
      refusal_ = StatusReason::kOk;
      AskVersion();
      if (std::exchange(want_progress_, false)) stream.AskProgress();
    } else if (response.events_size() > 0) {
      batch = TakeChanges(response);
    } else if (sound_ == Sound::kUnknown) {
      want_progress_ = true;  // ask again when we know whether to believe it
    } else if (held_.empty() && sound_ == Sound::kYes && rpc_->progress_is_sound()) {
      told_ = std::max(told_, response.header().revision());
      progress = told_;
    }
  }
  if (!batch.changes.empty()) Gather(std::move(batch));
  if (progress) {
    DeliverGathered();
    Deliver(EtcdWatchBatch{.changes = {}, .revision = *progress});
  }
  MutexLock lock(mu_);
  return !stopped_;
}

void EtcdWatcher::Gather(EtcdWatchBatch batch) {
  if (gathered_.changes.empty()) {
    gathered_ = std::move(batch);
    rpc_->Postpone([self = shared_from_this()] { self->DeliverGathered(); });
  } else {
    std::move(batch.changes.begin(), batch.changes.end(), std::back_inserter(gathered_.changes));
    gathered_.revision = batch.revision;
  }
  if (gathered_.changes.size() >= kMaxGathered) DeliverGathered();
}

void EtcdWatcher::DeliverGathered() {
  if (!gathered_.changes.empty()) Deliver(std::exchange(gathered_, {}));
}

EtcdWatchBatch EtcdWatcher::TakeChanges(etcdserverpb::WatchResponse& response) {
  EtcdWatchBatch batch{.changes = std::move(held_), .revision = 0};
  held_.clear();
  batch.changes.reserve(batch.changes.size() + static_cast<std::size_t>(response.events_size()));
  for (etcdserverpb::Event& event : *response.mutable_events()) {
    if (event.kv().mod_revision() > told_) batch.changes.push_back(ToChange(event));
  }
  if (response.fragment() && !batch.changes.empty()) {
    const Revision last = batch.changes.back()->revision();
    const auto cut =
        std::find_if(batch.changes.begin(), batch.changes.end(),
                     [last](const auto& change) { return change->revision() == last; });
    held_.assign(std::make_move_iterator(cut), std::make_move_iterator(batch.changes.end()));
    batch.changes.erase(cut, batch.changes.end());
  }
  if (!batch.changes.empty()) told_ = batch.changes.back()->revision();
  batch.revision = told_;
  return batch;
}

bool EtcdWatcher::Cancelled(Stream& stream, const etcdserverpb::WatchResponse& response) {
  const std::string_view text = WatchCancelText(response.cancel_reason());
  const EtcdVerdict verdict = JudgeEtcdError(GrpcCode::kUnavailable, text);
  if (response.compact_revision() > 0 || verdict.status.Is(StatusReason::kExpired)) {
    DeliverGathered();
    Deliver(
        Status(StatusReason::kExpired, "etcdserver: mvcc: required revision has been compacted"));
    MutexLock lock(mu_);
    stopped_ = true;
    return false;
  }
  if (verdict.token) rpc_->RefuseToken(stream.place().token);
  bool news = false;
  {
    MutexLock lock(mu_);
    news = std::exchange(refusal_, verdict.status.reason()) != verdict.status.reason();
  }
  if (news && !verdict.token) {
    rpc_->Log(LogLevel::kWarn, "etcd refuses a watch", {{"error", verdict.status.message()}});
  }
  return false;
}

void EtcdWatcher::AskVersion() {
  if (std::exchange(asking_version_, true)) return;
  rpc_->AskVersion(stream_->place(), [weak = weak_from_this(),
                                      serial = stream_->serial()](std::optional<bool> sound) {
    if (const auto self = weak.lock()) self->VersionIs(serial, sound);
  });
}

void EtcdWatcher::VersionIs(std::uint64_t serial, std::optional<bool> sound) {
  MutexLock lock(mu_);
  // While the stream lives, so does the connection that both went over, and the process at its
  // other end.
  if (stopped_ || !stream_ || stream_->serial() != serial) return;
  asking_version_ = false;
  if (!sound) return;  // Tick() asks again
  sound_ = *sound ? Sound::kYes : Sound::kNo;
  if (std::exchange(want_progress_, false)) stream_->AskProgress();
}

void EtcdWatcher::Deliver(Result<EtcdWatchBatch> batch) {
  Callback* callback = nullptr;
  {
    MutexLock lock(mu_);
    if (stopped_) return;
    delivering_ = std::this_thread::get_id();
    callback = &callback_;
  }
  // Nobody else touches it: Stop() waits, and there is one stream at a time.
  (*callback)(std::move(batch));
  Callback over;
  MutexLock lock(mu_);
  delivering_ = {};
  heard_ = rpc_->Now();
  if (stopped_) over.swap(callback_);
  delivered_.NotifyAll();
  lock.Unlock();  // before what it holds is destroyed
}

void EtcdWatcher::Ended(Stream& stream, const EtcdVerdict* verdict) {
  // Whoever waits for the end of all streams may rely on it that nothing is told afterwards.
  DeliverGathered();
  bool stopped = false;
  {
    MutexLock lock(mu_);
    HERALD_CHECK(stream_.get() == &stream);
    stream_.reset();
    avoid_ = EtcdEndpoints::Set{1} << stream.place().endpoint;
    if (created_ && rpc_->Now() - opened_ >= kWorked) backoff_.Reset();
    stopped = stopped_;
  }
  if (!stopped) OpenLater();
  rpc_->EndStream(&stream, stream.place(), stopped ? nullptr : verdict);
}

}  // namespace herald::store
