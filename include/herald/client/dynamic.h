#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "herald/api/codec.h"
#include "herald/api/event.h"
#include "herald/api/object_meta.h"
#include "herald/api/patch.h"
#include "herald/base/export.h"
#include "herald/base/status.h"
#include "herald/client/json_value.h"
#include "herald/client/resource.h"
#include "herald/client/rest.h"

namespace herald {

// An object of any kind, as JSON. A value type.
struct HERALD_EXPORT Object {
  JsonValue json{};

  const std::string& api_version() const { return json["apiVersion"].String(); }
  const std::string& kind() const { return json["kind"].String(); }
  const std::string& name() const { return json["metadata"]["name"].String(); }
  const std::string& namespace_() const { return json["metadata"]["namespace"].String(); }
  const std::string& uid() const { return json["metadata"]["uid"].String(); }
  const std::string& resource_version() const {
    return json["metadata"]["resourceVersion"].String();
  }
  // "namespace/name", or "name" for cluster-scoped objects. Work queues hold these keys.
  std::string Key() const;
  // The metadata that controllers use: names, labels, owners, times. Without managed fields.
  ObjectMeta metadata() const;
  // The reference for events about this object.
  ObjectReference Reference() const;

  bool operator==(const Object&) const = default;
};

struct ObjectList {
  ListMeta metadata{};
  std::vector<Object> items{};
};

// One frame of a watch. The object is a Status if and only if the type is kError.
struct ObjectWatchEvent {
  WatchType type = WatchType::kAdded;
  std::variant<Object, Status> object{};

  bool operator==(const ObjectWatchEvent&) const = default;
};

// A DynamicClient reads and writes the objects of one resource of any kind, with all verbs of the
// API. Each verb has two forms: one blocks, the other calls back on the RestClient's thread.
//
//   DynamicClient pods(rest, {"", "v1", "pods"});
//   Result<Object> pod = pods.Get("default", "web-0");
//
// Thread-safe, and cheap to copy.
class HERALD_EXPORT DynamicClient {
 public:
  using Done = std::function<void(Result<Object>)>;
  using ListDone = std::function<void(Result<ObjectList>)>;
  using StatusDone = std::function<void(const Status&)>;
  // `event` is called with each frame in order, then `end` once.
  struct WatchCallbacks {
    std::function<void(ObjectWatchEvent&&)> event{};
    std::function<void(const Status&)> end{};
  };

  DynamicClient(std::shared_ptr<RestClient> rest, Resource resource);

  const Resource& resource() const { return resource_; }

  // Whether the server serves the resource. A resource that discovery lists without any verb
  // does not count.
  Result<bool> Exists(const std::stop_token& stop = {}) const;

  // An empty namespace means a cluster-scoped object. `subresource` is "status", "scale" or empty.
  Result<Object> Create(std::string_view namespace_, const JsonValue& object,
                        const WriteOptions& options = {}, const std::stop_token& stop = {}) const;
  void Create(std::string_view namespace_, const JsonValue& object, const WriteOptions& options,
              Done done, const std::stop_token& stop = {}) const;
  Result<Object> Get(std::string_view namespace_, std::string_view name,
                     const std::stop_token& stop = {}) const;
  void Get(std::string_view namespace_, std::string_view name, Done done,
           const std::stop_token& stop = {}) const;
  // Replaces the object. If it has a resourceVersion, that must be the current one (409 Conflict
  // otherwise).
  Result<Object> Update(std::string_view namespace_, std::string_view name, const JsonValue& object,
                        std::string_view subresource = {}, const WriteOptions& options = {},
                        const std::stop_token& stop = {}) const;
  void Update(std::string_view namespace_, std::string_view name, const JsonValue& object,
              std::string_view subresource, const WriteOptions& options, Done done,
              const std::stop_token& stop = {}) const;
  Result<Object> Patch(std::string_view namespace_, std::string_view name, PatchType type,
                       const JsonValue& patch, std::string_view subresource = {},
                       const WriteOptions& options = {}, const std::stop_token& stop = {}) const;
  void Patch(std::string_view namespace_, std::string_view name, PatchType type,
             const JsonValue& patch, std::string_view subresource, const WriteOptions& options,
             Done done, const std::stop_token& stop = {}) const;
  Status Delete(std::string_view namespace_, std::string_view name,
                const DeleteOptions& options = {}, const std::stop_token& stop = {}) const;
  void Delete(std::string_view namespace_, std::string_view name, const DeleteOptions& options,
              StatusDone done, const std::stop_token& stop = {}) const;
  Status DeleteCollection(const ListOptions& which, const DeleteOptions& options = {},
                          const std::stop_token& stop = {}) const;
  void DeleteCollection(const ListOptions& which, const DeleteOptions& options, StatusDone done,
                        const std::stop_token& stop = {}) const;
  Result<ObjectList> List(const ListOptions& options = {}, const std::stop_token& stop = {}) const;
  void List(const ListOptions& options, ListDone done, const std::stop_token& stop = {}) const;
  // The first form returns when the watch has ended. Its callback runs on the RestClient's thread.
  Status Watch(const WatchOptions& options, std::function<void(ObjectWatchEvent&&)> on_event,
               const std::stop_token& stop = {}) const;
  void Watch(const WatchOptions& options, WatchCallbacks callbacks,
             const std::stop_token& stop = {}) const;

 private:
  std::shared_ptr<RestClient> rest_;
  Resource resource_;
};

}  // namespace herald
