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

// As etcd answers.
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

TEST(UnaryChannel, ReadsAnAnswer) {
  pb::StatusResponse response;
  const UnaryEnd end = ReadUnaryAnswer(Good(), &response);
  EXPECT_EQ(end.code, GrpcCode::kOk) << end.message;
  EXPECT_EQ(response.SerializeAsString(), Healthy().SerializeAsString());
}

TEST(UnaryChannel, ReadsWhyThereIsNone) {
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
           Case{"at once", in_the_head, GrpcCode::kUnavailable, "etcdserver: no leader"},
           Case{"percents", trailers("2", "50%25 %C3%A4"), GrpcCode::kUnknown, "50% \xC3\xA4"},
           Case{"no percents", trailers("2", "50%25 %zz"), GrpcCode::kUnknown, "50%25 %zz"},
           Case{"half of one", trailers("2", "50%2"), GrpcCode::kUnknown, "50%2"},
           Case{"no message", trailers("13", ""), GrpcCode::kInternal, ""},
           Case{"no number", trailers("x", ""), GrpcCode::kInternal, "grpc-status is no number: x"},
           Case{"too large a number", trailers("999", ""), GrpcCode::kInternal,
                "grpc-status is no number: 999"},
           Case{"no status", cut_off, GrpcCode::kInternal, "the answer has no grpc-status"},
           Case{"no gRPC", http(404), GrpcCode::kUnimplemented, "HTTP status 404"},
           Case{"a proxy", http(503), GrpcCode::kUnavailable, "HTTP status 503"},
           Case{"a teapot", http(418), GrpcCode::kUnknown, "HTTP status 418"},
           Case{"no body", body(""), GrpcCode::kInternal, "the answer holds no message"},
           Case{"half a head", body(std::string(4, '\0')), GrpcCode::kInternal,
                "the answer holds no message"},
           Case{"compressed", body(std::string("\1\0\0\0\0", 5)), GrpcCode::kInternal,
                "the answer is compressed, and nobody asked for that"},
           Case{"cut", body(std::string("\0\0\0\0\5abc", 8)), GrpcCode::kInternal,
                "the answer is not one message"},
           Case{"two", body(FrameGrpcMessage(Healthy()) + FrameGrpcMessage(Healthy())),
                GrpcCode::kInternal, "the answer is not one message"},
           Case{"no message of ours", body(std::string("\0\0\0\0\1\xff", 6)), GrpcCode::kInternal,
                "the answer's message cannot be read"},
       }) {
    SCOPED_TRACE(c.name);
    pb::StatusResponse response;
    const UnaryEnd end = ReadUnaryAnswer(c.answer, &response);
    EXPECT_EQ(end.code, c.code);
    EXPECT_EQ(end.message, c.message);
    EXPECT_FALSE(end.untouched);
  }
}

}  // namespace
}  // namespace herald::store
