// The client through proxies.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "http/testing/scripts.h"

namespace herald::http {
namespace {

// Talks HTTP on both sides of CONNECT, as if it were the server as well.
TEST(Client, RequestsATunnelFromAProxyWithConnect) {
  Journal journal;
  ScriptedServer proxy([&](ScriptedConnection& wire, int) {
    journal.Add(wire.ReadRequest());
    wire.Write("HTTP/1.1 200 Connection established\r\n\r\n");
    journal.Add(wire.ReadRequest());
    wire.Write(Http1Response("through"));
    wire.AwaitEnd();
  });
  ClientOptions options;
  options.url = "http://server.invalid:8080";
  options.proxy_url = "http://user:p%40ss@127.0.0.1:" + std::to_string(proxy.port());
  const auto client = OpenClient(options);
  const Result<Response> response = client->Fetch({.target = "/x"}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_EQ(response->body, "through");
  const std::vector<std::string> seen = journal.entries();
  EXPECT_EQ(seen[0],
            "CONNECT server.invalid:8080 HTTP/1.1\r\nhost: server.invalid:8080\r\n"
            "proxy-authorization: Basic dXNlcjpwQHNz\r\n\r\n");
  EXPECT_TRUE(seen[1].starts_with("GET /x HTTP/1.1\r\nhost: server.invalid:8080\r\n")) << seen[1];
}

// A proxy that knows one server: moves bytes until either side ends.
void Tunnel(ScriptedConnection& wire, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(connect(server, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  std::thread back([&] {
    char bytes[4096];
    for (ssize_t size = 0; (size = recv(server, bytes, sizeof(bytes), 0)) > 0;)
      wire.Write({bytes, static_cast<std::size_t>(size)});
    wire.CloseWrite();
  });
  for (std::string bytes = wire.ReadSome(); !bytes.empty(); bytes = wire.ReadSome())
    if (send(server, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) break;
  shutdown(server, SHUT_RDWR);
  back.join();
  close(server);
}

TEST(Client, VerifiesTheServerBehindTheProxy) {
  const Pki pki;
  for (const char* name : {"DNS:server.invalid", "DNS:other.invalid"}) {
    ScriptedServer server(ServeEither, ScriptedServer::Tls{.certificate = MakeTestCertificate(
                                                               {.names = name}, &pki.authority),
                                                           .protocols = {"h2"}});
    ScriptedServer proxy([&](ScriptedConnection& wire, int) {
      wire.ReadRequest();
      wire.Write("HTTP/1.1 200 OK\r\n\r\n");
      Tunnel(wire, server.port());
    });
    ClientOptions options;
    options.url = "https://server.invalid";
    options.proxy_url = proxy.url();
    options.tls = [&] { return ClientTls{.ca = pki.authority.certificate}; };
    const auto client = OpenClient(options);
    if (std::string_view(name) == "DNS:server.invalid") {
      const Result<Response> response =
          client->Fetch({.method = "POST", .target = "/", .body = "b"}, kPatient);
      ASSERT_TRUE(response.has_value()) << response.error().ToString();
      EXPECT_EQ(response->body, "echo:b");
    } else {
      EXPECT_CONTAINS(FailureOf(*client), "valid for other.invalid, not for server.invalid");
    }
  }
}

TEST(Client, ReportsTheErrorOfTheProxy) {
  struct Case {
    const char* response;
    const char* message;
  };
  const Case cases[] = {
      {"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "requires a user name and a password"},
      {"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nbad",
       "rejected CONNECT with status 502"},
      {"rubbish", "not valid HTTP/1.1"},
      {"", "closed the connection"},
  };
  for (const Case& c : cases) {
    ScriptedServer proxy([&](ScriptedConnection& wire, int) {
      wire.ReadRequest();
      wire.Write(c.response);
    });
    ClientOptions options;
    options.url = "https://server.invalid";
    options.proxy_url = proxy.url();
    const auto client = OpenClient(options);
    const std::string message = FailureOf(*client);
    EXPECT_CONTAINS(message, c.message);
    EXPECT_CONTAINS(message, "https://server.invalid: proxy 127.0.0.1:");
  }
}

// Plain, behind a proxy with TLS, and TLS within TLS; by HTTP/1.1 and HTTP/2.
TEST(Client, UsesTlsToAProxy) {
  const Pki pki;
  const ScriptedServer::Tls tls{.certificate = MakeTestCertificate({}, &pki.authority),
                                .protocols = {"h2", "http/1.1"}};
  for (const bool https : {false, true}) {
    SCOPED_TRACE(https);
    ScriptedServer server(https ? ServeEither : ServeHttp1,
                          https ? std::optional(tls) : std::nullopt);
    ScriptedServer proxy(
        [&](ScriptedConnection& wire, int) {
          EXPECT_EQ(wire.alpn(), "http/1.1");
          EXPECT_CONTAINS(wire.ReadRequest(), "CONNECT localhost:");
          wire.Write("HTTP/1.1 200 OK\r\n\r\n");
          Tunnel(wire, server.port());
        },
        tls);
    ClientOptions options;
    options.url =
        (https ? "https" : "http") + std::string("://localhost:") + std::to_string(server.port());
    options.proxy_url = "https://localhost:" + std::to_string(proxy.port());
    options.tls = [&] { return ClientTls{.ca = pki.authority.certificate}; };
    const auto client = OpenClient(options);
    const std::string body(300'000, 'b');  // more than one record, one read and one write
    const Result<Response> response =
        client->Fetch({.method = "POST", .target = "/", .body = body}, kPatient);
    ASSERT_TRUE(response.has_value()) << response.error().ToString();
    EXPECT_TRUE(response->body == (https ? "echo:" + body : "hello")) << response->body.size();
  }
}

TEST(Client, VerifiesTheProxy) {
  const Pki pki;
  ScriptedServer proxy([](ScriptedConnection& wire, int) { wire.AwaitEnd(); },
                       ScriptedServer::Tls{.certificate = MakeTestCertificate(
                                               {.names = "DNS:other.invalid"}, &pki.authority)});
  ClientOptions options;
  options.url = "https://server.invalid";
  options.proxy_url = "https://localhost:" + std::to_string(proxy.port());
  options.tls = [&] { return ClientTls{.ca = pki.authority.certificate}; };
  const std::string message = FailureOf(*OpenClient(options));
  EXPECT_CONTAINS(message, "https://server.invalid: proxy localhost:");
  EXPECT_CONTAINS(message, "valid for other.invalid, not for localhost");
}

TEST(Client, ConnectsThroughASocksProxy) {
  const Pki pki;
  ScriptedServer server(ServeEither,
                        ScriptedServer::Tls{.certificate = MakeTestCertificate({}, &pki.authority),
                                            .protocols = {"h2"}});
  Journal journal;
  ScriptedServer proxy([&](ScriptedConnection& wire, int) {
    std::string greeting = wire.ReadSome();
    journal.Add(greeting);
    wire.Write({"\5\2", 2});
    journal.Add(wire.ReadSome());
    wire.Write({"\1\0", 2});
    journal.Add(wire.ReadSome());
    wire.Write({"\5\0\0\1\0\0\0\0\0\0", 10});
    Tunnel(wire, server.port());
  });
  ClientOptions options;
  options.url = "https://localhost:" + std::to_string(server.port());
  options.proxy_url = "socks5://user:p%3Aw@127.0.0.1:" + std::to_string(proxy.port());
  options.tls = [&] { return ClientTls{.ca = pki.authority.certificate}; };
  const auto client = OpenClient(options);
  const Result<Response> response =
      client->Fetch({.method = "POST", .target = "/", .body = "b"}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_EQ(response->body, "echo:b");
  const std::uint16_t port = server.port();
  EXPECT_EQ(journal.entries(),
            (std::vector<std::string>{std::string("\5\2\0\2", 4), std::string("\1\4user\3p:w"),
                                      std::string("\5\1\0\3\11localhost", 14) +
                                          static_cast<char>(port >> 8) +
                                          static_cast<char>(port & 0xff)}));
}

}  // namespace
}  // namespace herald::http
