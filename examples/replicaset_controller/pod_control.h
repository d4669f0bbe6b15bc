#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "herald/client/dynamic.h"
#include "herald/client/rest.h"
#include "herald/record/recorder.h"
#include "replicaset_controller/batches.h"
#include "replicaset_controller/objects.h"

namespace replicaset_controller {

// The pod that the set's template describes. The server generates its name from the set's name.
JsonValue PodFromTemplate(const Object& replica_set);

// Whether a request failed because its namespace is being deleted. Nothing can be created there
// any more. This is expected, so no event is recorded.
bool IsNamespaceTerminating(const herald::Status& status);

// A PodControl creates and deletes pods for ReplicaSets, and records events about the set:
// SuccessfulCreate, FailedCreate, SuccessfulDelete, FailedDelete, with the messages of the
// controller of Kubernetes.
//
// This is all that a controller has to do to record events: one line where something happens.
// Herald merges and limits them, for example if the same failure occurs every second, or if a
// thousand pods are created at once.
//
// Thread-safe. Requests end with kCancelled after `abort` was requested, without an event.
class PodControl {
 public:
  PodControl(std::shared_ptr<herald::RestClient> rest, herald::Recorder recorder,
             std::stop_token abort)
      : pods_(std::move(rest), {"", "v1", "pods"}),
        recorder_(std::move(recorder)),
        abort_(std::move(abort)) {}

  // Both return at once and call back on the RestClient's thread.
  void Create(const ObjectPtr& replica_set, Done done) const;
  // kNotFound, without an event, if the pod does not exist any more.
  void Delete(const ObjectPtr& replica_set, const std::string& pod, Done done) const;

  // Sends a strategic merge patch. Blocks.
  herald::Status Patch(const Object& pod, const JsonValue& patch) const;

 private:
  const herald::DynamicClient pods_;
  const herald::Recorder recorder_;
  const std::stop_token abort_;
};

}  // namespace replicaset_controller
