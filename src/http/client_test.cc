#include "http/client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <vector>

#include "http/client_test_peer.h"

namespace herald::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Long enough for the slowest machine; no test waits for it to pass.
constexpr seconds kPatience{60};

std::unique_ptr<Client> OpenClient(ClientOptions options) {
  Result<std::unique_ptr<Client>> client = Client::Open(std::move(options));
  EXPECT_TRUE(client.has_value()) << client.error().ToString();
  return *std::move(client);
}

ClientOptions Plain(const TestPeer& peer) {
  ClientOptions options;
  options.url = peer.url();
  return options;
}

// The answers of an ordinary HTTP/1.1 server, until the client closes.
void ServeHttp1(TestWire& wire, int) {
  while (!wire.ReadRequest().empty())
    wire.Write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Test: yes\r\n\r\nhello");
}

// The same for HTTP/2: says the body back.
void ServeHttp2(TestWire& wire, int) {
  TestHttp2Peer(wire, {}, [](TestHttp2Peer& peer, const TestHttp2Peer::Stream& stream) {
    peer.Answer(stream.id, 200, "echo:" + stream.request.body, {{"x-test", "yes"}});
  }).Run();
}

TEST(Client, FetchesOverHttp1AndKeepsTheConnection) {
  TestPeer peer(ServeHttp1);
  const auto client = OpenClient(Plain(peer));
  for (int i = 0; i < 3; ++i) {
    const Result<Response> response = client->Fetch({.target = "/x"}, {.timeout = kPatience});
    ASSERT_TRUE(response.has_value()) << response.error().ToString();
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, "hello");
    EXPECT_EQ(response->headers.Get("x-test"), "yes");
  }
  EXPECT_EQ(peer.connections(), 1);
}

TEST(Client, FetchesOverPlainHttp2) {
  TestPeer peer(ServeHttp2);
  ClientOptions options = Plain(peer);
  options.plain_http2 = true;
  const auto client = OpenClient(options);
  const Result<Response> response =
      client->Fetch({.method = "POST", .target = "/x", .body = "abc"}, {.timeout = kPatience});
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_EQ(response->body, "echo:abc");
}

// An authority and what it signed.
struct Pki {
  TestCertificate authority = MakeTestCertificate({.common_name = "test CA", .authority = true});
  TestCertificate server = MakeTestCertificate({.common_name = "server"}, &authority);
  TestCertificate client = MakeTestCertificate({.common_name = "alice", .names = ""}, &authority);
};

ClientOptions Secure(const TestPeer& peer, ClientTls tls) {
  ClientOptions options;
  options.url = peer.url();
  options.tls = [tls = std::move(tls)] { return tls; };
  return options;
}

TEST(Client, SpeaksWhatAlpnChoseOverTls) {
  const Pki pki;
  struct Case {
    std::vector<std::string> protocols;
    bool allow_http2;
    const char* chosen;
  };
  const Case cases[] = {
      {{"h2", "http/1.1"}, true, "h2"},
      {{"h2", "http/1.1"}, false, "http/1.1"},
      {{"http/1.1"}, true, "http/1.1"},
      {{}, true, ""},
  };
  for (const Case& c : cases) {
    std::string chosen = "nothing";
    TestPeer peer(
        [&chosen](TestWire& wire, int number) {
          chosen = wire.alpn();
          wire.alpn() == "h2" ? ServeHttp2(wire, number) : ServeHttp1(wire, number);
        },
        TestPeer::Tls{pki.server, "", c.protocols});
    ClientOptions options = Secure(peer, {.ca = pki.authority.certificate});
    options.allow_http2 = c.allow_http2;
    const auto client = OpenClient(options);
    for (int i = 0; i < 2; ++i) {
      const Result<Response> response = client->Fetch({.target = "/x"}, {.timeout = kPatience});
      ASSERT_TRUE(response.has_value()) << response.error().ToString();
      EXPECT_EQ(response->headers.Get("x-test"), "yes");
    }
    EXPECT_EQ(chosen, c.chosen);
    EXPECT_EQ(peer.connections(), 1);
  }
}

}  // namespace
}  // namespace herald::http
