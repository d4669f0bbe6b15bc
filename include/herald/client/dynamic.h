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

// An object of any kind, as JSON. An ordinary value.
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
  // "namespace/name", or "name" where there is no namespace: what work queues hold.
  std::string Key() const;
  // All of the metadata that controllers look at: names, labels, owners, times. Not the
  // managed fields.
  ObjectMeta metadata() const;
  // What events about it point at.
  ObjectReference Reference() const;

  bool operator==(const Object&) const = default;
};

struct ObjectList {
  ListMeta metadata{};
  std::vector<Object> items{};
};

// One frame of a watch. The object is a Status exactly when type is kError.
struct ObjectWatchEvent {
  WatchType type = WatchType::kAdded;
  std::variant<Object, Status> object{};

  bool operator==(const ObjectWatchEvent&) const = default;
};

// The objects of one resource of an API server, whatever it is, by any verb: enough to
// write a controller. Each verb comes in two forms: one waits, one calls back on the
// RestClient's thread.
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
  struct WatchCallbacks {
    std::function<void(ObjectWatchEvent&&)> event{};
    std::function<void(const Status&)> end{};
  };

  DynamicClient(std::shared_ptr<RestClient> rest, Resource resource);

  const Resource& resource() const { return resource_; }

  // Whether the server has the resource at all, and not only its name.
  Result<bool> Exists(const std::stop_token& stop = {}) const;

  // No namespace: cluster-scoped. `subresource` is "status", "scale", ... or nothing.
  Result<Object> Create(std::string_view namespace_, const JsonValue& object,
                        const WriteOptions& options = {}, const std::stop_token& stop = {}) const;
  void Create(std::string_view namespace_, const JsonValue& object, const WriteOptions& options,
              Done done, const std::stop_token& stop = {}) const;
  Result<Object> Get(std::string_view namespace_, std::string_view name,
                     const std::stop_token& stop = {}) const;
  void Get(std::string_view namespace_, std::string_view name, Done done,
           const std::stop_token& stop = {}) const;
  // Replaces it; a resourceVersion in it must be the current one (409 Conflict if not).
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
  // The first form returns when the watch has ended.
  Status Watch(const WatchOptions& options, std::function<void(ObjectWatchEvent&&)> on_event,
               const std::stop_token& stop = {}) const;
  void Watch(const WatchOptions& options, WatchCallbacks callbacks,
             const std::stop_token& stop = {}) const;

 private:
  std::shared_ptr<RestClient> rest_;
  Resource resource_;
};

}  // namespace herald
