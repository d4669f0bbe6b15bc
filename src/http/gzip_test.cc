#include "http/gzip.h"

#include <gtest/gtest.h>

#include <string>

namespace herald::http {
namespace {

std::string LongBody() {
  std::string body;
  for (int i = 0; i < 50'000; ++i) body += std::to_string(i) + ",";
  return body;
}

std::string DecodeAll(std::string_view compressed) {
  GzipDecoder decoder;
  std::string out;
  const Status status = decoder.Decode(compressed, [&out](std::string_view piece) {
    out += piece;
    return true;
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(decoder.End().ok()) << decoder.End().ToString();
  return out;
}

TEST(Gzip, DecodesAWholeBody) {
  for (const std::string& body : {std::string(), std::string("a"), LongBody()}) {
    GzipEncoder encoder(1);
    ASSERT_TRUE(encoder.usable());
    EXPECT_EQ(DecodeAll(encoder.Encode(body, true)), body);
  }
}

TEST(Gzip, DecodesABodyThatWasEncodedInPieces) {
  const std::string body = LongBody();
  for (const std::size_t piece : {std::size_t{1'000}, std::size_t{100'000}}) {
    GzipEncoder encoder(1);
    std::string compressed;
    for (std::size_t at = 0; at < body.size(); at += piece)
      compressed += encoder.Encode(std::string_view(body).substr(at, piece), false);
    compressed += encoder.Encode("", true);
    EXPECT_LT(compressed.size(), body.size());
    EXPECT_EQ(DecodeAll(compressed), body);
  }
}

TEST(Gzip, ReportsAnIncompleteBody) {
  GzipEncoder encoder(1);
  std::string compressed = encoder.Encode("hello", true);
  compressed.pop_back();
  GzipDecoder decoder;
  EXPECT_TRUE(decoder.Decode(compressed, [](std::string_view) { return true; }).ok());
  EXPECT_TRUE(decoder.End().Is(StatusReason::kUnreachable));
}

}  // namespace
}  // namespace herald::http
