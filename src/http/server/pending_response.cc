#include "http/server/pending_response.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "http/response_head.h"

namespace herald::http {

namespace {

Status BodyCancelled() {
  return Status(StatusReason::kCancelled, "the body of the request is no longer needed");
}

}  // namespace

void ReadyList::Push(std::shared_ptr<PendingResponse> response) {
  const MutexLock lock(mu_);
  if (!wake_) return;
  ready_.push_back(std::move(response));
  if (ready_.size() == 1) wake_();
}

void ReadyList::Take(std::vector<std::shared_ptr<PendingResponse>>& into) {
  const MutexLock lock(mu_);
  ready_.swap(into);
}

void ReadyList::Close() {
  // Destroyed without the lock: the destructor of a response may run destructors of the handler.
  std::vector<std::shared_ptr<PendingResponse>> ready;
  const MutexLock lock(mu_);
  wake_ = nullptr;
  ready_.swap(ready);
}

PendingResponse::PendingResponse(std::shared_ptr<ResponseGroup> group, std::int32_t stream)
    : group_(std::move(group)), stream_(stream) {
  group_->counters->streams.fetch_add(1, std::memory_order_relaxed);
}

PendingResponse::~PendingResponse() { Release(); }

void PendingResponse::ReadBody(BodyReader reader) {
  bool push = false;
  auto wanted = std::make_unique<BodyReader>(std::move(reader));
  {
    const MutexLock lock(mu_);
    if (!released_ && !aborted_ && phase_ == Phase::kNothing) {
      reader_.swap(wanted);
      push = Schedule();
    }
  }
  Push(push);
  if (wanted) wanted->done(BodyCancelled());
}

bool PendingResponse::wants_body() const {
  const MutexLock lock(mu_);
  return reader_ != nullptr;
}

bool PendingResponse::ReserveBody(std::size_t bytes) {
  // Only the codec removes the reader, so it exists during this call.
  BodyReader* reader = nullptr;
  {
    const MutexLock lock(mu_);
    reader = reader_.get();
  }
  if (bytes > reader->max_bytes) {
    GiveBody(Status(StatusReason::kRequestEntityTooLarge,
                    fmt::format("the body is larger than {} bytes", reader->max_bytes)));
    return false;
  }
  if (reader->reserve && !reader->reserve(bytes)) {
    GiveBody(Status(StatusReason::kTooManyRequests, "no memory is left for the body"));
    return false;
  }
  reserved_ = bytes;
  max_body_bytes_ = reader->max_bytes;
  return true;
}

bool PendingResponse::GrowBody(std::size_t bytes) {
  if (bytes <= reserved_) return true;
  constexpr std::size_t kFirstStep = std::size_t{64} * 1024;
  const std::size_t step = std::min(std::max(kFirstStep, 2 * reserved_), max_body_bytes_);
  return ReserveBody(std::max(bytes, step));
}

void PendingResponse::GiveBody(Result<std::string> body) {
  std::unique_ptr<BodyReader> reader;
  {
    const MutexLock lock(mu_);
    reader.swap(reader_);
  }
  if (!reader) return;
  try {
    reader->done(std::move(body));
  } catch (...) {
    Abandon();
  }
}

void PendingResponse::DropBody() { GiveBody(BodyCancelled()); }

void PendingResponse::Send(Response response) {
  bool push = false;
  {
    const MutexLock lock(mu_);
    push = SendLocked(std::move(response));
  }
  Push(push);
}

bool PendingResponse::SendLocked(Response response) {
  if (phase_ != Phase::kNothing || released_ || aborted_) return false;
  phase_ = Phase::kWhole;
  ended_ = true;
  head_.status = response.status;
  head_.headers = std::move(response.headers);
  if (!response.body.empty()) {
    Charge(response.body.size());
    queued_ = response.body.size();
    chunks_.push_back(std::make_shared<const std::string>(std::move(response.body)));
  }
  return Schedule();
}

bool PendingResponse::Charge(std::size_t bytes) {
  const std::size_t before = Queued().fetch_add(bytes);
  // One response of any size is always accepted; of a stream, one piece that is not too large.
  if (!is_stream() && before == queued_) return true;
  const bool is_exempt = !is_stream() || queued_ == 0;
  const std::size_t factor = is_exempt ? ResponseGroup::kWholeFactor : 1;
  if (before + bytes <= factor * group_->max_queued_bytes) return true;
  group_->overflow = true;
  return false;
}

void PendingResponse::Start(ResponseHead head) {
  bool push = false;
  std::function<void()> closed;
  {
    const MutexLock lock(mu_);
    if (phase_ != Phase::kNothing || released_ || aborted_) return;
    phase_ = Phase::kPieces;
    head_ = std::move(head);
    if (is_stream()) group_->streams.fetch_add(1, std::memory_order_relaxed);
    push = Schedule();
    if (draining_ && is_stream()) closed = TakeClosed();
  }
  Push(push);
  if (closed) closed();
}

std::size_t PendingResponse::Write(Chunk chunk) {
  bool push = false;
  std::size_t queued = 0;
  {
    const MutexLock lock(mu_);
    if (phase_ != Phase::kPieces || ended_ || aborted_ || released_ || !chunk || chunk->empty())
      return queued_;
    const bool fits = Charge(chunk->size());
    queued_ += chunk->size();
    chunks_.push_back(std::move(chunk));
    push = fits ? Schedule() : AbortLocked();
    queued = queued_;
  }
  Push(push);
  return queued;
}

void PendingResponse::End() {
  bool push = false;
  {
    const MutexLock lock(mu_);
    if (phase_ != Phase::kPieces || ended_ || aborted_ || released_) return;
    ended_ = true;
    push = Schedule();
  }
  Push(push);
}

void PendingResponse::Abort() {
  bool push = false;
  std::function<void()> closed;  // destroyed without being called: the caller knows
  {
    const MutexLock lock(mu_);
    const bool already_aborted = aborted_;  // for another reason; `closed` is still to be called
    push = AbortLocked();
    if (aborted_ && !already_aborted) closed.swap(closed_);
  }
  Push(push);
}

bool PendingResponse::AbortLocked() {
  if (ended_ || aborted_ || released_) return false;
  aborted_ = true;
  Discard();
  return Schedule();
}

std::size_t PendingResponse::queued() const {
  const MutexLock lock(mu_);
  return queued_;
}

std::size_t PendingResponse::fair_share() const {
  // Half of the limit is left for the last piece of each stream, which may exceed the share.
  const std::size_t streams = group_->streams.load(std::memory_order_relaxed);
  return group_->max_queued_bytes / 2 / std::max<std::size_t>(streams, 1);
}

void PendingResponse::Observe(std::function<void()> drained, std::function<void()> closed) {
  std::function<void()> call;
  {
    const MutexLock lock(mu_);
    if (phase_ == Phase::kWhole || ended_) return;
    drained_ = std::move(drained);
    closed_ = std::move(closed);
    if (released_ || (draining_ && is_stream())) call = TakeClosed();
  }
  if (call) call();
}

void PendingResponse::Abandon() {
  bool push = false;
  {
    const MutexLock lock(mu_);
    if (phase_ == Phase::kNothing) push = SendLocked(PlainResponse(500, ReasonPhrase(500)));
  }
  Push(push);
  Abort();
}

std::optional<PendingResponse::Head> PendingResponse::TakeHead() {
  const MutexLock lock(mu_);
  if (phase_ == Phase::kNothing || head_taken_) return std::nullopt;
  head_taken_ = true;
  return Head{.status = head_.status,
              .headers = std::move(head_.headers),
              .whole = phase_ == Phase::kWhole,
              .body_bytes = queued_,
              .finite = !is_stream()};
}

PendingResponse::Piece PendingResponse::Read(char* to, std::size_t max) {
  const MutexLock lock(mu_);
  Piece piece;
  while (first_ < chunks_.size() && piece.bytes < max) {
    const std::string& chunk = *chunks_[first_];
    const std::size_t n = std::min(max - piece.bytes, chunk.size() - offset_);
    std::memcpy(to + piece.bytes, chunk.data() + offset_, n);
    piece.bytes += n;
    offset_ += n;
    if (offset_ < chunk.size()) break;
    offset_ = 0;
    chunks_[first_].reset();
    ++first_;
  }
  // Keeps the vector from growing without limit if it never becomes empty.
  constexpr std::size_t kCompactAt = 64;
  if (first_ == chunks_.size()) {
    chunks_.clear();
    first_ = 0;
  } else if (first_ >= kCompactAt && first_ * 2 >= chunks_.size()) {
    chunks_.erase(chunks_.begin(), chunks_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
  queued_ -= piece.bytes;
  Queued() -= piece.bytes;
  if (piece.bytes > 0 && queued_ == 0) emptied_ = true;
  piece.end = ended_ && queued_ == 0;
  piece.aborted = aborted_;
  return piece;
}

bool PendingResponse::is_between_pieces() const {
  const MutexLock lock(mu_);
  return offset_ == 0;
}

void PendingResponse::Hold() {
  const MutexLock lock(mu_);
  scheduled_ = true;
}

void PendingResponse::Acknowledge() {
  const MutexLock lock(mu_);
  scheduled_ = false;
}

void PendingResponse::NotifyDrained() {
  std::function<void()> drained;
  {
    const MutexLock lock(mu_);
    if (!emptied_) return;
    emptied_ = false;
    if (!ended_ && !released_ && queued_ == 0) drained = drained_;
  }
  if (drained) drained();
}

void PendingResponse::Drain() {
  std::function<void()> closed;
  {
    const MutexLock lock(mu_);
    draining_ = true;
    if (is_stream() && !ended_) closed = TakeClosed();
  }
  if (closed) closed();
}

void PendingResponse::Release() {
  DropBody();
  std::function<void()> closed;
  // Destroyed here, because they usually capture the Responder and with it this object; without the
  // lock, because of what else they may capture.
  std::function<void()> drained;
  std::function<void()> unused;
  {
    const MutexLock lock(mu_);
    if (released_) return;
    released_ = true;
    Discard();
    if (!ended_) closed = TakeClosed();
    if (is_stream()) group_->streams.fetch_sub(1, std::memory_order_relaxed);
    drained.swap(drained_);
    unused.swap(closed_);
    group_->counters->streams.fetch_sub(1, std::memory_order_relaxed);
  }
  if (closed) closed();
}

bool PendingResponse::Schedule() {
  if (scheduled_) return false;
  scheduled_ = true;
  return true;
}

void PendingResponse::Push(bool wanted) {
  if (wanted) group_->ready->Push(shared_from_this());
}

void PendingResponse::Discard() {
  Queued() -= queued_;
  queued_ = 0;
  chunks_.clear();
  first_ = 0;
  offset_ = 0;
}

std::atomic<std::size_t>& PendingResponse::Queued() {
  return is_stream() ? group_->streamed_bytes : group_->whole_bytes;
}

std::function<void()> PendingResponse::TakeClosed() {
  if (closed_notified_ || !closed_) return {};
  closed_notified_ = true;
  return std::exchange(closed_, nullptr);
}

namespace {

class ResponderHandle final : public Responder {
 public:
  explicit ResponderHandle(std::shared_ptr<PendingResponse> response)
      : response_(std::move(response)) {}
  ~ResponderHandle() override { response_->Abandon(); }
  ResponderHandle(const ResponderHandle&) = delete;
  ResponderHandle& operator=(const ResponderHandle&) = delete;

  void ReadBody(BodyReader reader) override { response_->ReadBody(std::move(reader)); }
  void Send(Response response) override { response_->Send(std::move(response)); }
  void Start(ResponseHead head) override { response_->Start(std::move(head)); }
  std::size_t Write(Chunk chunk) override { return response_->Write(std::move(chunk)); }
  void End() override { response_->End(); }
  void Abort() override { response_->Abort(); }
  std::size_t queued() const override { return response_->queued(); }
  std::size_t fair_share() const override { return response_->fair_share(); }
  void Observe(std::function<void()> drained, std::function<void()> closed) override {
    response_->Observe(std::move(drained), std::move(closed));
  }

 private:
  const std::shared_ptr<PendingResponse> response_;
};

}  // namespace

std::shared_ptr<Responder> MakeResponder(std::shared_ptr<PendingResponse> response) {
  return std::make_shared<ResponderHandle>(std::move(response));
}

}  // namespace herald::http
