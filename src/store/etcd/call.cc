#include "store/etcd/call.h"

#include "store/etcd/rpc.h"

namespace herald::store {

UnaryResult ToUnaryResult(const grpc::Status& status) {
  return {.code = static_cast<GrpcCode>(status.error_code()), .message = status.error_message()};
}

EtcdErrorInfo ClassifyResult(const UnaryResult& result) {
  EtcdErrorInfo error_info = ClassifyEtcdError(result.code, result.message);
  if (result.unprocessed) error_info.applied = EtcdErrorInfo::Applied::kNo;
  return error_info;
}

void EtcdCall::AttemptEnded(UnaryResult result) {
  result_ = std::move(result);
  rpc_->OnAttemptEnded(std::unique_ptr<EtcdCall>(this));
}

void EtcdTransaction::Reset() {
  response_.Clear();
  canceller_ = std::make_shared<UnaryChannel::Canceller>();
}

void EtcdTransaction::Send(AttemptTarget to) {
  to.write_channel->Start(
      {.method = "/etcdserverpb.KV/Txn",
       .timeout = std::chrono::duration_cast<std::chrono::milliseconds>(to.timeout),
       .token = std::move(to.token)},
      request_, &response_, canceller_,
      [this](UnaryResult result) { AttemptEnded(std::move(result)); });
}

}  // namespace herald::store
