#include <utility>

#include "base/thread/mutex.h"
#include "herald/record/sink.h"

namespace herald {
namespace {

class BlockingSink final : public Sink {
 public:
  explicit BlockingSink(std::function<Result<Event>(const SinkRequest&)> write)
      : write_(std::move(write)) {}

  void Send(SinkRequest request, Completion done) override {
    Result<Event> answer = Write(request);
    done(std::move(answer));
  }

 private:
  // Held while the function runs, because it runs one request at a time.
  Result<Event> Write(const SinkRequest& request) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return write_(request);
  }

  Mutex mu_;
  const std::function<Result<Event>(const SinkRequest&)> write_;
};

}  // namespace

std::shared_ptr<Sink> MakeBlockingSink(std::function<Result<Event>(const SinkRequest&)> write) {
  return std::make_shared<BlockingSink>(std::move(write));
}

}  // namespace herald
