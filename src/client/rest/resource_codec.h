#pragma once

#include <string>
#include <string_view>

#include "client/rest/event_format.h"
#include "herald/api/codec.h"
#include "herald/client/dynamic.h"
#include "herald/client/events.h"

namespace herald {

// A ResourceCodec encodes and decodes objects of one type. It holds all that ResourceClient,
// ResourceWatcher and Informer have to know about the type.
//
// Immutable.
template <typename T>
class ResourceCodec;

template <>
class ResourceCodec<Event> {
 public:
  using Input = Event;  // what is written
  using List = EventList;
  using Frame = WatchEvent;

  explicit ResourceCodec(const Resource& resource, WireFormat format = WireFormat::kJson)
      : api_(resource.group.empty() ? EventApi::kCoreV1 : EventApi::kEventsV1), format_(format) {}

  // The Accept header.
  std::string_view accept() const { return AcceptOf(format_); }
  void AddBody(const Event& event, RestRequest* request) const {
    AddEvent(event, api_, format_, request);
  }
  Result<Event> ReadObject(std::string_view content_type, std::string_view body) const {
    return CodecOf(content_type).DecodeEvent(body, api_);
  }
  Result<EventList> ReadList(std::string_view content_type, std::string_view body) const {
    return CodecOf(content_type).DecodeEventList(body, api_);
  }
  const Codec& StreamCodec(std::string_view content_type) const { return CodecOf(content_type); }
  // Reuses the memory of *frame, as Codec::DecodeWatchFrame() does.
  Status ReadFrame(const Codec& codec, std::string_view payload, WatchEvent* frame) const {
    return codec.DecodeWatchFrame(payload, api_, frame);
  }
  static const std::string& ResourceVersion(const Event& event) {
    return event.metadata.resource_version;
  }
  static std::string Key(const Event& event) {
    return event.metadata.namespace_ + "/" + event.metadata.name;
  }
  // Whether this bookmark follows the last of the initial events.
  static bool EndsInitialEvents(const Event& bookmark);

 private:
  const EventApi api_;
  const WireFormat format_;
};

template <>
class ResourceCodec<Object> {
 public:
  using Input = JsonValue;
  using List = ObjectList;
  using Frame = ObjectWatchEvent;

  explicit ResourceCodec(const Resource& /*resource*/, WireFormat /*format*/ = WireFormat::kJson) {}

  std::string_view accept() const { return "application/json"; }
  void AddBody(const JsonValue& object, RestRequest* request) const;
  Result<Object> ReadObject(std::string_view content_type, std::string_view body) const;
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
