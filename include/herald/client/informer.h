#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/export.h"
#include "herald/client/resource_watcher.h"

namespace herald {

struct InformerOptions {
  ResourceWatcherOptions watch{};
  // Interval at which handlers get an update for every object, for controllers that correct
  // changes outside of Kubernetes; 0: never.
  std::chrono::milliseconds resync{0};
};

// The callbacks of an Informer; each is optional. on_update is called if the resource version
// differs, and at a resync with old_object == object.
template <typename T>
struct InformerHandler {
  using Pointer = std::shared_ptr<const T>;
  std::function<void(const Pointer& object)> on_add{};
  std::function<void(const Pointer& old_object, const Pointer& object)> on_update{};
  // The last known state. Changes that were missed while there was no connection are not in it.
  std::function<void(const Pointer& object)> on_delete{};
};

// An Informer keeps a local copy of all objects of a resource up to date, so that a controller can
// look up objects without a request, and notifies handlers of changes. T is Event or Object.
//
//   Informer<Object> pods(rest, {"", "v1", "pods"});
//   pods.AddIndexer("owner", [](const Object& pod) { ... return std::vector{uid}; });
//   pods.AddHandler({.on_add = [&](auto& pod) { queue.Add(OwnerOf(*pod)); }, ...});
//   pods.Start();
//   if (!pods.WaitForSync(seconds(30), stop)) ...
//
// Objects are shared and immutable: copy an object to change it. After 410 Gone the Informer lists
// all objects again and compares them with its copy, so that handlers get only the differences.
//
// Thread-safe. Handlers run on the RestClient's thread, one at a time and in the order of the
// changes. They must not block: typically they add keys to a WorkQueue. No handler runs after
// Stop() has returned.
template <typename T>
class HERALD_EXPORT Informer {
 public:
  using Pointer = std::shared_ptr<const T>;
  using IndexFunction = std::function<std::vector<std::string>(const T&)>;

  Informer(std::shared_ptr<RestClient> rest, Resource resource, InformerOptions options = {});
  // Stops.
  ~Informer();
  Informer(const Informer&) = delete;
  Informer& operator=(const Informer&) = delete;

  // Adds an index: ByIndex() finds an object by each of the values that `function` returns for it.
  // REQUIRES: Start() has not been called
  void AddIndexer(std::string name, IndexFunction function);
  // May be called at any time. A handler that is added later gets on_add for all known objects.
  void AddHandler(InformerHandler<T> handler);
  // Sets the function that is called with each failure to list or watch.
  // REQUIRES: Start() has not been called
  void SetErrorHandler(std::function<void(const Status&)> on_error);

  // REQUIRES: not called before
  void Start();
  // Idempotent. The objects stay readable.
  void Stop();

  // Whether the first list is complete and all handlers have been called for it.
  bool HasSynced() const;
  // Waits until HasSynced(). Returns false if the timeout passes or `stop` is requested first.
  // Must not be called from a handler.
  bool WaitForSync(std::chrono::milliseconds timeout, const std::stop_token& stop = {}) const;

  // The object with the key "namespace/name", or "name" if it is cluster-scoped; null if there is
  // none.
  Pointer Get(std::string_view key) const;
  std::vector<Pointer> List() const;
  std::vector<Pointer> ByIndex(std::string_view index, std::string_view value) const;
  std::size_t size() const;

 private:
  class Core;
  const std::shared_ptr<Core> core_;
};

extern template class Informer<Event>;
extern template class Informer<Object>;

}  // namespace herald
