#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "herald/api/codec.h"
#include "herald/api/event.h"
#include "herald/api/patch.h"
#include "herald/base/export.h"
#include "herald/base/status.h"
#include "herald/client/resource.h"
#include "herald/client/rest.h"

namespace herald {

// In which bytes objects travel.
enum class WireFormat : std::uint8_t {
  kJson,
  kProtobuf,  // smaller and cheaper for the server; every Kubernetes has it
};

struct EventsClientOptions {
  EventApi api = EventApi::kEventsV1;
  WireFormat format = WireFormat::kJson;
};

// Events of one API server, by any of its verbs. Each verb comes in two forms: one waits, one calls
// back on the RestClient's thread.
//
// Thread-safe, and cheap to copy.
class HERALD_EXPORT EventsClient {
 public:
  using Done = std::function<void(Result<Event>)>;
  using ListDone = std::function<void(Result<EventList>)>;
  using StatusDone = std::function<void(const Status&)>;
  // Frames in their order, then the end: ok where the server ended the watch as agreed.
  // To keep an event, move it away or copy it: what is left of it is used for the next frame.
  struct WatchCallbacks {
    std::function<void(WatchEvent&&)> event{};
    std::function<void(const Status&)> end{};
  };

  explicit EventsClient(std::shared_ptr<RestClient> rest, EventsClientOptions options = {});

  EventApi api() const { return options_.api; }

  // events.k8s.io/v1 where the server has it, v1 otherwise.
  static Result<EventApi> Discover(RestClient& rest, const std::stop_token& stop = {});

  // The event says where: its namespace and name.
  Result<Event> Create(const Event& event, const WriteOptions& options = {},
                       const std::stop_token& stop = {}) const;
  void Create(const Event& event, const WriteOptions& options, Done done,
              const std::stop_token& stop = {}) const;
  Result<Event> Update(const Event& event, const WriteOptions& options = {},
                       const std::stop_token& stop = {}) const;
  void Update(const Event& event, const WriteOptions& options, Done done,
              const std::stop_token& stop = {}) const;

  Result<Event> Get(std::string_view namespace_, std::string_view name,
                    const std::stop_token& stop = {}) const;
  void Get(std::string_view namespace_, std::string_view name, Done done,
           const std::stop_token& stop = {}) const;

  // The patch is JSON in the spelling of api().
  Result<Event> Patch(std::string_view namespace_, std::string_view name, PatchType type,
                      std::string patch, const WriteOptions& options = {},
                      const std::stop_token& stop = {}) const;
  void Patch(std::string_view namespace_, std::string_view name, PatchType type, std::string patch,
             const WriteOptions& options, Done done, const std::stop_token& stop = {}) const;

  Status Delete(std::string_view namespace_, std::string_view name,
                const DeleteOptions& options = {}, const std::stop_token& stop = {}) const;
  void Delete(std::string_view namespace_, std::string_view name, const DeleteOptions& options,
              StatusDone done, const std::stop_token& stop = {}) const;
  // All that `which` selects. REQUIRES: which.namespace_ is not empty
  Status DeleteCollection(const ListOptions& which, const DeleteOptions& options = {},
                          const std::stop_token& stop = {}) const;
  void DeleteCollection(const ListOptions& which, const DeleteOptions& options, StatusDone done,
                        const std::stop_token& stop = {}) const;

  // One page; ListMeta::continue_ leads to the next.
  Result<EventList> List(const ListOptions& options = {}, const std::stop_token& stop = {}) const;
  void List(const ListOptions& options, ListDone done, const std::stop_token& stop = {}) const;

  // The first form returns when the watch has ended. Its callback runs on the RestClient's
  // thread, like any other.
  Status Watch(const WatchOptions& options, std::function<void(WatchEvent&&)> on_event,
               const std::stop_token& stop = {}) const;
  void Watch(const WatchOptions& options, WatchCallbacks callbacks,
             const std::stop_token& stop = {}) const;

 private:
  RestRequest MakeRequest(std::string_view method, std::string_view namespace_,
                          std::string_view name) const;

  std::shared_ptr<RestClient> rest_;
  EventsClientOptions options_;
};

// What an account may do with events in a namespace, through one API.
struct EventAccess {
  std::string namespace_{};  // empty: in all
  EventApi api = EventApi::kEventsV1;
  bool may_create = false;
  bool may_patch = false;
  std::string reason{};  // the server's, if it gave one
};

// Asks the server (SelfSubjectAccessReview) before anything is recorded, so that a
// missing role is found at start and not in a log. One row per namespace and API.
HERALD_EXPORT Result<std::vector<EventAccess>> ReviewEventAccess(
    RestClient& rest, const std::vector<std::string>& namespaces = {""},
    const std::stop_token& stop = {});

}  // namespace herald
