#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "herald/api/event.h"
#include "herald/api/object_meta.h"
#include "herald/base/status.h"
#include "server/request_options.h"
#include "store/store.h"

namespace herald::server {

// Which events somebody wants to see, and whether one is among them. Immutable, hence
// thread-safe.
class EventFilter {
 public:
  EventFilter() = default;
  // All of a namespace, or of all namespaces where it is empty; one name where it is not.
  EventFilter(std::string namespace_, std::string name, const ListOptions& options);

  bool Matches(const Event& event) const;
  // Whether the namespace (and the name) in the key say it all.
  bool matches_all() const { return all_; }

  const std::string& namespace_() const { return name_space_; }
  const std::string& name() const { return name_; }
  const FieldSelector& fields() const { return fields_; }
  const std::optional<Timestamp>& since() const { return since_; }
  const std::optional<Timestamp>& until() const { return until_; }

 private:
  std::string name_space_;
  std::string name_;
  LabelSelector labels_;
  FieldSelector fields_;
  std::optional<Timestamp> since_;
  std::optional<Timestamp> until_;
  bool all_ = true;
};

// One page of a list: the entries, not decoded yet, and the metadata that goes with them.
struct EventPage {
  std::vector<store::Entry> entries{};
  ListMeta metadata{};
  store::Revision revision = 0;
};

// Reads the page that the options ask for: the latest events, or those of a revision, or
// what follows a continue token. The cheapest way is chosen: one key, an index, or the
// keys of the namespace. Refusals are in Kubernetes' words. `done` is called exactly once,
// on a thread of the store or before this returns.
using EventPageDone = std::function<void(Result<EventPage>)>;
void ReadEventPage(store::Store* store, const EventFilter& filter, const ListOptions& options,
                   EventPageDone done);

// 504 as reflectors know it: the client has seen a revision that is not here yet. (Upstream
// says when to come back in watches only.)
Status TooLargeResourceVersion(std::uint64_t asked, store::Revision current,
                               std::chrono::seconds retry_after = std::chrono::seconds(0));
// 400: what the client calls a version is none.
Status InvalidResourceVersion(std::string_view text);

}  // namespace herald::server
