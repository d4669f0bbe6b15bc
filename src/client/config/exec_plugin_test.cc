#include "client/config/exec_plugin.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/testing/temporary_directory.h"
#include "client/config/credentials.h"
#include "client/testing/fake_transport.h"
#include "herald/client/json_value.h"

namespace herald {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kV1 = "client.authentication.k8s.io/v1";

std::string Answer(const std::string& status) {
  return std::string(
             R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",)") +
         R"("status":)" + status + "}";
}

// A temporary folder with a plugin, which is a shell script.
class ExecTest : public ::testing::Test {
 protected:
  ClientConfig Plugin(const std::string& script) const {
    const std::string path = folder_ + "/plugin";
    std::ofstream(path) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return {.server = "https://server:6443",
            .exec = ExecPlugin{.api_version = kV1, .command = path}};
  }
  // Prints a token with the number of runs.
  ClientConfig Counting(const std::string& expires) const {
    return Plugin("echo run >> " + folder_ + "/runs\n" + "n=$(wc -l < " + folder_ + "/runs)\n" +
                  "echo '" + Answer("{\"token\":\"token-'$n'\"" + expires + "}") + "'\n");
  }
  std::string Read(const std::string& name) const {
    return ReadFile(folder_ + "/" + name).value_or("");
  }
  std::string Failure(const ClientConfig& config) const {
    const auto credential = RunExecPlugin(config, {});
    return credential ? "(none)" : credential.error().message();
  }

  const TemporaryDirectory directory_;
  const std::string folder_ = directory_.path();
};

TEST_F(ExecTest, ReadsATokenAndItsExpiry) {
  const auto credential = RunExecPlugin(
      Plugin("echo '" +
             Answer(R"({"token":"secret","expirationTimestamp":"2030-01-02T03:04:05Z"})") + "'"),
      {});
  ASSERT_TRUE(credential) << credential.error().ToString();
  EXPECT_EQ(credential->token, "secret");
  ASSERT_TRUE(credential->expires);
  EXPECT_EQ(credential->expires->ToString(), "2030-01-02T03:04:05Z");
}

TEST_F(ExecTest, PassesArgumentsAndEnvironmentWithoutAShell) {
  ClientConfig config = Plugin("printf '%s\\n' \"$@\" \"$WORD\" > " + folder_ + "/said\n" +
                               "printf '%s' \"$KUBERNETES_EXEC_INFO\" > " + folder_ + "/info\n" +
                               "test -t 0 && exit 9\n" + "cat > " + folder_ + "/stdin\n" +
                               "echo '" + Answer(R"({"token":"t"})") + "'");
  config.tls_server_name = "name";
  config.ca_data = "CA";
  config.exec->args = {"$(touch " + folder_ + "/oops)", "a b", "*"};
  config.exec->env = {{"WORD", "x;y"}};
  config.exec->provide_cluster_info = true;
  config.exec->cluster_config = R"({"audience":"me"})";
  ASSERT_TRUE(RunExecPlugin(config, {}));
  EXPECT_EQ(Read("said"), "$(touch " + folder_ + "/oops)\na b\n*\nx;y\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/oops"));
  EXPECT_EQ(Read("stdin"), "");
  const auto info = JsonValue::Parse(Read("info"));
  ASSERT_TRUE(info);
  EXPECT_EQ((*info)["apiVersion"].String(), kV1);
  EXPECT_EQ((*info)["kind"].String(), "ExecCredential");
  EXPECT_EQ((*info)["spec"]["interactive"].is_bool(), true);
  const JsonValue& cluster = (*info)["spec"]["cluster"];
  EXPECT_EQ(cluster["server"].String(), "https://server:6443");
  EXPECT_EQ(cluster["tls-server-name"].String(), "name");
  EXPECT_EQ(cluster["certificate-authority-data"].String(), "Q0E=");
  EXPECT_EQ(cluster["config"]["audience"].String(), "me");
}

TEST_F(ExecTest, ReportsWhyThereIsNoCredential) {
  const auto expect = [this](const ClientConfig& config, const std::string& words) {
    const std::string message = Failure(config);
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  expect(Plugin("echo no permission >&2; exit 3"), "exit code 3: no permission");
  expect(Plugin("kill -9 $$"), "signal 9");
  expect(Plugin("echo hello"), "not valid JSON");
  expect(Plugin("echo '{}'"), "not an ExecCredential");
  expect(Plugin("echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"v0\"}'"),
         "has apiVersion \"v0\"");
  expect(Plugin("echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"" + std::string(kV1) + "\"}'"),
         "no status");
  expect(Plugin("echo '" + Answer("{}") + "'"), "neither a token nor a certificate");
  expect(Plugin("echo '" + Answer(R"({"clientKeyData":"k"})") + "'"), "not both");
  expect(Plugin("echo '" + Answer(R"({"token":"t","expirationTimestamp":"soon"})") + "'"),
         "invalid expirationTimestamp");
  expect(Plugin("head -c 2000000 /dev/zero"), "printed more than 1 MiB");
  ClientConfig missing;
  missing.exec = ExecPlugin{
      .api_version = kV1, .command = "no-such-plugin-anywhere", .install_hint = "install it"};
  expect(missing, "No such file");
  expect(missing, "install it");
}

TEST_F(ExecTest, KillsAPluginThatTimesOutAndItsChildren) {
  ClientConfig config = Plugin("sleep 1000 &\necho $! > " + folder_ + "/child\nwait");
  config.exec->timeout = milliseconds(300);
  EXPECT_NE(Failure(config).find("timed out"), std::string::npos);
  const int child = std::atoi(Read("child").c_str());
  ASSERT_GT(child, 0);
  // It was killed, and its new parent process reaps it.
  while (std::filesystem::exists("/proc/" + std::to_string(child)) &&
         ReadFile("/proc/" + std::to_string(child) + "/stat").value_or("Z").find(") Z") ==
             std::string::npos) {
    std::this_thread::yield();
  }
}

TEST_F(ExecTest, KillsThePluginWhenAStopIsRequested) {
  std::stop_source stop;
  const ClientConfig config = Plugin("touch " + folder_ + "/started; exec sleep 1000");
  std::thread stopper([&] {
    while (!std::filesystem::exists(folder_ + "/started")) std::this_thread::yield();
    stop.request_stop();
  });
  const auto credential = RunExecPlugin(config, stop.get_token());
  stopper.join();
  ASSERT_FALSE(credential);
  EXPECT_NE(credential.error().message().find("cancelled"), std::string::npos);
}

TEST_F(ExecTest, DoesNotBlockOnAFullStandardError) {
  ClientConfig config =
      Plugin("head -c 300000 /dev/zero >&2\necho '" + Answer(R"({"token":"t"})") + "'");
  EXPECT_TRUE(RunExecPlugin(config, {}));
}

TEST_F(ExecTest, KeepsACredentialUntilItExpires) {
  FakeClock clock(WallTime(seconds(1'700'000'000)));
  // This is 2023-11-14T22:13:20Z.
  Credentials credentials(Counting(",\"expirationTimestamp\":\"2023-11-14T22:14:20Z\""), &clock,
                          nullptr);
  EXPECT_FALSE(credentials.Get());
  ASSERT_TRUE(credentials.Refresh(0, {}).ok());
  const auto first = credentials.Get();
  ASSERT_TRUE(first && *first);
  EXPECT_EQ((*first)->header, "Bearer token-1");
  clock.Advance(seconds(60));
  EXPECT_TRUE(credentials.Get());
  // The credentials are already newer than generation 0, so the plugin does not run.
  EXPECT_TRUE(credentials.Refresh(0, {}).ok());
  EXPECT_EQ(Read("runs"), "run\n");
  clock.Advance(seconds(1));
  EXPECT_FALSE(credentials.Get());
  // It runs if those credentials have expired.
  EXPECT_TRUE(credentials.Refresh(0, {}).ok());
  EXPECT_EQ(Read("runs"), "run\nrun\n");
  EXPECT_EQ(credentials.Current().header, "Bearer token-2") << "expired or not";
  EXPECT_TRUE(credentials.Refresh(credentials.Current().generation, {}).ok());
  EXPECT_EQ(Read("runs"), "run\nrun\nrun\n");
}

TEST_F(ExecTest, UsesAPluginsCertificate) {
  FakeClock clock(WallTime(seconds(1'700'000'000)));
  Credentials credentials(
      Plugin("echo '" + Answer(R"({"clientCertificateData":"CERT","clientKeyData":"KEY"})") + "'"),
      &clock, nullptr);
  ASSERT_TRUE(credentials.Refresh(0, {}).ok());
  const auto tls = credentials.Tls();
  ASSERT_TRUE(tls);
  EXPECT_EQ(tls->certificate, "CERT");
  EXPECT_EQ(tls->key, "KEY");
  EXPECT_EQ((*credentials.Get())->header, "");
}

// Waits for the next request: the plugin runs on another thread.
std::shared_ptr<FakeTransport::Call> WaitForCall(FakeTransport* transport) {
  for (;;) {
    if (auto call = transport->Next()) return call;
    std::this_thread::yield();
  }
}

TEST_F(ExecTest, RunsOnceForAllWaitingRequestsAndAgainAfterA401) {
  FakeServer server(Counting(""));
  std::vector<int> codes;
  const auto done = [&](const Result<RestResponse>& r) {
    codes.push_back(r ? r->code : r.error().code());
  };
  for (int i = 0; i < 3; ++i) server.rest->Send({.path = "/x"}, done);
  std::vector<std::shared_ptr<FakeTransport::Call>> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(WaitForCall(server.transport));
  for (const auto& call : calls) {
    EXPECT_EQ(call->request.headers.Get("authorization"), "Bearer token-1");
  }
  EXPECT_EQ(Read("runs"), "run\n");
  server.transport->Answer(calls[0], 200, "{}");
  server.transport->Answer(calls[1], 401, "");
  server.transport->Answer(calls[2], 401, "");
  for (int i = 0; i < 2; ++i) {
    const auto again = WaitForCall(server.transport);
    EXPECT_EQ(again->request.headers.Get("authorization"), "Bearer token-2");
    server.transport->Answer(again, i == 0 ? 200 : 401, "");
  }
  EXPECT_EQ(Read("runs"), "run\nrun\n");
  EXPECT_EQ(codes, (std::vector<int>{200, 200, 401}));
}

TEST_F(ExecTest, RunsAgainOnceTheCredentialHasExpired) {
  // One minute after the start of the fake clock. Later credentials have already expired; they are
  // still sent once.
  FakeServer server(Counting(",\"expirationTimestamp\":\"2023-11-14T22:14:20Z\""));
  for (const char* token :
       {"Bearer token-1", "Bearer token-1", "Bearer token-2", "Bearer token-3"}) {
    server.rest->Send({.path = "/x"}, [](const Result<RestResponse>&) {});
    const auto call = WaitForCall(server.transport);
    EXPECT_EQ(call->request.headers.Get("authorization"), token);
    server.transport->Answer(call, 200, "{}");
    server.transport->Advance(seconds(31));
  }
}

TEST_F(ExecTest, DoesNotRunIfThereIsAToken) {
  ClientConfig config = Counting("");
  config.token = "fixed";
  FakeServer server(config);
  std::optional<int> code;
  server.rest->Send({.path = "/x"},
                    [&](const Result<RestResponse>& r) { code = r ? r->code : r.error().code(); });
  const auto call = WaitForCall(server.transport);
  EXPECT_EQ(call->request.headers.Get("authorization"), "Bearer fixed");
  server.transport->Answer(call, 401, "");
  EXPECT_EQ(code, 401) << "a 401 is final without a plugin";
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/runs"));
}

TEST_F(ExecTest, FailsTheRequestsWhenThePluginFails) {
  FakeServer server(Plugin("echo broken >&2; exit 1"));
  std::optional<Result<RestResponse>> result;
  server.rest->Send({.path = "/x"}, [&](Result<RestResponse> r) { result = std::move(r); });
  while (!result) {
    server.transport->Run();
    std::this_thread::yield();
  }
  ASSERT_FALSE(*result);
  EXPECT_NE(result->error().message().find("broken"), std::string::npos);
}

TEST_F(ExecTest, DoesNotDelayTheDestructorOfAClient) {
  FakeServer server(Plugin("touch " + folder_ + "/started; exec sleep 1000"));
  bool cancelled = false;
  server.rest->Send({.path = "/x"}, [&](const Result<RestResponse>& r) { cancelled = !r; });
  while (!std::filesystem::exists(folder_ + "/started")) std::this_thread::yield();
  server.rest.reset();
  EXPECT_TRUE(cancelled);
}

}  // namespace
}  // namespace herald
