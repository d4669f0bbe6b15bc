#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "herald/api/codec.h"

// What the watch streams of both formats have in common.
namespace herald {

Status FrameTooLarge();

// Null where there is no such type.
std::optional<WatchType> WatchTypeFromName(std::string_view name);

// What a frame's type and object, encoded by `codec`, stand for. An event is read where it
// will lie, by `read`: Status(Event*).
template <typename Read>
Result<WatchEvent> MakeWatchEvent(const Codec& codec, std::string_view type_name,
                                  std::string_view object, Read&& read) {
  Result<WatchEvent> result(std::in_place);
  Status refusal;
  if (const std::optional<WatchType> type = WatchTypeFromName(type_name); !type) {
    refusal = Status(StatusReason::kBadRequest,
                     "got invalid watch event type: " + std::string(type_name));
  } else if (result->type = *type; *type != WatchType::kError) {
    refusal = read(&std::get<Event>(result->object));
  } else if (std::optional<Status> status = codec.DecodeStatus(object)) {
    result->object = *std::move(status);
  } else {
    refusal = Status(StatusReason::kBadRequest, "the object of a watch error is not a Status");
  }
  if (!refusal.ok()) result = std::move(refusal);
  return result;  // the only return, so that the event is never moved
}

}  // namespace herald
