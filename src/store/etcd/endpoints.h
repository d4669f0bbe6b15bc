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

// Where one member of etcd listens.
struct EtcdAddress {
  bool tls = false;
  std::string host_and_port{};  // "a:2379", "[::1]:2379"

  bool operator==(const EtcdAddress&) const = default;
};

// "https://a:2379"; 2379 where no port is given. kBadRequest says what is wrong with which text.
Result<EtcdAddress> ParseEtcdUrl(std::string_view url);

// Whether this version of etcd announces a revision on a watch only after its changes; see
// EtcdClient::progress_is_sound(). False for what is no version.
bool ProgressIsSound(std::string_view version);

// EtcdEndpoints knows which members of etcd answer, and says which one to ask next.
//
//   untried --answers--> works --fails--> lost --probe answers--> works
//                          | ^              ^ |
//   a call timed out, or it v | probe answers| v probe fails: twice as long, up to 30 s
//   has been silent      suspect ------------'
//
// Only probes go to what is lost, so that an outage costs callers an error and not a
// time-out. A suspect is probed at once, and one that works whenever it has not answered for a
// while, also where nobody asked: known_to_work() must not rest on what was true long ago.
//
// An answer counts by the moment at which its question was sent. One that was on its way when the
// endpoint failed does not show that the endpoint is back.
//
// Not thread-safe: its owner's lock guards it.
class EtcdEndpoints {
 public:
  using Index = std::size_t;
  // One bit for each endpoint; a client has at most as many as there are bits.
  using Set = std::uint64_t;
  static constexpr std::size_t kMax = 64;

  // REQUIRES: 0 < count <= kMax
  EtcdEndpoints(std::size_t count, std::uint64_t seed);

  std::size_t size() const { return endpoints_.size(); }

  // Of those that work and are not to be avoided, one with the fewest calls under way; before
  // any has answered, of those untried.
  std::optional<Index> Pick(Set avoid);

  void CallBegan(Index index);
  void CallEnded(Index index);

  // What was seen of an endpoint. Answered() and Failed() return whether that is news.
  // An answer to a question from before the endpoint was suspected or lost is ignored.
  bool Answered(Index index, SteadyTime asked, SteadyTime now);
  void Suspected(Index index, SteadyTime now);
  bool Failed(Index index, SteadyTime now);

  // Whom to probe now: those lost whose time has come, suspects, those of unknown
  // version, and those that have not answered anything for `silence`. Each is then
  // taken to be under way until Failed() or ProbeEnded().
  std::vector<Index> DueProbes(SteadyTime now, std::chrono::nanoseconds silence);
  // Its connection has gone, for whatever reason. It is still used, because a new connection may
  // be all that it takes, and probed soon; until it answers, it is not known to work.
  void Disconnected(Index index, SteadyTime now);
  void ProbeEnded(Index index, SteadyTime now);

  bool works(Index index) const { return endpoints_[index].state == State::kWorks; }
  bool known_to_work(Index index) const { return works(index) && !endpoints_[index].unsure; }
  // How long until an endpoint that is lost is tried again; the shortest.
  std::chrono::nanoseconds UntilNextProbe(SteadyTime now) const;

  void SetVersion(Index index, std::string_view version);
  bool progress_is_sound() const;

 private:
  enum class State : std::uint8_t { kUntried, kWorks, kSuspect, kLost };

  struct Endpoint {
    explicit Endpoint(std::uint64_t seed);

    State state = State::kUntried;
    bool told_lost = false;  // the log says that it is lost
    bool probing = false;
    SteadyTime probe_at{};  // where not probing: when; max() for "no need"
    SteadyTime answered{};  // the last time
    SteadyTime doubted{};   // when it was last suspected, disconnected or lost
    bool unsure = false;    // works, but was disconnected since it answered
    std::size_t under_way = 0;
    Backoff backoff;
    std::optional<bool> sound{};  // by the version that it told last
  };

  std::vector<Endpoint> endpoints_;
  std::size_t next_ = 0;  // where Pick() begins, so that equals take turns
};

}  // namespace herald::store
