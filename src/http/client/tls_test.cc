// The client over TLS.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "http/testing/scripts.h"

namespace herald::http {
namespace {

using std::chrono::milliseconds;

// A server that requires a client certificate, and records the names in them.
ScriptedServer::Tls AskingWho(const Pki& pki) {
  return {.certificate = pki.server, .client_ca = pki.authority.certificate, .protocols = {"h2"}};
}
ScriptedServer::Script NoteWho(Journal& journal) {
  return [&journal](ScriptedConnection& wire, int number) {
    journal.Add(wire.client_name());
    ServeEither(wire, number);
  };
}

TEST(Client, UsesTheProtocolThatAlpnChose) {
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
    Journal journal;
    ScriptedServer peer(
        [&](ScriptedConnection& wire, int number) {
          journal.Add(wire.alpn());
          ServeEither(wire, number);
        },
        ScriptedServer::Tls{.certificate = pki.server, .protocols = c.protocols});
    ClientOptions options = Secure(peer, {.ca = pki.authority.certificate});
    options.allow_http2 = c.allow_http2;
    const auto client = OpenClient(options);
    for (int i = 0; i < 2; ++i) {
      const Result<Response> response = client->Fetch({.target = "/x"}, kPatient);
      ASSERT_TRUE(response.has_value()) << response.error().ToString();
      EXPECT_EQ(response->headers.Get("x-test"), "yes");
    }
    EXPECT_EQ(journal.entries(), std::vector<std::string>{c.chosen});
  }
}

TEST(Client, SendsAndReceivesLargeBodiesOverTls) {
  const Pki pki;
  ScriptedServer peer(ServeEither,
                      ScriptedServer::Tls{.certificate = pki.server, .protocols = {"h2"}});
  const auto client = OpenClient(Secure(peer, {.ca = pki.authority.certificate}));
  std::string body;
  for (int i = 0; body.size() < 5'000'000; ++i) body += std::to_string(i);
  const Result<Response> response =
      client->Fetch({.method = "POST", .target = "/x", .body = body}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_TRUE(response->body == "echo:" + body);
}

TEST(Client, RejectsInvalidCertificatesWithAReason) {
  const Pki pki;
  const TestCertificate other =
      MakeTestCertificate({.subject = {{"CN", "other CA"}}, .authority = true});
  struct Case {
    const char* name;
    TestCertificate server;
    const char* message;
  };
  const Case cases[] = {
      {"expired",
       MakeTestCertificate(
           {.subject = {{"CN", "old"}}, .valid_from_days = -20, .valid_to_days = -10},
           &pki.authority),
       "the certificate of CN = old expired at 20"},
      {"not yet valid",
       MakeTestCertificate({.subject = {{"CN", "new"}}, .valid_from_days = 10, .valid_to_days = 20},
                           &pki.authority),
       "the certificate of CN = new is not valid before 20"},
      {"wrong name",
       MakeTestCertificate({.names = "DNS:a.example,DNS:b.example,IP:10.0.0.1"}, &pki.authority),
       "valid for a.example, b.example, 10.0.0.1, not for 127.0.0.1"},
      {"only a common name",
       MakeTestCertificate({.subject = {{"CN", "127.0.0.1"}}, .names = ""}, &pki.authority),
       "valid for no names, not for 127.0.0.1"},
      {"unknown CA", MakeTestCertificate({.subject = {{"CN", "x"}}}, &other),
       "signed by an unknown authority (CN = other CA)"},
      {"signed by itself", MakeTestCertificate({.subject = {{"CN", "self"}}}),
       "signed by an unknown authority (CN = self)"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    ScriptedServer peer(ServeEither, ScriptedServer::Tls{.certificate = c.server});
    {
      const auto client = OpenClient(Secure(peer, {.ca = pki.authority.certificate}));
      const std::string message = FailureOf(*client);
      EXPECT_CONTAINS(message, c.message);
      EXPECT_CONTAINS(message, peer.url());
      EXPECT_EQ(client->Stats().connections_failed, 1U);
    }
    const auto careless = OpenClient(Secure(peer, {.insecure_skip_verify = true}));
    EXPECT_TRUE(careless->Fetch({.target = "/x"}, kPatient).has_value());
  }
}

TEST(Client, VerifiesTheConfiguredServerName) {
  const Pki pki;
  const TestCertificate certificate =
      MakeTestCertificate({.names = "DNS:kubernetes.default"}, &pki.authority);
  ScriptedServer peer(ServeEither, ScriptedServer::Tls{.certificate = certificate});
  const auto client = OpenClient(
      Secure(peer, {.ca = pki.authority.certificate, .server_name = "kubernetes.default"}));
  EXPECT_TRUE(client->Fetch({.target = "/x"}, kPatient).has_value());
}

TEST(Client, SendsItsCertificate) {
  const Pki pki;
  Journal journal;
  ScriptedServer peer(NoteWho(journal), AskingWho(pki));
  const auto client = OpenClient(Secure(peer, {.ca = pki.authority.certificate,
                                               .certificate = pki.client.certificate,
                                               .key = pki.client.key}));
  EXPECT_TRUE(client->Fetch({.target = "/x"}, kPatient).has_value());
  EXPECT_EQ(journal.entries(), std::vector<std::string>{"alice"});
}

TEST(Client, ReportsAServerThatRequiresACertificate) {
  const Pki pki;
  constexpr int kTls12 = 0x0303;
  for (const int version : {0, kTls12}) {
    ScriptedServer peer(ServeEither, ScriptedServer::Tls{.certificate = pki.server,
                                                         .client_ca = pki.authority.certificate,
                                                         .max_version = version});
    const auto client = OpenClient(Secure(peer, {.ca = pki.authority.certificate}));
    const std::string message = FailureOf(*client);
    // If a server closes while the client is sending, the reset may discard its alert.
    if (message.find("reset") == std::string::npos) {
      EXPECT_CONTAINS(message, "the server requires a client certificate");
    }
    EXPECT_CONTAINS(message, peer.url());
  }
}

TEST(Client, ReportsInvalidTlsMaterial) {
  const Pki pki;
  const TestCertificate other = MakeTestCertificate({});
  const std::string bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  ScriptedServer peer(ServeEither, ScriptedServer::Tls{.certificate = pki.server});
  struct Case {
    ClientTls tls;
    const char* message;
  };
  const Case cases[] = {
      {{.ca = "rubbish"}, "the CA has no PEM certificate"},
      {{.ca = pki.authority.certificate + bad}, "or an invalid one"},
      {{.certificate = pki.client.certificate}, "no client key"},
      {{.key = pki.client.key}, "no client certificate"},
      {{.certificate = "rubbish", .key = pki.client.key}, "not a valid PEM certificate"},
      {{.certificate = pki.client.certificate + bad, .key = pki.client.key},
       "not a valid PEM certificate"},
      {{.certificate = pki.client.certificate, .key = "rubbish"}, "not a PEM private key"},
      {{.certificate = pki.client.certificate, .key = other.key}, "does not match"},
  };
  for (const Case& c : cases) {
    const auto client = OpenClient(Secure(peer, c.tls));
    EXPECT_CONTAINS(FailureOf(*client), c.message);
  }
  ClientOptions options = Plain(peer);
  options.tls = [] {
    return Result<ClientTls>(Status(StatusReason::kUnreachable, "cannot read /ca.crt"));
  };
  EXPECT_CONTAINS(FailureOf(*OpenClient(options)), "cannot read /ca.crt");
  EXPECT_EQ(peer.connections(), 0);
}

TEST(Client, UsesNewTlsMaterialForTheNextConnection) {
  const Pki pki;
  const TestCertificate bob =
      MakeTestCertificate({.subject = {{"CN", "bob"}}, .names = ""}, &pki.authority);
  Journal journal;
  Mutex mu;
  ClientTls tls{.ca = pki.authority.certificate,
                .certificate = pki.client.certificate,
                .key = pki.client.key};
  ScriptedServer peer(NoteWho(journal), AskingWho(pki));
  ClientOptions options = Plain(peer);
  options.tls = [&] {
    MutexLock lock(mu);
    return tls;
  };
  options.tls_check_interval = milliseconds(1);
  const auto client = OpenClient(options);
  EXPECT_TRUE(client->Fetch({.target = "/x"}, kPatient).has_value());
  {
    MutexLock lock(mu);
    tls.certificate = bob.certificate;
    tls.key = bob.key;
  }
  // Soon all calls use a connection that was made with it.
  while (journal.entries().size() < 2)
    ASSERT_TRUE(client->Fetch({.target = "/x"}, kPatient).has_value());
  EXPECT_EQ(journal.entries(), (std::vector<std::string>{"alice", "bob"}));
}

TEST(Client, ReportsAServerWithoutTls) {
  ScriptedServer peer([](ScriptedConnection& wire, int) {
    wire.ReadSome();
    wire.Write("HTTP/1.1 400 Bad Request\r\n\r\n");
    wire.AwaitEnd();
  });
  ClientOptions options;
  options.url = "https://127.0.0.1:" + std::to_string(peer.port());
  const auto client = OpenClient(options);
  EXPECT_CONTAINS(FailureOf(*client), options.url + ": the server does not use TLS");
}

TEST(Client, DoesNotAcceptAnEndWithoutCloseNotifyAsTheEndOfABody) {
  const Pki pki;
  for (const bool honest : {true, false}) {
    ScriptedServer peer(
        [&](ScriptedConnection& wire, int) {
          wire.ReadRequest();
          wire.Write("HTTP/1.1 200 OK\r\n\r\nuntil the end");
          if (honest) wire.CloseWrite();
        },
        ScriptedServer::Tls{.certificate = pki.server});
    const auto client = OpenClient(Secure(peer, {.ca = pki.authority.certificate}));
    const Result<Response> response = client->Fetch({.target = "/"}, kPatient);
    EXPECT_EQ(response.has_value(), honest);
    EXPECT_EQ(response.value_or(Response{}).body, honest ? "until the end" : "");
  }
}

}  // namespace
}  // namespace herald::http
