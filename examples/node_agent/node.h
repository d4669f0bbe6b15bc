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

// How often things go wrong, each from 0 (never) to 1000 (always).
struct Faults {
  int pull_fails = 0;      // an image cannot be pulled: ErrImagePull, then BackOff until it can
  int mount_fails = 0;     // a volume is not there in time: FailedMount
  int probe_fails = 0;     // a running container does not answer: Unhealthy, then Killing
  int crash_loops = 0;     // a container ends at once, again and again: BackOff
  int image_gc_fails = 0;  // the node's disk is full of images: ImageGCFailed

  // "none", "few" or "many"; nothing for another name.
  static bool Parse(std::string_view name, Faults* faults);
};

struct NodeOptions {
  std::string name = "node-1";
  int pods = 5;
  // How long a pod lives before another one takes its place, on average.
  std::chrono::seconds pod_lifetime{120};
  // The agent was restarted, and finds its pods running and of all ages.
  bool pods_run_already = false;
  Faults faults{};
  std::uint64_t seed = 1;  // the same seed tells the same story
};

// A Node is what a kubelet does with events, without the containers: its pods are
// scheduled, pull their images, start, fail, are killed and replaced, and each step is
// recorded as the kubelet records it.
//
// It owns no thread and does not wait: whoever drives it calls Step() when it is due.
// Thousands of them may so share a thread. Thread-confined.
class Node {
 public:
  // The recorder speaks for the kubelet, `scheduler` for who placed the pods.
  Node(NodeOptions options, herald::Recorder kubelet, herald::Recorder scheduler,
       herald::SteadyTime now);

  // Does what is due and says when there is more to do.
  herald::SteadyTime Step(herald::SteadyTime now);

  // All containers crash at once and go on crashing, as when their database is away.
  void Storm();
  // It is back, and the containers that crashed start again.
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
    int failures = 0;     // in this state
    bool doomed = false;  // crashes whenever it has started
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
  // Takes the pod one step further; returns how long until the next.
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
