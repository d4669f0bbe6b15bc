#include "replicaset_controller/controller.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "replicaset_controller/batches.h"
#include "replicaset_controller/claim.h"
#include "replicaset_controller/ranking.h"
#include "replicaset_controller/status.h"

namespace replicaset_controller {
namespace {

using herald::LabelSelector;
using herald::LogLevel;
using herald::Result;
using herald::Status;
using herald::StatusReason;

const herald::Resource kReplicaSets{"apps", "v1", "replicasets"};
const herald::Resource kPods{"", "v1", "pods"};

// Names of indexes. In kByController, pods without a controller are found by Orphans() of their
// namespace.
constexpr const char* kByController = "controller";
constexpr const char* kByNamespace = "namespace";

std::string Orphans(const std::string& namespace_) { return "orphans/" + namespace_; }

std::vector<std::string> ControllerUid(const Object& object) {
  const JsonValue* const controller = ControllerOf(object);
  if (controller == nullptr) return {};
  return {(*controller)["uid"].String()};
}

std::vector<std::string> ControllerUidOrOrphans(const Object& pod) {
  std::vector<std::string> uid = ControllerUid(pod);
  if (uid.empty()) uid.push_back(Orphans(pod.namespace_()));
  return uid;
}

std::vector<std::string> NamespaceOf(const Object& object) { return {object.namespace_()}; }

herald::InformerOptions InformerOptionsFor(const ControllerOptions& options) {
  return {.watch = {.namespace_ = options.namespace_}};
}

}  // namespace

// -- start and end --------------------------------------------------------------

Status ReplicaSetController::CheckServer(const std::shared_ptr<herald::RestClient>& rest,
                                         const std::stop_token& stop) {
  const Result<bool> exists = herald::DynamicClient(rest, kReplicaSets).Exists(stop);
  if (!exists) return exists.error();
  if (*exists) return {};
  return Status(StatusReason::kNotFound,
                fmt::format("the server {} has no replicasets in apps/v1, so there is nothing to "
                            "control",
                            rest->config().server));
}

ReplicaSetController::ReplicaSetController(const std::shared_ptr<herald::RestClient>& rest,
                                           herald::Recorder recorder, ControllerOptions options)
    : options_(std::move(options)),
      clock_(options_.clock != nullptr ? *options_.clock : herald::SystemClock()),
      replica_set_client_(rest, kReplicaSets),
      pod_control_(rest, std::move(recorder), options_.abort),
      expectations_(clock_),
      queue_({.clock = &clock_}),
      replica_sets_(rest, kReplicaSets, InformerOptionsFor(options_)),
      pods_(rest, kPods, InformerOptionsFor(options_)) {
  replica_sets_.AddIndexer(kByController, ControllerUid);
  replica_sets_.AddIndexer(kByNamespace, NamespaceOf);
  replica_sets_.AddHandler(
      {.on_add = [this](const ObjectPtr& set) { OnReplicaSet(nullptr, set); },
       .on_update = [this](const ObjectPtr& before,
                           const ObjectPtr& set) { OnReplicaSet(before, set); },
       .on_delete = [this](const ObjectPtr& set) { OnReplicaSet(set, nullptr); }});
  pods_.AddIndexer(kByController, ControllerUidOrOrphans);
  pods_.AddIndexer(kByNamespace, NamespaceOf);
  pods_.AddHandler({.on_add = [this](const ObjectPtr& pod) { OnPodAdded(pod); },
                    .on_update = [this](const ObjectPtr& before,
                                        const ObjectPtr& pod) { OnPodChanged(before, pod); },
                    .on_delete = [this](const ObjectPtr& pod) { OnPodGone(pod); }});
  const auto log_error = [this](const char* resource) {
    return [this, resource](const Status& status) {
      Log(LogLevel::kWarn, "A list or watch failed and is retried", resource, status.message());
    };
  };
  replica_sets_.SetErrorHandler(log_error("replicasets"));
  pods_.SetErrorHandler(log_error("pods"));
}

ReplicaSetController::~ReplicaSetController() = default;

void ReplicaSetController::Run(const std::stop_token& stop) {
  std::stop_source either;
  const auto end = [&either] { either.request_stop(); };
  const std::stop_callback stopped(stop, end);
  const std::stop_callback aborted(options_.abort, end);
  stop_ = either.get_token();
  replica_sets_.Start();
  pods_.Start();
  // A sync needs all pods of a set, so the workers start after the first lists.
  for (const auto* informer : {&replica_sets_, &pods_}) {
    while (!informer->WaitForSync(std::chrono::minutes(1), stop_)) {
      if (stop_.stop_requested()) break;
      Log(LogLevel::kWarn, "Still waiting for the first list", "");
    }
  }
  if (!stop_.stop_requested()) Log(LogLevel::kInfo, "Caches are synced, workers start", "");
  std::vector<std::jthread> workers;
  for (int i = 0; i < options_.workers; ++i) workers.emplace_back([this] { Work(); });
  for (std::jthread& worker : workers) worker.join();
  queue_.ShutDown();
  replica_sets_.Stop();
  pods_.Stop();
}

void ReplicaSetController::Work() {
  while (const std::optional<std::string> key = queue_.Get(stop_)) {
    if (options_.may_work && !options_.may_work()) {
      queue_.AddRateLimited(*key);
      queue_.Done(*key);
      continue;
    }
    const Status status = Sync(*key);
    if (status.ok()) {
      queue_.Forget(*key);
    } else if (!stop_.stop_requested()) {
      Log(LogLevel::kWarn, "Failed to sync a ReplicaSet, retrying", *key, status.message());
      queue_.AddRateLimited(*key);
    }
    queue_.Done(*key);
  }
}

// -- handlers of the informers ----------------------------------------------------

void ReplicaSetController::OnReplicaSet(const ObjectPtr& before, const ObjectPtr& now) {
  const Object& set = now ? *now : *before;
  // It was deleted; or it was deleted and created again while no watch was open.
  if (!now || (before && before->uid() != now->uid())) expectations_.Forget(set.Key());
  // On any change: an unnecessary sync is cheap, because it reads only memory.
  queue_.Add(set.Key());
}

void ReplicaSetController::OnPodAdded(const ObjectPtr& pod) {
  // After a restart a pod may be seen first while it is being deleted. Then it does not count as a
  // creation.
  if (IsBeingDeleted(*pod)) return OnPodGone(pod);
  const JsonValue* const controller = ControllerOf(*pod);
  if (controller == nullptr) return EnqueueMatching(*pod);
  if (const ObjectPtr set = Resolve(pod->namespace_(), *controller)) {
    expectations_.CreationObserved(set->Key());
    queue_.Add(set->Key());
  }
}

void ReplicaSetController::OnPodChanged(const ObjectPtr& before, const ObjectPtr& pod) {
  if (before->uid() != pod->uid()) {
    OnPodGone(before);
    return OnPodAdded(pod);
  }
  // A pod with a deletionTimestamp counts as deleted, so that it is replaced before the kubelet has
  // stopped its containers.
  if (IsBeingDeleted(*pod)) return OnPodGone(pod);

  const JsonValue* const controller = ControllerOf(*pod);
  const JsonValue* const controller_before = ControllerOf(*before);
  const bool controller_changed = (controller == nullptr) != (controller_before == nullptr) ||
                                  (controller != nullptr && *controller != *controller_before);
  if (controller_changed && controller_before != nullptr) {
    if (const ObjectPtr set = Resolve(before->namespace_(), *controller_before)) {
      queue_.Add(set->Key());
    }
  }
  if (controller != nullptr) {
    const ObjectPtr set = Resolve(pod->namespace_(), *controller);
    if (!set) return;
    queue_.Add(set->Key());
    // The pod becomes available after some time, without a change that a watch would report.
    if (const int min_ready = MinReadySeconds(*set);
        min_ready > 0 && IsReady(*pod) && !IsReady(*before)) {
      queue_.AddAfter(set->Key(), std::chrono::seconds(min_ready));
    }
    return;
  }
  if (controller_changed || LabelsOf(*before) != LabelsOf(*pod)) EnqueueMatching(*pod);
}

void ReplicaSetController::OnPodGone(const ObjectPtr& pod) {
  const JsonValue* const controller = ControllerOf(*pod);
  if (controller == nullptr) return;  // no set counted it
  if (const ObjectPtr set = Resolve(pod->namespace_(), *controller)) {
    expectations_.DeletionObserved(set->Key(), pod->Key());
    queue_.Add(set->Key());
  }
}

void ReplicaSetController::EnqueueMatching(const Object& orphan) {
  const herald::StringMap labels = LabelsOf(orphan);
  for (const ObjectPtr& set : replica_sets_.ByIndex(kByNamespace, orphan.namespace_())) {
    const Result<LabelSelector> selector = SelectorOf(*set);
    if (selector && selector->Matches(labels)) queue_.Add(set->Key());
  }
}

ObjectPtr ReplicaSetController::Resolve(const std::string& namespace_,
                                        const JsonValue& controller) const {
  if (controller["kind"].String() != "ReplicaSet") return nullptr;
  ObjectPtr set = replica_sets_.Get(namespace_ + "/" + controller["name"].String());
  return set && set->uid() == controller["uid"].String() ? set : nullptr;
}

// -- workers ----------------------------------------------------------------------

Status ReplicaSetController::Sync(const std::string& key) {
  const ObjectPtr set = replica_sets_.Get(key);
  if (!set) {
    expectations_.Forget(key);
    return {};
  }
  // Checked before the pods are read: changes that are observed in between are then among them.
  const bool needs_sync = expectations_.Satisfied(key);
  // An expected change adds the key to the queue. If it never comes, the expectations expire, and
  // only this delayed key causes another sync.
  if (!needs_sync) queue_.AddAfter(key, Expectations::kTimeout);
  const Result<LabelSelector> selector = SelectorOf(*set);
  if (!selector) {
    // A retry would not help. A change of the selector causes another sync.
    Log(LogLevel::kError, "Invalid selector", key, selector.error().message());
    return {};
  }
  const Result<Pods> active = ClaimPods(set, *selector);
  if (!active) return active.error();

  Status managed;
  if (needs_sync && !IsBeingDeleted(*set)) managed = ManageReplicas(set, *active);
  if (options_.abort.stop_requested()) return managed;

  // The same time for the status and the next sync, so that no pod is missed in between.
  const herald::WallTime now = clock_.Now();
  JsonValue status = CalculateStatus(*set, *active, managed, now);
  const std::int64_t ready = status["readyReplicas"].Int();
  const std::int64_t available = status["availableReplicas"].Int();
  if (Status written = UpdateStatus(*set, std::move(status)); !written.ok()) return written;
  if (!managed.ok()) return managed;

  if (const int min_ready = MinReadySeconds(*set); min_ready > 0 && ready != available) {
    queue_.AddAfter(
        key, NextAvailable(*active, min_ready, now).value_or(std::chrono::seconds(min_ready)));
  }
  return {};
}

Result<Pods> ReplicaSetController::ClaimPods(const ObjectPtr& replica_set,
                                             const LabelSelector& selector) {
  const Object& set = *replica_set;
  Pods candidates = pods_.ByIndex(kByController, set.uid());
  for (ObjectPtr& pod : pods_.ByIndex(kByController, Orphans(set.namespace_()))) {
    candidates.push_back(std::move(pod));
  }
  Pods claimed;
  Status error;
  std::optional<Status> may_adopt;  // checked at most once, and only if needed
  for (ObjectPtr& pod : candidates) {
    if (!IsActive(*pod)) continue;
    Status status;
    switch (DecideClaim(set, selector, *pod)) {
      case Claim::kNone:
        break;
      case Claim::kOwned:
        claimed.push_back(std::move(pod));
        break;
      case Claim::kAdopt:
        if (!may_adopt) may_adopt = CheckMayAdopt(set);
        status = may_adopt->ok() ? pod_control_.Patch(*pod, AdoptionPatch(set, *pod)) : *may_adopt;
        if (status.ok()) {
          Log(LogLevel::kInfo, "Adopted a pod", set.Key(), pod->name());
          claimed.push_back(std::move(pod));
        }
        break;
      case Claim::kRelease:
        status = pod_control_.Patch(*pod, ReleasePatch(set, *pod));
        if (status.ok()) Log(LogLevel::kInfo, "Released a pod", set.Key(), pod->name());
        // There is another pod with that name, or the pod has no owner any more.
        if (status.Is(StatusReason::kInvalid)) status = Status();
        break;
    }
    // A deleted pod is not an error. After any other error continue with the other pods, and retry
    // later.
    if (!status.ok() && !status.Is(StatusReason::kNotFound) && error.ok()) error = status;
  }
  if (!error.ok()) return error;
  return claimed;
}

Status ReplicaSetController::CheckMayAdopt(const Object& replica_set) const {
  const Result<Object> fresh =
      replica_set_client_.Get(replica_set.namespace_(), replica_set.name(), options_.abort);
  if (!fresh) {
    // Not the original status: a 404 would be mistaken for a deleted pod and ignored.
    return Status(StatusReason::kConflict,
                  "cannot recheck the ReplicaSet before an adoption: " + fresh.error().message());
  }
  if (fresh->uid() != replica_set.uid()) {
    return Status(StatusReason::kConflict,
                  fmt::format("the original ReplicaSet {} is gone: got uid {}, wanted {}",
                              replica_set.Key(), fresh->uid(), replica_set.uid()));
  }
  if (IsBeingDeleted(*fresh)) {
    return Status(StatusReason::kConflict,
                  fmt::format("the ReplicaSet {} has just been deleted", replica_set.Key()));
  }
  return {};
}

Status ReplicaSetController::ManageReplicas(const ObjectPtr& replica_set, const Pods& active) {
  const int excess = static_cast<int>(active.size()) - WantedReplicas(*replica_set);
  const int count = std::min(std::abs(excess), options_.burst_replicas);
  if (excess < 0) return CreatePods(replica_set, count);
  if (excess == 0) return {};
  return DeletePods(replica_set,
                    PodsToDelete(active, RelatedPods(*replica_set), count, clock_.Now()));
}

Status ReplicaSetController::CreatePods(const ObjectPtr& replica_set, int count) {
  const std::string key = replica_set->Key();
  Log(LogLevel::kInfo, "Too few replicas", key, fmt::format("creating {}", count));
  // Before the first request, because the watch may report the pod before the answer arrives.
  expectations_.ExpectCreations(key, count);
  const auto create = [&](int, Done done) {
    pod_control_.Create(replica_set, [done = std::move(done)](const Status& status) {
      // In a terminating namespace every creation fails, so a retry is useless.
      done(IsNamespaceTerminating(status) ? Status() : status);
    });
  };
  const SlowStartResult result = SlowStart(count, create, stop_);
  // Pods that failed or were not tried will not be observed.
  if (result.succeeded < count) expectations_.CreationObserved(key, count - result.succeeded);
  return result.error;
}

Status ReplicaSetController::DeletePods(const ObjectPtr& replica_set, const Pods& pods) {
  const std::string key = replica_set->Key();
  Log(LogLevel::kInfo, "Too many replicas", key, fmt::format("deleting {}", pods.size()));
  std::vector<std::string> keys;
  for (const ObjectPtr& pod : pods) keys.push_back(pod->Key());
  expectations_.ExpectDeletions(key, keys);
  const std::vector<Status> failures = RunAll(static_cast<int>(pods.size()), [&](int i, Done done) {
    const ObjectPtr& pod = pods[static_cast<std::size_t>(i)];
    pod_control_.Delete(replica_set, pod->name(),
                        [this, key, pod, done = std::move(done)](Status status) {
                          // The deletion will not be observed.
                          if (!status.ok()) expectations_.DeletionObserved(key, pod->Key());
                          // A pod that does not exist any more is a success.
                          done(status.Is(StatusReason::kNotFound) ? Status() : std::move(status));
                        });
  });
  // All failures are probably the same.
  return failures.empty() ? Status() : failures.front();
}

Pods ReplicaSetController::RelatedPods(const Object& replica_set) const {
  // A set without an owner has only its own pods.
  std::vector<ObjectPtr> sets;
  if (const JsonValue* const owner = ControllerOf(replica_set); owner != nullptr) {
    sets = replica_sets_.ByIndex(kByController, (*owner)["uid"].String());
  } else {
    sets.push_back(std::make_shared<const Object>(replica_set));
  }
  const Pods in_namespace = pods_.ByIndex(kByNamespace, replica_set.namespace_());
  Pods related;
  std::set<const Object*> seen;
  for (const ObjectPtr& set : sets) {
    const Result<LabelSelector> selector = SelectorOf(*set);
    if (!selector) continue;
    for (const ObjectPtr& pod : in_namespace) {
      if (selector->Matches(LabelsOf(*pod)) && seen.insert(pod.get()).second) {
        related.push_back(pod);
      }
    }
  }
  return related;
}

Status ReplicaSetController::UpdateStatus(const Object& replica_set, JsonValue status) const {
  if (HasStatus(replica_set, status)) return {};
  // The generation that this sync used, even if the set has changed since.
  status.Member("observedGeneration") = replica_set.json["metadata"]["generation"].Int();
  JsonValue changed = replica_set.json;
  changed.Member("status") = status;
  Result<Object> updated = replica_set_client_.Update(replica_set.namespace_(), replica_set.name(),
                                                      changed, "status", {}, options_.abort);
  if (!updated && updated.error().Is(StatusReason::kConflict)) {
    // The informer's copy is old. Try once more with the latest one; after that the queue retries.
    Result<Object> fresh =
        replica_set_client_.Get(replica_set.namespace_(), replica_set.name(), options_.abort);
    if (!fresh) return fresh.error();
    if (fresh->uid() != replica_set.uid())
      return {};  // another set of that name, which is in the queue
    fresh->json.Member("status") = std::move(status);
    updated = replica_set_client_.Update(replica_set.namespace_(), replica_set.name(), fresh->json,
                                         "status", {}, options_.abort);
  }
  // A deleted set needs no status.
  if (!updated && !updated.error().Is(StatusReason::kNotFound)) return updated.error();
  return {};
}

void ReplicaSetController::Log(LogLevel level, std::string_view message, std::string_view key,
                               std::string_view why) const {
  if (!options_.log) return;
  herald::LogEntry entry{.level = level, .message = message};
  if (!key.empty()) entry.fields.emplace_back("object", key);
  if (!why.empty()) entry.fields.emplace_back("detail", why);
  options_.log(entry);
}

}  // namespace replicaset_controller
