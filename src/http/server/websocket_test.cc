#include "http/server/websocket.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace herald::http {
namespace {

using State = WebSocketReader::State;

// A frame as clients send it: masked.
std::string FromClient(unsigned first, std::string_view payload) {
  const std::string mask = "\x12\x34\x56\x78";
  std::string out;
  AppendWebSocketFrame(WebSocketOpcode::kText, payload, &out);
  out.resize(out.size() - payload.size());
  out[0] = static_cast<char>(first);
  out[1] = static_cast<char>(static_cast<unsigned char>(out[1]) | 0x80U);
  out += mask;
  for (std::size_t i = 0; i < payload.size(); ++i)
    out.push_back(static_cast<char>(payload[i] ^ mask[i % 4]));
  return out;
}

TEST(WebSocket, AcceptsTheKeyOfTheRfcsExample) {
  EXPECT_EQ(WebSocketAccept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

TEST(WebSocket, WritesEachLengthInItsShortestForm) {
  struct Case {
    std::size_t length;
    std::string head;
  };
  for (const Case& c : {Case{0, std::string("\x81\x00", 2)}, Case{125, "\x81\x7d"},
                        Case{126, std::string("\x81\x7e\x00\x7e", 4)},
                        Case{65535, std::string("\x81\x7e\xff\xff", 4)},
                        Case{65536, std::string("\x81\x7f\0\0\0\0\0\1\0\0", 10)}}) {
    const std::string payload(c.length, 'x');
    std::string frame;
    AppendWebSocketFrame(WebSocketOpcode::kText, payload, &frame);
    EXPECT_EQ(frame, c.head + payload) << c.length;
  }
  std::string close;
  AppendWebSocketClose(WebSocketClose::kNormal, &close);
  EXPECT_EQ(close, "\x88\x02\x03\xe8");
}

TEST(WebSocket, ReportsPingsAndTheCloseFrameInPiecesOfAnySize) {
  const std::string input = FromClient(0x01, std::string(70'000, 'm')) + FromClient(0x89, "ping") +
                            FromClient(0x80, "rest") + FromClient(0x82, "") + FromClient(0x89, "") +
                            FromClient(0x8a, "pong") + FromClient(0x82, std::string(300, 'm')) +
                            FromClient(0x88, "\x03\xe8") + "not looked at";
  for (const std::size_t piece : {input.size(), std::size_t{1}, std::size_t{7}}) {
    WebSocketReader reader;
    std::vector<std::string> pings;
    for (std::size_t at = 0; at < input.size(); at += piece)
      reader.Receive(std::string_view(input).substr(at, piece),
                     [&](std::string_view payload) { pings.emplace_back(payload); });
    EXPECT_EQ(reader.state(), State::kClosed);
    EXPECT_EQ(pings, (std::vector<std::string>{"ping", ""}));
  }
}

TEST(WebSocket, RejectsFramesThatNoClientMaySend) {
  std::string unmasked;
  AppendWebSocketFrame(WebSocketOpcode::kText, "hello", &unmasked);
  const std::string too_long("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff", 10);
  for (const std::string& input :
       {unmasked, FromClient(0x83, "reserved opcode"), FromClient(0xc1, "reserved bit"),
        FromClient(0x09, "ping in pieces"), FromClient(0x89, std::string(126, 'p')),
        too_long + std::string(4, 'm')}) {
    WebSocketReader reader;
    EXPECT_EQ(reader.Receive(input, [](std::string_view) { FAIL() << "no ping was sent"; }),
              State::kBroken)
        << input.substr(0, 10);
  }
}

}  // namespace
}  // namespace herald::http
