// The client against nghttpd, an independent HTTP/2 server.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include "base/testing/free_port.h"
#include "base/testing/temporary_directory.h"
#include "http/client/client.h"
#include "http/testing/scripted_server.h"

namespace herald::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr CallOptions kPatient{.timeout = seconds(60)};

// A running nghttpd with a folder of its own. Thread-confined.
class Nghttpd {
 public:
  Nghttpd() = default;
  ~Nghttpd() { Kill(); }
  Nghttpd(const Nghttpd&) = delete;
  Nghttpd& operator=(const Nghttpd&) = delete;

  std::string Write(const std::string& name, const std::string& content) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  // On the same port each time.
  void Start(const TestCertificate* certificate, std::vector<std::string> options) {
    std::vector<std::string> words = {"nghttpd", "-a", "127.0.0.1", "-d", folder_};
    words.insert(words.end(), options.begin(), options.end());
    if (certificate == nullptr) words.emplace_back("--no-tls");
    words.push_back(std::to_string(port_));
    if (certificate != nullptr) {
      words.push_back(Write("key.pem", certificate->key));
      words.push_back(Write("cert.pem", certificate->certificate));
    }
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    process_ = fork();
    ASSERT_GE(process_, 0);
    if (process_ == 0) {
      execvp("nghttpd", arguments.data());
      execv("/usr/sbin/nghttpd", arguments.data());  // not on every user's PATH
      _exit(127);
    }
    url_ = (certificate != nullptr ? "https://127.0.0.1:" : "http://127.0.0.1:") +
           std::to_string(port_);
  }
  void Kill() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }
  bool running() { return process_ > 0 && waitpid(process_, nullptr, WNOHANG) == 0; }
  const std::string& url() const { return url_; }

 private:
  const TemporaryDirectory directory_;
  const std::string folder_ = directory_.path();
  std::string url_{};
  const std::uint16_t port_ = FreePort();
  pid_t process_ = 0;
};

std::unique_ptr<Client> OpenClient(const Nghttpd& server, const std::string& ca) {
  ClientOptions options;
  options.url = server.url();
  options.plain_http2 = ca.empty();
  options.tls = [ca] { return ClientTls{.ca = ca}; };
  Result<std::unique_ptr<Client>> client = Client::Open(std::move(options));
  EXPECT_TRUE(client.has_value());
  return *std::move(client);
}

// Waits until it listens.
void AwaitServer(Nghttpd& server, Client& client) {
  while (!client.Fetch({.target = "/"}, kPatient)) {
    ASSERT_TRUE(server.running())
        << "nghttpd does not run; is the package nghttp2-server installed?";
    std::promise<void> later;
    client.PostAfter(milliseconds(5), [&] { later.set_value(); });
    later.get_future().wait();
  }
}

class ClientAndNghttpd : public testing::TestWithParam<bool> {
 protected:
  void StartServer(std::vector<std::string> options) {
    server_.Start(GetParam() ? &certificate_ : nullptr, std::move(options));
    if (client_ == nullptr)
      client_ = OpenClient(server_, GetParam() ? certificate_.certificate : "");
    AwaitServer(server_, *client_);
  }

  const TestCertificate certificate_ = MakeTestCertificate({});
  Nghttpd server_{};
  std::unique_ptr<Client> client_{};
};

INSTANTIATE_TEST_SUITE_P(Transport, ClientAndNghttpd, testing::Bool(),
                         [](const auto& transport) { return transport.param ? "Tls" : "Plain"; });

TEST_P(ClientAndNghttpd, FetchesFilesOfAnySize) {
  std::string large;
  for (int i = 0; large.size() < 20'000'000; ++i) large += std::to_string(i);
  server_.Write("small", "hello");
  server_.Write("empty", "");
  server_.Write("large", large);
  StartServer({"--padding=100", "--trailer=x-late: 1", "--no-content-length"});
  Result<Response> response = client_->Fetch({.target = "/small"}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_EQ(response->body, "hello");
  EXPECT_EQ(response->trailers.Get("x-late"), "1");
  response = client_->Fetch({.target = "/empty"}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_EQ(response->body, "");
  response = client_->Fetch({.target = "/large"}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_TRUE(response->body == large);
  response = client_->Fetch({.target = "/none"}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_EQ(response->status, 404);
  EXPECT_EQ(client_->Stats().connections_opened, 1U);
}

TEST_P(ClientAndNghttpd, RunsManyCallsAtOnceOnOneConnection) {
  StartServer({"--echo-upload", "--max-concurrent-streams=20", "--window-bits=10"});
  constexpr int kCalls = 500;
  std::atomic<int> right{0};
  std::atomic<int> left{kCalls};
  std::promise<void> all;
  for (int i = 0; i < kCalls; ++i) {
    // Larger than the server's window.
    const std::string body = std::to_string(i) + std::string(3000, 'x');
    client_->Fetch({.method = "POST", .target = "/echo", .body = body}, kPatient,
                   [&, body](const Result<Response>& response) {
                     if (response && response->body == body) ++right;
                     if (--left == 0) all.set_value();
                   });
  }
  all.get_future().wait();
  EXPECT_EQ(right, kCalls);
  EXPECT_EQ(client_->Stats().connections, 1U);
}

TEST_P(ClientAndNghttpd, DecodesItsGzip) {
  StartServer({"--error-gzip"});
  const Result<Response> response = client_->Fetch({.target = "/none"}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_EQ(response->status, 404);
  EXPECT_NE(response->body.find("<html>"), std::string::npos) << response->body;
}

TEST_P(ClientAndNghttpd, ReconnectsAfterARestart) {
  server_.Write("small", "hello");
  StartServer({});
  ASSERT_TRUE(client_->Fetch({.target = "/small"}, kPatient).has_value());
  server_.Kill();
  const Result<Response> failed = client_->Fetch({.target = "/small"}, kPatient);
  ASSERT_FALSE(failed.has_value());
  EXPECT_TRUE(failed.error().Is(StatusReason::kUnreachable)) << failed.error().ToString();
  StartServer({});
  const Result<Response> response = client_->Fetch({.target = "/small"}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_EQ(response->body, "hello");
}

}  // namespace
}  // namespace herald::http
