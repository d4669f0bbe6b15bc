#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "herald/api/event.h"
#include "herald/base/status.h"

namespace herald::server {

// How long events are kept: `default_ttl`, unless a rule says otherwise. Rules come from
// a YAML file, and the first one that fits an event decides:
//
//   rules:
//   - {type: Warning, keep: 7d}
//   - {namespace: kube-system, kind: Node, keep: 30d}
//   - {reason: [Pulled, Pulling], keep: 10m}
//
// namespace, type, reason and kind (of the involved object) are what a rule can ask for:
// a text or a list of texts, one of which must be equal. Those it does not name do not
// matter.
//
// Immutable, hence thread-safe; reloading makes a new one.
class Retention {
 public:
  // Shorter than this would lose events before anyone could look: a watcher that
  // reconnects, or client-go's series, which are refreshed after 6 minutes at the earliest.
  static constexpr std::chrono::seconds kShortest{1};
  // A century; beyond it times overflow, and nobody means it.
  static constexpr std::chrono::hours kLongest{24 * 36525};

  // No rules. REQUIRES: CheckTtl(default_ttl) is ok
  explicit Retention(std::chrono::seconds default_ttl) : default_ttl_(default_ttl) {}

  static Result<Retention> Load(const std::string& file, std::chrono::seconds default_ttl);

  // Why a duration cannot be used; ok if it can. Zero in particular, which
  // kube-apiserver takes and then keeps events for ever.
  static Status CheckTtl(std::chrono::nanoseconds ttl);

  std::chrono::seconds Keep(const Event& event) const;

  // A digest of the rules and of `default_ttl`: equal where these are, in every process. Never 0.
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
