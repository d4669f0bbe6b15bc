#pragma once

#include <string>
#include <string_view>

#include "client/rest/event_format.h"
#include "herald/api/codec.h"
#include "herald/client/dynamic.h"
#include "herald/client/events.h"

namespace herald {

// How objects of a type are asked for and read: what the typed client, the dynamic one, watchers
// and informers do not have in common. Immutable.
template <typename T>
class ResourceCodec;

template <>
class ResourceCodec<Event> {
 public:
  using List = EventList;
  using Frame = WatchEvent;

  explicit ResourceCodec(const Resource& resource, WireFormat format = WireFormat::kJson)
      : api_(resource.group.empty() ? EventApi::kCoreV1 : EventApi::kEventsV1), format_(format) {}

  std::string_view accept() const { return AcceptOf(format_); }
  Result<EventList> ReadList(std::string_view content_type, std::string_view body) const {
    return CodecOf(content_type).DecodeEventList(body, api_);
  }
  const Codec& StreamCodec(std::string_view content_type) const { return CodecOf(content_type); }
  // Over what *frame held before, as Codec::DecodeWatchFrame() does.
  Status ReadFrame(const Codec& codec, std::string_view payload, WatchEvent* frame) const {
    return codec.DecodeWatchFrame(payload, api_, frame);
  }
  static const std::string& ResourceVersion(const Event& event) {
    return event.metadata.resource_version;
  }
  static std::string Key(const Event& event) {
    return event.metadata.namespace_ + "/" + event.metadata.name;
  }
  static bool EndsInitialEvents(const Event& bookmark);

 private:
  const EventApi api_;
  const WireFormat format_;
};

template <>
class ResourceCodec<Object> {
 public:
  using List = ObjectList;
  using Frame = ObjectWatchEvent;

  explicit ResourceCodec(const Resource& /*resource*/, WireFormat /*format*/ = WireFormat::kJson) {}

  std::string_view accept() const { return "application/json"; }
  Result<ObjectList> ReadList(std::string_view content_type, std::string_view body) const;
  const Codec& StreamCodec(std::string_view /*content_type*/) const { return JsonCodec(); }
  Status ReadFrame(const Codec& codec, std::string_view payload, ObjectWatchEvent* frame) const;
  static const std::string& ResourceVersion(const Object& object) {
    return object.resource_version();
  }
  static std::string Key(const Object& object) { return object.Key(); }
  static bool EndsInitialEvents(const Object& bookmark);
};

}  // namespace herald
