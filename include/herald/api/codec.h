#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "herald/api/event.h"
#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// What happened to the object of a watch frame.
enum class WatchType : std::uint8_t { kAdded, kModified, kDeleted, kBookmark, kError };

// "ADDED", "MODIFIED", ...
HERALD_EXPORT std::string_view WatchTypeName(WatchType type);

// One frame of a watch. The object is a Status exactly when type is kError.
struct WatchEvent {
  WatchType type = WatchType::kAdded;
  std::variant<Event, Status> object{};

  bool operator==(const WatchEvent&) const = default;
};

// The largest body that an API server takes, and so the largest text of one event.
inline constexpr std::size_t kMaxRequestBytes = 3 << 20;

// A Codec turns events, lists, statuses and watch frames into the bytes of one
// wire format and back, in either API's spelling. What it writes is byte for byte
// what Kubernetes writes; what it accepts and refuses, and the words it refuses
// with, are Kubernetes' too.
//
// Every Append adds to *out and touches nothing that was there before, so that a
// caller can build a response in one buffer.
//
// Immutable, hence thread-safe.
class HERALD_EXPORT Codec {
 public:
  virtual ~Codec() = default;

  // "application/json"
  virtual std::string_view media_type() const = 0;

  virtual void AppendEvent(const Event& event, EventApi api, std::string* out) const = 0;
  virtual void AppendEventList(const EventList& list, EventApi api, std::string* out) const = 0;
  virtual void AppendStatus(const Status& status, std::string* out) const = 0;
  // REQUIRES: type != kError
  virtual void AppendWatchFrame(WatchType type, const Event& object, EventApi api,
                                std::string* out) const = 0;
  virtual void AppendWatchError(const Status& status, std::string* out) const = 0;

  // Reads one event of at most kMaxRequestBytes. kind and apiVersion may be missing;
  // where present they must be those of `api`. Members that the API does not have, and members
  // given twice, are passed over (the last one wins); with `field_errors` each is reported there as
  // Kubernetes words it: `unknown field "x"`. A server refuses them under fieldValidation=Strict
  // and warns under Warn. It stays empty where the event is refused for another reason.
  virtual Result<Event> DecodeEvent(std::string_view data, EventApi api,
                                    std::vector<std::string>* field_errors = nullptr) const = 0;
  virtual Result<EventList> DecodeEventList(std::string_view data, EventApi api) const = 0;

  // Reads the body of a failed request; nothing if it is not a Status at all, as
  // when a proxy answered with a page of HTML. The origin is the server.
  virtual std::optional<Status> DecodeStatus(std::string_view data) const = 0;

  // Cuts the first whole frame off a stream that arrives in pieces. Empty while
  // `buffer` does not hold one yet; an error if it never will, because the stream
  // is broken or the frame is over kMaxFrameBytes.
  struct Frame {
    std::string_view payload;  // what DecodeWatchFrame() takes
    std::size_t consumed = 0;  // how much of the buffer it took, delimiters included
  };
  virtual Result<std::optional<Frame>> NextFrame(std::string_view buffer) const = 0;
  // Reads a frame into *out, whatever that held before. An event that was there lends the
  // memory of its texts to the new one: read the frames of a stream into one WatchEvent, and
  // only those cost memory that somebody moves away from there. After an error *out may be
  // anything.
  virtual Status DecodeWatchFrame(std::string_view payload, EventApi api,
                                  WatchEvent* out) const = 0;

  // client-go's watch decoders refuse larger frames as well.
  static constexpr std::size_t kMaxFrameBytes = 16 << 20;
};

// application/json.
HERALD_EXPORT const Codec& JsonCodec();
// application/vnd.kubernetes.protobuf.
HERALD_EXPORT const Codec& ProtobufCodec();

}  // namespace herald
