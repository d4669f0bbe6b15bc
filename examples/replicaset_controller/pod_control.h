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

// The pod that a set's template asks for; the server makes its name up from the set's.
JsonValue PodFromTemplate(const Object& replica_set);

// The namespace is going away: nothing can be created there any more, which is nobody's
// fault and no news.
bool IsNamespaceTerminating(const herald::Status& status);

// A PodControl creates and deletes pods for ReplicaSets, and says so in events about the
// set: SuccessfulCreate, FailedCreate, SuccessfulDelete, FailedDelete, in the words that
// kubectl describe shows for the controller of Kubernetes.
//
// This is the whole of what a controller has to do with events: one line where something
// has happened. What becomes of it (the same failure every second, a thousand pods at
// once) is the recorder's business.
//
// Thread-safe. Calls end with kCancelled once `abort` is requested; no event tells of that.
class PodControl {
 public:
  PodControl(std::shared_ptr<herald::RestClient> rest, herald::Recorder recorder,
             std::stop_token abort)
      : pods_(std::move(rest), {"", "v1", "pods"}),
        recorder_(std::move(recorder)),
        abort_(std::move(abort)) {}

  // Both return at once and call back on the RestClient's thread.
  void Create(const ObjectPtr& replica_set, Done done) const;
  // A pod that is gone already is a kNotFound, without an event.
  void Delete(const ObjectPtr& replica_set, const std::string& pod, Done done) const;

  // A strategic merge patch; waits.
  herald::Status Patch(const Object& pod, const JsonValue& patch) const;

 private:
  const herald::DynamicClient pods_;
  const herald::Recorder recorder_;
  const std::stop_token abort_;
};

}  // namespace replicaset_controller
