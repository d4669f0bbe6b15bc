#include "replicaset_controller/expectations.h"

namespace replicaset_controller {

void Expectations::ExpectCreations(std::string_view key, int count) {
  const std::lock_guard lock(mu_);
  expected_[std::string(key)] = {.creations = count, .deletions = {}, .since = clock_.Steady()};
}

void Expectations::ExpectDeletions(std::string_view key, const std::vector<std::string>& pods) {
  const std::lock_guard lock(mu_);
  expected_[std::string(key)] = {
      .creations = 0, .deletions = {pods.begin(), pods.end()}, .since = clock_.Steady()};
}

void Expectations::CreationObserved(std::string_view key, int count) {
  const std::lock_guard lock(mu_);
  if (const auto it = expected_.find(key); it != expected_.end()) it->second.creations -= count;
}

void Expectations::DeletionObserved(std::string_view key, std::string_view pod) {
  const std::lock_guard lock(mu_);
  const auto it = expected_.find(key);
  if (it == expected_.end()) return;
  const auto found = it->second.deletions.find(pod);
  if (found != it->second.deletions.end()) it->second.deletions.erase(found);
}

bool Expectations::Satisfied(std::string_view key) const {
  const std::lock_guard lock(mu_);
  const auto it = expected_.find(key);
  if (it == expected_.end()) return true;
  const Expected& expected = it->second;
  return (expected.creations <= 0 && expected.deletions.empty()) ||
         clock_.Steady() - expected.since > kTimeout;
}

void Expectations::Forget(std::string_view key) {
  const std::lock_guard lock(mu_);
  if (const auto it = expected_.find(key); it != expected_.end()) expected_.erase(it);
}

}  // namespace replicaset_controller
