#include "client/rest/resource_codec.h"

#include <fmt/core.h>

#include <array>
#include <utility>

namespace herald {
namespace {

// The annotation of the bookmark that follows the last of the initial events.
constexpr std::string_view kInitialEventsEnd = "k8s.io/initial-events-end";

}  // namespace

bool ResourceCodec<Event>::EndsInitialEvents(const Event& bookmark) {
  const auto it = bookmark.metadata.annotations.find(kInitialEventsEnd);
  return it != bookmark.metadata.annotations.end() && it->second == "true";
}

bool ResourceCodec<Object>::EndsInitialEvents(const Object& bookmark) {
  return bookmark.json["metadata"]["annotations"][kInitialEventsEnd].String() == "true";
}

void ResourceCodec<Object>::AddBody(const JsonValue& object, RestRequest* request) const {
  request->content_type = "application/json";
  object.AppendTo(&request->body);
}

Result<Object> ResourceCodec<Object>::ReadObject(std::string_view /*content_type*/,
                                                 std::string_view body) const {
  Result<JsonValue> json = JsonValue::Parse(body);
  if (!json) return json.error();
  return Object{std::move(*json)};
}

Result<ObjectList> ResourceCodec<Object>::ReadList(std::string_view /*content_type*/,
                                                   std::string_view body) const {
  Result<JsonValue> document = JsonValue::Parse(body);
  if (!document) return document.error();
  const std::string& kind = (*document)["kind"].String();
  if (!kind.ends_with("List") || !document->Has("items")) {
    return Status(StatusReason::kBadRequest, fmt::format("expected a list, got kind \"{}\"", kind));
  }
  ObjectList list;
  const JsonValue& metadata = (*document)["metadata"];
  list.metadata.resource_version = metadata["resourceVersion"].String();
  list.metadata.continue_ = metadata["continue"].String();
  if (metadata["remainingItemCount"].is_int()) {
    list.metadata.remaining_item_count = metadata["remainingItemCount"].Int();
  }
  const std::string element_kind = kind.substr(0, kind.size() - 4);
  const std::string api_version = (*document)["apiVersion"].String();
  for (JsonValue& item : document->Member("items").MutableArray()) {
    // Servers omit kind and apiVersion from the items of a list.
    if (!item.Has("kind")) item.Member("kind") = element_kind;
    if (!item.Has("apiVersion")) item.Member("apiVersion") = api_version;
    list.items.push_back({std::move(item)});
  }
  return list;
}

Status ResourceCodec<Object>::ReadFrame(const Codec& /*codec*/, std::string_view payload,
                                        ObjectWatchEvent* frame) const {
  Result<JsonValue> document = JsonValue::Parse(payload);
  if (!document) {
    return Status(StatusReason::kBadRequest,
                  "unable to decode watch event: " + document.error().message());
  }
  const std::string& name = (*document)["type"].String();
  if (name == WatchTypeName(WatchType::kError)) {
    const std::string object = (*document)["object"].ToString();
    const std::optional<Status> status = JsonCodec().DecodeStatus(object);
    frame->type = WatchType::kError;
    frame->object =
        status.value_or(Status(StatusReason::kInternalError, "the watch failed without a reason"));
    return Status();
  }
  for (const WatchType type :
       {WatchType::kAdded, WatchType::kModified, WatchType::kDeleted, WatchType::kBookmark}) {
    if (name == WatchTypeName(type)) {
      frame->type = type;
      frame->object = Object{std::move(document->Member("object"))};
      return Status();
    }
  }
  return Status(StatusReason::kBadRequest, fmt::format("unknown watch event type \"{}\"", name));
}

}  // namespace herald
