#include "store/etcd/unary_channel.h"

#include <gtest/gtest.h>

#include <string>

#include "store/etcd/etcd.pb.h"

namespace herald::store {
namespace {

namespace pb = etcdserverpb;

pb::StatusResponse Healthy() {
  pb::StatusResponse response;
  response.set_version("3.7.3");
  response.set_leader(1);
  return response;
}

// A response like etcd's.
http::Response Good() {
  return {.status = 200,
          .headers = {{"content-type", "application/grpc"}},
          .body = FrameGrpcMessage(Healthy()),
          .trailers = {{"grpc-status", "0"}, {"grpc-message", ""}}};
}

TEST(UnaryChannel, FramesMessagesWithTheirLength) {
  EXPECT_EQ(FrameGrpcMessage(pb::StatusResponse()), std::string(5, '\0'));
  pb::StatusResponse large;
  large.set_version(std::string(70'000, 'v'));
  const std::string frame = FrameGrpcMessage(large);
  EXPECT_EQ(frame.size(), 5 + large.ByteSizeLong());
  // 70,000 and four bytes for the field: 0x011174.
  EXPECT_EQ(frame.substr(0, 5), std::string("\0\0\x01\x11\x74", 5));
}

TEST(UnaryChannel, ParsesAResponse) {
  pb::StatusResponse response;
  const UnaryResult end = ParseUnaryResponse(Good(), &response);
  EXPECT_EQ(end.code, GrpcCode::kOk) << end.message;
  EXPECT_EQ(response.SerializeAsString(), Healthy().SerializeAsString());
}

TEST(UnaryChannel, ParsesErrorsAndRejectsMalformedResponses) {
  const auto trailers = [](std::string status, std::string message) {
    http::Response answer = Good();
    answer.body.clear();
    answer.trailers = {{"grpc-status", std::move(status)}, {"grpc-message", std::move(message)}};
    return answer;
  };
  const auto http = [](int status) {
    http::Response answer;
    answer.status = status;
    return answer;
  };
  const auto body = [](std::string bytes) {
    http::Response answer = Good();
    answer.body = std::move(bytes);
    return answer;
  };
  http::Response in_the_head;
  in_the_head.headers = {{"grpc-status", "14"}, {"grpc-message", "etcdserver: no leader"}};
  http::Response cut_off = Good();
  cut_off.trailers = {};

  struct Case {
    const char* name;
    http::Response answer;
    GrpcCode code;
    const char* message;
  };
  for (const Case& c : {
           Case{"an error", trailers("5", "etcdserver: requested lease not found"),
                GrpcCode::kNotFound, "etcdserver: requested lease not found"},
           Case{"error in the headers", in_the_head, GrpcCode::kUnavailable,
                "etcdserver: no leader"},
           Case{"percent-encoded", trailers("2", "50%25 %C3%A4"), GrpcCode::kUnknown,
                "50% \xC3\xA4"},
           Case{"invalid percent-encoding", trailers("2", "50%25 %zz"), GrpcCode::kUnknown,
                "50%25 %zz"},
           Case{"incomplete percent-encoding", trailers("2", "50%2"), GrpcCode::kUnknown, "50%2"},
           Case{"no grpc-message", trailers("13", ""), GrpcCode::kInternal, ""},
           Case{"not a number", trailers("x", ""), GrpcCode::kInternal,
                "invalid grpc-status \"x\""},
           Case{"number too large", trailers("999", ""), GrpcCode::kInternal,
                "invalid grpc-status \"999\""},
           Case{"no grpc-status", cut_off, GrpcCode::kInternal, "the response has no grpc-status"},
           Case{"not gRPC", http(404), GrpcCode::kUnimplemented, "HTTP status 404"},
           Case{"a proxy", http(503), GrpcCode::kUnavailable, "HTTP status 503"},
           Case{"unknown HTTP status", http(418), GrpcCode::kUnknown, "HTTP status 418"},
           Case{"no body", body(""), GrpcCode::kInternal, "the response has no message"},
           Case{"incomplete frame header", body(std::string(4, '\0')), GrpcCode::kInternal,
                "the response has no message"},
           Case{"compressed", body(std::string("\1\0\0\0\0", 5)), GrpcCode::kInternal,
                "the response is compressed without being requested"},
           Case{"incomplete message", body(std::string("\0\0\0\0\5abc", 8)), GrpcCode::kInternal,
                "the response must have exactly one message"},
           Case{"two messages", body(FrameGrpcMessage(Healthy()) + FrameGrpcMessage(Healthy())),
                GrpcCode::kInternal, "the response must have exactly one message"},
           Case{"invalid protobuf", body(std::string("\0\0\0\0\1\xff", 6)), GrpcCode::kInternal,
                "cannot parse the message of the response"},
       }) {
    SCOPED_TRACE(c.name);
    pb::StatusResponse response;
    const UnaryResult end = ParseUnaryResponse(c.answer, &response);
    EXPECT_EQ(end.code, c.code);
    EXPECT_EQ(end.message, c.message);
    EXPECT_FALSE(end.unprocessed);
  }
}

}  // namespace
}  // namespace herald::store
