#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "herald/api/event.h"
#include "herald/base/clock.h"
#include "herald/base/export.h"

namespace herald {

// An ApiChoice knows through which of the two APIs a server accepts events, for each
// namespace. Recorders and the sink of that server share one:
//
//   auto choice = std::make_shared<ApiChoice>();
//   auto sink = std::make_shared<RestSink>(rest, RestSinkOptions{.api_choice = choice});
//   Recorder recorder = broadcaster.NewRecorder({.component = "agent", .api_choice = choice});
//
// Recorders record at once. Their events are held in memory until the first choice is made,
// and get the style of the chosen API when they are written. RestSink makes the choice: it
// asks the server, and falls back to v1 where events.k8s.io/v1 is missing or forbidden. With
// another sink, call Set() yourself.
//
// A sink may change the choice and then answer a request with the server's rejection. If the
// choice for the namespace of the event differs from the API of the request by then, the event
// is written again, in the style and through the API that is chosen now.
//
// client-go's EventBroadcasterAdapter serves the same purpose, but asks the server before it
// makes a recorder, so nothing can be recorded before the server answers.
//
// Thread-safe.
class HERALD_EXPORT ApiChoice {
 public:
  // How long a fallback lasts. Then events.k8s.io/v1 is tried again, because permissions
  // change and servers are upgraded. One more request per namespace in this time is cheap.
  static constexpr std::chrono::minutes kFallbackTime{10};

  // The clock measures kFallbackTime. It is borrowed; null means SystemClock().
  explicit ApiChoice(const Clock* clock = nullptr);
  ~ApiChoice();
  ApiChoice(const ApiChoice&) = delete;
  ApiChoice& operator=(const ApiChoice&) = delete;

  // The API for events of this namespace. Without a namespace: the API for every namespace that
  // has no fallback of its own. Nothing until Set() or FallBack() is called for the first time.
  std::optional<EventApi> Get(std::string_view namespace_ = {}) const;

  // Chooses an API for all namespaces, and ends all fallbacks.
  void Set(EventApi api);

  // Chooses v1 for kFallbackTime, and events.k8s.io/v1 afterwards: in one namespace or, without
  // an argument, in all. Returns whether this is news: false if it only repeats an earlier
  // fallback. At most 1024 namespaces are remembered; the least recently used is forgotten
  // first, and then uses events.k8s.io/v1 again.
  bool FallBack(std::string_view namespace_);
  bool FallBack();

  // Whether a fallback is in effect, for one namespace or for all.
  bool fell_back() const;

  // Calls the function once there is a choice: now, or from Set() or FallBack(). It must not
  // throw.
  void WhenSet(std::function<void()> function);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald
