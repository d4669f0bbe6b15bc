#include "server/access/authentication.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace herald::server {
namespace {

http::Request WithHeaders(http::Headers headers) {
  http::Request request;
  request.headers = std::move(headers);
  return request;
}

using AuthenticatorsPtr = std::shared_ptr<const Authenticators>;

// Requires that the authenticators return within the call.
Result<User> Authenticate(const AuthenticatorsPtr& authenticators, const http::Request& request,
                          const http::Peer& peer) {
  Result<User> found = Status(StatusReason::kUnknown, "not decided");
  Authenticate(authenticators, request, peer,
               [&found](Result<User> user) { found = std::move(user); });
  return found;
}

template <typename... T>
AuthenticatorsPtr List(T... authenticator) {
  auto list = std::make_shared<Authenticators>();
  (list->push_back(std::move(authenticator)), ...);
  return list;
}

AuthenticatorsPtr Tokens(std::string_view csv) {
  Result<std::unique_ptr<Authenticator>> tokens = MakeTokenAuthenticator(csv, "tokens.csv");
  if (tokens) return List(*std::move(tokens));
  ADD_FAILURE() << tokens.error().message();
  return List();
}

// Keeps the callbacks, so that the test decides when they are called.
class LateAuthenticator final : public Authenticator {
 public:
  void Authenticate(const http::Request&, const http::Peer&, Done done) const override {
    waiting.push_back(std::move(done));
  }
  mutable std::vector<Done> waiting;
};

TEST(Authenticate, WaitsForAnAuthenticatorAndThenAsksTheNext) {
  auto late = std::make_unique<LateAuthenticator>();
  const LateAuthenticator& remote = *late;
  const AuthenticatorsPtr list = List(std::unique_ptr<Authenticator>(std::move(late)),
                                      *MakeTokenAuthenticator("t,alice,17\n", "tokens.csv"));
  const http::Request request = WithHeaders({{"authorization", "Bearer t"}});
  const http::Peer peer;
  std::vector<std::string> names;
  const auto ask = [&] {
    Authenticate(list, request, peer, [&names](const Result<User>& user) {
      names.push_back(user ? user->name : user.error().message());
    });
  };
  ask();
  ask();
  ask();
  ASSERT_EQ(remote.waiting.size(), 3U);
  EXPECT_TRUE(names.empty());
  remote.waiting[0](std::optional<User>());
  remote.waiting[1](std::optional<User>(User{"bob", "", {}}));
  remote.waiting[2](Status(StatusReason::kUnauthorized, "revoked"));
  EXPECT_EQ(names, (std::vector<std::string>{"alice", "bob", "revoked"}));
  remote.waiting.clear();  // the callbacks keep the list, and with it the authenticator, alive
}

TEST(TokenAuthenticator, ReadsUserUidAndGroups) {
  const auto ways =
      Tokens("# people\nsecret-1,alice,17,\"system:masters, ops\"\r\n\nsecret-2,bob,\n");
  const Result<User> alice =
      Authenticate(ways, WithHeaders({{"authorization", "Bearer secret-1"}}), {});
  ASSERT_TRUE(alice.has_value());
  EXPECT_EQ(*alice, (User{"alice", "17", {"system:masters", "ops", "system:authenticated"}}));
  const Result<User> bob =
      Authenticate(ways, WithHeaders({{"authorization", "bearer secret-2 "}}), {});
  ASSERT_TRUE(bob.has_value());
  EXPECT_EQ(bob->name, "bob");
}

TEST(TokenAuthenticator, AcceptsATokenInAWebSocketSubprotocol) {
  const auto ways = Tokens("secret?>1,alice,17\n");
  const std::string token = "base64url.bearer.authorization.k8s.io.c2VjcmV0Pz4x";
  struct Case {
    std::string protocols;
    bool websocket;
    bool known;
  };
  for (const Case& c :
       {Case{token + ", mine", true, true}, Case{"mine," + token, true, true},
        Case{token, true, false}, Case{token + ", mine", false, false},
        Case{token + "," + token + ",mine", true, false}, Case{token + "=, mine", true, false},
        Case{token + "x, mine", true, false}, Case{"mine", true, false}}) {
    http::Request request = WithHeaders({{"sec-websocket-protocol", c.protocols}});
    request.websocket = c.websocket;
    EXPECT_EQ(Authenticate(ways, request, {}).has_value(), c.known) << c.protocols;
  }
  EXPECT_EQ(WebSocketProtocols(WithHeaders({{"sec-websocket-protocol", token + " ,, mine"},
                                            {"sec-websocket-protocol", "yours"}})),
            (std::vector<std::string>{"mine", "yours"}));
}

TEST(TokenAuthenticator, RejectsWrongAndMissingTokens) {
  const auto ways = Tokens("secret-1,alice,17\n");
  for (const http::Headers& headers :
       {http::Headers{}, http::Headers{{"authorization", "Bearer secret"}},
        http::Headers{{"authorization", "Bearer "}}, http::Headers{{"authorization", "Basic eDp5"}},
        http::Headers{{"authorization", "secret-1"}}}) {
    const Result<User> user = Authenticate(ways, WithHeaders(headers), {});
    ASSERT_FALSE(user.has_value());
    EXPECT_EQ(user.error().code(), 401);
    EXPECT_EQ(user.error().message(), "Unauthorized");
  }
}

TEST(TokenAuthenticator, ReportsTheNumberOfAnInvalidLine) {
  struct Case {
    const char* csv;
    const char* message;
  };
  const Case cases[] = {
      {"a,b\n", "t: line 1: must be token,user,uid and optionally \"group1,group2\""},
      {"a,b,c\n,b,c\n", "t: line 2: the token is empty"},
      {"a,,c\n", "t: line 1: the user is empty"},
      {"a,b,c,\"x\n", "t: line 1: a quote is not closed"},
      {"a,b,c\na,d,e\n", "t: line 2: the token is also in an earlier line"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(MakeTokenAuthenticator(c.csv, "t").error().message(), c.message);
}

TEST(CertificateAuthenticator, RejectsAFileWithoutCertificates) {
  EXPECT_FALSE(MakeCertificateAuthenticator("not PEM").has_value());
  EXPECT_FALSE(MakeRequestHeaderAuthenticator({}).has_value());
}

// A CA created for this test. Its key was deleted.
constexpr std::string_view kCa = R"(-----BEGIN CERTIFICATE-----
MIIBezCCASGgAwIBAgIUbM4Te3/ZMybnVKU/zaNgKkHdMiwwCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHdGVzdCBDQTAgFw0yNjExMTUyMzMyMTZaGA8yMTI2MTAyMjIz
MzIxNlowEjEQMA4GA1UEAwwHdGVzdCBDQTBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABLq/sRqMsWq0taFjem6iZQOev+JIgWQDp9gW/cSwgisf+BdMEyPi+GPRIuCH
Ap6W/5DQQyNGc3tkg5PJ4WYfcjGjUzBRMB0GA1UdDgQWBBTOvp7O0RMW3vFKtnXt
aRsgzvgWETAfBgNVHSMEGDAWgBTOvp7O0RMW3vFKtnXtaRsgzvgWETAPBgNVHRMB
Af8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQCJm5oq5pVIWbPClE6VEVkenLtW
BVcDO7HGIVck7mOsggIgCTBTPqC4VY1jqf1G386jIMSrbYnvxnBx9ikoMkP86Yo=
-----END CERTIFICATE-----)";
constexpr std::string_view kCaSha256 =
    "b6d24020e52e45980ba403dae3143d905dc1b9a9c12458e87bc8b51f6f708d73";

http::Peer PeerWith(std::string anchor, std::string name, std::vector<std::string> organizations) {
  http::Peer peer;
  peer.tls = true;
  peer.certificate = http::Peer::Certificate{.common_name = std::move(name),
                                             .organizations = std::move(organizations),
                                             .subject = "",
                                             .anchor_sha256 = std::move(anchor),
                                             .sha256 = "0a1b"};
  return peer;
}

TEST(CertificateAuthenticator, AcceptsOnlyCertificatesSignedByItsCa) {
  const AuthenticatorsPtr ways = List(*MakeCertificateAuthenticator(kCa));
  const Result<User> user =
      Authenticate(ways, {}, PeerWith(std::string(kCaSha256), "node-1", {"system:nodes"}));
  ASSERT_TRUE(user.has_value());
  EXPECT_EQ(*user, (User{"node-1",
                         "",
                         {"system:nodes", "system:authenticated"},
                         {{"authentication.kubernetes.io/credential-id", {"X509SHA256=0a1b"}}}}));
  EXPECT_FALSE(Authenticate(ways, {}, PeerWith("00", "node-1", {})).has_value());
  EXPECT_FALSE(Authenticate(ways, {}, PeerWith(std::string(kCaSha256), "", {})).has_value());
  EXPECT_FALSE(Authenticate(ways, {}, {}).has_value());
}

// A connection may stay open longer than its certificate is valid.
TEST(CertificateAuthenticator, AcceptsACertificateOnlyWhileItIsValid) {
  using std::chrono::seconds;
  FakeClock clock{WallTime(seconds(1'000))};
  http::Peer peer = PeerWith(std::string(kCaSha256), "jane", {});
  peer.certificate->not_before = std::chrono::sys_seconds(seconds(1'001));
  peer.certificate->not_after = std::chrono::sys_seconds(seconds(2'000));
  const http::Request request = WithHeaders({{"x-remote-user", "carol"}});
  const AuthenticatorsPtr certificates = List(*MakeCertificateAuthenticator(kCa, clock),
                                              *MakeTokenAuthenticator("t,bob,\n", "tokens.csv"));
  const AuthenticatorsPtr proxies =
      List(*MakeRequestHeaderAuthenticator({.ca = std::string(kCa), .clock = &clock}));
  const auto expect = [&](bool valid) {
    EXPECT_EQ(Authenticate(certificates, request, peer).has_value(), valid);
    EXPECT_EQ(Authenticate(proxies, request, peer).has_value(), valid);
  };
  expect(false);
  clock.Advance(seconds(1));
  expect(true);
  clock.Advance(seconds(999));
  expect(true);
  clock.Advance(std::chrono::nanoseconds(1));
  expect(false);
  EXPECT_EQ(Authenticate(certificates, request, peer).error().code(), 401);

  // Other credentials on the same connection are still accepted.
  const Result<User> bob =
      Authenticate(certificates, WithHeaders({{"authorization", "Bearer t"}}), peer);
  ASSERT_TRUE(bob.has_value());
  EXPECT_EQ(bob->name, "bob");

  // Some certificates are valid until the year 9999, which nanoseconds cannot express.
  peer.certificate->not_after = std::chrono::sys_seconds(seconds(253'402'300'799));
  expect(true);
}

TEST(RequestHeaderAuthenticator, TrustsTheHeadersOfAllowedProxiesOnly) {
  const AuthenticatorsPtr ways = List(
      *MakeRequestHeaderAuthenticator({.ca = std::string(kCa), .allowed_names = {"front-proxy"}}));
  const http::Request request = WithHeaders(
      {{"x-remote-user", "carol"}, {"x-remote-group", "dev"}, {"x-remote-group", "ops"}});
  const Result<User> user =
      Authenticate(ways, request, PeerWith(std::string(kCaSha256), "front-proxy", {}));
  ASSERT_TRUE(user.has_value());
  EXPECT_EQ(*user, (User{"carol", "", {"dev", "ops", "system:authenticated"}}));
  EXPECT_FALSE(
      Authenticate(ways, request, PeerWith(std::string(kCaSha256), "somebody", {})).has_value());
  EXPECT_FALSE(Authenticate(ways, request, PeerWith("00", "front-proxy", {})).has_value());
  EXPECT_FALSE(Authenticate(ways, request, {}).has_value());
  EXPECT_FALSE(
      Authenticate(ways, {}, PeerWith(std::string(kCaSha256), "front-proxy", {})).has_value());
}

TEST(RequestHeaderAuthenticator, KeepsTheGroupSystemUnauthenticatedOfTheProxy) {
  const AuthenticatorsPtr ways = List(*MakeRequestHeaderAuthenticator({.ca = std::string(kCa)}));
  const auto groups = [&](http::Headers headers) {
    return Authenticate(ways, WithHeaders(std::move(headers)),
                        PeerWith(std::string(kCaSha256), "p", {}))
        ->groups;
  };
  using Groups = std::vector<std::string>;
  EXPECT_EQ(groups({{"x-remote-user", "system:anonymous"}}), Groups{});
  EXPECT_EQ(groups({{"x-remote-user", "a"}, {"x-remote-group", "system:unauthenticated"}}),
            Groups{"system:unauthenticated"});
  EXPECT_EQ(groups({{"x-remote-user", "a"}, {"x-remote-group", "system:authenticated"}}),
            Groups{"system:authenticated"});
}

}  // namespace
}  // namespace herald::server
