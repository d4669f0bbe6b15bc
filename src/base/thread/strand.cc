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

// How many tasks run before the strand gives way to the executor's other work: enough
// that queueing up again costs little per task, and few enough that the others wait
// for microseconds.
constexpr std::size_t kTasksPerTurn = 64;

// What a queue keeps room for when it has run empty; a burst's memory beyond it is
// given back, because strands are many and mostly idle.
constexpr std::size_t kKeptTasks = 256;

}  // namespace

// A strand is idle, or it has exactly one turn, which is queued in the executor or
// runs:
//
//   idle --Post()--> queued --> runs --nothing left--> idle
//                      ^          |
//                      `----------' kTasksPerTurn have run, and some are left
//
// A turn that TryRun() takes runs in its caller, and is queued only if tasks were posted
// meanwhile. `has_turn_` is what tells the states apart, and whoever changes it from false to
// true queues the turn. It becomes false under the lock that has just shown that no
// task is left, so no task can be posted between and forgotten.
//
// Thread-safe; the members of the turn are confined to it, and it is handed from
// thread to thread by the executor.
class Strand::State {
 public:
  explicit State(Executor* executor) : executor_(*executor) {}

  Executor& executor() const { return executor_; }

  bool RunsHere() const {
    // Relaxed will do: a thread always sees what it wrote itself, and nobody else
    // writes its id.
    return runner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

  // Whether the caller has to queue a turn.
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

  // Runs a task in a turn that was taken. The result is that of RunTurn().
  bool RunOne(const Task& task) EXCLUDES(mu_) {
    runner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    task();
    if (!TakePosted()) return false;
    runner_.store(std::thread::id(), std::memory_order_relaxed);
    return true;
  }

  // Runs a turn's worth of tasks. False: none is left and the turn is over. True: the
  // caller still has the turn, and has to queue it again.
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

  // Destroys the tasks unrun and ends the turn, for there is nobody to run it.
  void DropTurn() EXCLUDES(mu_) {
    std::vector<Task> posted;
    std::vector<Task> taken;
    taken.swap(taken_);
    next_ = 0;
    MutexLock lock(mu_);
    posted.swap(posted_);
    has_turn_ = false;
    // The tasks are destroyed after the lock is released: `lock` is the last variable.
  }

 private:
  // Takes what was posted since the last time, or ends the turn if that is nothing.
  bool TakePosted() EXCLUDES(mu_) {
    taken_.clear();
    next_ = 0;
    if (taken_.capacity() > kKeptTasks) taken_ = std::vector<Task>();
    MutexLock lock(mu_);
    if (posted_.empty()) {
      // In this order: once there is no turn, another thread may begin one.
      runner_.store(std::thread::id(), std::memory_order_relaxed);
      has_turn_ = false;
      return false;
    }
    taken_.swap(posted_);
    return true;
  }

  Executor& executor_;

  // Of the turn.
  std::vector<Task> taken_;  // those before next_ have run
  std::size_t next_ = 0;

  std::atomic<std::thread::id> runner_ = {};

  // Guards all below. A leaf: no task runs or is destroyed under it.
  Mutex mu_;
  std::vector<Task> posted_ GUARDED_BY(mu_);
  bool has_turn_ GUARDED_BY(mu_) = false;
};

// A turn as a task of the executor. If it is destroyed without having run, which is
// what Stop() does, it takes the strand's tasks with it; else they would stay, and
// more would pile up, behind a turn that never comes.
class Strand::Turn {
 public:
  explicit Turn(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~Turn() {
    if (state_ != nullptr) state_->DropTurn();
  }
  Turn(Turn&&) = default;
  Turn& operator=(Turn&&) = delete;
  // std::function asks for it and an Executor has no use for it: a turn is one.
  Turn(const Turn&) : Turn(nullptr) { HERALD_CHECK(false, "a turn was copied"); }

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
  HERALD_CHECK(task != nullptr, "an empty task");
  // A copy, because the task may run, and destroy this Strand, before we return.
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
