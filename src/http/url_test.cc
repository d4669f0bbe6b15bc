#include "http/url.h"

#include <gtest/gtest.h>

namespace herald::http {
namespace {

TEST(ParseUrl, AcceptsUrlsOfKubeconfigFiles) {
  struct Case {
    const char* string;
    Url url;
    const char* authority;
  };
  const Case cases[] = {
      {"https://10.0.0.1:6443", {"https", "", "10.0.0.1", 6443, ""}, "10.0.0.1:6443"},
      {"https://host", {"https", "", "host", 443, ""}, "host"},
      {"http://host/", {"http", "", "host", 80, ""}, "host"},
      {"https://h/k8s/clusters/c-1/", {"https", "", "h", 443, "/k8s/clusters/c-1"}, "h"},
      {"https://[::1]:6443/x", {"https", "", "::1", 6443, "/x"}, "[::1]:6443"},
      {"http://a%40b:c@proxy:3128", {"http", "a@b:c", "proxy", 3128, ""}, "proxy:3128"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.string);
    const Result<Url> url = ParseUrl(c.string);
    ASSERT_TRUE(url.has_value()) << url.error().message();
    EXPECT_EQ(*url, c.url);
    EXPECT_EQ(url->authority(), c.authority);
  }
}

TEST(ParseUrl, ReportsTheReason) {
  for (const char* string :
       {"", "host:6443", "ftp://host", "https://", "https://:6443", "https://host:0",
        "https://host:65536", "https://host:x", "https://[::1", "https://[::1]x", "https://host/?q",
        "https://%zz@h"}) {
    const Result<Url> url = ParseUrl(string);
    ASSERT_FALSE(url.has_value()) << string;
    EXPECT_TRUE(url.error().Is(StatusReason::kBadRequest));
    EXPECT_NE(url.error().message().find(string), std::string::npos) << url.error().message();
  }
}

TEST(IsAddress, DistinguishesAddressesFromNames) {
  for (const char* address : {"127.0.0.1", "::1", "fe80::1"}) EXPECT_TRUE(IsAddress(address));
  for (const char* name : {"", "localhost", "127.0.0", "127.0.0.1.example", "[::1]"})
    EXPECT_FALSE(IsAddress(name)) << name;
}

TEST(ParseProxyUrl, AcceptsSocks) {
  for (const char* scheme : {"socks5", "socks5h"}) {
    const Result<Url> url = ParseProxyUrl(std::string(scheme) + "://u:p@proxy");
    ASSERT_TRUE(url.has_value()) << url.error().message();
    EXPECT_EQ(*url, (Url{scheme, "u:p", "proxy", 1080, ""}));
    EXPECT_FALSE(ParseUrl(std::string(scheme) + "://host").has_value());
  }
  EXPECT_TRUE(ParseProxyUrl("https://proxy").has_value());
  EXPECT_FALSE(ParseProxyUrl("socks4://proxy").has_value());
}

TEST(PercentDecode, RejectsIncompleteEscapes) {
  EXPECT_EQ(PercentDecode("a%2Fb%00"), std::string("a/b\0", 4));
  EXPECT_EQ(PercentDecode("a+b"), "a+b");
  EXPECT_EQ(PercentDecode("a+b", true), "a b");
  for (const char* string : {"%", "%4", "%4g", "a%"})
    EXPECT_EQ(PercentDecode(string), std::nullopt) << string;
}

TEST(PercentEncode, IsReversedByDecoding) {
  EXPECT_EQ(PercentEncode("a-._~Z9"), "a-._~Z9");
  EXPECT_EQ(PercentEncode("k=v,x y/\xff"), "k%3Dv%2Cx%20y%2F%FF");
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  EXPECT_EQ(PercentDecode(PercentEncode(all)), all);
}

TEST(ParseQuery, ReadsAsGoDoes) {
  using Pairs = Query;
  EXPECT_EQ(ParseQuery("limit=5&watch&x=&a%3Db=c+d"),
            (Pairs{{"limit", "5"}, {"watch", ""}, {"x", ""}, {"a=b", "c d"}}));
  EXPECT_EQ(ParseQuery("&&a=1&b=%zz&c;d=2&e=f=g"), (Pairs{{"a", "1"}, {"e", "f=g"}}));
  EXPECT_TRUE(ParseQuery("").empty());
}

TEST(SplitTarget, SplitsAtTheFirstQuestionMark) {
  EXPECT_EQ(SplitTarget("/a?b?c"), (std::pair<std::string_view, std::string_view>("/a", "b?c")));
  EXPECT_EQ(SplitTarget("/a"), (std::pair<std::string_view, std::string_view>("/a", "")));
}

}  // namespace
}  // namespace herald::http
