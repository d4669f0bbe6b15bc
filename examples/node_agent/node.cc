#include "node_agent/node.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace node_agent {
namespace {

using herald::kNormal;
using herald::kWarning;
using std::chrono::milliseconds;

constexpr const char* kImage = "registry.local/shop/web:1.7";
// The kubelet doubles its back-off from 10 s to 5 min. The simulation is faster.
constexpr milliseconds kFirstBackOff{2000};
constexpr int kMostDoublings = 6;
constexpr std::chrono::seconds kHouseKeeping{60};

milliseconds BackOff(int failures) {
  return kFirstBackOff * (1 << std::min(failures, kMostDoublings));
}

std::string MakeUid(std::mt19937_64& random) {
  const std::uint64_t a = random();
  const std::uint64_t b = random();
  return fmt::format("{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}", a >> 32, a >> 16 & 0xffff, a & 0xfff,
                     b >> 48 & 0xfff, b & 0xffff'ffff'ffff);
}

}  // namespace

bool Faults::Parse(std::string_view name, Faults* faults) {
  if (name == "none") {
    *faults = {};
  } else if (name == "few") {
    *faults = {.pull_fails = 50,
               .mount_fails = 30,
               .probe_fails = 100,
               .crash_loops = 50,
               .image_gc_fails = 100};
  } else if (name == "many") {
    *faults = {.pull_fails = 300,
               .mount_fails = 200,
               .probe_fails = 400,
               .crash_loops = 300,
               .image_gc_fails = 500};
  } else {
    return false;
  }
  return true;
}

Node::Node(NodeOptions options, herald::Recorder kubelet, herald::Recorder scheduler,
           herald::SteadyTime now)
    : options_(std::move(options)),
      kubelet_(std::move(kubelet)),
      scheduler_(std::move(scheduler)),
      random_(options_.seed),
      pods_(static_cast<std::size_t>(options_.pods)),
      next_house_keeping_(now + kHouseKeeping) {
  // The kubelet uses the node's name as its uid in events, and `kubectl describe node` expects it.
  node_ = {.kind = "Node", .name = options_.name, .uid = options_.name};
  kubelet_.Event(node_, kNormal, "Starting", "Starting kubelet.");
  kubelet_.Eventf(node_, kNormal, "NodeReady", "Node {} status is now: NodeReady", options_.name);
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    Pod& pod = pods_[i];
    Replace(&pod, now);
    due_.push({now + Between(0, 3000), i});
    if (options_.pods_run_already) {
      pod.state = State::kRunning;
      pod.crashes = false;
      // A random time between now and the longest lifetime.
      const milliseconds longest = options_.pod_lifetime * 3 / 2;
      pod.ends = now + longest * static_cast<int>(random_() % 1000) / 1000;
    }
  }
}

bool Node::Chance(int per_mille) { return static_cast<int>(random_() % 1000) < per_mille; }

milliseconds Node::Between(int least_ms, int most_ms) {
  return milliseconds(least_ms + static_cast<int>(random_() % (most_ms - least_ms + 1)));
}

herald::SteadyTime Node::Step(herald::SteadyTime now) {
  if (next_house_keeping_ <= now) next_house_keeping_ = now + HouseKeeping();
  while (!due_.empty() && due_.top().when <= now) {
    const std::size_t pod = due_.top().pod;
    due_.pop();
    due_.push({now + Advance(&pods_[pod], now), pod});
  }
  return due_.empty() ? next_house_keeping_ : std::min(next_house_keeping_, due_.top().when);
}

void Node::Storm() {
  for (Pod& pod : pods_) {
    pod.crashes = true;
    if (pod.state == State::kRunning) pod.state = State::kCrashed;
  }
}

void Node::Calm() {
  for (Pod& pod : pods_) {
    pod.crashes = false;
    if (pod.state != State::kCrashed) continue;
    pod.state = State::kPulled;
    pod.failures = 0;
  }
}

void Node::Replace(Pod* pod, herald::SteadyTime now) {
  ++pods_made_;
  const auto lifetime = std::chrono::duration_cast<milliseconds>(options_.pod_lifetime);
  *pod = {.reference = {.kind = "Pod",
                        .namespace_ = "shop",
                        .name = fmt::format("web-{}-{}", options_.name, pods_made_),
                        .uid = MakeUid(random_),
                        .api_version = "v1",
                        .resource_version = fmt::format("{}", 1000 + pods_made_),
                        .field_path = "spec.containers{web}"},
          .state = State::kNew,
          .failures = 0,
          .crashes = Chance(options_.faults.crash_loops),
          .ends = now + lifetime / 2 + lifetime * static_cast<int>(random_() % 1000) / 1000};
}

milliseconds Node::Advance(Pod* pod, herald::SteadyTime now) {
  switch (pod->state) {
    case State::kNew: {
      herald::ObjectReference whole = pod->reference;  // the pod, not its container
      whole.field_path.clear();
      herald::Recorder(scheduler_)
          .Eventf(whole, kNormal, "Scheduled", "Successfully assigned {}/{} to {}",
                  whole.namespace_, whole.name, options_.name);
      pod->state = Chance(options_.faults.mount_fails) ? State::kMounting : State::kScheduled;
      return Between(100, 500);
    }
    case State::kMounting: {
      herald::ObjectReference whole = pod->reference;
      whole.field_path.clear();
      kubelet_.Event(whole, kWarning, "FailedMount",
                     "MountVolume.SetUp failed for volume \"config\": configmap \"web\" not found");
      if (++pod->failures >= 3) pod->state = State::kScheduled;
      return BackOff(pod->failures);
    }
    case State::kScheduled:
      pod->failures = 0;
      kubelet_.Eventf(pod->reference, kNormal, "Pulling", "Pulling image \"{}\"", kImage);
      pod->state = State::kPulling;
      return Between(300, 2500);
    case State::kPulling:
    case State::kPullBackOff:
      return Pull(pod);
    case State::kPulled:
      kubelet_.Event(pod->reference, kNormal, "Created", "Created container web");
      pod->state = State::kCreated;
      return Between(50, 300);
    case State::kCreated:
      kubelet_.Event(pod->reference, kNormal, "Started", "Started container web");
      pod->state = pod->crashes ? State::kCrashed : State::kRunning;
      return Between(500, 2000);
    case State::kRunning:
    case State::kUnhealthy:
      return Run(pod, now);
    case State::kCrashed:
      kubelet_.Eventf(pod->reference, kWarning, "BackOff",
                      "Back-off restarting failed container web in pod {}_{}({})",
                      pod->reference.name, pod->reference.namespace_, pod->reference.uid);
      ++pod->failures;
      if (pod->ends <= now) pod->state = State::kKilled;
      return BackOff(std::min(pod->failures, 2));
    case State::kKilled:
      Replace(pod, now);
      return Between(500, 3000);
  }
  return milliseconds(1000);
}

milliseconds Node::Pull(Pod* pod) {
  if (pod->state == State::kPulling && Chance(options_.faults.pull_fails)) {
    kubelet_.Eventf(pod->reference, kWarning, "Failed",
                    "Failed to pull image \"{}\": connection refused", kImage);
    pod->state = State::kPullBackOff;
    return BackOff(0);
  }
  if (pod->state == State::kPullBackOff) {
    kubelet_.Eventf(pod->reference, kNormal, "BackOff", "Back-off pulling image \"{}\"", kImage);
    if (++pod->failures < 4) return BackOff(pod->failures);
  }
  pod->failures = 0;
  kubelet_.Eventf(pod->reference, kNormal, "Pulled", "Successfully pulled image \"{}\" in {}ms",
                  kImage, Between(200, 2000).count());
  pod->state = State::kPulled;
  return Between(50, 200);
}

milliseconds Node::Run(Pod* pod, herald::SteadyTime now) {
  if (pod->ends <= now) {
    kubelet_.Event(pod->reference, kNormal, "Killing", "Stopping container web");
    pod->state = State::kKilled;
    return Between(1000, 5000);
  }
  if (pod->state == State::kRunning && Chance(options_.faults.probe_fails)) {
    pod->state = State::kUnhealthy;
    pod->failures = 0;
  }
  if (pod->state == State::kUnhealthy) {
    // The message differs each time, so that the correlator aggregates these events.
    kubelet_.Eventf(pod->reference, kWarning, "Unhealthy",
                    "Readiness probe failed: Get \"http://10.1.{}.{}:8080/ready\": timeout",
                    random_() % 4, random_() % 256);
    if (++pod->failures >= 3) {
      kubelet_.Event(pod->reference, kNormal, "Killing",
                     "Container web failed liveness probe, will be restarted");
      pod->state = State::kPulled;
    }
  }
  return Between(4000, 6000);
}

milliseconds Node::HouseKeeping() {
  if (Chance(options_.faults.image_gc_fails)) {
    kubelet_.Event(
        node_, kWarning, "ImageGCFailed",
        "failed to garbage collect required amount of images. Wanted to free 1073741824 bytes, but "
        "freed 0 bytes");
  }
  return std::chrono::duration_cast<milliseconds>(kHouseKeeping);
}

}  // namespace node_agent
