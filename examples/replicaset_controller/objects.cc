#include "replicaset_controller/objects.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

namespace replicaset_controller {
namespace {

using herald::Result;
using herald::Status;
using herald::StatusReason;

// The condition Ready if it is True; otherwise null.
const JsonValue* ReadyCondition(const Object& pod) {
  for (const JsonValue& condition : pod.json["status"]["conditions"].array()) {
    if (condition["type"].String() != "Ready") continue;
    return condition["status"].String() == "True" ? &condition : nullptr;
  }
  return nullptr;
}

std::string Join(const JsonValue& values) {
  std::string out;
  for (const JsonValue& value : values.array()) {
    if (&value != &values.array().front()) out += ',';
    out += value.String();
  }
  return out;
}

}  // namespace

const JsonValue* ControllerOf(const Object& object) {
  for (const JsonValue& owner : object.json["metadata"]["ownerReferences"].array()) {
    if (owner["controller"].Bool()) return &owner;
  }
  return nullptr;
}

bool IsControlledBy(const Object& object, const Object& owner) {
  const JsonValue* const controller = ControllerOf(object);
  return controller != nullptr && (*controller)["uid"].String() == owner.uid();
}

bool IsBeingDeleted(const Object& object) {
  return object.json["metadata"].Has("deletionTimestamp");
}

herald::StringMap LabelsOf(const Object& object) {
  herald::StringMap labels;
  for (const auto& [key, value] : object.json["metadata"]["labels"].object()) {
    labels.emplace(key, value.String());
  }
  return labels;
}

int WantedReplicas(const Object& replica_set) {
  // The server's default is 1.
  return static_cast<int>(replica_set.json["spec"]["replicas"].Int(1));
}

int MinReadySeconds(const Object& replica_set) {
  return static_cast<int>(replica_set.json["spec"]["minReadySeconds"].Int());
}

Result<herald::LabelSelector> SelectorOf(const Object& replica_set) {
  const JsonValue& selector = replica_set.json["spec"]["selector"];
  std::vector<std::string> terms;
  for (const auto& [key, value] : selector["matchLabels"].object()) {
    terms.push_back(key + "=" + value.String());
  }
  for (const JsonValue& expression : selector["matchExpressions"].array()) {
    const std::string& key = expression["key"].String();
    const std::string& op = expression["operator"].String();
    if (op == "In") {
      terms.push_back(fmt::format("{} in ({})", key, Join(expression["values"])));
    } else if (op == "NotIn") {
      terms.push_back(fmt::format("{} notin ({})", key, Join(expression["values"])));
    } else if (op == "Exists") {
      terms.push_back(key);
    } else if (op == "DoesNotExist") {
      terms.push_back("!" + key);
    } else {
      return Status(StatusReason::kInvalid,
                    fmt::format("\"{}\" is not a valid label selector operator", op));
    }
  }
  // An empty selector would match every pod of the namespace, which cannot be intended.
  if (terms.empty()) return Status(StatusReason::kInvalid, "the selector is empty");
  std::string text;
  for (const std::string& term : terms) text += (text.empty() ? "" : ",") + term;
  return herald::LabelSelector::Parse(text);
}

bool IsActive(const Object& pod) {
  const std::string& phase = pod.json["status"]["phase"].String();
  return phase != "Succeeded" && phase != "Failed" && !IsBeingDeleted(pod);
}

bool IsReady(const Object& pod) { return ReadyCondition(pod) != nullptr; }

herald::Time ReadySince(const Object& pod) {
  const JsonValue* const ready = ReadyCondition(pod);
  if (ready == nullptr) return {};
  return herald::Time::Parse((*ready)["lastTransitionTime"].String()).value_or(herald::Time());
}

bool IsAvailable(const Object& pod, int min_ready_seconds, herald::WallTime now) {
  if (!IsReady(pod)) return false;
  if (min_ready_seconds == 0) return true;
  const herald::Time since = ReadySince(pod);
  return !since.is_zero() && since.ToWallTime() + std::chrono::seconds(min_ready_seconds) <= now;
}

std::optional<std::chrono::nanoseconds> NextAvailable(const Pods& pods, int min_ready_seconds,
                                                      herald::WallTime now) {
  std::optional<std::chrono::nanoseconds> next;
  for (const ObjectPtr& pod : pods) {
    const herald::Time since = ReadySince(*pod);
    if (since.is_zero()) continue;
    const std::chrono::nanoseconds wait =
        since.ToWallTime() + std::chrono::seconds(min_ready_seconds) - now;
    if (wait.count() > 0) next = std::min(next.value_or(wait), wait);
  }
  return next;
}

}  // namespace replicaset_controller
