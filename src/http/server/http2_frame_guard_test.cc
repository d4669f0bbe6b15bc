#include "http/server/http2_frame_guard.h"

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <string>

namespace herald::http {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// A frame whose payload is `length` zeros.
std::string Frame(std::uint8_t type, std::uint8_t flags, std::uint32_t id, std::size_t length = 0) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame += static_cast<char>(length >> shift);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(id >> shift);
  return frame + std::string(length, '\0');
}

class Http2FrameGuardTest : public testing::Test {
 protected:
  Http2FrameGuardTest() { EXPECT_FALSE(Check(kPreface)); }

  std::optional<Http2FrameGuard::Violation> Check(std::string_view bytes) {
    return guard_.Check(bytes, now_);
  }

  SteadyTime now_{};
  Http2FrameGuard guard_{{.max_continuations = 2, .max_block_bytes = 100}};
};

constexpr std::uint8_t kEndHeaders = NGHTTP2_FLAG_END_HEADERS;
constexpr std::uint8_t kEndAll = NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM;

TEST_F(Http2FrameGuardTest, CountsTheFramesOfEachBlock) {
  const std::string more = Frame(NGHTTP2_CONTINUATION, 0, 1);
  EXPECT_FALSE(Check(Frame(NGHTTP2_HEADERS, 0, 1) + more +
                     Frame(NGHTTP2_CONTINUATION, kEndHeaders, 1) + Frame(NGHTTP2_HEADERS, 0, 3) +
                     more + more));
  const auto violation = Check(more);
  ASSERT_TRUE(violation);
  EXPECT_EQ(violation->code, static_cast<std::uint32_t>(NGHTTP2_ENHANCE_YOUR_CALM));
}

TEST_F(Http2FrameGuardTest, CountsTheBytesOfEachBlock) {
  EXPECT_FALSE(
      Check(Frame(NGHTTP2_HEADERS, kEndHeaders, 1, 100) + Frame(NGHTTP2_HEADERS, 0, 3, 60)));
  EXPECT_FALSE(Check(Frame(NGHTTP2_CONTINUATION, 0, 3, 40)));
  EXPECT_TRUE(Check(Frame(NGHTTP2_CONTINUATION, kEndHeaders, 3, 1)));
}

TEST_F(Http2FrameGuardTest, ReportsTheOffsetOfTheViolation) {
  const std::string good = Frame(NGHTTP2_HEADERS, kEndAll, 1, 5);
  const std::string bad = Frame(NGHTTP2_DATA, 0, 1, 5);
  const auto violation = Check(good + bad);
  ASSERT_TRUE(violation);
  EXPECT_EQ(violation->at, good.size());
}

TEST_F(Http2FrameGuardTest, GivesTheSameResultByteByByteAsInOnePiece) {
  const std::string all = Frame(NGHTTP2_SETTINGS, 0, 0, 6) + Frame(NGHTTP2_HEADERS, 0, 1, 20) +
                          Frame(NGHTTP2_CONTINUATION, kEndHeaders, 1, 20) +
                          Frame(NGHTTP2_PRIORITY, 0, 1, 5) + Frame(NGHTTP2_RST_STREAM, 0, 1, 4) +
                          Frame(NGHTTP2_DATA, 0, 1);
  for (std::size_t i = 0; i + 1 < all.size(); ++i)
    ASSERT_FALSE(Check({&all[i], 1})) << "at byte " << i;
  const auto violation = Check({&all.back(), 1});
  ASSERT_TRUE(violation);
  EXPECT_EQ(violation->at, 0U);
}

TEST_F(Http2FrameGuardTest, ReportsWhenABlockBegan) {
  EXPECT_FALSE(guard_.in_block());
  now_ += std::chrono::seconds(5);
  const SteadyTime began = now_;
  const std::string headers = Frame(NGHTTP2_HEADERS, 0, 1, 10);
  Check(std::string_view(headers).substr(0, 9));
  EXPECT_TRUE(guard_.in_block());
  now_ += std::chrono::seconds(5);
  Check(std::string_view(headers).substr(9));
  EXPECT_TRUE(guard_.in_block());
  const std::string last = Frame(NGHTTP2_CONTINUATION, kEndHeaders, 1, 10);
  Check(std::string_view(last).substr(0, 18));
  EXPECT_TRUE(guard_.in_block());
  EXPECT_EQ(guard_.block_since(), began);
  Check(std::string_view(last).substr(18));
  EXPECT_FALSE(guard_.in_block());
  // The payload of another frame is not a block.
  Check(std::string_view(Frame(NGHTTP2_DATA, 0, 1, 10)).substr(0, 12));
  EXPECT_FALSE(guard_.in_block());
}

TEST_F(Http2FrameGuardTest, RemembersTheLastStreamsThatEnded) {
  constexpr std::uint32_t kOpened = Http2FrameGuard::kEndedStreams + 1;
  for (std::uint32_t i = 0; i < kOpened; ++i)
    ASSERT_FALSE(Check(Frame(NGHTTP2_HEADERS, kEndAll, 2 * i + 1)));
  EXPECT_FALSE(Check(Frame(NGHTTP2_DATA, 0, 1))) << "forgotten";
  EXPECT_TRUE(Check(Frame(NGHTTP2_DATA, 0, 3)));
}

TEST_F(Http2FrameGuardTest, ARepeatedEndIsRememberedOnce) {
  ASSERT_FALSE(Check(Frame(NGHTTP2_HEADERS, kEndAll, 1) + Frame(NGHTTP2_HEADERS, kEndAll, 3)));
  for (std::size_t i = 0; i < Http2FrameGuard::kEndedStreams; ++i)
    ASSERT_FALSE(Check(Frame(NGHTTP2_RST_STREAM, 0, 3, 4)));
  EXPECT_TRUE(Check(Frame(NGHTTP2_DATA, 0, 1)));
}

TEST_F(Http2FrameGuardTest, AllowsFramesThatMayFollowTheEnd) {
  EXPECT_FALSE(Check(Frame(NGHTTP2_HEADERS, kEndAll, 1) + Frame(NGHTTP2_WINDOW_UPDATE, 0, 1, 4) +
                     Frame(NGHTTP2_PRIORITY, 0, 1, 5) + Frame(NGHTTP2_RST_STREAM, 0, 1, 4)));
}

TEST_F(Http2FrameGuardTest, AllowsATrailer) {
  EXPECT_FALSE(Check(Frame(NGHTTP2_HEADERS, kEndHeaders, 1) + Frame(NGHTTP2_DATA, 0, 1, 3) +
                     Frame(NGHTTP2_HEADERS, kEndAll, 1)));
}

TEST_F(Http2FrameGuardTest, SkippedIdsMustNotBeUsedLater) {
  // As nghttp does, which uses the ids before 13 for priority groups.
  EXPECT_FALSE(Check(Frame(NGHTTP2_PRIORITY, 0, 3, 5) + Frame(NGHTTP2_HEADERS, kEndAll, 13) +
                     Frame(NGHTTP2_HEADERS, kEndAll, 15)));
  const auto violation = Check(Frame(NGHTTP2_HEADERS, kEndAll, 11));
  ASSERT_TRUE(violation);
  EXPECT_EQ(violation->code, static_cast<std::uint32_t>(NGHTTP2_PROTOCOL_ERROR));
}

}  // namespace
}  // namespace herald::http
