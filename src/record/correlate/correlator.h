#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "herald/api/event.h"
#include "herald/base/clock.h"
#include "herald/record/sink.h"

namespace herald {

// What a correlator made of one event.
struct Correlation {
  enum class Action : std::uint8_t {
    kSend,      // `request` is to be written
    kMerge,     // counted; a later write carries it
    kSuppress,  // the spam filter held it back (and counted it)
  };

  Action action = Action::kSend;
  SinkRequest request{};
  // Names the state that the answer to `request` belongs to; see Learn().
  std::string key{};
};

// A Correlator decides what one recorded event becomes on the wire: a new object, a
// patch to one written earlier, or nothing. There are two, because Kubernetes has two
// ways to say "again": CountCorrelator for events in the old style, SeriesCorrelator
// for the new one.
//
// Thread-confined: each sink's sequencer owns its correlators. An event is
// correlated only when no write about the same object is under way, so what the
// server answered to the last one is known by then.
class Correlator {
 public:
  virtual ~Correlator() = default;

  virtual Correlation Correlate(std::shared_ptr<const Event> event, WallTime now,
                                SteadyTime steady) = 0;

  // The request of the correlation `key` was written; `answer` is the server's event.
  virtual void Learn(const std::string& key, const Event& answer) = 0;

  // The same request was refused for good.
  virtual void Drop(const std::string& key) = 0;

  // Writes that are due without any new event: counts of series that go on or have
  // ended. With `all` every open series is due, as at shutdown. The same event is not
  // returned again until its time has come once more.
  virtual std::vector<Correlation> TakeDue(SteadyTime steady, bool all) = 0;

  // When TakeDue() will have something; nothing if it needs a new event first.
  virtual std::optional<SteadyTime> NextDue() const = 0;
};

}  // namespace herald
