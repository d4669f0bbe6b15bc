#include "server/events/list_stream.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/yaml/yaml.h"
#include "base/limit/too_many_requests.h"
#include "base/thread/async_loop.h"
#include "base/thread/mutex.h"

namespace herald::server {
namespace {

Status TooLongForYaml() {
  return Status(
      StatusReason::kNotAcceptable,
      fmt::format("the list is too long to be encoded as application/yaml (limit is {} bytes of "
                  "JSON): use the limit parameter or accept application/json",
                  kMaxYamlBytes));
}

// One list. Pump() does its work. Any thread may call it; one thread at a time runs it.
class ListStream : public std::enable_shared_from_this<ListStream> {
 public:
  ListStream(ListAnswer answer, bool has_limit)
      : answer_(std::move(answer)),
        responder_(answer_.exchange->responder()),
        encoder_(answer_.form, answer_.now),
        is_yaml_(answer_.form.media == MediaType::kYaml),
        phase_(has_limit || is_yaml_ || encoder_.needs_length() ? Phase::kMeasuring
                                                                : Phase::kSending) {}

  void Begin() {
    // The connection keeps both callbacks, and with them this list, until the response has ended.
    responder_->Observe([self = shared_from_this()] { self->Pump(); },
                        [self = shared_from_this()] {
                          self->closed_.store(true);
                          if (self->answer_.cancelled) self->answer_.cancelled->store(true);
                          self->Pump();
                        });
    Pump();
  }

 private:
  enum class Phase : std::uint8_t { kMeasuring, kSending, kKept, kDone };
  using Chunk = Result<std::vector<store::Entry>>;

  void Pump() {
    const auto self = shared_from_this();
    one_at_a_time_.Run([this] { Work(); });
  }

  // Everything below is called only by the pumping thread.

  void Work() {
    if (phase_ == Phase::kDone) return;
    if (closed_.load()) return Finish();
    if (is_busy_) {
      std::optional<Chunk> chunk;
      std::optional<std::string> yaml;
      {
        MutexLock lock(mu_);
        chunk = std::exchange(arrived_, std::nullopt);
        yaml = std::exchange(converted_, std::nullopt);
      }
      if (!chunk && !yaml) return;
      is_busy_ = false;
      if (chunk) Take(*std::move(chunk));
      if (yaml) TakeYaml(*yaml);
    }
    while (phase_ == Phase::kKept && !kept_.empty() && !is_full()) SendKept();
    if (phase_ == Phase::kDone || is_busy_) return;
    if (phase_ == Phase::kMeasuring || (phase_ == Phase::kSending && !all_sent_)) {
      if (phase_ == Phase::kMeasuring || !is_full()) ReadNext();
      return;
    }
    // Bytes that the client has not read are still charged, so the end waits for them.
    if (!all_sent_ || responder_->queued() > 0) return;
    answer_.exchange->End();
    Finish();
  }

  bool is_full() const { return responder_->queued() >= kLowWaterBytes; }

  void ReadNext() {
    is_busy_ = true;
    answer_.reader->Next([self = shared_from_this()](Chunk chunk) {
      {
        MutexLock lock(self->mu_);
        self->arrived_.emplace(std::move(chunk));
      }
      self->Pump();
    });
  }

  void Take(Chunk chunk) {
    if (!chunk) return Fail(chunk.error());
    std::string piece;
    if (phase_ == Phase::kSending && !head_sent_) AppendHead(&piece);
    if (Status bad = encoder_.AppendItems(*chunk, &piece); !bad.ok()) return Fail(bad);
    if (phase_ == Phase::kMeasuring) return Measure(std::move(piece));
    const bool last = answer_.reader->is_done();
    if (last) encoder_.AppendTail(answer_.reader->metadata(), &piece);
    if (!ChargeFor(responder_->queued() + piece.size())) return Fail(TooManyRequests());
    Send(std::move(piece), last);
  }

  void Measure(std::string piece) {
    items_bytes_ += piece.size();
    if (keeps_ && !Keep(std::move(piece))) return;
    if (!answer_.reader->is_done()) return;
    const ListMeta& metadata = answer_.reader->metadata();
    if (!keeps_) {
      answer_.reader->Rewind();
      encoder_.Rewind();
      phase_ = Phase::kSending;
      return;
    }
    std::string head;
    encoder_.AppendHead(metadata, items_bytes_, &head);
    if (kept_.empty()) kept_.emplace_back();
    kept_.front().insert(0, head);
    encoder_.AppendTail(metadata, &kept_.back());
    phase_ = Phase::kKept;
    if (is_yaml_) MakeYaml();
  }

  // False if the list has failed.
  bool Keep(std::string piece) {
    if (is_yaml_ && items_bytes_ > kMaxYamlBytes) {
      Fail(TooLongForYaml());
      return false;
    }
    const std::size_t bytes = piece.size();
    if (!ChargeFor(kept_bytes_ + bytes)) {
      if (is_yaml_) {
        Fail(TooManyRequests());
        return false;
      }
      keeps_ = false;
      kept_.clear();
      ChargeFor(0);
      return true;
    }
    kept_bytes_ += bytes;
    if (bytes > 0) kept_.push_back(std::move(piece));
    return true;
  }

  void MakeYaml() {
    std::string json;
    for (const std::string& piece : kept_) json += piece;
    kept_.clear();
    const auto convert = [self = shared_from_this(),
                          json = std::make_shared<std::string>(std::move(json))] {
      std::string yaml = JsonToYaml(*json);
      json->clear();
      json->shrink_to_fit();
      {
        MutexLock lock(self->mu_);
        self->converted_.emplace(std::move(yaml));
      }
      self->Pump();
      return FairQueue::Step{.cost = self->items_bytes_, .done = true};
    };
    is_busy_ = true;
    const bool is_short = items_bytes_ <= Exchange::kPieceBytes;
    const Status rejected = answer_.long_work->Add(
        answer_.flow, is_short ? FairQueue::Kind::kShort : FairQueue::Kind::kLong, convert);
    if (!rejected.ok()) Fail(rejected);
  }

  void TakeYaml(const std::string& yaml) {
    if (!ChargeFor(yaml.size())) return Fail(TooManyRequests());
    for (std::size_t at = 0; at < yaml.size(); at += Exchange::kPieceBytes) {
      kept_.push_back(yaml.substr(at, Exchange::kPieceBytes));
    }
  }

  void SendKept() {
    std::string piece = std::move(kept_.front());
    kept_.pop_front();
    Send(std::move(piece), kept_.empty());
    if (phase_ == Phase::kDone) return;
    std::size_t left = responder_->queued();
    for (const std::string& each : kept_) left += each.size();
    ChargeFor(left);  // less than before
  }

  void Send(std::string piece, bool last) {
    Exchange& exchange = *answer_.exchange;
    const std::string_view type = MediaTypeName(answer_.form.media);
    const bool first = !std::exchange(head_sent_, true);
    all_sent_ = last;
    if (!first || !last || piece.size() > Exchange::kPieceBytes) {
      return exchange.SendPiece(type, std::move(piece), last);
    }
    // A response of ordinary size.
    if (answer_.form.media == MediaType::kJson) {
      exchange.SendJson(200, std::move(piece));
    } else {
      exchange.Send(200, type, std::move(piece));
    }
    Finish();
  }

  void AppendHead(std::string* out) const {
    encoder_.AppendHead(answer_.reader->metadata(), items_bytes_, out);
  }

  // Sets the charge to the bytes that are held. False: there is no room.
  bool ChargeFor(std::size_t held) {
    const std::size_t extra =
        held > ListBudget::kListBytes ? held - ListBudget::kListBytes : std::size_t{0};
    if (extra > extra_ && !answer_.charge->Grow(extra - extra_)) return false;
    if (extra < extra_) answer_.charge->Shrink(extra_ - extra);
    extra_ = extra;
    return true;
  }

  void Fail(const Status& status) {
    if ((head_sent_ || status.code() >= 500) && answer_.log) {
      answer_.log({.level = LogLevel::kError,
                   .message = "sending a list failed",
                   .fields = {{"error", status.message()}}});
    }
    answer_.exchange->SendStatus(status);
    Finish();
  }

  void Finish() {
    phase_ = Phase::kDone;
    if (answer_.cancelled) answer_.cancelled->store(true);
    kept_.clear();
    // The connection may keep this list for a while, but its memory is released now.
    answer_.exchange.reset();
    answer_.charge.reset();
    answer_.reader.reset();
    answer_.owner.reset();
    responder_.reset();
  }

  ListAnswer answer_;
  std::shared_ptr<http::Responder> responder_;
  ListEncoder encoder_;
  const bool is_yaml_;
  OneAtATime one_at_a_time_;
  std::atomic<bool> closed_{false};

  Mutex mu_;  // a leaf: nothing is called under it
  std::optional<Chunk> arrived_ GUARDED_BY(mu_);
  std::optional<std::string> converted_ GUARDED_BY(mu_);

  // Used only by the pumping thread.
  Phase phase_;
  bool is_busy_ = false;  // a chunk is being read, or converted to YAML
  bool head_sent_ = false;
  bool all_sent_ = false;
  bool keeps_ = true;             // while measuring: encoded pieces are kept in kept_
  std::deque<std::string> kept_;  // pieces
  std::size_t kept_bytes_ = 0;
  std::size_t items_bytes_ = 0;
  std::size_t extra_ = 0;  // charged in addition to kListBytes
};

}  // namespace

void SendList(ListAnswer answer) {
  const bool has_limit = answer.reader->has_limit();
  std::make_shared<ListStream>(std::move(answer), has_limit)->Begin();
}

}  // namespace herald::server
