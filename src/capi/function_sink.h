#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>

#include "base/thread/mutex.h"
#include "herald/base/executor.h"
#include "herald/herald.h"
#include "herald/record/sink.h"

// What the sink's function has stored so far. Confined to the call that it is passed to.
struct herald_answer {
  int code = 200;
  std::optional<std::string> body{};
  std::string reason{};
  std::string message{};
  std::chrono::seconds retry_after{0};
};

namespace herald {

// A sink that calls a blocking C function. The function runs on a thread of the sink's own: on the
// broadcaster's thread it would delay everything else, and recorded events would fill the queue
// while a server is slow.
//
// Requests wait in a queue. Its length is limited by max_in_flight of the broadcasters.
//
// Thread-safe. Close() must be called before the destructor, which may then run on any thread,
// also on a broadcaster's thread that held the last reference.
class FunctionSink final : public Sink {
 public:
  FunctionSink(herald_write_function write, void* user_data)
      : write_(write), user_data_(user_data) {}

  void Send(SinkRequest request, Completion done) override EXCLUDES(mu_);

  // After this returns, the function is not running and is never called again, and every request
  // has been answered.
  void Close() EXCLUDES(mu_);

 private:
  struct Pending {
    SinkRequest request;
    Completion done;
  };

  void RunNext() EXCLUDES(mu_);
  Result<Event> Write(const SinkRequest& request) const;

  const herald_write_function write_;
  void* const user_data_;
  Mutex mu_;
  std::deque<Pending> waiting_ GUARDED_BY(mu_);
  bool closed_ GUARDED_BY(mu_) = false;
  Executor thread_;  // last, because its tasks use the members above
};

}  // namespace herald
