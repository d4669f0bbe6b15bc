#include "herald/api/response_status.h"

#include <gtest/gtest.h>

#include <string>

#include "herald/api/codec.h"
#include "test/golden.h"

namespace herald {
namespace {

// Has an unknown reason, which we encode as the empty one.
constexpr std::string_view kUnknownReason = "judge-POST-Internal Server Error-application-json-36";
// Has neither version nor code. Our result has the default code of its reason.
constexpr std::string_view kWithoutCode = "judge-POST-Not Found-application-json-39";

TEST(StatusFromResponse, ReturnsTheStatusOfClientGo) {
  int judged = 0;
  for (const testing::Vector& vector : testing::LoadGolden("status.json")) {
    if (vector.at("kind") != "judge" || vector.at("ok").get<bool>()) continue;
    const std::string name = vector.at("name").get<std::string>();
    SCOPED_TRACE(name);
    const std::string body = testing::Bytes(vector, "body");
    const std::string verb = vector.at("verb").get<std::string>();
    const std::string content_type = vector.at("content_type").get<std::string>();
    const std::string retry_after = vector.value("retry_after", "");
    const Status status = StatusFromResponse({.verb = verb, .resource = "events", .name = "x"},
                                             {.http_code = vector.at("http_code").get<int>(),
                                              .content_type = content_type,
                                              .retry_after = retry_after,
                                              .body = body});
    ++judged;
    EXPECT_EQ(status.origin(), Status::Origin::kServer);
    EXPECT_EQ(status.code(), vector.at("http_code").get<int>());
    if (name == kUnknownReason || name == kWithoutCode) continue;
    std::string json;
    JsonCodec().AppendStatus(status, &json);
    EXPECT_EQ(json, testing::Bytes(vector, "status_json"));
  }
  EXPECT_GE(judged, 40);
}

TEST(StatusFromResponse, DecodesAProtobufStatus) {
  std::string body;
  ProtobufCodec().AppendStatus(Status(StatusReason::kExpired, "too old"), &body);
  const Status status = StatusFromResponse(
      {.verb = "GET", .resource = "events"},
      {.http_code = 410, .content_type = "application/vnd.kubernetes.protobuf", .body = body});
  EXPECT_TRUE(status.Is(StatusReason::kExpired));
  EXPECT_EQ(status.message(), "too old");
}

TEST(StatusFromResponse, NamesTheGroupOfTheResource) {
  const Status status = StatusFromResponse(
      {.verb = "PATCH", .group = "events.k8s.io", .resource = "events", .name = "x"},
      {.http_code = 404});
  EXPECT_EQ(status.message(),
            "the server could not find the requested resource (patch events.events.k8s.io x)");
}

}  // namespace
}  // namespace herald
