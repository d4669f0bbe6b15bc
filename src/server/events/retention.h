#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "herald/api/event.h"
#include "herald/base/status.h"

namespace herald::server {

// How long events are kept: `default_ttl`, unless a rule matches. Rules come from a YAML file; the
// first rule that matches an event decides:
//
//   rules:
//   - {type: Warning, keep: 7d}
//   - {namespace: kube-system, kind: Node, keep: 30d}
//   - {reason: [Pulled, Pulling], keep: 10m}
//
// A rule can match the namespace, type and reason of an event and the kind of its involved object.
// Each is a string or a list of strings, one of which must be equal. A missing one matches all.
//
// Immutable, hence thread-safe; reloading makes a new one.
class Retention {
 public:
  // With a shorter time, events would expire before they are seen: by a watcher that reconnects, or
  // in client-go's series, which are refreshed after 6 minutes at the earliest.
  static constexpr std::chrono::seconds kShortest{1};
  // A century. Longer times overflow.
  static constexpr std::chrono::hours kLongest{24 * 36525};

  // No rules. REQUIRES: CheckTtl(default_ttl) is ok
  explicit Retention(std::chrono::seconds default_ttl) : default_ttl_(default_ttl) {}

  static Result<Retention> Load(const std::string& file, std::chrono::seconds default_ttl);

  // An error if a duration cannot be used. Zero is rejected, too; kube-apiserver accepts it and
  // then keeps events forever.
  static Status CheckTtl(std::chrono::nanoseconds ttl);

  std::chrono::seconds Keep(const Event& event) const;

  // A digest of the rules and of `default_ttl`, the same in every process. Never 0.
  std::uint64_t id() const;

 private:
  struct Rule {
    std::vector<std::string> namespaces;  // each list: empty means any
    std::vector<std::string> types;
    std::vector<std::string> reasons;
    std::vector<std::string> kinds;
    std::chrono::seconds keep{};
  };

  std::chrono::seconds default_ttl_;
  std::vector<Rule> rules_;
};

}  // namespace herald::server
