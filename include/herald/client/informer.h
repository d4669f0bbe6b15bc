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
  // All objects are told again as updates so often, for controllers that mend what others
  // changed outside of Kubernetes; 0: never.
  std::chrono::milliseconds resync{0};
};

// Who wants to know. Any of them may be left out. Updates come only where the version
// differs, or with old == new at a resync.
template <typename T>
struct InformerHandler {
  using Pointer = std::shared_ptr<const T>;
  std::function<void(const Pointer& object)> on_add{};
  std::function<void(const Pointer& old_object, const Pointer& object)> on_update{};
  // Its last known state: what was missed during a broken connection is not in it.
  std::function<void(const Pointer& object)> on_delete{};
};

// An Informer keeps a copy of all objects of a resource up to date, so that a
// controller can look things up without asking the server, and tells handlers what
// changes. T is Event or Object.
//
//   Informer<Object> pods(rest, {"", "v1", "pods"});
//   pods.AddIndexer("owner", [](const Object& pod) { ... return std::vector{uid}; });
//   pods.AddHandler({.on_add = [&](auto& pod) { queue.Add(OwnerOf(*pod)); }, ...});
//   pods.Start();
//   if (!pods.WaitForSync(seconds(30), stop)) ...
//
// Objects are shared and immutable: whoever wants to change one makes a copy. A list that
// the server sends anew (after 410) is compared with what was there, so that handlers
// see only what differs.
//
// Thread-safe. Handlers run on the RestClient's thread, one at a time and in the order of
// the changes, and must not block: they put keys into a WorkQueue. None runs once Stop() has
// returned.
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

  // Under which values ByIndex() finds an object. REQUIRES: not started yet
  void AddIndexer(std::string name, IndexFunction function);
  // At any time; a handler that comes late is told of all there is as added.
  void AddHandler(InformerHandler<T> handler);
  // Told of each failure to list or to watch, before Start().
  void SetErrorHandler(std::function<void(const Status&)> on_error);

  // At most once.
  void Start();
  // Idempotent. What is there stays readable.
  void Stop();

  // Whether the first list has been taken in and told to all handlers.
  bool HasSynced() const;
  // The same, waited for; false if the time is over or `stop` is requested first.
  // Not from a handler.
  bool WaitForSync(std::chrono::milliseconds timeout, const std::stop_token& stop = {}) const;

  // By "namespace/name", or "name" for cluster-scoped objects; null if there is none.
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
