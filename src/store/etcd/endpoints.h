#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limit/backoff.h"
#include "herald/base/clock.h"
#include "herald/base/status.h"

namespace herald::store {

// The address of one member of etcd.
struct EtcdAddress {
  bool tls = false;
  std::string host_and_port{};  // "a:2379", "[::1]:2379"

  bool operator==(const EtcdAddress&) const = default;
};

// Parses "https://a:2379"; the default port is 2379. kBadRequest if the URL is invalid.
Result<EtcdAddress> ParseEtcdUrl(std::string_view url);

// Whether this version of etcd announces a revision on a watch only after its changes; see
// EtcdClient::progress_is_sound(). False for an invalid version.
bool ProgressIsSound(std::string_view version);

// EtcdEndpoints keeps the state of etcd's members and chooses the member for the next call.
//
//   untried --answers--> works --fails--> lost --probe answers--> works
//                          | ^              ^ |
//      call timed out, or  v | probe answers| v probe fails: double the delay, up to 30 s
//      silent for a while suspect ----------'
//
// A lost endpoint gets only probes, so that callers get an error during an outage and not a
// timeout. A suspect is probed at once. A working endpoint is probed if it has not answered for a
// while, even without calls, so that known_to_work() is current.
//
// An answer counts as of the time when its request was sent. If the request was sent before the
// endpoint failed, its answer does not prove that the endpoint works again.
//
// Not thread-safe: its owner's lock guards it.
class EtcdEndpoints {
 public:
  using Index = std::size_t;
  // One bit per endpoint.
  using Set = std::uint64_t;
  static constexpr std::size_t kMax = 64;

  // REQUIRES: 0 < count <= kMax
  EtcdEndpoints(std::size_t count, std::uint64_t seed);

  std::size_t size() const { return endpoints_.size(); }

  // Returns a working endpoint with the fewest calls in progress that is not in `avoid`. If none
  // works, chooses among the untried ones.
  std::optional<Index> Pick(Set avoid);

  void CallBegan(Index index);
  void CallEnded(Index index);

  // Report how an endpoint behaved. Answered() and Failed() return whether to log the change. An
  // answer is ignored if its request was sent before the endpoint became suspect or lost.
  bool Answered(Index index, SteadyTime sent_at, SteadyTime now);
  void Suspected(Index index, SteadyTime now);
  bool Failed(Index index, SteadyTime now);

  // Returns the endpoints to probe now: lost ones whose delay is over, suspects, those of unknown
  // version, and those that have not answered for `silence`. Each counts as being probed until
  // Failed() or ProbeEnded().
  std::vector<Index> DueProbes(SteadyTime now, std::chrono::nanoseconds silence);
  // Reports that the connection was closed. The endpoint is still used, because reconnecting may be
  // enough, and is probed soon. It is not known to work until it answers.
  void Disconnected(Index index, SteadyTime now);
  void ProbeEnded(Index index, SteadyTime now);

  bool works(Index index) const { return endpoints_[index].state == State::kWorks; }
  bool known_to_work(Index index) const { return works(index) && !endpoints_[index].disconnected; }
  // The time until the next probe of any endpoint.
  std::chrono::nanoseconds UntilNextProbe(SteadyTime now) const;

  void SetVersion(Index index, std::string_view version);
  bool progress_is_sound() const;

 private:
  enum class State : std::uint8_t { kUntried, kWorks, kSuspect, kLost };

  struct Endpoint {
    explicit Endpoint(std::uint64_t seed);

    State state = State::kUntried;
    bool reported_lost = false;  // the log says that the endpoint is lost
    bool probing = false;
    SteadyTime next_probe{};    // if not probing; max(): no probe needed
    SteadyTime answered_at{};   // the last answer
    SteadyTime doubted_at{};    // when it last became suspect, disconnected or lost
    bool disconnected = false;  // works, but its connection closed after its last answer
    std::size_t calls_in_progress = 0;
    Backoff backoff;
    std::optional<bool> progress_is_sound{};  // for the last known version
  };

  std::vector<Endpoint> endpoints_;
  std::size_t next_ = 0;  // where Pick() starts, so that equal endpoints take turns
};

}  // namespace herald::store
