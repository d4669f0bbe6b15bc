#include "server/authentication.h"

#include <gtest/gtest.h>

namespace herald::server {
namespace {

http::Request WithHeaders(http::Headers headers) {
  http::Request request;
  request.headers = std::move(headers);
  return request;
}

std::vector<std::unique_ptr<Authenticator>> Tokens(std::string_view csv) {
  std::vector<std::unique_ptr<Authenticator>> ways;
  Result<std::unique_ptr<Authenticator>> tokens = MakeTokenAuthenticator(csv, "tokens.csv");
  if (tokens) {
    ways.push_back(*std::move(tokens));
  } else {
    ADD_FAILURE() << tokens.error().message();
  }
  return ways;
}

TEST(TokenAuthenticator, KnowsUserUidAndGroups) {
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

TEST(TokenAuthenticator, TakesATokenThatAWebSocketNamesAsASubprotocol) {
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

TEST(TokenAuthenticator, RefusesWrongAndMissingTokens) {
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

TEST(TokenAuthenticator, NamesTheBadLine) {
  struct Case {
    const char* csv;
    const char* message;
  };
  const Case cases[] = {
      {"a,b\n", "t: line 1: must be token,user,uid and optionally \"group1,group2\""},
      {"a,b,c\n,b,c\n", "t: line 2: the token is empty"},
      {"a,,c\n", "t: line 1: the user is empty"},
      {"a,b,c,\"x\n", "t: line 1: a quote is not closed"},
      {"a,b,c\na,d,e\n", "t: line 2: the token was given before"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(MakeTokenAuthenticator(c.csv, "t").error().message(), c.message);
}

TEST(CertificateAuthenticator, RefusesAFileWithoutCertificates) {
  EXPECT_FALSE(MakeCertificateAuthenticator("not PEM").has_value());
  EXPECT_FALSE(MakeRequestHeaderAuthenticator({}).has_value());
}

// A CA that was made for this test; its key is gone.
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
                                             .anchor_sha256 = std::move(anchor)};
  return peer;
}

TEST(CertificateAuthenticator, TakesNamesFromCertificatesOfItsOwnCaOnly) {
  std::vector<std::unique_ptr<Authenticator>> ways;
  ways.push_back(*MakeCertificateAuthenticator(kCa));
  const Result<User> user =
      Authenticate(ways, {}, PeerWith(std::string(kCaSha256), "node-1", {"system:nodes"}));
  ASSERT_TRUE(user.has_value());
  EXPECT_EQ(*user, (User{"node-1", "", {"system:nodes", "system:authenticated"}}));
  EXPECT_FALSE(Authenticate(ways, {}, PeerWith("00", "node-1", {})).has_value());
  EXPECT_FALSE(Authenticate(ways, {}, PeerWith(std::string(kCaSha256), "", {})).has_value());
  EXPECT_FALSE(Authenticate(ways, {}, {}).has_value());
}

TEST(RequestHeaderAuthenticator, BelievesTheProxyAndNobodyElse) {
  std::vector<std::unique_ptr<Authenticator>> ways;
  ways.push_back(
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

}  // namespace
}  // namespace herald::server
