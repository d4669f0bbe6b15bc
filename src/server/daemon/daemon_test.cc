#include "server/daemon/daemon.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/testing/temporary_directory.h"
#include "herald/base/clock.h"
#include "http/client/client.h"
#include "http/testing/certificate.h"
#include "server/access/certificates.h"
#include "server/daemon/control_socket.h"
#include "store/rocks/admin.h"

namespace herald::server {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kEvents = "/api/v1/namespaces/default/events";

// A complete server on a free port, with events in memory unless a test sets data_dir, and a client
// that trusts its certificate.
class DaemonTest : public testing::Test {
 protected:
  DaemonTest() {
    std::filesystem::create_directories(folder_ + "/rbac");
    options_.bind_address = "127.0.0.1";
    options_.secure_port = 0;
    options_.threads = 1;
    options_.cert_dir = folder_ + "/certs";
    options_.token_auth_file = Write("tokens.csv",
                                     "admin-token,admin,,\"system:masters\"\n"
                                     "agent-token,agent,,\"agents\"\n");
    options_.rbac_dir = folder_ + "/rbac";
    // Tests call Reload() instead.
    options_.reload_interval = 1h;
  }
  ~DaemonTest() override {
    client_.reset();
    daemon_.reset();
  }

  std::string Write(const std::string& name, std::string_view text) {
    const std::string file = folder_ + "/" + name;
    std::ofstream(file) << text;
    // heraldd rejects token files that other users can read.
    std::filesystem::permissions(file, std::filesystem::perms(0600));
    return file;
  }

  void Start() {
    Result<std::unique_ptr<Daemon>> daemon = Daemon::Start(options_);
    ASSERT_TRUE(daemon.has_value()) << daemon.error().message();
    daemon_ = *std::move(daemon);
    Connect();
  }

  // Replaces the client, so that requests use a new connection.
  void Connect() {
    http::ClientOptions options;
    options.url = fmt::format("https://127.0.0.1:{}", daemon_->port());
    options.tls = [this]() -> Result<http::ClientTls> {
      Result<std::string> ca = ReadFile(folder_ + "/certs/ca.crt");
      if (!ca) return ca.error();
      http::ClientTls tls;
      tls.ca = *std::move(ca);
      return tls;
    };
    client_ = *http::Client::Open(std::move(options));
  }

  http::Response Ask(std::string method, std::string target, std::string token = "admin-token",
                     std::string body = "") {
    http::Request request{.method = std::move(method),
                          .target = std::move(target),
                          .authority = {},
                          .headers = {{"content-type", "application/json"}},
                          .body = std::move(body)};
    if (!token.empty()) request.headers.Add("authorization", "Bearer " + token);
    Result<http::Response> response = client_->Fetch(std::move(request));
    if (!response) ADD_FAILURE() << response.error().message();
    return response ? *std::move(response) : http::Response{.status = 0};
  }

  http::Response Create(const std::string& name, std::string token = "admin-token") {
    return Ask("POST", std::string(kEvents), std::move(token),
               fmt::format(R"({{"metadata":{{"name":"{}"}},"involvedObject":{{"kind":"Pod",)"
                           R"("namespace":"default","name":"p"}},"type":"Normal"}})",
                           name));
  }

  const TemporaryDirectory directory_;
  const std::string folder_ = directory_.path();
  DaemonOptions options_;
  std::unique_ptr<Daemon> daemon_;
  std::unique_ptr<http::Client> client_;
};

TEST_F(DaemonTest, ServesOnlyAuthenticatedUsers) {
  Start();
  EXPECT_EQ(Ask("GET", std::string(kEvents)).status, 200);
  const http::Response unauthorized = Ask("GET", std::string(kEvents), "");
  EXPECT_EQ(unauthorized.status, 401);
  EXPECT_NE(unauthorized.body.find("\"reason\":\"Unauthorized\""), std::string::npos)
      << unauthorized.body;
  EXPECT_EQ(Ask("GET", std::string(kEvents), "wrong").status, 401);
  EXPECT_EQ(Ask("GET", "/version", "").status, 401);
}

TEST_F(DaemonTest, RejectsARequestUntilARoleAllowsIt) {
  Start();
  const http::Response denied = Create("a", "agent-token");
  EXPECT_EQ(denied.status, 403);
  EXPECT_NE(denied.body.find(R"(User \"agent\" cannot create resource \"events\")"),
            std::string::npos)
      << denied.body;
  EXPECT_EQ(Ask("GET", "/apis", "agent-token").status, 200);

  Write("rbac/agents.yaml",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: w}\n"
        "rules: [{apiGroups: [\"\"], resources: [events], verbs: [create]}]\n---\n"
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: w}\n"
        "roleRef: {kind: ClusterRole, name: w}\nsubjects: [{kind: Group, name: agents}]\n");
  daemon_->Reload();
  EXPECT_EQ(Create("a", "agent-token").status, 201);
  EXPECT_EQ(Ask("GET", std::string(kEvents), "agent-token").status, 403);

  // A PUT that creates needs the permission to create as well as the one to update.
  const std::string body =
      R"({"metadata":{"name":"b"},"involvedObject":{"kind":"Pod","namespace":"default"}})";
  EXPECT_EQ(Ask("PUT", std::string(kEvents) + "/b", "agent-token", body).status, 403);
}

TEST_F(DaemonTest, AnswersSelfSubjectAccessReviews) {
  Start();
  const std::string reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
  const std::string create =
      R"({"spec":{"resourceAttributes":{"verb":"create","resource":"events","namespace":"x"}}})";
  const http::Response yes = Ask("POST", reviews, "admin-token", create);
  EXPECT_EQ(yes.status, 201);
  EXPECT_EQ(yes.body,
            "{\"kind\":\"SelfSubjectAccessReview\",\"apiVersion\":\"authorization.k8s.io/v1\","
            "\"metadata\":{},\"spec\":{\"resourceAttributes\":{\"namespace\":\"x\",\"verb\":"
            "\"create\",\"resource\":\"events\"}},\"status\":{\"allowed\":true}}\n");
  EXPECT_NE(Ask("POST", reviews, "agent-token", create).body.find("\"allowed\":false"),
            std::string::npos);
  EXPECT_NE(Ask("POST", reviews, "agent-token",
                R"({"spec":{"nonResourceAttributes":{"verb":"get","path":"/version"}}})")
                .body.find("\"allowed\":true"),
            std::string::npos);
  EXPECT_EQ(Ask("POST", reviews, "admin-token", "").status, 400);
}

TEST_F(DaemonTest, KeepsTheOldTokensWhenTheChangedFileIsInvalid) {
  Start();
  Write("tokens.csv", "half a line");
  daemon_->Reload();
  EXPECT_EQ(Ask("GET", std::string(kEvents)).status, 200);
  Write("tokens.csv", "new-token,admin,,\"system:masters\"\n");
  daemon_->Reload();
  EXPECT_EQ(Ask("GET", std::string(kEvents)).status, 401);
  EXPECT_EQ(Ask("GET", std::string(kEvents), "new-token").status, 200);
}

TEST_F(DaemonTest, RejectsARemovedTokenOnAnOpenConnection) {
  Start();
  EXPECT_EQ(Ask("GET", "/version", "agent-token").status, 200);
  Write("tokens.csv", "admin-token,admin,,\"system:masters\"\n");
  daemon_->Reload();
  EXPECT_EQ(Ask("GET", "/version", "agent-token").status, 401);
  EXPECT_NE(Ask("GET", "/metrics").body.find("\nherald_http_connections_total 1\n"),
            std::string::npos)
      << "all requests used one connection";
}

TEST_F(DaemonTest, UsesAChangedCertificateForNewConnections) {
  Start();
  // The new certificate is from another CA, which Connect() reads again.
  const Result<KeyPair> ca = MakeCertificateAuthority(SystemClock().Now());
  ASSERT_TRUE(ca.has_value());
  const Result<KeyPair> pair = MakeServerCertificate(*ca, {"127.0.0.1"}, SystemClock().Now());
  ASSERT_TRUE(pair.has_value());
  ASSERT_TRUE(WritePrivateFile(folder_ + "/certs/heraldd.key", pair->key).ok());
  ASSERT_TRUE(WritePrivateFile(folder_ + "/certs/heraldd.crt", pair->certificate).ok());
  ASSERT_TRUE(WritePrivateFile(folder_ + "/certs/ca.crt", ca->certificate).ok());
  daemon_->Reload();
  Connect();
  EXPECT_EQ(Ask("GET", "/version").status, 200);
}

TEST_F(DaemonTest, RenewsACertificateThatExpiresSoon) {
  const WallTime last_year = SystemClock().Now() - std::chrono::hours(24 * 360);
  ASSERT_TRUE(ReadOrMakeKeyPair(options_.cert_dir, last_year).has_value());
  const std::string old = *ReadFile(folder_ + "/certs/heraldd.crt");
  Start();
  EXPECT_NE(*ReadFile(folder_ + "/certs/heraldd.crt"), old);
  EXPECT_EQ(Ask("GET", "/version").status, 200);
}

TEST_F(DaemonTest, RejectsATokenFileThatEveryUserCanRead) {
  ASSERT_EQ(chmod(options_.token_auth_file.c_str(), 0644), 0);
  const Result<std::unique_ptr<Daemon>> daemon = Daemon::Start(options_);
  ASSERT_FALSE(daemon.has_value());
  EXPECT_EQ(daemon.error().message(), fmt::format("--token-auth-file: {0} has mode 0644, so every "
                                                  "user on this machine can read it; run: chmod "
                                                  "o-rwx {0}",
                                                  options_.token_auth_file));
}

// Header names are case-insensitive, as in kube-apiserver.
TEST_F(DaemonTest, AuthenticatesUsersByHeadersOfAProxy) {
  const http::TestCertificate ca = http::MakeTestCertificate({.authority = true});
  const http::TestCertificate proxy = http::MakeTestCertificate({.subject = {{"CN", "p"}}}, &ca);
  options_.requestheader_client_ca_file = Write("proxy-ca.crt", ca.certificate);
  options_.requestheader_username_headers = {"X-Remote-User"};
  options_.requestheader_group_headers = {"X-REMOTE-GROUP"};
  Start();
  http::ClientOptions options;
  options.url = fmt::format("https://127.0.0.1:{}", daemon_->port());
  options.tls = [&]() -> Result<http::ClientTls> {
    return http::ClientTls{.ca = *ReadFile(folder_ + "/certs/ca.crt"),
                           .certificate = proxy.certificate,
                           .key = proxy.key};
  };
  client_ = *http::Client::Open(std::move(options));
  const Result<http::Response> response =
      client_->Fetch({.method = "GET",
                      .target = std::string(kEvents),
                      .authority = {},
                      .headers = {{"x-remote-user", "carol"}, {"x-remote-group", "system:masters"}},
                      .body = {}});
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 200) << response->body;
}

TEST_F(DaemonTest, ServesWithoutALimitIfMaxRequestsInflightIsZero) {
  options_.max_requests_inflight = 0;
  Start();
  EXPECT_EQ(Ask("GET", std::string(kEvents)).status, 200);
}

TEST_F(DaemonTest, ServesHealthChecks) {
  Start();
  for (const char* path : {"/healthz", "/livez", "/readyz"}) {
    const http::Response response = Ask("GET", path, "");
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "ok");
  }
  EXPECT_EQ(Ask("GET", "/readyz?verbose").body,
            "[+]ping ok\n[+]store ok\n[+]shutdown ok\nreadyz check passed\n");
  // Only authenticated users see details.
  EXPECT_EQ(Ask("GET", "/readyz?verbose", "").body, "ok");
  EXPECT_EQ(Ask("GET", "/readyz/store").body, "ok");
  EXPECT_EQ(Ask("GET", "/readyz/nothing").status, 404);
  EXPECT_EQ(Ask("GET", "/healthz?verbose&exclude=store").body,
            "[+]ping ok\n[+]store excluded: ok\nhealthz check passed\n");
}

TEST_F(DaemonTest, CountsRequestsInMetrics) {
  Start();
  EXPECT_EQ(Create("a").status, 201);
  EXPECT_EQ(Create("a").status, 409);
  EXPECT_EQ(Ask("GET", "/metrics", "agent-token").status, 403);
  const http::Response metrics = Ask("GET", "/metrics");
  EXPECT_EQ(metrics.status, 200);
  EXPECT_NE(metrics.body.find("apiserver_request_total{code=\"409\""), std::string::npos);
  EXPECT_NE(metrics.body.find("\nherald_store_objects 1\n"), std::string::npos);
  EXPECT_NE(metrics.body.find("\nherald_http_connections 1\n"), std::string::npos);
}

TEST_F(DaemonTest, AnswersTooManyRequestsWithRetryAfterAboveTheRateLimit) {
  options_.event_rate_limit_file =
      Write("limits.yaml",
            "kind: Configuration\napiVersion: eventratelimit.admission.k8s.io/v1alpha1\n"
            "limits: [{type: Namespace, qps: 1, burst: 2}]\n");
  Start();
  EXPECT_EQ(Create("a").status, 201);
  EXPECT_EQ(Create("b").status, 201);
  const http::Response limited = Create("c");
  EXPECT_EQ(limited.status, 429);
  EXPECT_EQ(limited.headers.Get("retry-after"), "1");
  EXPECT_NE(limited.body.find("limit reached on type Namespace for key default"),
            std::string::npos);
}

TEST_F(DaemonTest, KeepsEventsAcrossARestart) {
  options_.data_dir = folder_ + "/data";
  Start();
  EXPECT_EQ(Create("a").status, 201);
  client_.reset();
  daemon_->Stop(1s);
  daemon_.reset();
  Start();
  EXPECT_EQ(Ask("GET", std::string(kEvents) + "/a").status, 200);
}

TEST_F(DaemonTest, AppliesAShorterTtlToEventsStoredBeforeARestart) {
  options_.data_dir = folder_ + "/data";
  options_.event_ttl = 1h;
  Start();
  ASSERT_EQ(Create("a").status, 201);
  client_.reset();
  daemon_.reset();
  options_.event_ttl = 1s;
  Start();
  int status = 200;
  for (const SteadyTime end = SystemClock().Steady() + 60s;
       status != 404 && SystemClock().Steady() < end;) {
    status = Ask("GET", std::string(kEvents) + "/a").status;
  }
  EXPECT_EQ(status, 404);
}

TEST_F(DaemonTest, BacksUpWhileItServes) {
  const std::string backup = folder_ + "/backup/";
  options_.data_dir = folder_ + "/data";
  EXPECT_TRUE(BackUpRunningServer(options_.data_dir, backup).Is(StatusReason::kNotFound));
  Start();
  ASSERT_EQ(Create("a").status, 201);
  const Status copied = BackUpRunningServer(options_.data_dir, backup);
  ASSERT_TRUE(copied.ok()) << copied.ToString();
  ASSERT_EQ(Create("b").status, 201);
  EXPECT_TRUE(AcceptClockOfRunningServer(options_.data_dir).ok());
  client_.reset();
  daemon_->Stop(1s);
  EXPECT_TRUE(BackUpRunningServer(options_.data_dir, backup).Is(StatusReason::kNotFound));
  daemon_.reset();

  options_.data_dir = folder_ + "/restored/";
  const Status restored = store::RestoreStore(backup, options_.data_dir);
  ASSERT_TRUE(restored.ok()) << restored.ToString();
  Start();
  EXPECT_EQ(Ask("GET", std::string(kEvents) + "/a").status, 200);
  EXPECT_EQ(Ask("GET", std::string(kEvents) + "/b").status, 404);
}

TEST_F(DaemonTest, TwoServersCannotShareADirectory) {
  options_.data_dir = folder_ + "/data";
  Start();
  const Result<std::unique_ptr<Daemon>> second = Daemon::Start(options_);
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().message().find(options_.data_dir), std::string::npos)
      << second.error().message();
}

TEST_F(DaemonTest, RejectsInvalidOptionsWithAMessageThatNamesThem) {
  struct Case {
    std::function<void(DaemonOptions*)> change;
    const char* message;  // a part of the error message
  };
  const Case cases[] = {
      {[](DaemonOptions* o) { o->tls_cert_file = "c"; },
       "--tls-cert-file requires --tls-private-key-file"},
      {[](DaemonOptions* o) { o->tls_private_key_file = "k"; },
       "--tls-private-key-file requires --tls-cert-file"},
      {[](DaemonOptions* o) { o->etcd_certfile = "c"; }, "--etcd-certfile requires --etcd-keyfile"},
      {[](DaemonOptions* o) { o->etcd_keyfile = "k"; }, "--etcd-keyfile requires --etcd-certfile"},
      {[](DaemonOptions* o) { o->requestheader_allowed_names = {"p"}; },
       "--requestheader-allowed-names requires --requestheader-client-ca-file"},
      {[](DaemonOptions* o) { o->requestheader_username_headers = {"x-user"}; },
       "--requestheader-username-headers requires --requestheader-client-ca-file"},
      {[](DaemonOptions* o) { o->requestheader_group_headers = {"x-group"}; },
       "--requestheader-group-headers requires --requestheader-client-ca-file"},
      {[](DaemonOptions* o) { o->event_ttl = 0s; }, "--event-ttl: must not be 0"},
      {[](DaemonOptions* o) { o->request_timeout = 0s; }, "--request-timeout: must be from"},
      {[](DaemonOptions* o) { o->watch_window = 0s; }, "--watch-window: must be from"},
      {[](DaemonOptions* o) { o->cors_allowed_origins = {"x"}; }, "--cors-allowed-origins: \"x\""},
      {[](DaemonOptions* o) { o->max_disk_bytes = 1'000; },
       "invalid value \"1000\" for --max-disk-bytes: must be 0 (no limit) or at least 64Mi"},
      {[](DaemonOptions* o) { o->token_auth_file = ""; }, "no authentication is configured"},
      {[](DaemonOptions* o) { o->token_auth_file = "/nowhere/t"; },
       "--token-auth-file: cannot read /nowhere/t: "},
      {[](DaemonOptions* o) { o->rbac_dir = "/nowhere/r"; },
       "--rbac-dir: cannot read directory /nowhere/r: "},
      {[](DaemonOptions* o) { o->client_ca_file = "/nowhere/c"; },
       "--client-ca-file: cannot read /nowhere/c: "},
      {[](DaemonOptions* o) { o->retention_file = "/nowhere/k"; },
       "--retention-file: cannot read /nowhere/k: "},
      {[](DaemonOptions* o) { o->cert_dir = "/proc/nowhere"; }, "/proc/nowhere"},
      {[](DaemonOptions* o) { o->data_dir = "/proc/nowhere"; }, "/proc/nowhere"},
      {[](DaemonOptions* o) {
         o->etcd_servers = {"http://127.0.0.1:1"};
         o->data_dir = "/somewhere";
       },
       "--data-dir and --etcd-servers cannot be used together"},
      {[](DaemonOptions* o) {
         o->etcd_servers = {"http://127.0.0.1:1"};
         o->max_disk_bytes = 1'000;
       },
       "--quota-backend-bytes"},
      {[](DaemonOptions* o) {
         o->etcd_servers = {"http://127.0.0.1:1"};
         o->etcd_user = "root";
       },
       "name:password"},
      {[](DaemonOptions* o) { o->etcd_servers = {"127.0.0.1:2379"}; }, "https://"},
      {[](DaemonOptions* o) {
         o->etcd_servers = {"https://127.0.0.1:1"};
         o->etcd_cafile = "/nowhere/e";
       },
       "/nowhere/e"},
  };
  for (const Case& c : cases) {
    DaemonOptions options = options_;
    c.change(&options);
    const Result<std::unique_ptr<Daemon>> daemon = Daemon::Start(options);
    ASSERT_FALSE(daemon.has_value()) << c.message;
    EXPECT_NE(daemon.error().message().find(c.message), std::string::npos)
        << daemon.error().message();
  }
  Start();
  DaemonOptions busy = options_;
  busy.secure_port = daemon_->port();
  const Result<std::unique_ptr<Daemon>> second = Daemon::Start(busy);
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().message().find(fmt::format("{}", daemon_->port())), std::string::npos)
      << second.error().message();
}

}  // namespace
}  // namespace herald::server
