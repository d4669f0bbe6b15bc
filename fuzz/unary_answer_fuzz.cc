// Any status, message and body as a response of etcd are accepted or rejected with a reason, and an
// accepted response is encoded as the same bytes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "store/etcd/etcd.pb.h"
#include "store/etcd/unary_channel.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using herald::store::GrpcCode;
  // The first two lines are the status and the message, the rest is the body.
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const auto line = [&rest] {
    const std::size_t end = rest.find('\n');
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    return std::string(text);
  };
  herald::http::Response answer;
  answer.trailers.Add("grpc-status", line());
  answer.trailers.Add("grpc-message", line());
  answer.body = rest;

  etcdserverpb::TxnResponse response;
  const auto result = herald::store::ParseUnaryResponse(answer, &response);
  if (result.code != GrpcCode::kOk) return 0;
  etcdserverpb::TxnResponse again;
  answer.body = herald::store::FrameGrpcMessage(response);
  HERALD_CHECK(herald::store::ParseUnaryResponse(answer, &again).code == GrpcCode::kOk);
  HERALD_CHECK(again.SerializeAsString() == response.SerializeAsString());
  return 0;
}
