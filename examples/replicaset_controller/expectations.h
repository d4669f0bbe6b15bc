#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/clock.h"

namespace replicaset_controller {

// Expectations store which changes a controller has requested but not yet seen in its informers.
//
// They exist because an informer lags behind the server: a controller that has just created 10 pods
// may see only 3 of them at its next sync and create 7 again. So it stores that it expects 10
// creations. The pod handlers count the pods that they see. Until all are seen, the controller
// creates and deletes nothing for that object:
//
//   sync: 10 missing  ->  ExpectCreations("ns/web", 10), 10 requests
//   handler: a pod    ->  CreationObserved("ns/web")          ten times
//   sync: Satisfied("ns/web")  ->  counts again
//
// The controller itself counts requests that failed or were not sent. Expectations expire, so that
// an object is not blocked forever if a change is never seen.
//
// Deletions are identified by the pod's key: a deletion is seen twice (when the pod gets its
// deletionTimestamp and when it is removed) and must count once.
//
// Thread-safe.
class Expectations {
 public:
  // As upstream's ExpectationsTimeout: longer than a watch should lag.
  static constexpr std::chrono::minutes kTimeout{5};

  explicit Expectations(const herald::Clock& clock) : clock_(clock) {}

  // Both replace earlier expectations.
  void ExpectCreations(std::string_view key, int count);
  void ExpectDeletions(std::string_view key, const std::vector<std::string>& pods);
  // Do nothing if nothing is expected.
  void CreationObserved(std::string_view key, int count = 1);
  void DeletionObserved(std::string_view key, std::string_view pod);

  // Whether everything was seen, nothing was expected, or the expectations have expired.
  bool Satisfied(std::string_view key) const;
  // Removes the expectations of an object that was deleted.
  void Forget(std::string_view key);

 private:
  struct Expected {
    int creations = 0;  // negative if more was seen than requested, as after an adoption
    std::set<std::string, std::less<>> deletions;
    herald::SteadyTime since;
  };

  const herald::Clock& clock_;
  mutable std::mutex mu_;
  std::map<std::string, Expected, std::less<>> expected_;  // guarded by mu_
};

}  // namespace replicaset_controller
