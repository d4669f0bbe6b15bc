#include "server/access/cors.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/testing/responder.h"

namespace herald::server {
namespace {

TEST(Cors, AllowsNothingByDefault) {
  EXPECT_FALSE(Cors().Allows("https://example.com"));
  EXPECT_TRUE(Cors().ResponseHeaders({{"origin", "https://example.com"}}).empty());
}

TEST(Cors, AllowsOriginsThatAnExpressionMatches) {
  const Cors cors = *Cors::Make({R"(//example\.com(:|$))", R"(^https://[a-z]+\.org$)"});
  for (const char* origin : {"https://example.com", "http://example.com:8080", "https://web.org"})
    EXPECT_TRUE(cors.Allows(origin)) << origin;
  for (const char* origin : {"https://example.com.evil.net", "https://not-example.com", "null", "",
                             "http://web.org", "https://web.org:1", "https://web.org\n"})
    EXPECT_FALSE(cors.Allows(origin)) << origin;
  EXPECT_EQ(
      cors.ResponseHeaders({{"origin", "https://web.org"}}),
      (http::Headers{{"access-control-allow-origin", "https://web.org"},
                     {"access-control-allow-methods", "POST, GET, OPTIONS, PUT, DELETE, PATCH"},
                     {"access-control-allow-headers",
                      "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, "
                      "X-Requested-With, If-Modified-Since"},
                     {"access-control-expose-headers", "Date"},
                     {"access-control-allow-credentials", "true"}}));
  EXPECT_TRUE(cors.ResponseHeaders({{"origin", "https://evil.net"}}).empty());
  EXPECT_TRUE(cors.ResponseHeaders({}).empty());
}

TEST(Cors, RejectsExpressionsThatAreInvalidOrNotAnchored) {
  struct Case {
    const char* expression;
    const char* error;
  };
  for (const Case& c : {Case{"", "empty value"},
                        Case{"^https://(example$", "invalid regular expression: missing )"},
                        Case{"example.com", "does not pin to start/end of host"},
                        Case{"//example.com", "does not pin to start/end of host"},
                        Case{"example.com$", "does not pin to start/end of host"}}) {
    const Result<Cors> cors = Cors::Make({"//ok$", c.expression});
    ASSERT_FALSE(cors.has_value()) << c.expression;
    EXPECT_NE(cors.error().message().find(c.error), std::string::npos) << cors.error().message();
  }
}

TEST(Cors, HeadersAreAddedToEveryKindOfResponse) {
  const http::Headers added{{"access-control-allow-origin", "https://a"}};
  const auto whole = std::make_shared<TestResponder>();
  AddHeaders(whole, added)->Send({.status = 200, .headers = {{"content-type", "x"}}, .body = "b"});
  EXPECT_EQ(whole->header("access-control-allow-origin"), "https://a");
  EXPECT_EQ(whole->header("content-type"), "x");
  EXPECT_EQ(whole->body(), "b");

  const auto stream = std::make_shared<TestResponder>();
  const auto responder = AddHeaders(stream, added);
  responder->Start({.status = 200});
  responder->Write(std::make_shared<const std::string>("piece"));
  responder->End();
  EXPECT_EQ(stream->header("access-control-allow-origin"), "https://a");
  EXPECT_EQ(stream->body(), "piece");
  EXPECT_TRUE(stream->ended());

  const auto websocket = std::make_shared<TestResponder>();
  AddHeaders(websocket, added)->Start({.status = 101});
  EXPECT_EQ(websocket->header("access-control-allow-origin"), "");
}

}  // namespace
}  // namespace herald::server
