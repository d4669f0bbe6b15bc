#pragma once

#include <atomic>
#include <memory>

#include "herald/base/clock.h"
#include "herald/record/outcome.h"
#include "herald/record/sink.h"
#include "record/delivery/delivery_counters.h"
#include "record/delivery/event_write.h"
#include "record/delivery/retry_policy.h"
#include "record/delivery/write_log.h"
#include "record/executor_lease.h"

namespace herald {

// A WriteSender sends writes to the sink, and decides by the answers what comes next:
//
//   Send() ──> request ──> answer ──> owner: Finished, Postponed, Requeued or Sleeps
//                 ^           │
//                 └───────────┘ a create instead of a patch, or the patch after an empty patch
//
// A write that sleeps is sent again with Send(). Each try begins with the request that was
// intended.
//
// A sink may do what it likes: answer inside of the call, from any thread, twice, after it
// threw, after the next try was sent, or after Close(). The first answer to the latest request
// of a write counts, and no other.
//
// Thread-confined to the strand, but for Close() and closed().
class WriteSender {
 public:
  struct End {
    Outcome outcome = Outcome::kWritten;
    Status status{};
    const Event* answer = nullptr;  // set if the server wrote the request
    bool rejected = false;          // an error: the correlator drops the state of the write
  };

  // Is notified on the strand, last thing in an answer: it may send other writes.
  class Owner {
   public:
    virtual void OnFinished(const std::shared_ptr<EventWrite>& write, const End& end) = 0;
    // The count of a series was not written, and is tried at the next tick (upstream_exact).
    virtual void OnPostponed(const std::shared_ptr<EventWrite>& write) = 0;
    // The event was rejected through an API that is not chosen any more.
    virtual void OnRequeued(const std::shared_ptr<EventWrite>& write, const Status& status) = 0;
    virtual void OnSleeps(const std::shared_ptr<EventWrite>& write,
                          std::chrono::nanoseconds delay) = 0;

   protected:
    ~Owner() = default;
  };

  // All pointers are borrowed and outlive this.
  struct Setup {
    std::shared_ptr<Sink> sink;
    const SinkOptions* options = nullptr;
    bool upstream_exact = false;
    LeasedStrand* strand = nullptr;
    DeliveryCounters* counters = nullptr;
    const WriteLog* log = nullptr;
    Owner* owner = nullptr;
  };
  explicit WriteSender(Setup setup);
  WriteSender(const WriteSender&) = delete;
  WriteSender& operator=(const WriteSender&) = delete;

  // A pointer to this that keeps the owner alive as well: answers hold it weakly, because a sink
  // may keep its requests forever. To be called once, before Send().
  void SetSelf(const std::shared_ptr<WriteSender>& self) { self_ = self; }

  // REQUIRES: ReleaseSink() was not called
  void Send(const std::shared_ptr<EventWrite>& write);

  // Answers that come from now on are ignored. Any thread.
  void Close() { closed_ = true; }
  bool closed() const { return closed_; }
  // Ignores the answers that came before Close() as well. The sink may own what owns the owner, so
  // it must not be kept.
  void ReleaseSink() { sink_.reset(); }

 private:
  void OnAnswer(const std::shared_ptr<EventWrite>& write, const Result<Event>& answer);
  // Goes on after an empty patch, which was answered with the event on the server.
  void OnCount(const std::shared_ptr<EventWrite>& write, const Event& on_server);
  void Reject(const std::shared_ptr<EventWrite>& write, const Status& status);
  void Retry(const std::shared_ptr<EventWrite>& write, const Status& status);

  const bool upstream_exact_;
  LeasedStrand& strand_;
  DeliveryCounters& counters_;
  const WriteLog& log_;
  Owner& owner_;
  std::shared_ptr<Sink> sink_;
  RetryPolicy policy_;
  std::weak_ptr<WriteSender> self_;
  std::atomic<bool> closed_{false};
};

}  // namespace herald
