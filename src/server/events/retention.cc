#include "server/events/retention.h"

#include <fmt/core.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <utility>

#include "server/daemon/config_file.h"

namespace herald::server {
namespace {

bool Fits(const std::vector<std::string>& wanted, const std::string& value) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), value) != wanted.end();
}

}  // namespace

Status Retention::CheckTtl(std::chrono::nanoseconds ttl) {
  if (ttl == std::chrono::nanoseconds(0))
    return Status(
        StatusReason::kBadRequest,
        "must not be 0: with 0 kube-apiserver keeps events forever, which fills the disk; "
        "use a duration such as 30d");
  if (ttl < kShortest || ttl > kLongest)
    return Status(StatusReason::kBadRequest, "must be from 1s to 36525d");
  return {};
}

Result<Retention> Retention::Load(const std::string& file, std::chrono::seconds default_ttl) {
  Result<std::vector<ConfigNode>> documents = ConfigNode::Load(file);
  if (!documents) return documents.error();
  Retention retention(default_ttl);
  for (ConfigNode& document : *documents) {
    for (ConfigNode& node : document.Children("rules")) {
      Rule rule;
      rule.namespaces = node.StringOrStrings("namespace");
      rule.types = node.StringOrStrings("type");
      rule.reasons = node.StringOrStrings("reason");
      rule.kinds = node.StringOrStrings("kind");
      if (!node.Has("keep")) node.Reject("keep", "is missing");
      const std::chrono::nanoseconds keep = node.Duration("keep", default_ttl);
      if (const Status status = CheckTtl(keep); !status.ok()) node.Reject("keep", status.message());
      rule.keep = std::chrono::duration_cast<std::chrono::seconds>(keep);
      if (Status status = node.Finish(); !status.ok()) return status;
      retention.rules_.push_back(std::move(rule));
    }
    if (Status status = document.Finish(); !status.ok()) return status;
  }
  return retention;
}

std::chrono::seconds Retention::Keep(const Event& event) const {
  for (const Rule& rule : rules_)
    if (Fits(rule.namespaces, event.metadata.namespace_) && Fits(rule.types, event.type) &&
        Fits(rule.reasons, event.reason) && Fits(rule.kinds, event.involved_object.kind))
      return rule.keep;
  return default_ttl_;
}

std::uint64_t Retention::id() const {
  // The number is the version of Keep(). Change it when Keep() applies the rules differently.
  std::string canonical = fmt::format("1 {}", default_ttl_.count());
  for (const Rule& rule : rules_) {
    canonical += fmt::format("\n{}", rule.keep.count());
    for (const auto* names : {&rule.namespaces, &rule.types, &rule.reasons, &rule.kinds}) {
      canonical += fmt::format(" [{}]", names->size());
      // With its length, because a name may contain any byte.
      for (const std::string& name : *names) canonical += fmt::format(" {}:{}", name.size(), name);
    }
  }
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(canonical.data()), canonical.size(), digest.data());
  std::uint64_t id = 0;
  for (std::size_t i = 0; i < sizeof(id); ++i) id = id << 8 | digest[i];
  return std::max<std::uint64_t>(id, 1);
}

}  // namespace herald::server
