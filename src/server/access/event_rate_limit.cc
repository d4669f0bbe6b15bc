#include "server/access/event_rate_limit.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/limit/token_bucket.h"
#include "base/lru_map.h"
#include "server/daemon/config_file.h"

namespace herald::server {
namespace {

// Upstream's default: what a limit remembers when it must forget.
constexpr std::int64_t kDefaultCacheSize = 4096;

enum class Type { kServer, kNamespace, kUser, kSourceAndObject };

struct TypeName {
  std::string_view name;
  Type type;
};
constexpr TypeName kTypes[] = {{"Server", Type::kServer},
                               {"Namespace", Type::kNamespace},
                               {"User", Type::kUser},
                               {"SourceAndObject", Type::kSourceAndObject}};

// The parts of the key apart, because "ab"+"c" must not share a bucket with "a"+"bc".
std::string Key(Type type, const User& user, const Event& event, char separator) {
  switch (type) {
    case Type::kServer:
      return "";
    case Type::kNamespace:
      return event.metadata.namespace_;
    case Type::kUser:
      return user.name;
    case Type::kSourceAndObject:
      break;
  }
  // Events of the new style have no source; who reports them is said elsewhere.
  const bool old_style = !event.source.component.empty() || !event.source.host.empty();
  std::string key;
  for (const std::string* part :
       {old_style ? &event.source.component : &event.reporting_controller,
        old_style ? &event.source.host : &event.reporting_instance, &event.involved_object.kind,
        &event.involved_object.namespace_, &event.involved_object.name, &event.involved_object.uid,
        &event.involved_object.api_version}) {
    key += *part;
    if (separator != '\0') key += separator;
  }
  return key;
}

}  // namespace

class EventRateLimit::Limit {
 public:
  Limit(const TypeName& type, TokenBucket::Limits limits, std::size_t cache_size)
      : type_(type), limits_(limits), buckets_(cache_size) {}

  bool TryTake(const User& user, const Event& event, SteadyTime now) {
    const std::string key = Key(type_.type, user, event, '\x1f');
    TokenBucket* bucket = buckets_.Get(key);
    if (bucket == nullptr) {
      buckets_.Put(key, TokenBucket());
      bucket = buckets_.Get(key);
    }
    return bucket->TryTake(limits_, now);
  }

  std::string Refusal(const User& user, const Event& event) const {
    return fmt::format("limit reached on type {} for key {}", type_.name,
                       Key(type_.type, user, event, '\0'));
  }

  // Until there is a token again, whoever takes it.
  std::chrono::seconds retry_after() const {
    return std::chrono::seconds(
        std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(1.0 / limits_.qps))));
  }

 private:
  const TypeName type_;
  const TokenBucket::Limits limits_;
  LruMap<std::string, TokenBucket> buckets_;
};

EventRateLimit::EventRateLimit() = default;
EventRateLimit::~EventRateLimit() = default;

Status EventRateLimit::Load(const std::string& file) {
  Result<std::vector<ConfigNode>> documents = ConfigNode::Load(file);
  if (!documents) return documents.error();
  if (documents->size() != 1)
    return Status(StatusReason::kBadRequest,
                  fmt::format("{}: must hold one document, of kind Configuration", file));
  ConfigNode& config = documents->front();
  if (config.String("kind") != "Configuration") config.Refuse("kind", "must be Configuration");
  if (!config.String("apiVersion").starts_with("eventratelimit.admission.k8s.io/"))
    config.Refuse("apiVersion", "must be eventratelimit.admission.k8s.io/v1alpha1");

  std::vector<std::unique_ptr<Limit>> limits;
  std::vector<ConfigNode> nodes = config.Children("limits");
  if (nodes.empty()) config.Refuse("limits", "must not be empty");
  for (ConfigNode& node : nodes) {
    const std::string name = node.String("type");
    const auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const TypeName& t) { return t.name == name; });
    if (type == std::end(kTypes))
      node.Refuse("type", "must be Server, Namespace, User or SourceAndObject");
    const std::int64_t qps = node.Integer("qps", 0);
    const std::int64_t burst = node.Integer("burst", 0);
    const std::int64_t cache_size = node.Integer("cacheSize", 0);
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (qps <= 0 || qps > kMost) node.Refuse("qps", "must be positive");
    if (burst <= 0 || burst > kMost) node.Refuse("burst", "must be positive");
    if (cache_size < 0 || cache_size > kMost) node.Refuse("cacheSize", "must not be negative");
    if (Status status = node.Finish(); !status.ok()) return status;
    limits.push_back(std::make_unique<Limit>(
        *type,
        TokenBucket::Limits{.qps = static_cast<float>(qps), .burst = static_cast<int>(burst)},
        static_cast<std::size_t>(cache_size > 0 ? cache_size : kDefaultCacheSize)));
  }
  if (Status status = config.Finish(); !status.ok()) return status;
  const MutexLock lock(mu_);
  limits_ = std::move(limits);
  return {};
}

Status EventRateLimit::Admit(const User& user, const Event& event, SteadyTime now) {
  std::vector<std::string> refusals;
  std::chrono::seconds retry_after(0);
  {
    const MutexLock lock(mu_);
    // Each one is asked, as upstream does, so that all of them count the attempt.
    for (const std::unique_ptr<Limit>& limit : limits_) {
      if (limit->TryTake(user, event, now)) continue;
      refusals.push_back(limit->Refusal(user, event));
      retry_after = std::max(retry_after, limit->retry_after());
    }
  }
  if (refusals.empty()) return {};
  std::string why = refusals.front();
  for (std::size_t i = 1; i < refusals.size(); ++i) why += ", " + refusals[i];
  if (refusals.size() > 1) why = "[" + why + "]";
  return Status(Status::Parts{.reason = StatusReason::kTooManyRequests,
                              .message = "Too many requests: " + why,
                              .details = StatusDetails{},
                              .retry_after = retry_after});
}

}  // namespace herald::server
