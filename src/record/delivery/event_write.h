#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "record/channel/published.h"
#include "record/correlate/correlator.h"
#include "record/delivery/counted_events.h"

namespace herald {

struct ObjectQueue;

// A write that is not made for an event that was recorded just now: the count of a series, a
// write from the spool, or a report of losses.
struct PlannedWrite {
  Correlation correlation{};
  CountedEvents counted{};              // what its count contains
  std::optional<std::size_t> replay{};  // its index in the SpoolReplay, if it is from the spool
};

// One write, from its first try to its outcome.
//
// Confined to the strand of its sink.
struct EventWrite {
  // What the write is meant to be, without regard to what the current try has become.
  SinkRequest IntendedRequest() const {
    SinkRequest request = correlation.request;
    if (replaced_patch) {
      request.verb = SinkRequest::Verb::kPatch;
      request.patch = *replaced_patch;
    }
    return request;
  }
  // How many recorded events it carries.
  std::uint64_t EventCount() const { return (published.event ? 1 : 0) + counted.count; }

  ObjectQueue* object = nullptr;  // valid until the write ends
  Published published{};          // without an event in a planned write
  Correlation correlation{};
  CountedEvents counted{};  // the events that its count contains besides
  std::optional<std::size_t> replay{};
  std::optional<std::string> replaced_patch{};  // by a create, because the event was not found

  // A patch from the spool is sent only if the count on the server is lower. Each try sends an
  // empty patch first to find out.
  bool compares_count = false;  // the empty patch is under way
  bool count_is_lower = false;  // on the server, as it answered to the empty patch

  int tries = 0;
  int sends = 0;    // tries, empty patches, and creates that replaced a patch
  int awaited = 0;  // which of the sends has no answer yet; 0: none
};

}  // namespace herald
