#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "herald/api/event.h"
#include "herald/base/clock.h"
#include "herald/record/sink.h"

namespace herald {

// The decision of a correlator about one event.
struct Correlation {
  enum class Action : std::uint8_t {
    kSend,      // `request` must be sent
    kMerge,     // counted; a later write carries it
    kSuppress,  // suppressed by the spam filter, and counted
  };

  Action action = Action::kSend;
  SinkRequest request{};
  // Identifies the state that the answer to `request` updates; see Learn().
  std::string key{};
};

// A Correlator decides what is sent for a recorded event: a create, a patch of an event that was
// written earlier, or nothing. There are two, because Kubernetes has two ways to represent repeats:
// CountCorrelator for old-style events, SeriesCorrelator for new-style ones.
//
// Thread-confined: each sink's sequencer owns its correlators. An event is correlated only when no
// write about the same object is under way, so the answer to the last write is known.
class Correlator {
 public:
  virtual ~Correlator() = default;

  virtual Correlation Correlate(std::shared_ptr<const Event> event, WallTime now,
                                SteadyTime steady) = 0;

  // The request of the correlation `key` was written. `answer` is the event that the server
  // returned.
  virtual void Learn(const std::string& key, const Event& answer) = 0;

  // The request of the correlation `key` was rejected.
  virtual void Drop(const std::string& key) = 0;

  // The writes that are due without a new event: counts of open series and of series that ended.
  // With `all`, as at shutdown, every open series with a new count is due. A series is returned
  // again only when it is due again.
  virtual std::vector<Correlation> TakeDue(SteadyTime steady, bool all) = 0;

  // When TakeDue() will return something; nothing if that needs a new event first.
  virtual std::optional<SteadyTime> NextDue() const = 0;
};

}  // namespace herald
