#pragma once

#include <chrono>
#include <cstdint>
#include <queue>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/clock.h"
#include "herald/record/recorder.h"

namespace node_agent {

// The probability of each fault, from 0 (never) to 1000 (always).
struct Faults {
  int pull_fails = 0;      // an image cannot be pulled: Failed, then BackOff until it can
  int mount_fails = 0;     // a volume is not ready in time: FailedMount
  int probe_fails = 0;     // a running container does not answer: Unhealthy, then Killing
  int crash_loops = 0;     // a container crashes whenever it starts: BackOff
  int image_gc_fails = 0;  // the node's disk is full of images: ImageGCFailed

  // Sets the profile "none", "few" or "many". Returns false for any other name.
  static bool Parse(std::string_view name, Faults* faults);
};

struct NodeOptions {
  std::string name = "node-1";
  int pods = 5;
  // The average time after which a pod is replaced by another one.
  std::chrono::seconds pod_lifetime{120};
  // All pods are running, with different ages, as after a restart of the agent.
  bool pods_run_already = false;
  Faults faults{};
  std::uint64_t seed = 1;  // the same seed results in the same events
};

// A Node simulates a kubelet without containers: its pods are scheduled, pull their images, start,
// fail, are killed and replaced, and each step is recorded as the kubelet records it.
//
// It has no thread and does not block: the caller calls Step() when it is due. So thousands of
// nodes can share a thread. Thread-confined.
class Node {
 public:
  // `kubelet` and `scheduler` are recorders for these two components.
  Node(NodeOptions options, herald::Recorder kubelet, herald::Recorder scheduler,
       herald::SteadyTime now);

  // Does all steps that are due. Returns the time of the next one.
  herald::SteadyTime Step(herald::SteadyTime now);

  // All containers crash now and whenever they start again, as if their database were down.
  void Storm();
  // Ends the storm: the containers that crashed start again.
  void Calm();

  const herald::ObjectReference& reference() const { return node_; }

 private:
  enum class State : std::uint8_t {
    kNew,
    kScheduled,
    kMounting,
    kPulling,
    kPullBackOff,
    kPulled,
    kCreated,
    kRunning,
    kCrashed,
    kUnhealthy,
    kKilled,
  };
  struct Pod {
    herald::ObjectReference reference;  // of its one container
    State state = State::kNew;
    int failures = 0;      // in this state
    bool crashes = false;  // whenever it starts
    herald::SteadyTime ends;
  };
  struct Due {
    herald::SteadyTime when;
    std::size_t pod;
    bool operator>(const Due& other) const {
      return when != other.when ? when > other.when : pod > other.pod;
    }
  };

  bool Chance(int per_mille);
  std::chrono::milliseconds Between(int least_ms, int most_ms);
  void Replace(Pod* pod, herald::SteadyTime now);
  // Does the next step of the pod. Returns the delay until the one after it.
  std::chrono::milliseconds Advance(Pod* pod, herald::SteadyTime now);
  std::chrono::milliseconds Pull(Pod* pod);
  std::chrono::milliseconds Run(Pod* pod, herald::SteadyTime now);
  std::chrono::milliseconds HouseKeeping();

  const NodeOptions options_;
  herald::Recorder kubelet_;
  herald::Recorder scheduler_;
  herald::ObjectReference node_;
  std::mt19937_64 random_;
  std::uint64_t pods_made_ = 0;
  std::vector<Pod> pods_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  herald::SteadyTime next_house_keeping_;
};

}  // namespace node_agent
