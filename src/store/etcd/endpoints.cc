#include "store/etcd/endpoints.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace herald::store {
namespace {

constexpr std::string_view kDefaultPort = "2379";

// Starts at 0.1 s, because most failures are elections and restarts. Ends at 20 s to 30 s, so that
// an etcd that is back after a long outage is found within half a minute.
constexpr BackoffOptions kLostBackoff{.initial = std::chrono::milliseconds(100),
                                      .factor = 2.0,
                                      .cap = std::chrono::seconds(20),
                                      .jitter = 0.5,
                                      .reset_after = std::chrono::nanoseconds(0)};

// The delay before a member that did not return its version is probed again (it may need a token).
constexpr std::chrono::seconds kVersionRetry{1};

bool IsPort(std::string_view string) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(string.data(), string.data() + string.size(), port);
  return error == std::errc() && end == string.data() + string.size() && port != 0;
}

}  // namespace

Result<EtcdAddress> ParseEtcdUrl(std::string_view url) {
  const auto invalid = [url](std::string_view why) {
    return Status(StatusReason::kBadRequest,
                  fmt::format("invalid etcd endpoint \"{}\": {}", url, why));
  };
  EtcdAddress address;
  std::string_view rest = url;
  if (rest.starts_with("https://")) {
    address.tls = true;
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else {
    return invalid("must start with https:// or http://");
  }
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find_first_of("/?#@ ") != std::string_view::npos) {
    return invalid("must contain only a scheme, a host and a port");
  }

  // The colons of an IPv6 address are inside the brackets.
  const std::size_t bracket = rest.rfind(']');
  if (rest.starts_with('[') != (bracket != std::string_view::npos))
    return invalid("unexpected bracket");
  const std::size_t colon = rest.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string_view host = rest.substr(0, colon);
  if (host.empty() || host == "[]") return invalid("the host is empty");
  if (bracket != std::string_view::npos && host.size() != bracket + 1) {
    return invalid("unexpected bracket");
  }
  const std::string_view port =
      colon == std::string_view::npos ? kDefaultPort : rest.substr(colon + 1);
  if (!IsPort(port)) return invalid("the port must be a number from 1 to 65535");
  address.host_and_port = fmt::format("{}:{}", host, port);
  return address;
}

bool ProgressIsSound(std::string_view version) {
  std::array<int, 3> numbers{};
  const char* at = version.data();
  const char* const end = at + version.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0 && (at == end || *at++ != '.')) return false;
    const auto [next, error] = std::from_chars(at, end, numbers[i]);
    if (error != std::errc()) return false;
    at = next;
  }
  // The first 3.4 and 3.5 versions with both fixes; all 3.6 versions have them.
  constexpr std::array<int, 3> kSound34{3, 4, 31};
  constexpr std::array<int, 3> kSound35{3, 5, 13};
  if (numbers[0] == 3 && numbers[1] == 4) return numbers >= kSound34;
  return numbers >= kSound35;
}

EtcdEndpoints::Endpoint::Endpoint(std::uint64_t seed) : backoff(kLostBackoff, seed) {}

EtcdEndpoints::EtcdEndpoints(std::size_t count, std::uint64_t seed) {
  HERALD_CHECK(count > 0 && count <= kMax);
  Random random(seed);
  endpoints_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) endpoints_.emplace_back(random.Next());
  // Replicas that start together start with different members.
  next_ = random.Next() % count;
}

std::optional<EtcdEndpoints::Index> EtcdEndpoints::Pick(Set avoid) {
  std::optional<Index> best;
  for (const State state : {State::kWorks, State::kUntried}) {
    for (std::size_t i = 0; i < endpoints_.size(); ++i) {
      const Index index = (next_ + i) % endpoints_.size();
      const Endpoint& endpoint = endpoints_[index];
      if (endpoint.state != state || (avoid >> index & 1) != 0) continue;
      if (!best || endpoint.calls_in_progress < endpoints_[*best].calls_in_progress) best = index;
    }
    if (best) {
      next_ = *best + 1;
      break;
    }
  }
  return best;
}

void EtcdEndpoints::CallBegan(Index index) { ++endpoints_[index].calls_in_progress; }

void EtcdEndpoints::CallEnded(Index index) {
  HERALD_CHECK(endpoints_[index].calls_in_progress > 0);
  --endpoints_[index].calls_in_progress;
}

bool EtcdEndpoints::Answered(Index index, SteadyTime sent_at, SteadyTime now) {
  Endpoint& endpoint = endpoints_[index];
  const bool doubted = endpoint.state == State::kSuspect || endpoint.state == State::kLost;
  if (doubted && sent_at < endpoint.doubted_at) return false;
  endpoint.answered_at = now;
  if (sent_at >= endpoint.doubted_at) endpoint.disconnected = false;
  if (endpoint.state == State::kWorks) return false;
  // A lost member may come back as another version.
  const bool probe_for_version = endpoint.state == State::kLost || !endpoint.progress_is_sound;
  endpoint.state = State::kWorks;
  endpoint.backoff.Reset();
  if (!endpoint.probing) endpoint.next_probe = probe_for_version ? now : SteadyTime::max();
  return std::exchange(endpoint.reported_lost, false);
}

void EtcdEndpoints::Suspected(Index index, SteadyTime now) {
  Endpoint& endpoint = endpoints_[index];
  if (endpoint.state == State::kLost) return;
  endpoint.state = State::kSuspect;
  endpoint.doubted_at = now;
  endpoint.next_probe = now;
}

bool EtcdEndpoints::Failed(Index index, SteadyTime now) {
  Endpoint& endpoint = endpoints_[index];
  // Calls in progress fail together; they count as one failure.
  if (endpoint.state == State::kLost && !endpoint.probing) return false;
  endpoint.state = State::kLost;
  endpoint.doubted_at = now;
  endpoint.probing = false;
  endpoint.next_probe = now + endpoint.backoff.Next(now);
  return !std::exchange(endpoint.reported_lost, true);
}

std::vector<EtcdEndpoints::Index> EtcdEndpoints::DueProbes(SteadyTime now,
                                                           std::chrono::nanoseconds silence) {
  std::vector<Index> due;
  for (Index index = 0; index < endpoints_.size(); ++index) {
    Endpoint& endpoint = endpoints_[index];
    if (endpoint.probing) continue;
    const bool silent = endpoint.state == State::kWorks && now - endpoint.answered_at >= silence;
    if (endpoint.next_probe > now && !silent) continue;
    endpoint.probing = true;
    due.push_back(index);
  }
  return due;
}

void EtcdEndpoints::Disconnected(Index index, SteadyTime now) {
  Endpoint& endpoint = endpoints_[index];
  if (endpoint.state != State::kWorks) return;
  if (!std::exchange(endpoint.disconnected, true)) endpoint.doubted_at = now;
  endpoint.next_probe = std::min(endpoint.next_probe, now);
}

void EtcdEndpoints::ProbeEnded(Index index, SteadyTime now) {
  Endpoint& endpoint = endpoints_[index];
  if (!endpoint.probing) return;
  endpoint.probing = false;
  if (endpoint.state == State::kSuspect) {
    endpoint.next_probe = now;  // it became suspect after this probe was sent
  } else {
    endpoint.next_probe = endpoint.progress_is_sound ? SteadyTime::max() : now + kVersionRetry;
  }
}

std::chrono::nanoseconds EtcdEndpoints::UntilNextProbe(SteadyTime now) const {
  SteadyTime next = SteadyTime::max();
  for (const Endpoint& endpoint : endpoints_) next = std::min(next, endpoint.next_probe);
  return next > now ? next - now : std::chrono::nanoseconds(0);
}

void EtcdEndpoints::SetVersion(Index index, std::string_view version) {
  endpoints_[index].progress_is_sound = ProgressIsSound(version);
}

bool EtcdEndpoints::progress_is_sound() const {
  return std::all_of(endpoints_.begin(), endpoints_.end(),
                     [](const Endpoint& e) { return e.progress_is_sound.value_or(false); });
}

}  // namespace herald::store
