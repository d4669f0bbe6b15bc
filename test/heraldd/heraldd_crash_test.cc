// No acknowledged write is lost: kills heraldd repeatedly while clients write and one watches.
//
//   heraldd_crash_test        20 kills; with HERALD_SOAK=1, 200
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/free_port.h"
#include "base/testing/temporary_directory.h"
#include "http/client/client.h"

namespace herald {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::string_view kEvents = "/api/v1/namespaces/default/events";
constexpr std::string_view kToken = "token";
constexpr int kWriters = 8;

std::string ReadFile(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A heraldd process that can be killed at any time.
class Heraldd {
 public:
  Heraldd() {
    std::ofstream(folder_ + "/tokens.csv") << kToken << ",admin,admin,\"system:masters\"\n";
    std::filesystem::permissions(folder_ + "/tokens.csv", std::filesystem::perms(0600));
  }
  ~Heraldd() { Kill(); }

  void Start() {
    const std::string port_file = folder_ + "/port";
    std::filesystem::remove(port_file);
    std::vector<std::string> arguments = {HERALDD_PROGRAM,
                                          "serve",
                                          "--bind-address=127.0.0.1",
                                          fmt::format("--secure-port={}", port_),
                                          "--threads=1",
                                          "--port-file=" + port_file,
                                          "--data-dir=" + folder_ + "/data",
                                          "--cert-dir=" + folder_ + "/certs",
                                          "--token-auth-file=" + folder_ + "/tokens.csv",
                                          "--log-level=error"};
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // heraldd ends with this test
      execv(argv[0], argv.data());
      _exit(127);
    }
    while (!std::filesystem::exists(port_file)) {
      ASSERT_EQ(waitpid(pid_, nullptr, WNOHANG), 0) << "heraldd exited";
      std::this_thread::yield();
    }
  }

  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  std::unique_ptr<http::Client> Connect() const {
    http::ClientOptions options;
    options.url = fmt::format("https://127.0.0.1:{}", port_);
    options.tls = [folder = folder_]() -> Result<http::ClientTls> {
      http::ClientTls tls;
      tls.ca = ReadFile(folder + "/certs/ca.crt");
      return tls;
    };
    return *http::Client::Open(std::move(options));
  }

 private:
  const TemporaryDirectory directory_;
  const std::string folder_ = directory_.path();
  pid_t pid_ = 0;
  const int port_ = FreePort();  // the same at each start
};

http::Request MakeRequest(std::string method, std::string target, std::string body = "") {
  return {.method = std::move(method),
          .target = std::move(target),
          .authority = {},
          .headers = {{"authorization", fmt::format("Bearer {}", kToken)},
                      {"content-type", "application/json"}},
          .body = std::move(body)};
}

std::int64_t VersionOf(const json& object) {
  return std::stoll(object["metadata"]["resourceVersion"].get<std::string>());
}

// The latest acknowledged resource version of each event, by name. Thread-safe.
class Acknowledged {
 public:
  void Add(const std::string& name, std::int64_t version) {
    const std::lock_guard lock(mu_);
    EXPECT_GT(version, versions_[name]) << name << ": the resource version did not increase";
    versions_[name] = version;
    ++count_;
  }
  std::map<std::string, std::int64_t> Get() const {
    const std::lock_guard lock(mu_);
    return versions_;
  }
  int count() const { return count_; }

 private:
  mutable std::mutex mu_;
  std::map<std::string, std::int64_t> versions_;
  std::atomic<int> count_{0};
};

// Creates events and patches each of them once, until `stop`. Ends at the first failed request,
// whose outcome is unknown.
void WriteUntil(const std::atomic<bool>& stop, http::Client& client, int writer, int round,
                Acknowledged& acknowledged) {
  for (int i = 0; !stop; ++i) {
    const std::string name = fmt::format("e{}-{}-{}", round, writer, i);
    const Result<http::Response> created = client.Fetch(
        MakeRequest(
            "POST", std::string(kEvents),
            json{{"metadata", {{"name", name}}},
                 {"involvedObject", {{"kind", "Pod"}, {"namespace", "default"}, {"name", name}}},
                 {"count", 1}}
                .dump()),
        {.timeout = 10s});
    if (!created || created->status != 201) return;
    acknowledged.Add(name, VersionOf(json::parse(created->body)));
    http::Request patch =
        MakeRequest("PATCH", fmt::format("{}/{}", kEvents, name), R"({"count":2})");
    patch.headers.Set("content-type", "application/merge-patch+json");
    const Result<http::Response> patched = client.Fetch(std::move(patch), {.timeout = 10s});
    if (!patched || patched->status != 200) return;
    acknowledged.Add(name, VersionOf(json::parse(patched->body)));
  }
}

// Resumes its watch after each restart, and records every resource version that it receives.
// Thread-confined.
class Watcher {
 public:
  explicit Watcher(std::int64_t version) : version_(version) {}

  // Watches from `version_` until it has received `last`.
  void CatchUp(http::Client& client, std::int64_t last) {
    if (version_ >= last) return;
    std::string buffer;
    std::atomic<bool> caught_up{false};
    std::atomic<bool> ended{false};
    const http::Client::CallId call = client.Start(
        MakeRequest("GET", fmt::format("{}?watch=true&resourceVersion={}", kEvents, version_)), {},
        {.head = [&](const http::ResponseHead& head) { EXPECT_EQ(head.status, 200); },
         .data =
             [&](std::string_view data) {
               buffer += data;
               std::size_t end = 0;
               while ((end = buffer.find('\n')) != std::string::npos) {
                 Take(json::parse(buffer.substr(0, end)));
                 buffer.erase(0, end + 1);
               }
               if (version_ >= last) caught_up = true;
             },
         .done = [&](const Status&) { ended = true; }});
    const auto give_up = std::chrono::steady_clock::now() + 60s;
    while (!caught_up && !ended && std::chrono::steady_clock::now() < give_up)
      std::this_thread::yield();
    client.Cancel(call);
    // The callbacks refer to local variables.
    while (!ended) std::this_thread::yield();
    EXPECT_GE(version_, last) << "the watch did not receive all changes";
  }

  std::int64_t version() const { return version_; }
  const std::map<std::string, std::set<std::int64_t>>& seen() const { return seen_; }

 private:
  void Take(const json& frame) {
    ASSERT_NE(frame["type"], "ERROR") << frame.dump();
    const std::int64_t version = VersionOf(frame["object"]);
    EXPECT_GT(version, version_) << "out of order or duplicate: " << frame.dump();
    version_ = version;
    seen_[frame["object"]["metadata"]["name"]].insert(version);
  }

  std::int64_t version_;
  std::map<std::string, std::set<std::int64_t>> seen_;
};

TEST(CrashTest, AcknowledgedWritesAreDurable) {
  const char* const soak = std::getenv("HERALD_SOAK");
  const int kills = soak != nullptr && *soak != '\0' ? 200 : 20;
  Heraldd heraldd;
  heraldd.Start();
  Acknowledged acknowledged;
  // Its resource version is where the watch starts.
  const Result<http::Response> first = heraldd.Connect()->Fetch(
      MakeRequest("POST", std::string(kEvents),
                  R"({"metadata":{"name":"first"},"involvedObject":{"namespace":"default"}})"));
  ASSERT_TRUE(first.has_value()) << first.error().message();
  ASSERT_EQ(first->status, 201) << first->body;
  Watcher watcher(VersionOf(json::parse(first->body)));

  for (int round = 0; round < kills; ++round) {
    SCOPED_TRACE(fmt::format("kill {}", round));
    std::atomic<bool> stop{false};
    {
      const std::unique_ptr<http::Client> client = heraldd.Connect();
      std::vector<std::thread> writers;
      for (int writer = 0; writer < kWriters; ++writer)
        writers.emplace_back(
            [&, writer] { WriteUntil(stop, *client, writer, round, acknowledged); });
      // Kills at a different time in each round.
      const int enough = acknowledged.count() + 20 + round * 7 % 60;
      while (acknowledged.count() < enough) std::this_thread::yield();
      heraldd.Kill();
      stop = true;
      for (std::thread& writer : writers) writer.join();
    }
    heraldd.Start();
    if (testing::Test::HasFatalFailure()) return;

    const std::unique_ptr<http::Client> client = heraldd.Connect();
    const Result<http::Response> list = client->Fetch(MakeRequest("GET", std::string(kEvents)));
    ASSERT_TRUE(list.has_value() && list->status == 200);
    const json events = json::parse(list->body);
    std::map<std::string, std::int64_t> found;
    for (const json& event : events["items"]) {
      const auto [at, is_new] = found.emplace(event["metadata"]["name"], VersionOf(event));
      EXPECT_TRUE(is_new) << at->first << " is listed twice";
    }
    for (const auto& [name, version] : acknowledged.Get()) {
      ASSERT_TRUE(found.contains(name)) << name << " was acknowledged and is missing";
      EXPECT_GE(found[name], version) << name << " has an older version than was acknowledged";
    }
    watcher.CatchUp(*client, VersionOf(events));
  }
  // The watcher received each acknowledged write. Take() checks that there are no duplicates.
  for (const auto& [name, version] : acknowledged.Get())
    EXPECT_TRUE(watcher.seen().at(name).contains(version)) << name;
  EXPECT_GT(acknowledged.count(), kills * 20);
}

}  // namespace
}  // namespace herald
