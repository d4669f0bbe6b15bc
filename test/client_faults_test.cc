// Tests the client while a real kube-apiserver, the network and its own credentials change.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes/random.h"
#include "base/testing/temporary_directory.h"
#include "base/thread/mutex.h"
#include "herald/client/dynamic.h"
#include "herald/client/informer.h"
#include "herald/client/rest_sink.h"
#include "herald/record/broadcaster.h"
#include "http/url.h"
#include "test/cluster_fixture.h"
#include "test/tcp_proxy.h"

namespace herald {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::Changing;
using testing::Env;
using testing::kPatience;
using testing::TcpProxy;

// Time between two polls of the server.
constexpr milliseconds kPollInterval{200};

void Pause(std::chrono::nanoseconds time) {
  Changing nothing;
  nothing.WaitUntil([] { return false; }, time);
}

// Polls until the condition is true; false after a timeout.
bool PollUntil(const std::function<bool()>& condition) {
  const auto give_up = steady_clock::now() + kPatience;
  while (!condition()) {
    if (steady_clock::now() > give_up) return false;
    Pause(kPollInterval);
  }
  return true;
}

class ClientFaultsTest : public testing::ClusterTest {
 protected:
  static std::uint16_t ServerPort() {
    return http::ParseUrl(Env("INTEROP_SERVER")).value_or(http::Url()).port;
  }
  // The same server through the proxy.
  static ClientConfig Through(const TcpProxy& proxy, ClientConfig config) {
    config.server = fmt::format("https://127.0.0.1:{}", proxy.port());
    return config;
  }
  // Atomically, as kubelets update the files of a pod.
  std::string ReplaceFile(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = directory_.path() / name;
    std::ofstream(path.string() + ".new") << text;
    std::filesystem::rename(path.string() + ".new", path);
    return path;
  }
  // The user name of the client according to the server, or the error.
  static std::string WhoAmI(RestClient& rest) {
    const auto answer = rest.Send(
        {.method = "POST",
         .path = "/apis/authentication.k8s.io/v1/selfsubjectreviews",
         .content_type = "application/json",
         .body = R"({"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"})"});
    if (!answer) return answer.error().ToString();
    const auto review = JsonValue::Parse(answer->body);
    return review ? (*review)["status"]["userInfo"]["username"].String() : answer->body;
  }
  // Creates a service account and returns a token of it.
  std::string TokenOf(const std::string& account) const {
    JsonValue object;
    object.Member("metadata").Member("name") = account;
    const auto made =
        DynamicClient(admin_, {"", "v1", "serviceaccounts"}).Create(namespace_, object);
    EXPECT_TRUE(made) << made.error().ToString();
    const auto answer = admin_->Send(
        {.method = "POST",
         .path = fmt::format("/api/v1/namespaces/{}/serviceaccounts/{}/token", namespace_, account),
         .content_type = "application/json",
         .body = R"({"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{}})"});
    EXPECT_TRUE(answer) << answer.error().ToString();
    return JsonValue::Parse(answer->body).value_or(JsonValue())["status"]["token"].String();
  }
  // A client certificate signed by the cluster's CA and its key, in one string.
  static std::string CertificateOf(const std::string& user) {
    Cluster("client --user " + user);
    std::stringstream text;
    for (const char* part : {".crt", ".key"}) {
      text << std::ifstream(Env("INTEROP_DIR") + "/pki/client-" + user + part).rdbuf();
    }
    return text.str();
  }

  const TemporaryDirectory directory_;
};

// The client uses new tokens and certificates, its own and the server's, without a restart, and
// none of its requests fails. Both the client and kube-apiserver check their files every minute, so
// the test waits a little longer than that.
TEST_F(ClientFaultsTest, ContinuesWithNewTokensAndCertificates) {
  TcpProxy proxy(ServerPort());
  ClientConfig anonymous = AdminConfig();
  anonymous.token.clear();

  ClientConfig config = anonymous;
  const std::string first_token = TokenOf("first"), second_token = TokenOf("second");
  config.token_file = ReplaceFile("token", first_token);
  const auto by_token = Open(config);
  const std::string account = "system:serviceaccount:" + namespace_ + ":";
  ASSERT_EQ(WhoAmI(*by_token), account + "first");

  config = anonymous;
  config.certificate_file = config.key_file = ReplaceFile("client.pem", CertificateOf("first"));
  const auto by_certificate = Open(config);
  ASSERT_EQ(WhoAmI(*by_certificate), "first");

  const auto by_proxy = Open(Through(proxy, AdminConfig()));
  ASSERT_EQ(WhoAmI(*by_proxy), "admin");
  config = AdminConfig();
  config.tls_server_name = "renewed";
  ASSERT_NE(WhoAmI(*Open(config)), "admin") << "the server's certificate has no such name";

  ReplaceFile("token", second_token);
  // The tokens become invalid with the account. The client gets 401 and reads the file again.
  ASSERT_TRUE(
      DynamicClient(admin_, {"", "v1", "serviceaccounts"}).Delete(namespace_, "first").ok());
  ReplaceFile("client.pem", CertificateOf("second"));
  Cluster("renew --name renewed");

  std::set<std::string> tokens, certificates;
  EXPECT_TRUE(PollUntil(
      [&] { return tokens.insert(WhoAmI(*by_token)), tokens.contains(account + "second"); }));
  EXPECT_TRUE(PollUntil([&] {
    return certificates.insert(WhoAmI(*by_certificate)), certificates.contains("second");
  }));
  // Only these two: no other request was rejected.
  for (const std::string& who : tokens) {
    EXPECT_TRUE(who == account + "first" || who == account + "second") << who;
  }
  for (const std::string& who : certificates) EXPECT_TRUE(who == "first" || who == "second") << who;
  EXPECT_GE(by_certificate->Stats().connections_opened, 2U) << "the old ones are the old user's";

  EXPECT_TRUE(PollUntil([&] { return WhoAmI(*Open(config)) == "admin"; }));
  // Open connections stay open; new connections get the new certificate.
  EXPECT_EQ(WhoAmI(*by_proxy), "admin");
  proxy.Cut();
  EXPECT_TRUE(PollUntil([&] { return WhoAmI(*by_proxy) == "admin"; }));
  EXPECT_TRUE(PollUntil([&] { return by_proxy->Stats().connections_opened == 2; }));
}

// The reported outcomes of the events about each object.
//
// Thread-safe.
class Ledger {
 public:
  using Outcomes = std::array<std::uint64_t, kOutcomes>;

  void Add(const std::string& object, Outcome outcome) {
    const MutexLock lock(mu_);
    ++objects_[object][static_cast<std::size_t>(outcome)];
  }
  std::map<std::string, Outcomes> objects() {
    const MutexLock lock(mu_);
    return objects_;
  }

 private:
  Mutex mu_;
  std::map<std::string, Outcomes> objects_ GUARDED_BY(mu_);
};

// The number of occurrences that `kubectl get events` shows, by object.
std::map<std::string, std::uint64_t> SeenByKubectl(const std::string& namespace_) {
  const std::string command = fmt::format(
      "'{}' get events -n {} --no-headers -o custom-columns="
      "OBJECT:.involvedObject.name,COUNT:.count,SERIES:.series.count",
      Env("INTEROP_KUBECTL"), namespace_);
  std::map<std::string, std::uint64_t> seen;
  FILE* const pipe = ::popen(command.c_str(), "r");  // NOLINT(cert-env33-c)
  std::string text;
  std::array<char, 4096> piece;
  while (const std::size_t n = std::fread(piece.data(), 1, piece.size(), pipe)) {
    text.append(piece.data(), n);
  }
  EXPECT_EQ(::pclose(pipe), 0) << command;
  std::istringstream rows(text);
  for (std::string object, count, series; rows >> object >> count >> series;) {
    const auto number = [](const std::string& word) -> std::uint64_t {
      return word == "<none>" ? 0 : std::stoull(word);
    };
    seen[object] += std::max({number(count), number(series), std::uint64_t{1}});
  }
  return seen;
}

// The server is killed and restarted, and connections are closed or hang, while events are recorded
// through both APIs and watched. Runs 20 seconds, or 5 minutes with HERALD_SOAK=1. The seed
// determines the order of the faults. Afterwards
//   - each recorded event has exactly one outcome, and the counts match;
//   - kubectl finds each event that was reported as written, with the reported count;
//   - a watcher received each of them once.
TEST_F(ClientFaultsTest, AccountsForEveryEventThroughAScheduleOfFaults) {
  const seconds duration(Env("HERALD_SOAK") == "1" ? 300 : 20);
  constexpr std::uint64_t kSeed = 20261116;
  // Kills are rare, because a restart takes ten seconds or more.
  constexpr double kKills = 0.04, kHangs = 0.3;
  // Every fourth event is a repetition, about one of this many objects.
  constexpr std::uint64_t kRepeated = 10;
  constexpr milliseconds kBetweenEvents{25};

  TcpProxy proxy(ServerPort());
  const auto rest = Open(Through(proxy, AdminConfig()));
  ASSERT_NE(rest, nullptr);

  Changing changing;
  std::set<std::string> watched;
  std::map<std::string, std::string> versions;
  std::uint64_t twice = 0, relists = 0;
  ResourceWatcher<Event> watcher(
      rest, {"", "v1", "events"}, {.namespace_ = namespace_},
      [&](const ResourceWatcherEvent<Event>& event) {
        using Kind = ResourceWatcherEvent<Event>::Kind;
        changing.Change([&] {
          if (event.kind == Kind::kInitDone) ++relists;
          if (event.kind != Kind::kApply && event.kind != Kind::kInitApply) return;
          const ObjectMeta& metadata = event.object.metadata;
          const std::string before =
              std::exchange(versions[metadata.name], metadata.resource_version);
          if (event.kind == Kind::kApply && before == metadata.resource_version) ++twice;
          watched.insert(event.object.involved_object.name);
        });
      });
  watcher.Start();

  Ledger ledger;
  Broadcaster broadcaster;
  // The total is that of the default (12 times 10 s), in smaller steps.
  ASSERT_TRUE(broadcaster
                  .StartRecordingToSink(std::make_shared<RestSink>(rest),
                                        {.max_tries = 120, .retry_after = milliseconds(1000)})
                  .ok());
  bool stop = false;
  std::uint64_t recorded = 0;
  std::vector<std::thread> threads;
  for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
    threads.emplace_back([&, api] {
      Recorder recorder =
          broadcaster.NewRecorder({.component = "test.io/agent", .host = "node-1", .api = api});
      const std::string_view style = api == EventApi::kCoreV1 ? "old" : "new";
      std::uint64_t n = 0;
      while (!changing.WaitUntil([&] { return stop; }, kBetweenEvents)) {
        const bool repeat = ++n % 4 == 0;
        const std::string object = fmt::format("{}-{}-{}", repeat ? "again" : "once", style,
                                               repeat ? n / 4 % kRepeated : n);
        Occurrence what{.type = kNormal, .reason = repeat ? "Again" : "Once", .action = "Testing"};
        what.on_outcome = [&ledger, object](Outcome outcome, const Status&) {
          ledger.Add(object, outcome);
        };
        recorder.Record(
            {.kind = "Pod", .namespace_ = namespace_, .name = object, .api_version = "v1"},
            std::move(what), "It happened to {}", object);
      }
      changing.Change([&] { recorded += n; });
    });
  }

  Random random(kSeed);
  int kills = 0, cuts = 0, hangs = 0;
  const auto start = steady_clock::now();
  for (auto now = start; now - start < duration; now = steady_clock::now()) {
    Pause(milliseconds(300 + random.Next() % 1500));
    const double dice = random.Unit();
    if (dice < kKills || (kills == 0 && now - start > duration / 4)) {
      Cluster("restart --kill");
      ++kills;
    } else if (dice < kKills + kHangs) {
      proxy.Hold(true);
      Pause(milliseconds(200 + random.Next() % 1000));
      proxy.Hold(false);
      ++hangs;
    } else {
      proxy.Cut();
      ++cuts;
    }
  }
  changing.Change([&] { stop = true; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(broadcaster.Shutdown(kPatience).complete);

  const SinkStats stats = broadcaster.Stats().at(0);
  std::string line = fmt::format(
      "{} s: {} kills, {} cuts, {} hangs; {} connections, {} requests ({} again), {} lists; "
      "recorded {}",
      duration.count(), kills, cuts, hangs, rest->Stats().connections_opened, stats.requests,
      stats.retries, relists, stats.recorded);
  for (std::size_t i = 0; i < kOutcomes; ++i) {
    if (stats.outcomes[i] == 0) continue;
    line += fmt::format(", {} {}", OutcomeName(static_cast<Outcome>(i)), stats.outcomes[i]);
  }
  std::puts(line.c_str());

  EXPECT_GT(kills, 0);
  EXPECT_GT(cuts, 0);
  EXPECT_EQ(stats.recorded, recorded);
  EXPECT_EQ(stats.in_flight, 0U);
  EXPECT_EQ(std::accumulate(stats.outcomes.begin(), stats.outcomes.end(), std::uint64_t{0}),
            stats.recorded);
  EXPECT_GT(stats[Outcome::kWritten], 0U);

  const std::map<std::string, std::uint64_t> seen = SeenByKubectl(namespace_);
  Ledger::Outcomes sum{};
  std::vector<std::string> present;
  for (const auto& [object, outcomes] : ledger.objects()) {
    for (std::size_t i = 0; i < kOutcomes; ++i) sum[i] += outcomes[i];
    const auto count = [&outcomes](Outcome o) { return outcomes[static_cast<std::size_t>(o)]; };
    const std::uint64_t reported = count(Outcome::kWritten) + count(Outcome::kMerged);
    if (reported == 0) continue;
    present.push_back(object);
    const auto it = seen.find(object);
    EXPECT_GE(it == seen.end() ? 0 : it->second, reported) << object;
  }
  EXPECT_EQ(sum, stats.outcomes)
      << "the outcomes reported to callbacks and those counted in the stats";

  EXPECT_TRUE(changing.WaitUntil([&] {
    return std::all_of(present.begin(), present.end(),
                       [&](const std::string& object) { return watched.contains(object); });
  })) << "the watcher missed one";
  watcher.Stop();
  EXPECT_EQ(twice, 0U);
}

}  // namespace
}  // namespace herald
