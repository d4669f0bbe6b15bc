#pragma once

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
  // How many ReplicaSets are worked on at once (kube-controller-manager's
  // --concurrent-replicaset-syncs).
  int workers = 5;
  // How many pods are created or deleted for one set before it looks again.
  int burst_replicas = 500;
  std::string namespace_{};              // only this one; empty: all
  const herald::Clock* clock = nullptr;  // borrowed; null: the system's
  // When it is requested, requests under way are given up: for a leader that has lost its
  // lease, which has no time to wait for them. They may still arrive.
  std::stop_token abort{};
  herald::LogFunction log{};
};

// A ReplicaSetController makes the pods of each ReplicaSet as many as it wants.
//
//   informers ──handlers──> queue of "namespace/name" ──workers──> Sync() ──> API server
//       ^                                                                        │
//       └──────────────────────────── watch ─────────────────────────────────────┘
//
// Handlers only say which set to look at; what to do is decided from the whole state, each
// time anew. So it does not matter how often a set is looked at, in which order things
// happened, or that the controller was not there when they did.
//
// The queue hands a key to one worker at a time, so Sync() never runs twice at once for a set.
//
// Thread-safe.
class ReplicaSetController {
 public:
  // An error that says so where the server has no ReplicaSets: there is nothing to do
  // there, and informers would ask for them for ever.
  static herald::Status CheckServer(const std::shared_ptr<herald::RestClient>& rest,
                                    const std::stop_token& stop);

  ReplicaSetController(const std::shared_ptr<herald::RestClient>& rest, herald::Recorder recorder,
                       ControllerOptions options = {});
  // REQUIRES: nobody is in Run()
  ~ReplicaSetController();
  ReplicaSetController(const ReplicaSetController&) = delete;
  ReplicaSetController& operator=(const ReplicaSetController&) = delete;

  // Works until `stop` is requested or the options' `abort` is; returns when all workers have
  // ended. In the first case what was begun has been finished by then: the next leader finds
  // all of it, and nothing arrives behind its back. At most once.
  void Run(const std::stop_token& stop);

 private:
  // What informers tell; on the RestClient's thread.
  void OnReplicaSet(const ObjectPtr& before, const ObjectPtr& now);
  void OnPodAdded(const ObjectPtr& pod);
  void OnPodChanged(const ObjectPtr& before, const ObjectPtr& pod);
  void OnPodGone(const ObjectPtr& pod);
  void EnqueueMatching(const Object& orphan);

  void Work();
  herald::Status Sync(const std::string& key);
  // The pods that are the set's, after adoptions and releases.
  herald::Result<Pods> ClaimPods(const ObjectPtr& replica_set,
                                 const herald::LabelSelector& selector);
  // Whether the set is still there, and stays: asked of the server itself, because to
  // adopt pods for a set that is gone would leave them to the garbage collector.
  herald::Status CheckMayAdopt(const Object& replica_set) const;
  herald::Status ManageReplicas(const ObjectPtr& replica_set, const Pods& active);
  herald::Status CreatePods(const ObjectPtr& replica_set, int count);
  herald::Status DeletePods(const ObjectPtr& replica_set, const Pods& doomed);
  // The pods that should be spread over nodes together with this set's.
  Pods RelatedPods(const Object& replica_set) const;
  herald::Status UpdateStatus(const Object& replica_set, JsonValue status) const;

  // The set that a controller reference means; null where it is another kind, or another set
  // of that name.
  ObjectPtr Resolve(const std::string& namespace_, const JsonValue& controller) const;
  void Log(herald::LogLevel level, std::string_view message, std::string_view key,
           std::string_view why = {}) const;

  const ControllerOptions options_;
  const herald::Clock& clock_;
  const herald::DynamicClient replica_set_client_;
  const PodControl pod_control_;
  std::stop_token stop_;  // of Run(); set before there are workers
  Expectations expectations_;
  herald::WorkQueue queue_;
  // Last, because their handlers use all of the above.
  herald::Informer<Object> replica_sets_;
  herald::Informer<Object> pods_;
};

}  // namespace replicaset_controller
