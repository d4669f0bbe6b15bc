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

// Expectations remember what a controller has asked for and not seen yet.
//
// They exist because an informer's cache lags behind: a controller that has just created
// 10 pods, and looks, may find 3 of them and create 7 again. So it writes down that it
// expects 10 creations, the pod handlers tick them off as they see them, and until all are
// seen the controller leaves that object alone:
//
//   sync: 10 missing  ->  ExpectCreations("ns/web", 10), 10 requests
//   handler: a pod    ->  CreationObserved("ns/web")          ten times
//   sync: Satisfied("ns/web")  ->  counts again
//
// What failed, or was not tried, is ticked off by the controller itself. Should a tick be
// lost all the same, expectations expire, so that no object sleeps for ever.
//
// Deletions are told apart by the pod's key: a pod is seen going twice (when it gets its
// deletionTimestamp, and when it is gone), and must count once.
//
// Thread-safe.
class Expectations {
 public:
  // As upstream's ExpectationsTimeout: longer than any watch should lag.
  static constexpr std::chrono::minutes kTimeout{5};

  explicit Expectations(const herald::Clock& clock) : clock_(clock) {}

  // Both replace what was expected before.
  void ExpectCreations(std::string_view key, int count);
  void ExpectDeletions(std::string_view key, const std::vector<std::string>& pods);
  // Nothing where nothing is expected.
  void CreationObserved(std::string_view key, int count = 1);
  void DeletionObserved(std::string_view key, std::string_view pod);

  // Everything was seen, nothing was expected, or the time is over.
  bool Satisfied(std::string_view key) const;
  // The object is gone; one of the same name starts anew.
  void Forget(std::string_view key);

 private:
  struct Expected {
    int creations = 0;  // below 0: more was seen than asked for, as after an adoption
    std::set<std::string, std::less<>> deletions;
    herald::SteadyTime since;
  };

  const herald::Clock& clock_;
  mutable std::mutex mu_;
  std::map<std::string, Expected, std::less<>> expected_;  // guarded by mu_
};

}  // namespace replicaset_controller
