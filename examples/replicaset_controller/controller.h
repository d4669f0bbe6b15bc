#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "herald/base/clock.h"
#include "herald/base/log.h"
#include "herald/base/status.h"
#include "herald/client/dynamic.h"
#include "herald/client/informer.h"
#include "herald/client/rest.h"
#include "herald/client/work_queue.h"
#include "herald/record/recorder.h"
#include "replicaset_controller/expectations.h"
#include "replicaset_controller/objects.h"
#include "replicaset_controller/pod_control.h"

namespace replicaset_controller {

struct ControllerOptions {
  // How many ReplicaSets are synced at the same time (kube-controller-manager's
  // --concurrent-replicaset-syncs).
  int workers = 5;
  // How many pods are created or deleted in one sync of a set.
  int burst_replicas = 500;
  std::string namespace_{};              // empty: all namespaces
  const herald::Clock* clock = nullptr;  // borrowed; null: the system's
  // Cancels requests under way, for a leader that has lost its lease and must not wait for them.
  // They may still arrive at the server.
  std::stop_token abort{};
  // Checked before each sync, which is retried later if it returns false. A process that was
  // suspended does not know yet that its lease has expired, but LeaderElector::IsLeader() does.
  // Called by all workers. Null: always true.
  std::function<bool()> may_work{};
  herald::LogFunction log{};
};

// A ReplicaSetController keeps the number of pods of each ReplicaSet at the wanted number.
//
//   informers ──handlers──> queue of "namespace/name" ──workers──> Sync() ──> API server
//       ^                                                                        │
//       └──────────────────────────── watch ─────────────────────────────────────┘
//
// Handlers only add the key of a set to the queue. Sync() decides what to do from the complete
// current state. So it does not matter how often a set is synced, in which order changes happened,
// or whether the controller was running when they happened.
//
// The queue gives a key to one worker at a time, so Sync() does not run twice for a set at the same
// time.
//
// Thread-safe.
class ReplicaSetController {
 public:
  // An error if the server has no ReplicaSets: informers would retry forever.
  static herald::Status CheckServer(const std::shared_ptr<herald::RestClient>& rest,
                                    const std::stop_token& stop);

  ReplicaSetController(const std::shared_ptr<herald::RestClient>& rest, herald::Recorder recorder,
                       ControllerOptions options = {});
  // REQUIRES: Run() is not running
  ~ReplicaSetController();
  ReplicaSetController(const ReplicaSetController&) = delete;
  ReplicaSetController& operator=(const ReplicaSetController&) = delete;

  // Runs until `stop` or the options' `abort` is requested, and returns when all workers have
  // ended. After `stop`, running syncs are finished first, so that no request arrives at the server
  // after the next leader has started. REQUIRES: not called before
  void Run(const std::stop_token& stop);

 private:
  // Handlers of the informers. They run on the RestClient's thread.
  void OnReplicaSet(const ObjectPtr& before, const ObjectPtr& now);
  void OnPodAdded(const ObjectPtr& pod);
  void OnPodChanged(const ObjectPtr& before, const ObjectPtr& pod);
  void OnPodGone(const ObjectPtr& pod);
  void EnqueueMatching(const Object& orphan);

  void Work();
  herald::Status Sync(const std::string& key);
  // Adopts and releases pods, and returns the pods of the set.
  herald::Result<Pods> ClaimPods(const ObjectPtr& replica_set,
                                 const herald::LabelSelector& selector);
  // Whether the set still exists and is not being deleted. Asks the server, because the garbage
  // collector would delete pods that a deleted set adopts.
  herald::Status CheckMayAdopt(const Object& replica_set) const;
  herald::Status ManageReplicas(const ObjectPtr& replica_set, const Pods& active);
  herald::Status CreatePods(const ObjectPtr& replica_set, int count);
  herald::Status DeletePods(const ObjectPtr& replica_set, const Pods& pods);
  // The pods that should be spread over nodes together with the pods of this set.
  Pods RelatedPods(const Object& replica_set) const;
  herald::Status UpdateStatus(const Object& replica_set, JsonValue status) const;

  // The set that a controller reference refers to; null if it refers to another kind, or to an
  // earlier set of the same name.
  ObjectPtr Resolve(const std::string& namespace_, const JsonValue& controller) const;
  void Log(herald::LogLevel level, std::string_view message, std::string_view key,
           std::string_view why = {}) const;

  const ControllerOptions options_;
  const herald::Clock& clock_;
  const herald::DynamicClient replica_set_client_;
  const PodControl pod_control_;
  std::stop_token stop_;  // of Run(); set before the workers start
  Expectations expectations_;
  herald::WorkQueue queue_;
  // Last, because their handlers use the members above.
  herald::Informer<Object> replica_sets_;
  herald::Informer<Object> pods_;
};

}  // namespace replicaset_controller
