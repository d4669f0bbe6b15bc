#include "http/client/proxy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace herald::http {
namespace {

std::string Sent(ProxyClient& client) {
  std::string out;
  client.Send(&out);
  return out;
}

std::unique_ptr<ProxyClient> Socks(const std::string& host, std::string user_info = "") {
  return ProxyClient::Make(
      {.scheme = "socks5", .user_info = std::move(user_info), .host = "proxy", .port = 1080},
      {.scheme = "https", .host = host, .port = 6443});
}

// 6443 is 0x192b.
constexpr std::string_view kPort = "\x19\x2b";
constexpr std::string_view kGranted("\5\0\0\1\0\0\0\0\0\0", 10);

std::string Bytes(std::string_view bytes) { return std::string(bytes); }

TEST(SocksClient, SendsAddressesAndNames) {
  const struct {
    const char* host;
    std::string asked;
  } kCases[] = {
      {"10.0.0.1", Bytes({"\1\12\0\0\1", 5})},
      {"::1", Bytes({"\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 17})},
      {"server.invalid", Bytes("\3\16server.invalid")},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.host);
    const auto client = Socks(c.host);
    EXPECT_EQ(Sent(*client), Bytes({"\5\1\0", 3}));
    EXPECT_TRUE(client->Receive({"\5\0", 2}).ok());
    EXPECT_EQ(Sent(*client), Bytes({"\5\1\0", 3}) + c.asked + Bytes(kPort));
    EXPECT_FALSE(client->established());
    EXPECT_TRUE(client->Receive(kGranted).ok());
    EXPECT_TRUE(client->established());
    EXPECT_EQ(Sent(*client), "");
  }
}

TEST(SocksClient, AuthenticatesIfTheProxyAsksForIt) {
  const auto client = Socks("h", "user:pa:ss");
  EXPECT_EQ(Sent(*client), Bytes({"\5\2\0\2", 4}));
  EXPECT_TRUE(client->Receive("\5\2").ok());
  EXPECT_EQ(Sent(*client), "\1\4user\5pa:ss");
  EXPECT_TRUE(client->Receive({"\1\0", 2}).ok());
  EXPECT_EQ(Sent(*client), Bytes({"\5\1\0\3\1h", 6}) + Bytes(kPort));
}

TEST(SocksClient, AcceptsRepliesInAnyPieces) {
  // With a name as address, followed by the first bytes of the server.
  const std::string responses =
      Bytes({"\5\0", 2}) + Bytes({"\5\0\0\3\4name\0\0", 11}) + "first words";
  for (std::size_t size = 1; size <= responses.size(); ++size) {
    const auto client = Socks("h");
    std::string rest = responses;
    while (!client->established() && !rest.empty()) {
      ASSERT_TRUE(client->Receive(rest.substr(0, size)).ok());
      rest.erase(0, std::min(size, rest.size()));
    }
    ASSERT_TRUE(client->established()) << size;
    EXPECT_EQ(client->TakeTunnelBytes() + rest, "first words") << size;
  }
}

TEST(SocksClient, ReportsWhyThereIsNoTunnel) {
  const std::string welcome({"\5\0", 2});
  const struct {
    std::string user_info;
    std::string response;
    const char* why;
  } kCases[] = {
      {"", "HTTP/1.1 400", "does not support SOCKS5"},
      {"", Bytes("\4\0"), "does not support SOCKS5"},
      {"", Bytes("\5\xff"), "requires a user name and a password"},
      {"u:p", Bytes("\5\xff"), "does not support authentication"},
      {"", Bytes("\5\2"), "was not offered"},
      {"u:p", Bytes("\5\1"), "was not offered"},
      {"u:p", Bytes("\5\2\1\1"), "rejected the user name"},
      {std::string(256, 'u') + ":p", Bytes("\5\2"), "255 bytes"},
      {"", welcome + "HT", "does not support SOCKS5"},
      {"", welcome + "\5\5", "connection refused"},
      {"", welcome + "\5\2", "not allowed"},
      {"", welcome + "\5\x20", "error 32"},
      {"", welcome + Bytes({"\5\0\0\7\0", 5}), "invalid address type"},
  };
  for (const auto& c : kCases) {
    const Status status = Socks("h", c.user_info)->Receive(c.response);
    EXPECT_NE(status.message().find(c.why), std::string::npos) << status.message();
  }
  const Status status = Socks(std::string(256, 'h'))->Receive(welcome);
  EXPECT_NE(status.message().find("255 bytes"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace herald::http
