#include "herald/client/config.h"

#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): setenv() is POSIX

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "base/testing/temporary_directory.h"

namespace herald {
namespace {

const std::string kFolder = HERALD_TESTDATA_DIR "/kubeconfig/";

// A temporary folder and a clean environment for each test.
class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() {
    for (const char* variable : {"KUBECONFIG", "HOME", "KUBERNETES_SERVICE_HOST",
                                 "KUBERNETES_SERVICE_PORT", "POD_NAMESPACE"}) {
      ::unsetenv(variable);
    }
    ::setenv("HOME", folder_.c_str(), 1);
  }

  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
    return path;
  }

  const TemporaryDirectory directory_;
  const std::string folder_ = directory_.path();
};

std::string Pem(const std::string& kind, const std::string& base64) {
  return "-----BEGIN " + kind + "-----\n" + base64 + "\n-----END " + kind + "-----\n";
}
const std::string kCa = Pem("CERTIFICATE", "bWFkZSB1cCBhdXRob3JpdHk=");
const std::string kCertificate = Pem("CERTIFICATE", "bWFkZSB1cCBjbGllbnQ=");
const std::string kKey = Pem("PRIVATE KEY", "bWFkZSB1cCBrZXk=");

// Kubeconfig files as other programs write them, and the expected configuration.
struct FileCase {
  const char* file;
  ClientConfig expected;
};

ClientConfig WithCertificate(ClientConfig config) {
  config.ca_data = kCa;
  config.certificate_data = kCertificate;
  config.key_data = kKey;
  return config;
}

TEST_F(ConfigTest, ReadsWhatOtherProgramsWrite) {
  const std::string arn = "arn:aws:eks:eu-central-1:111122223333:cluster/prod";
  const std::string minikube = kFolder + "minikube/.minikube/";
  const FileCase cases[] = {
      {"kubeadm.yaml", WithCertificate({.server = "https://10.0.0.10:6443",
                                        .context = "kubernetes-admin@kubernetes"})},
      {"kind.yaml", WithCertificate({.server = "https://127.0.0.1:41733", .context = "kind-dev"})},
      {"k3s.yaml", WithCertificate({.server = "https://127.0.0.1:6443", .context = "default"})},
      {"minikube/config",
       {.server = "https://192.168.49.2:8443",
        .ca_file = minikube + "ca.crt",
        .certificate_file = minikube + "profiles/minikube/client.crt",
        .key_file = minikube + "profiles/minikube/client.key",
        .context = "minikube"}},
      {"eks.yaml",
       {.server = "https://0123456789ABCDEF0123456789ABCDEF.gr7.eu-central-1.eks.example.com",
        .ca_data = kCa,
        .exec = ExecPlugin{.api_version = "client.authentication.k8s.io/v1beta1",
                           .command = "aws",
                           .args = {"--region", "eu-central-1", "eks", "get-token",
                                    "--cluster-name", "prod", "--output", "json"},
                           .env = {{"AWS_PROFILE", "production"}}},
        .context = arn}},
      {"gke.yaml",
       {.server = "https://203.0.113.7",
        .namespace_ = "shop",
        .ca_data = kCa,
        .exec = ExecPlugin{.api_version = "client.authentication.k8s.io/v1beta1",
                           .command = "gke-gcloud-auth-plugin",
                           .install_hint = "Install gke-gcloud-auth-plugin for use with kubectl "
                                           "by following the vendor's documentation",
                           .provide_cluster_info = true},
        .context = "gke_project-1_europe-west1_prod"}},
      {"aks.yaml",
       WithCertificate({.server = "https://prod-dns-0a1b2c3d.hcp.westeurope.azmk8s.example.com:443",
                        .token = "0123456789abcdef0123456789abcdef",
                        .context = "prod"})},
      {"aks_entra.yaml",
       {.server = "https://prod-dns-0a1b2c3d.hcp.westeurope.azmk8s.example.com:443",
        .ca_data = kCa,
        .exec =
            ExecPlugin{.api_version = "client.authentication.k8s.io/v1beta1",
                       .command = "kubelogin",
                       .args = {"get-token", "--login", "azurecli", "--server-id",
                                "00000000-1111-2222-3333-444444444444"},
                       .install_hint =
                           "\nkubelogin is not installed which is required to connect to AAD "
                           "enabled cluster.\n\nTo learn more, please ask your administrator\n"},
        .context = "prod"}},
  };
  for (const FileCase& c : cases) {
    SCOPED_TRACE(c.file);
    const Result<ClientConfig> config = LoadKubeconfig({.path = kFolder + c.file});
    ASSERT_TRUE(config) << config.error().ToString();
    ClientConfig expected = c.expected;
    expected.source = kFolder + c.file;
    EXPECT_TRUE(*config == expected) << config->server << " " << config->context;
    EXPECT_EQ(config->exec, expected.exec);
    EXPECT_EQ(config->ca_file, expected.ca_file);
  }
}

TEST_F(ConfigTest, RejectsAnOldGkeFileWithAReason) {
  const Result<ClientConfig> config = LoadKubeconfig({.path = kFolder + "gke_legacy.yaml"});
  ASSERT_FALSE(config);
  const std::string& message = config.error().message();
  for (const char* word : {"gke_legacy.yaml", "context \"gke\"", "auth-provider", "gcp", "exec"}) {
    EXPECT_NE(message.find(word), std::string::npos) << message;
  }
}

constexpr const char* kTwo = R"(
clusters:
- {name: one, cluster: {server: "https://one"}}
- {name: two, cluster: {server: "https://two", tls-server-name: other, proxy-url: "http://proxy:3128", disable-compression: true}}
- {name: open, cluster: {server: "http://open"}}
- {name: bare, cluster: {server: "10.0.0.1:6443", insecure-skip-tls-verify: true}}
users:
- {name: ann, user: {token: ann-token, as: jane, as-uid: "7", as-groups: [dev], as-user-extra: {scope: [a, b]}}}
- {name: bob, user: {username: bob, password: secret}}
contexts:
- {name: one, context: {cluster: one, user: ann, namespace: ns-one}}
- {name: two, context: {cluster: two, user: bob}}
- {name: open, context: {cluster: open, user: ann}}
- {name: bare, context: {cluster: bare, user: ann}}
current-context: one
)";

TEST_F(ConfigTest, UsesTheSelectedContext) {
  const auto one = ParseKubeconfig(kTwo);
  ASSERT_TRUE(one) << one.error().ToString();
  EXPECT_EQ(one->server, "https://one");
  EXPECT_EQ(one->namespace_, "ns-one");
  EXPECT_EQ(one->token, "ann-token");
  EXPECT_EQ(one->impersonate,
            (Impersonation{
                .user = "jane", .uid = "7", .groups = {"dev"}, .extra = {{"scope", {"a", "b"}}}}));
  const auto two = ParseKubeconfig(kTwo, {.context = "two"});
  ASSERT_TRUE(two);
  EXPECT_EQ(two->server, "https://two");
  EXPECT_EQ(two->tls_server_name, "other");
  EXPECT_EQ(two->proxy_url, "http://proxy:3128");
  EXPECT_TRUE(two->disable_compression);
  EXPECT_EQ(two->username, "bob");
  EXPECT_EQ(two->namespace_, "default");
}

TEST_F(ConfigTest, UsesTheSelectedClusterUserAndNamespace) {
  const auto config =
      ParseKubeconfig(kTwo, {.context = "one", .cluster = "two", .user = "bob", .namespace_ = "x"});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->server, "https://two");
  EXPECT_EQ(config->username, "bob");
  EXPECT_EQ(config->token, "");
  EXPECT_EQ(config->namespace_, "x");
}

TEST_F(ConfigTest, SendsNoCredentialsWithoutTls) {
  const auto config = ParseKubeconfig(kTwo, {.context = "open"});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->server, "http://open");
  EXPECT_EQ(config->token, "");
}

TEST_F(ConfigTest, AddsTheSchemeToAServerWithoutOne) {
  const auto config = ParseKubeconfig(kTwo, {.context = "bare"});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->server, "https://10.0.0.1:6443");
  EXPECT_TRUE(config->insecure_skip_tls_verify);
}

TEST_F(ConfigTest, MergesFilesAsKubectlDoes) {
  // The first file that has an entry wins, entries are not merged, and missing files are ignored.
  const std::string first = Write("first", R"(
clusters: [{name: c, cluster: {server: "https://first"}}]
users: [{name: u, user: {token: first}}]
)");
  const std::string second = Write("second", R"(
clusters: [{name: c, cluster: {server: "https://second", tls-server-name: x}}]
users: [{name: v, user: {token: second}}]
contexts: [{name: k, context: {cluster: c, user: u}}, {name: l, context: {cluster: c, user: v}}]
current-context: k
)");
  const std::string third = Write("third", "current-context: l\n");
  ::setenv("KUBECONFIG", (folder_ + "/missing:" + first + "::" + second + ":" + third).c_str(), 1);
  const auto config = LoadKubeconfig();
  ASSERT_TRUE(config) << config.error().ToString();
  EXPECT_EQ(config->server, "https://first");
  EXPECT_EQ(config->tls_server_name, "");
  EXPECT_EQ(config->token, "first");
  EXPECT_EQ(config->context, "k");
  EXPECT_EQ(config->source, second);
  EXPECT_EQ(LoadKubeconfig({.context = "l"}).value_or(ClientConfig()).token, "second");
}

TEST_F(ConfigTest, ResolvesPathsRelativeToTheirFile) {
  Write("pki/token", "t");
  const std::string file = Write("config", R"(
clusters: [{name: c, cluster: {server: "https://x"}}]
users: [{name: u, user: {tokenFile: pki/token}}]
contexts: [{name: k, context: {cluster: c, user: u}}]
current-context: k
)");
  const auto config = LoadKubeconfig({.path = file});
  ASSERT_TRUE(config) << config.error().ToString();
  EXPECT_EQ(config->token_file, folder_ + "/pki/token");
}

// An invalid kubeconfig, and a part of the expected error message.
struct ErrorCase {
  const char* name;
  const char* cluster;
  const char* user;
  const char* words;
};

TEST_F(ConfigTest, RejectsDuplicateKeys) {
  const std::string file =
      Write("twice", "apiVersion: v1\nkind: Config\nclusters: []\nkind: Config\n");
  const Result<ClientConfig> config = LoadKubeconfig({.path = file});
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().message(), file + ": line 4: key \"kind\" already set in map");
}

TEST_F(ConfigTest, NamesTheFileContextAndKeyInErrors) {
  const ErrorCase cases[] = {
      {"no server", "{}", "{}", "server: is missing"},
      {"server is a number", "{server: 5}", "{}", "server: must be a string"},
      {"server is not a URL of HTTP", "{server: \"ftp://x\"}", "{}", "server: "},
      {"bad base64", "{server: \"https://x\", certificate-authority-data: \"***\"}", "{}",
       "certificate-authority-data: must be base64"},
      {"missing file", "{server: \"https://x\", certificate-authority: /no/such}", "{}",
       "certificate-authority: cannot read /no/such: No such file"},
      {"CA as file and as data",
       "{server: \"https://x\", certificate-authority: x, certificate-authority-data: eA==}", "{}",
       "certificate-authority: must not be set together with certificate-authority-data"},
      {"insecure with CA",
       "{server: \"https://x\", insecure-skip-tls-verify: true, certificate-authority-data: eA==}",
       "{}", "insecure-skip-tls-verify: must not be set together with a certificate authority"},
      {"insecure is a string", "{server: \"https://x\", insecure-skip-tls-verify: \"true\"}", "{}",
       "insecure-skip-tls-verify: must be true or false"},
      {"bad proxy", "{server: \"https://x\", proxy-url: \"::\"}", "{}", "proxy-url: "},
      {"token is a number", "{server: \"https://x\"}", "{token: 12345}", "token: must be a string"},
      {"certificate without key", "{server: \"https://x\"}", "{client-certificate-data: eA==}",
       "client-key: is missing"},
      {"key without certificate", "{server: \"https://x\"}", "{client-key-data: eA==}",
       "client-certificate: is missing"},
      {"token and username", "{server: \"https://x\"}", "{token: a, username: b}",
       "username: must not be set together with token"},
      {"groups without user", "{server: \"https://x\"}", "{as-groups: [a]}", "as: is missing"},
      {"exec without command", "{server: \"https://x\"}", "{exec: {apiVersion: x}}",
       "exec.command: is missing"},
      {"exec v1alpha1", "{server: \"https://x\"}",
       "{exec: {command: x, apiVersion: client.authentication.k8s.io/v1alpha1}}",
       "exec.apiVersion: invalid \"client.authentication.k8s.io/v1alpha1\""},
      {"exec v1 without mode", "{server: \"https://x\"}",
       "{exec: {command: x, apiVersion: client.authentication.k8s.io/v1}}",
       "exec.interactiveMode: is missing"},
      {"exec needs a terminal", "{server: \"https://x\"}",
       "{exec: {command: x, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always}}",
       "exec.interactiveMode: Always is not supported"},
      {"exec args", "{server: \"https://x\"}",
       "{exec: {command: x, args: [1], apiVersion: client.authentication.k8s.io/v1beta1}}",
       "exec.args: must be a list of strings"},
  };
  for (const ErrorCase& c : cases) {
    SCOPED_TRACE(c.name);
    const auto config = ParseKubeconfig(
        std::string("clusters: [{name: c, cluster: ") + c.cluster +
            "}]\nusers: [{name: u, user: " + c.user +
            "}]\ncontexts: [{name: k, context: {cluster: c, user: u}}]\ncurrent-context: k\n",
        {}, folder_, "the-file");
    ASSERT_FALSE(config);
    EXPECT_TRUE(config.error().Is(StatusReason::kInvalid));
    const std::string& message = config.error().message();
    EXPECT_NE(message.find("the-file: context \"k\": "), std::string::npos) << message;
    EXPECT_NE(message.find(c.words), std::string::npos) << message;
  }
}

TEST_F(ConfigTest, ReportsWhatAContextLacks) {
  const struct {
    const char* text;
    const char* words;
  } cases[] = {
      {"", "is empty"},
      {"- 1\n", "not a kubeconfig"},
      {"kind: Pod\n", "not a kubeconfig"},
      {"a: [\n", "line "},
      {"clusters: []\n", "current-context is missing"},
      {"current-context: k\n", "context \"k\" does not exist"},
      {"contexts: [{name: k, context: {user: u}}]\ncurrent-context: k\n", "cluster: is missing"},
      {"contexts: [{name: k, context: {cluster: c, user: u}}]\ncurrent-context: k\n",
       "cluster \"c\" does not exist"},
      {"contexts: [{name: k, context: {cluster: c, user: u}}]\ncurrent-context: k\n"
       "clusters: [{name: c, cluster: {server: \"https://x\"}}]\n",
       "user \"u\" does not exist"},
      {"contexts: [{name: k, context: {}}, {name: k, context: {}}]\n", "duplicate name \"k\""},
      {"contexts: {name: k}\n", "contexts must be a list"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    const auto config = ParseKubeconfig(c.text);
    ASSERT_FALSE(config);
    EXPECT_NE(config.error().message().find(c.words), std::string::npos)
        << config.error().message();
  }
}

TEST_F(ConfigTest, ReadsAPodsServiceAccount) {
  Write("sa/token", "token\n");
  Write("sa/namespace", "kube-system\n");
  Write("sa/ca.crt", kCa);
  ::setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
  ::setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  const auto config = InClusterConfig(folder_ + "/sa");
  ASSERT_TRUE(config) << config.error().ToString();
  EXPECT_EQ(config->server, "https://[fd00::1]:443");
  EXPECT_EQ(config->namespace_, "kube-system");
  EXPECT_EQ(config->token_file, folder_ + "/sa/token");
  EXPECT_EQ(config->ca_file, folder_ + "/sa/ca.crt");
  ::setenv("POD_NAMESPACE", "mine", 1);
  EXPECT_EQ(InClusterConfig(folder_ + "/sa").value_or(ClientConfig()).namespace_, "mine");
}

TEST_F(ConfigTest, SearchesTheLocationsInOrder) {
  const auto none = LoadConfig();
  ASSERT_FALSE(none);
  EXPECT_TRUE(none.error().Is(StatusReason::kNotFound)) << none.error().ToString();
  Write(".kube/config", kTwo);
  EXPECT_EQ(LoadConfig().value_or(ClientConfig()).server, "https://one");
  const std::string other = Write("other", R"(
clusters: [{name: c, cluster: {server: "http://other"}}]
contexts: [{name: k, context: {cluster: c, user: u}}]
current-context: k
)");
  ::setenv("KUBECONFIG", other.c_str(), 1);
  EXPECT_EQ(LoadConfig().value_or(ClientConfig()).server, "http://other");
  EXPECT_EQ(LoadConfig({.path = folder_ + "/.kube/config"}).value_or(ClientConfig()).server,
            "https://one");
  EXPECT_FALSE(LoadConfig({.path = folder_ + "/missing"}));
}

}  // namespace
}  // namespace herald
