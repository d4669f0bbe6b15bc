#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "herald/base/clock.h"
#include "herald/base/log.h"
#include "herald/record/broadcaster.h"
#include "record/channel.h"
#include "record/correlator.h"
#include "record/executor_lease.h"
#include "record/published.h"
#include "record/spool.h"

namespace herald {

// What to do about the answer to a request.
enum class Judgement : std::uint8_t {
  kDone,
  kCreateInstead,  // the event outlived its time on the server: make it anew
  kRetry,
  kReject,
  kRejectQuietly,  // refused for a reason that is nobody's fault
};

// client-go's rules (tools/record event.go recordEvent, tools/events
// event_broadcaster.go recordEvent), with the retries that it lacks unless
// `upstream_exact`: there any answer of the server is final, and a server that was
// merely busy loses the event.
Judgement Judge(const SinkRequest& request, const Status& status, bool upstream_exact);

// A Delivery carries the events of one sink from the broadcaster's channel to the
// server: correlated, in order, tried again where it makes sense, and accounted for.
//
// Its sequencer, a strand, owns the correlators and everything below. An event is
// correlated only when nothing about the same object is under way, because the answer
// to the last write (a name, a count) decides what the next one is. So events about
// one object stay in order, and an object that the server does not take holds up
// nobody but itself:
//
//   channel ──> waiting, by object ──> under way (at most max_in_flight)
//                      ^                   │ answered
//                      └──── sleeping <────┤ to be tried again
//                                          └──> outcome
//
// Up to kMaxAdmitted events wait for their turn, and as many behind writes that sleep;
// more of the latter are dropped. Of events that were counted only the number is kept,
// and whoever wants to know of them: where these become too many, the counts are written
// ahead of their time.
//
// Events whose recorder does not know yet through which API to write are held before all
// of this, among those that wait behind writes that sleep.
//
// With upstream_exact all old-style events count as being about one object, which is how
// client-go does it: one at a time, and everybody waits for the one that sleeps. Each of
// the new style counts as being about an object of its own.
//
// With a spool, what would be given up or lost goes to disk instead, as the request that
// it had become. What is on disk comes back a segment at a time, before whatever else
// waits for the same object, and counts as recorded anew. A segment leaves the disk when
// all of it was delivered. Where nothing of it could be, it stays as it is; where a part
// could, the rest goes behind everything else, or one bad event would hold up all.
//
// A patch from disk never lowers a count. Later writes may have reached the server since,
// from this process or an earlier one, and patches on disk may be in any order. So each is
// preceded by an empty patch, whose answer is the server's event, and is sent only if the
// server's count is lower. Between the two nothing else about the same object is written.
//
// Thread-safe; what is marked so runs on the strand alone.
class Delivery : public std::enable_shared_from_this<Delivery> {
 public:
  struct Setup {
    std::shared_ptr<Sink> sink;
    SinkOptions options;
    std::shared_ptr<ExecutorLease> executor;
    const Clock* clock = nullptr;
    LogFunction log;
    bool upstream_exact = false;
    std::unique_ptr<Spool> spool;  // null: none
    // How much of the sequencer's memory events may take, besides the channel's.
    std::size_t max_bytes = 16 << 20;
    std::function<void()> on_progress;  // something may have come to its end
  };

  explicit Delivery(Setup setup);

  // Where its events come from. To be called once, before anything else.
  void Attach(std::shared_ptr<Channel> channel);

  // The channel has something. Any thread.
  void Wake();

  // An event never came as far as the sequencer: the channel was full, or closed. Any
  // thread.
  void CountDropped(const Published& published);

  // For all events up to that epoch, which were offered by now. Once they are written,
  // so are the counts of open series. With `last`, nothing more is fetched from the
  // spool. Any thread.
  Ticket RequestFlush(std::uint32_t epoch, bool last);
  // Writes the counts of open series at once, whatever else is stuck. Any thread.
  void RequestCounts();

  // Whether every event that was offered has its outcome. Any thread.
  bool Idle() const;

  // Closes the channel and gives up everything that has no outcome yet: kLost, or
  // kSpooled. Any thread.
  void Abandon();

  // Outcomes and requests so far; `recorded` are only those that came back from disk,
  // and `in_flight` is the caller's to fill in, as only the broadcaster knows what was
  // recorded. Any thread.
  SinkStats Stats() const;
  const std::string& name() const { return options_.name; }

 private:
  struct Attempt;
  // Events that were counted but not yet written. They are many where something
  // repeats all the time, so only their number is kept, by epoch, and who wants to know.
  struct Merged {
    std::uint64_t count = 0;
    std::map<std::uint32_t, std::uint64_t> by_epoch{};
    std::vector<std::shared_ptr<const Interested>> interested{};
  };
  // A write without an event that was recorded just now.
  struct Due {
    Correlation correlation{};
    Merged carried{};                     // what its count contains
    std::optional<std::size_t> replay{};  // where in replay_, if it came back from disk
  };
  struct Object {
    std::deque<Published> waiting;
    std::deque<Due> due;               // to be written before what waits
    std::shared_ptr<Attempt> current;  // the write that is under way or sleeping
    bool parked = false;               // its events count as parked_, not as admitted_
  };
  struct Load {
    void Add(const Published& published);
    void Remove(const Published& published);

    std::size_t events = 0;
    std::size_t bytes = 0;
  };
  // How many events of an epoch have no outcome yet.
  struct Open {
    std::uint64_t work = 0;     // waiting or under way
    std::uint64_t counted = 0;  // in merged_
  };
  struct Flush {
    std::shared_ptr<std::atomic<bool>> done;
    std::uint32_t epoch = 0;
    bool all_taken = false;  // none of its events is in the channel
    bool counts_taken = false;
  };
  using Objects = std::unordered_map<std::string, Object>;
  // The segment of the spool that is being delivered.
  struct Replay {
    struct Write {
      SpooledWrite write{};
      bool delivered = false;  // or refused for good
    };
    std::vector<Write> writes{};
    std::size_t open = 0;  // how many are in objects_
    std::uint32_t epoch = 0;
  };

  // Lets a function run on the strand, and Pump() after it.
  void PostAndPump(std::function<void()> task);

  // All of these run on the strand.
  void Pump();
  void Admit(Published published);
  void Enter(Published published);
  // What an event is written as.
  std::shared_ptr<const Event> SpelledFor(const Published& published) const;
  // Holds an event until there is a choice of API; false if there is one.
  bool Hold(Published* published);
  void LetGo();
  // Whether the event of an attempt is to be written through another API than the one
  // that refused it.
  bool ChoseAnother(const Attempt& attempt) const;
  bool HasRoom(const Load& load) const;
  void Park(Object* object, bool park);
  void MarkReady(Objects::iterator object);
  void StartReady();
  void Start(Objects::iterator object);
  void Merge(const std::string& key, Published published);
  Merged TakeMerged(const std::string& key);
  void TakeDue(bool all);
  void ScheduleDue();
  void Send(const std::shared_ptr<Attempt>& attempt);
  void OnAnswer(const std::shared_ptr<Attempt>& attempt, Result<Event> answer);
  void Retry(const std::shared_ptr<Attempt>& attempt, const Status& why);
  void Finish(const std::shared_ptr<Attempt>& attempt, Outcome outcome, const Status& status);
  void Release(const std::shared_ptr<Attempt>& attempt);
  void Resolve(const Published& published, Outcome outcome, const Status& status);
  void Resolve(const Merged& merged, Outcome outcome, const Status& status);
  void EndWork(std::uint32_t epoch);
  void EraseIfEnded(std::map<std::uint32_t, Open>::iterator open);
  void CheckFlushes();
  // Puts what an attempt stands for on disk; false if it cannot be.
  bool Keep(SinkRequest request, std::uint64_t events);
  static SinkRequest RequestOf(const Attempt& attempt);
  static std::uint64_t EventsOf(const Attempt& attempt);
  void StartReplay();
  void ScheduleReplay();
  void EndReplayed(std::size_t index, Outcome outcome);
  void EndReplay();
  void KeepTheRest();
  void ReportLosses();
  void ScheduleReport(SteadyTime when);
  void AbandonHere();
  void UpdateIdle();

  std::string ObjectKey(const Event& event);
  Correlator& CorrelatorFor(const Event& event);
  std::chrono::nanoseconds RetryDelay(const Attempt& attempt, const Status& why);
  void Log(LogLevel level, std::string_view message, const Event& event,
           const Status& status) const;

  const SinkOptions options_;
  const Clock& clock_;
  const std::shared_ptr<ExecutorLease> executor_;
  const LogFunction log_;
  const bool upstream_exact_;
  const std::size_t max_bytes_;
  const std::function<void()> on_progress_;
  const std::unique_ptr<Spool> spool_;  // the strand's, but for its statistics
  std::shared_ptr<Channel> channel_;    // set once, by Attach()

  // Wakes that the sequencer has not answered yet. While there is one, idle_ is old.
  std::atomic<int> wakes_{0};
  std::atomic<bool> idle_{true};
  std::atomic<bool> report_posted_{false};
  std::atomic<bool> closing_{false};  // Abandon() was called
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> retries_{0};
  std::array<std::atomic<std::uint64_t>, kOutcomes> outcomes_{};
  std::atomic<std::uint64_t> come_back_{0};  // events from disk, before their outcome

  LeasedStrand strand_;

  // The rest belongs to the strand.
  std::shared_ptr<Sink> sink_;  // null once abandoned: it may hold whoever holds us
  const std::unique_ptr<Correlator> count_;
  const std::unique_ptr<Correlator> series_;
  Random random_;
  Objects objects_;                             // those with anything waiting or under way
  std::deque<std::string> ready_;               // objects with something waiting and not busy
  std::deque<std::shared_ptr<Attempt>> awake_;  // slept enough, waiting for a turn
  // What is taken in: what waits for its turn or is under way, and what waits behind a
  // write that sleeps. Each is bounded for itself, or else one object that the server
  // does not take would fill the whole and hold up all others.
  Load admitted_;
  Load parked_;
  std::deque<Published> undecided_;   // whose choice of API is not made; among parked_
  std::uint64_t object_numbers_ = 0;  // for keys that are never alike
  std::size_t under_way_ = 0;
  std::size_t sleeping_ = 0;
  std::unordered_map<std::string, Merged> merged_;  // by Correlation::key
  std::size_t interested_ = 0;                      // in all of merged_
  std::map<std::uint32_t, Open> open_;              // by epoch; none is empty
  std::vector<Flush> flushes_;
  std::uint32_t epoch_ = 0;        // the latest that was heard of
  std::uint32_t epoch_taken_ = 0;  // of the event that was taken last
  bool abandoned_ = false;
  std::optional<SteadyTime> due_timer_;

  // With a spool.
  Replay replay_;
  bool replay_wanted_ = false;
  bool replay_scheduled_ = false;
  bool draining_ = false;  // nothing more is fetched from disk

  // For the summary of what was lost.
  std::array<std::uint64_t, kOutcomes> reported_{};
  std::optional<SteadyTime> last_report_;
  bool report_scheduled_ = false;
};

}  // namespace herald
