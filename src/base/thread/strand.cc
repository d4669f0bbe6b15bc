#include "base/thread/strand.h"

#include <atomic>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/thread/mutex.h"

namespace herald {
namespace {

// The number of tasks in a turn: enough that queueing again costs little per task, and few enough
// that other tasks of the executor wait only for microseconds.
constexpr std::size_t kTasksPerTurn = 64;

// The capacity, in tasks, that an empty queue keeps. Larger buffers are freed, because there are
// many strands and most are idle.
constexpr std::size_t kKeptTasks = 256;

}  // namespace

// A strand is idle, or it has exactly one turn, which is queued in the executor or running:
//
//   idle --Post()--> queued --> runs --no task left--> idle
//                      ^          |
//                      `----------' kTasksPerTurn have run, and tasks are left
//
// A turn of TryRun() runs in its caller and is queued only if tasks were posted in the meantime.
// `has_turn_` is true unless the strand is idle; the thread that sets it to true queues the turn.
// It is set to false under the same lock under which no task was left, so that no task is lost.
//
// Thread-safe. The members of the turn are used only by the turn, which the executor passes from
// thread to thread.
class Strand::State {
 public:
  explicit State(Executor* executor) : executor_(*executor) {}

  Executor& executor() const { return executor_; }

  bool RunsHere() const {
    // Relaxed is enough: a thread sees its own writes, and no other thread writes its id.
    return runner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

  // Returns whether the caller has to queue a turn.
  bool Add(Task&& task) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    posted_.push_back(std::move(task));
    return !std::exchange(has_turn_, true);
  }

  // Takes the turn of an idle strand.
  bool TakeTurn() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return !std::exchange(has_turn_, true);
  }

  // Runs a task in a turn that TakeTurn() took. Returns the same as RunTurn().
  bool RunOne(const Task& task) EXCLUDES(mu_) {
    runner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    task();
    if (!TakePosted()) return false;
    runner_.store(std::thread::id(), std::memory_order_relaxed);
    return true;
  }

  // Runs the tasks of one turn. False: no task is left and the turn has ended. True: the caller has
  // to queue the turn again.
  bool RunTurn() EXCLUDES(mu_) {
    runner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    for (std::size_t count = 0;; ++count) {
      if (next_ == taken_.size() && !TakePosted()) return false;
      if (count == kTasksPerTurn) break;
      Task task;
      task.swap(taken_[next_++]);
      task();
    }
    runner_.store(std::thread::id(), std::memory_order_relaxed);
    return true;
  }

  // Destroys all tasks and ends the turn, because the executor has stopped.
  void DropTurn() EXCLUDES(mu_) {
    std::vector<Task> posted;
    std::vector<Task> taken;
    taken.swap(taken_);
    next_ = 0;
    MutexLock lock(mu_);
    posted.swap(posted_);
    has_turn_ = false;
    // The tasks are destroyed after the lock is released, because `lock` is the last variable.
  }

 private:
  // Takes the tasks that were posted since the last call, or ends the turn if there are none.
  bool TakePosted() EXCLUDES(mu_) {
    taken_.clear();
    next_ = 0;
    if (taken_.capacity() > kKeptTasks) taken_ = std::vector<Task>();
    MutexLock lock(mu_);
    if (posted_.empty()) {
      // In this order, because another thread may begin a turn as soon as has_turn_ is false.
      runner_.store(std::thread::id(), std::memory_order_relaxed);
      has_turn_ = false;
      return false;
    }
    taken_.swap(posted_);
    return true;
  }

  Executor& executor_;

  // Used only by the turn.
  std::vector<Task> taken_;  // those before next_ have run
  std::size_t next_ = 0;

  std::atomic<std::thread::id> runner_ = {};

  // Guards all below. No other lock is taken, and no task runs or is destroyed, under it.
  Mutex mu_;
  std::vector<Task> posted_ GUARDED_BY(mu_);
  bool has_turn_ GUARDED_BY(mu_) = false;
};

// A turn as a task of the executor. If Stop() destroys it before it has run, it destroys the
// strand's tasks, too; otherwise they would wait forever for their turn.
class Strand::Turn {
 public:
  explicit Turn(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~Turn() {
    if (state_ != nullptr) state_->DropTurn();
  }
  Turn(Turn&&) = default;
  Turn& operator=(Turn&&) = delete;
  // Required by std::function, but never called by the Executor.
  Turn(const Turn&) : Turn(nullptr) { HERALD_CHECK(false, "a turn must not be copied"); }

  void operator()() {
    std::shared_ptr<State> state = std::move(state_);
    if (!state->RunTurn()) return;
    Executor& executor = state->executor();
    executor.Post(Turn(std::move(state)));
  }

 private:
  std::shared_ptr<State> state_;
};

Strand::Strand(Executor* executor) : state_(std::make_shared<State>(executor)) {}

Strand::~Strand() = default;

void Strand::Post(Task task) {
  HERALD_CHECK(task != nullptr, "the task must not be empty");
  // A copy, because the task may run and destroy this Strand before this function returns.
  std::shared_ptr<State> state = state_;
  if (!state->Add(std::move(task))) return;
  Executor& executor = state->executor();
  executor.Post(Turn(std::move(state)));
}

bool Strand::TryRun(const Task& task) {
  std::shared_ptr<State> state = state_;
  if (!state->TakeTurn()) return false;
  if (state->RunOne(task)) {
    Executor& executor = state->executor();
    executor.Post(Turn(std::move(state)));
  }
  return true;
}

bool Strand::RunsHere() const { return state_->RunsHere(); }

}  // namespace herald
