#include "replicaset_controller/ranking.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace replicaset_controller {
namespace {

constexpr std::string_view kDeletionCost = "controller.kubernetes.io/pod-deletion-cost";

// Anything but a plain 32-bit number counts as 0, also "+1" and "007".
std::int64_t DeletionCost(const Object& pod) {
  const std::string& value = pod.json["metadata"]["annotations"][kDeletionCost].String();
  const bool starts_well = value == "0" || (!value.empty() && (value[0] == '-' || value[0] > '0'));
  std::int32_t cost = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), cost);
  return starts_well && error == std::errc() && end == value.data() + value.size() ? cost : 0;
}

int PhaseOrdinal(const std::string& phase) {
  if (phase == "Running") return 2;
  return phase == "Unknown" ? 1 : 0;
}

// 0 for the zero time, 1 for a time in the future, and one more for each doubling of the age in
// nanoseconds. A smaller rank is deleted first.
int AgeRank(const herald::Time& time, herald::WallTime now) {
  if (time.is_zero()) return 0;
  const auto age = static_cast<double>((now - time.ToWallTime()).count());
  return age > 0 ? 2 + static_cast<int>(std::log2(age)) : 1;
}

std::pair<std::int64_t, std::int64_t> Restarts(const Object& pod) {
  std::pair<std::int64_t, std::int64_t> most;
  const JsonValue& status = pod.json["status"];
  for (const JsonValue& container : status["containerStatuses"].array()) {
    most.first = std::max(most.first, container["restartCount"].Int());
  }
  // A sidecar is an init container that is always restarted.
  std::set<std::string_view> sidecars;
  for (const JsonValue& container : pod.json["spec"]["initContainers"].array()) {
    if (container["restartPolicy"].String() == "Always") {
      sidecars.insert(container["name"].String());
    }
  }
  for (const JsonValue& container : status["initContainerStatuses"].array()) {
    if (sidecars.contains(container["name"].String())) {
      most.second = std::max(most.second, container["restartCount"].Int());
    }
  }
  return most;
}

// The rules as members in their order. The pod with the smaller rank is deleted first.
struct Rank {
  bool assigned = false;
  int phase = 0;
  bool ready = false;
  std::int64_t cost = 0;
  int fewer_on_node = 0;  // negated, because more is deleted first; so are the restarts
  int ready_age = 0;
  std::int64_t restarts = 0;
  std::int64_t sidecar_restarts = 0;
  int age = 0;
  std::string_view uid;

  auto operator<=>(const Rank&) const = default;
};

Rank RankOf(const Object& pod, int on_node, herald::WallTime now) {
  const auto [restarts, sidecar_restarts] = Restarts(pod);
  const herald::Time created =
      herald::Time::Parse(pod.json["metadata"]["creationTimestamp"].String())
          .value_or(herald::Time());
  const bool ready = IsReady(pod);
  return {.assigned = !pod.json["spec"]["nodeName"].String().empty(),
          .phase = PhaseOrdinal(pod.json["status"]["phase"].String()),
          .ready = ready,
          .cost = DeletionCost(pod),
          .fewer_on_node = -on_node,
          .ready_age = ready ? AgeRank(ReadySince(pod), now) : 0,
          .restarts = -restarts,
          .sidecar_restarts = -sidecar_restarts,
          .age = AgeRank(created, now),
          .uid = pod.uid()};
}

}  // namespace

Pods PodsToDelete(const Pods& pods, const Pods& related, int count, herald::WallTime now) {
  const auto wanted = static_cast<std::size_t>(count);
  if (wanted == pods.size()) return pods;
  std::map<std::string_view, int> on_node;
  for (const ObjectPtr& pod : related) {
    if (IsActive(*pod)) ++on_node[pod->json["spec"]["nodeName"].String()];
  }
  std::vector<std::pair<Rank, ObjectPtr>> ranked;
  ranked.reserve(pods.size());
  for (const ObjectPtr& pod : pods) {
    const auto node = on_node.find(pod->json["spec"]["nodeName"].String());
    ranked.emplace_back(RankOf(*pod, node != on_node.end() ? node->second : 0, now), pod);
  }
  std::sort(ranked.begin(), ranked.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  Pods chosen;
  for (std::size_t i = 0; i < wanted; ++i) chosen.push_back(std::move(ranked[i].second));
  return chosen;
}

}  // namespace replicaset_controller
