#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "herald/api/codec.h"

// The common part of the watch streams of both formats.
namespace herald {

Status FrameTooLarge();

// nullopt for an unknown name.
std::optional<WatchType> WatchTypeFromName(std::string_view name);

// Decodes a frame from its type and from its object, which is encoded by `codec`. `read`,
// Status(Event*), decodes an event in place and replaces the value of the event that is there.
template <typename Read>
Status ReadWatchEvent(const Codec& codec, std::string_view type_name, std::string_view object,
                      Read&& read, WatchEvent* out) {
  const std::optional<WatchType> type = WatchTypeFromName(type_name);
  if (!type) {
    return Status(StatusReason::kBadRequest,
                  "got invalid watch event type: " + std::string(type_name));
  }
  out->type = *type;
  if (*type == WatchType::kError) {
    std::optional<Status> status = codec.DecodeStatus(object);
    if (!status) {
      return Status(StatusReason::kBadRequest, "the object of a watch error is not a Status");
    }
    out->object = *std::move(status);
    return Status();
  }
  Event* const event = std::get_if<Event>(&out->object);
  return read(event != nullptr ? event : &out->object.emplace<Event>());
}

}  // namespace herald
