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

// The encoding of objects in requests and answers.
enum class WireFormat : std::uint8_t {
  kJson,
  kProtobuf,  // smaller, and cheaper for the server; every Kubernetes supports it
};

struct EventsClientOptions {
  EventApi api = EventApi::kEventsV1;
  WireFormat format = WireFormat::kJson;
};

// An EventsClient reads and writes the events of one API server, with all verbs of the API. Each
// verb has two forms: one blocks, the other calls back on the RestClient's thread.
//
// Thread-safe, and cheap to copy.
class HERALD_EXPORT EventsClient {
 public:
  using Done = std::function<void(Result<Event>)>;
  using ListDone = std::function<void(Result<EventList>)>;
  using StatusDone = std::function<void(const Status&)>;
  // `event` is called with each frame in order, then `end` once: with an ok status if the server
  // ended the watch after its timeout. To keep an event, move or copy it: its memory is reused for
  // the next frame.
  struct WatchCallbacks {
    std::function<void(WatchEvent&&)> event{};
    std::function<void(const Status&)> end{};
  };

  explicit EventsClient(std::shared_ptr<RestClient> rest, EventsClientOptions options = {});

  EventApi api() const { return options_.api; }

  // events.k8s.io/v1 if the server has it, otherwise v1.
  static Result<EventApi> Discover(RestClient& rest, const std::stop_token& stop = {});

  // Namespace and name are those of the event.
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

  // `patch` is JSON in the spelling of api().
  Result<Event> Patch(std::string_view namespace_, std::string_view name, PatchType type,
                      std::string patch, const WriteOptions& options = {},
                      const std::stop_token& stop = {}) const;
  void Patch(std::string_view namespace_, std::string_view name, PatchType type, std::string patch,
             const WriteOptions& options, Done done, const std::stop_token& stop = {}) const;

  Status Delete(std::string_view namespace_, std::string_view name,
                const DeleteOptions& options = {}, const std::stop_token& stop = {}) const;
  void Delete(std::string_view namespace_, std::string_view name, const DeleteOptions& options,
              StatusDone done, const std::stop_token& stop = {}) const;
  // Deletes all events that `which` selects. REQUIRES: which.namespace_ is not empty
  Status DeleteCollection(const ListOptions& which, const DeleteOptions& options = {},
                          const std::stop_token& stop = {}) const;
  void DeleteCollection(const ListOptions& which, const DeleteOptions& options, StatusDone done,
                        const std::stop_token& stop = {}) const;

  // Returns one page. Pass ListMeta::continue_ to get the next one.
  Result<EventList> List(const ListOptions& options = {}, const std::stop_token& stop = {}) const;
  void List(const ListOptions& options, ListDone done, const std::stop_token& stop = {}) const;

  // The first form returns when the watch has ended. Its callback runs on the RestClient's thread.
  Status Watch(const WatchOptions& options, std::function<void(WatchEvent&&)> on_event,
               const std::stop_token& stop = {}) const;
  void Watch(const WatchOptions& options, WatchCallbacks callbacks,
             const std::stop_token& stop = {}) const;

 private:
  std::shared_ptr<RestClient> rest_;
  EventsClientOptions options_;
};

// What an account may do with events in one namespace, through one of the two APIs.
struct EventAccess {
  std::string namespace_{};  // empty: in all namespaces
  EventApi api = EventApi::kEventsV1;
  bool may_create = false;
  bool may_patch = false;
  std::string reason{};  // of the server; may be empty
};

// Asks the server (SelfSubjectAccessReview) what the account may do, so that a program can detect
// a missing role when it starts. Returns one element per namespace and API.
HERALD_EXPORT Result<std::vector<EventAccess>> ReviewEventAccess(
    RestClient& rest, const std::vector<std::string>& namespaces = {""},
    const std::stop_token& stop = {});

}  // namespace herald
