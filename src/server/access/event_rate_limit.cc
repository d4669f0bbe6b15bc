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

// Upstream's default number of buckets per limit. The least recently used bucket is dropped.
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

// The key of the event's bucket. The separator keeps "ab"+"c" and "a"+"bc" apart; messages have
// none, as upstream.
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
  // Events of events.k8s.io/v1 have reportingController and reportingInstance instead of a source.
  const bool has_source = !event.source.component.empty() || !event.source.host.empty();
  std::string key;
  for (const std::string* part :
       {has_source ? &event.source.component : &event.reporting_controller,
        has_source ? &event.source.host : &event.reporting_instance, &event.involved_object.kind,
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

  std::string Message(const User& user, const Event& event) const {
    return fmt::format("limit reached on type {} for key {}", type_.name,
                       Key(type_.type, user, event, '\0'));
  }

  // The time until the bucket gets its next token, which another client may take.
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
                  fmt::format("{}: must contain one document of kind Configuration", file));
  ConfigNode& config = documents->front();
  if (config.String("kind") != "Configuration") config.RejectValue("kind", "must be Configuration");
  if (!config.String("apiVersion").starts_with("eventratelimit.admission.k8s.io/"))
    config.RejectValue("apiVersion", "must be eventratelimit.admission.k8s.io/v1alpha1");

  std::vector<std::unique_ptr<Limit>> limits;
  std::vector<ConfigNode> nodes = config.Children("limits");
  if (nodes.empty()) config.Reject("limits", "must not be empty");
  for (ConfigNode& node : nodes) {
    const std::string name = node.String("type");
    const auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const TypeName& t) { return t.name == name; });
    if (type == std::end(kTypes))
      node.RejectValue("type", "must be Server, Namespace, User or SourceAndObject");
    const std::int64_t qps = node.Integer("qps", 0);
    const std::int64_t burst = node.Integer("burst", 0);
    const std::int64_t cache_size = node.Integer("cacheSize", 0);
    constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
    const std::string positive = fmt::format("must be a number from 1 to {}", kMax);
    if (qps <= 0 || qps > kMax) node.RejectValue("qps", positive);
    if (burst <= 0 || burst > kMax) node.RejectValue("burst", positive);
    if (cache_size < 0 || cache_size > kMax)
      node.RejectValue("cacheSize", fmt::format("must be a number from 0 to {}", kMax));
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
  std::vector<std::string> messages;
  std::chrono::seconds retry_after(0);
  {
    const MutexLock lock(mu_);
    // Upstream also takes a token from every limit, even if an earlier one is exhausted.
    for (const std::unique_ptr<Limit>& limit : limits_) {
      if (limit->TryTake(user, event, now)) continue;
      messages.push_back(limit->Message(user, event));
      retry_after = std::max(retry_after, limit->retry_after());
    }
  }
  if (messages.empty()) return {};
  std::string why = messages.front();
  for (std::size_t i = 1; i < messages.size(); ++i) why += ", " + messages[i];
  if (messages.size() > 1) why = "[" + why + "]";
  return Status(Status::Parts{.reason = StatusReason::kTooManyRequests,
                              .message = "Too many requests: " + why,
                              .details = StatusDetails{},
                              .retry_after = retry_after});
}

}  // namespace herald::server
