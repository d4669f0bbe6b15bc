#include "replicaset_controller/status.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace replicaset_controller {
namespace {

constexpr std::string_view kReplicaFailure = "ReplicaFailure";

bool IsFailure(const JsonValue& condition) { return condition["type"].String() == kReplicaFailure; }

void SetCount(std::string_view name, int count, JsonValue* status) {
  if (count != 0) {
    status->Member(name) = count;
  } else {
    status->Erase(name);
  }
}

bool HasAll(const herald::StringMap& labels, const JsonValue& wanted) {
  return std::all_of(wanted.object().begin(), wanted.object().end(), [&](const auto& label) {
    const auto it = labels.find(label.first);
    return it != labels.end() && it->second == label.second.String();
  });
}

}  // namespace

JsonValue CalculateStatus(const Object& replica_set, const Pods& active,
                          const herald::Status& error, herald::WallTime now) {
  const JsonValue& template_labels = replica_set.json["spec"]["template"]["metadata"]["labels"];
  const int min_ready_seconds = MinReadySeconds(replica_set);
  int fully_labeled = 0;
  int ready = 0;
  int available = 0;
  for (const ObjectPtr& pod : active) {
    if (HasAll(LabelsOf(*pod), template_labels)) ++fully_labeled;
    if (IsReady(*pod)) ++ready;
    if (IsAvailable(*pod, min_ready_seconds, now)) ++available;
  }

  JsonValue status = replica_set.json["status"];
  status.Member("replicas") = active.size();
  SetCount("fullyLabeledReplicas", fully_labeled, &status);
  SetCount("readyReplicas", ready, &status);
  SetCount("availableReplicas", available, &status);
  // Servers drop this member unless a feature gate is enabled, so the status would never match.
  status.Erase("terminatingReplicas");

  JsonValue::Array conditions = status["conditions"].array();
  const bool failed_before = std::any_of(conditions.begin(), conditions.end(), IsFailure);
  if (error.ok()) {
    std::erase_if(conditions, IsFailure);
  } else if (!failed_before) {
    // The first failure is kept. Otherwise each retry with another message would cause an update
    // of the status.
    const int missing = WantedReplicas(replica_set) - static_cast<int>(active.size());
    JsonValue condition;
    condition.Member("type") = kReplicaFailure;
    condition.Member("status") = "True";
    condition.Member("lastTransitionTime") = herald::Time(now).ToString();
    condition.Member("reason") = missing > 0 ? "FailedCreate" : "FailedDelete";
    condition.Member("message") = error.message();
    conditions.push_back(std::move(condition));
  }
  if (conditions.empty()) {
    status.Erase("conditions");
  } else {
    status.Member("conditions") = std::move(conditions);
  }
  return status;
}

bool HasStatus(const Object& replica_set, const JsonValue& status) {
  JsonValue current = replica_set.json["status"];
  current.Erase("terminatingReplicas");
  return current == status &&
         replica_set.json["metadata"]["generation"].Int() == current["observedGeneration"].Int();
}

}  // namespace replicaset_controller
