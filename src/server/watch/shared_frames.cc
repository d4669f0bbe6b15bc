#include "server/watch/shared_frames.h"

#include <string>
#include <utility>

#include "server/events/stored_event.h"

namespace herald::server {
namespace {

std::size_t BytesOf(const store::Change& change) {
  std::size_t bytes = change.deleted() ? 0 : change.current().value->size();
  if (const std::optional<store::Entry>& previous = change.previous()) {
    bytes += previous->value->size();
  }
  return bytes;
}

}  // namespace

Result<Event> DecodePrevious(const store::Change& change, const store::Entry& previous) {
  Result<Event> event = DecodeStored(previous);
  if (event) event->metadata.resource_version = ToResourceVersion(change.resume_revision());
  return event;
}

std::shared_ptr<const SharedFrames::Decoded> SharedFrames::Decode(const store::Change& change) {
  {
    MutexLock lock(mu_);
    if (decoded_ != nullptr) return decoded_;
  }
  Decoded made;
  const auto take = [&made](Result<Event> event, std::optional<Event>* out) {
    if (event) {
      *out = *std::move(event);
    } else {
      made.status = event.error();
    }
  };
  if (!change.deleted()) take(DecodeStored(change.current()), &made.current);
  if (const std::optional<store::Entry>& previous = change.previous()) {
    take(DecodePrevious(change, *previous), &made.previous);
  }
  auto decoded = std::make_shared<const Decoded>(std::move(made));
  MutexLock lock(mu_);
  if (!forgotten_) decoded_ = decoded;
  return decoded;
}

http::Chunk SharedFrames::Find(WatchType type, const Form& form) {
  MutexLock lock(mu_);
  for (const Frame& made : frames_) {
    if (made.type == type && made.form == form) return made.bytes;
  }
  return nullptr;
}

http::Chunk SharedFrames::Make(WatchType type, const Event& event, const Form& form, WallTime now) {
  auto bytes = std::make_shared<const std::string>(EncodeFrame(type, event, form, false, now));
  MutexLock lock(mu_);
  if (!forgotten_) frames_.push_back({type, form, bytes});
  return bytes;
}

void SharedFrames::Forget() {
  std::shared_ptr<const Decoded> decoded;
  std::vector<Frame> frames;
  MutexLock lock(mu_);
  forgotten_ = true;
  decoded.swap(decoded_);
  frames.swap(frames_);
}

std::shared_ptr<SharedFrames> RecentFrames::Of(const store::Change& change) {
  std::shared_ptr<void> found = change.attachment();
  if (found == nullptr) {
    auto made = std::make_shared<SharedFrames>();
    found = change.Attach(made);
    if (found == made) Remember(std::move(made), BytesOf(change));
  }
  return std::static_pointer_cast<SharedFrames>(found);
}

void RecentFrames::Remember(std::shared_ptr<SharedFrames> frames, std::size_t bytes) {
  std::vector<Remembered> oldest;
  {
    MutexLock lock(mu_);
    remembered_.push_back({std::move(frames), bytes});
    bytes_ += bytes;
    while (remembered_.size() > kMaxRemembered || bytes_ > kMaxRememberedBytes) {
      bytes_ -= remembered_.front().bytes;
      oldest.push_back(std::move(remembered_.front()));
      remembered_.pop_front();
    }
  }
  for (const Remembered& one : oldest) one.frames->Forget();
}

}  // namespace herald::server
