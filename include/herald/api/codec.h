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

// The kind of change that a watch frame reports.
enum class WatchType : std::uint8_t { kAdded, kModified, kDeleted, kBookmark, kError };

// "ADDED", "MODIFIED", ...
HERALD_EXPORT std::string_view WatchTypeName(WatchType type);

// One frame of a watch. The object is a Status exactly when type is kError.
struct WatchEvent {
  WatchType type = WatchType::kAdded;
  std::variant<Event, Status> object{};

  bool operator==(const WatchEvent&) const = default;
};

// The largest body that an API server accepts, and so the largest encoded event, in bytes (3 MiB).
inline constexpr std::size_t kMaxRequestBytes = 3 << 20;

// A Codec encodes and decodes events, lists, statuses and watch frames in one wire format, in the
// spelling of either API. Its output is byte for byte the output of Kubernetes. It accepts and
// rejects the same input as Kubernetes, with the same error messages.
//
// Every Append function appends to *out and does not change what *out already holds, so a caller
// can build a response in one buffer.
//
// Immutable and thread-safe.
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

  // Decodes one event of at most kMaxRequestBytes. kind and apiVersion are optional; if present,
  // they must be those of `api`.
  //
  // Unknown fields are ignored, and of a field that occurs twice the last value counts. If
  // `field_errors` is not null, each such field is appended to it in Kubernetes' wording, such as
  // `unknown field "x"`; a server rejects them with fieldValidation=Strict and returns warnings
  // with Warn. It is left empty if the event is rejected for another reason.
  virtual Result<Event> DecodeEvent(std::string_view data, EventApi api,
                                    std::vector<std::string>* field_errors = nullptr) const = 0;
  virtual Result<EventList> DecodeEventList(std::string_view data, EventApi api) const = 0;

  // Decodes the body of a failed request. nullopt if it is not a Status, such as an HTML page that
  // a proxy sent. The origin of the result is kServer.
  virtual std::optional<Status> DecodeStatus(std::string_view data) const = 0;

  // The first frame of a buffer.
  struct Frame {
    std::string_view payload;  // the argument of DecodeWatchFrame()
    std::size_t consumed = 0;  // bytes of the buffer that it takes, delimiters included
  };
  // Finds the first complete frame of a stream that arrives in pieces. nullopt if `buffer` does not
  // hold a complete frame yet; an error if the stream is invalid or the frame is larger than
  // kMaxFrameBytes.
  virtual Result<std::optional<Frame>> NextFrame(std::string_view buffer) const = 0;
  // Decodes a frame into *out and replaces its value. The strings of an event in *out are reused,
  // so a caller that decodes all frames of a stream into one WatchEvent allocates only for the
  // events that it moves out. After an error the value of *out is unspecified.
  virtual Status DecodeWatchFrame(std::string_view payload, EventApi api,
                                  WatchEvent* out) const = 0;

  // 16 MiB, the limit of client-go's watch decoders.
  static constexpr std::size_t kMaxFrameBytes = 16 << 20;
};

// application/json.
HERALD_EXPORT const Codec& JsonCodec();
// application/vnd.kubernetes.protobuf.
HERALD_EXPORT const Codec& ProtobufCodec();

}  // namespace herald
