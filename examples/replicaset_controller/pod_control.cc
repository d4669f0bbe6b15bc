#include "replicaset_controller/pod_control.h"

#include <algorithm>
#include <utility>

#include "replicaset_controller/claim.h"

namespace replicaset_controller {
namespace {

using herald::Result;
using herald::Status;
using herald::StatusReason;

// Limit of metadata.name.
constexpr std::size_t kMaxNameBytes = 253;

}  // namespace

JsonValue PodFromTemplate(const Object& replica_set) {
  const JsonValue& from = replica_set.json["spec"]["template"];
  JsonValue pod;
  pod.Member("apiVersion") = "v1";
  pod.Member("kind") = "Pod";
  JsonValue& metadata = pod.Member("metadata");
  for (const char* member : {"labels", "annotations", "finalizers"}) {
    if (from["metadata"].Has(member)) metadata.Member(member) = from["metadata"][member];
  }
  // As upstream: with a dash, if the name does not become too long.
  const std::string& name = replica_set.name();
  metadata.Member("generateName") = name.size() < kMaxNameBytes ? name + "-" : name;
  metadata.Member("ownerReferences").MutableArray().push_back(ControllerReference(replica_set));
  pod.Member("spec") = from["spec"];
  return pod;
}

bool IsNamespaceTerminating(const Status& status) {
  const auto& causes = status.details().causes;
  return std::any_of(causes.begin(), causes.end(), [](const herald::StatusCause& cause) {
    return cause.reason == "NamespaceTerminating";
  });
}

void PodControl::Create(const ObjectPtr& replica_set, Done done) const {
  pods_.Create(
      replica_set->namespace_(), PodFromTemplate(*replica_set), {},
      [recorder = recorder_, replica_set,
       done = std::move(done)](const Result<Object>& pod) mutable {
        if (pod) {
          recorder.Eventf(replica_set->Reference(), herald::kNormal, "SuccessfulCreate",
                          "Created pod: {}", pod->name());
          return done(Status());
        }
        const Status& why = pod.error();
        if (!why.Is(StatusReason::kCancelled) && !IsNamespaceTerminating(why)) {
          recorder.Eventf(replica_set->Reference(), herald::kWarning, "FailedCreate",
                          "Error creating: {}", why.message());
        }
        done(why);
      },
      abort_);
}

void PodControl::Delete(const ObjectPtr& replica_set, const std::string& pod, Done done) const {
  pods_.Delete(
      replica_set->namespace_(), pod, {},
      [recorder = recorder_, replica_set, pod,
       done = std::move(done)](const Status& status) mutable {
        if (status.ok()) {
          recorder.Eventf(replica_set->Reference(), herald::kNormal, "SuccessfulDelete",
                          "Deleted pod: {}", pod);
        } else if (!status.Is(StatusReason::kCancelled) && !status.Is(StatusReason::kNotFound)) {
          recorder.Eventf(replica_set->Reference(), herald::kWarning, "FailedDelete",
                          "Error deleting: {}", status.message());
        }
        done(status);
      },
      abort_);
}

Status PodControl::Patch(const Object& pod, const JsonValue& patch) const {
  const Result<Object> patched = pods_.Patch(
      pod.namespace_(), pod.name(), herald::PatchType::kStrategicMerge, patch, {}, {}, abort_);
  return patched ? Status() : patched.error();
}

}  // namespace replicaset_controller
