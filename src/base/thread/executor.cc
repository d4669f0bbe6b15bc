#include "herald/base/executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/thread/mutex.h"
#include "base/thread/thread_name.h"

namespace herald {
namespace {

// How many tasks a lone thread takes per lock. With more threads it is one, because
// a task behind a slow one in a batch would wait while another thread sleeps; a lone
// thread keeps nobody from anything.
constexpr std::size_t kBatch = 64;

// Queues keep their memory for this many entries when they run empty, so that steady
// work does not allocate, and give back what a burst has taken beyond it.
constexpr std::size_t kKeptEntries = 4096;

// The longest that a thread sleeps for one timer before it looks again. Any value
// would do; it keeps sums of "now" and "never" from overflowing.
constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::hours(1);

// The executor whose task the thread is in, or whose dropped tasks it destroys. Only
// compared, never followed: it is there to name a mistake that would be a deadlock.
thread_local const void* running_here = nullptr;

// A first-in-first-out queue of tasks in a ring that grows by doubling: std::deque
// would allocate for every 16th task, also when the queue is always short. Never runs
// or destroys a task, except those left in it at its end. Thread-confined.
class TaskRing {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  void Push(Executor::Task&& task) {
    if (size_ == slots_.size()) Grow();
    slots_[(head_ + size_) & (slots_.size() - 1)].swap(task);
    ++size_;
  }

  // REQUIRES: !empty()
  Executor::Task Pop() {
    Executor::Task task;
    task.swap(slots_[head_]);
    head_ = (head_ + 1) & (slots_.size() - 1);
    if (--size_ == 0 && slots_.size() > kKeptEntries) {
      slots_ = std::vector<Executor::Task>();
      head_ = 0;
    }
    return task;
  }

  void Swap(TaskRing& other) {
    slots_.swap(other.slots_);
    std::swap(head_, other.head_);
    std::swap(size_, other.size_);
  }

 private:
  void Grow() {
    // A power of two, so that positions wrap with a mask.
    std::vector<Executor::Task> wider(slots_.empty() ? 8 : 2 * slots_.size());
    for (std::size_t i = 0; i < size_; ++i) {
      wider[i].swap(slots_[(head_ + i) & (slots_.size() - 1)]);
    }
    slots_.swap(wider);
    head_ = 0;
  }

  // Task i is in slots_[(head_ + i) & (slots_.size() - 1)] for i < size_; the other
  // slots are empty functions.
  std::vector<Executor::Task> slots_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

struct Timer {
  SteadyTime when;
  std::uint64_t sequence;  // of the call; timers for one instant keep its order
  Executor::Task task;
};

// For std::push_heap and its kin, which keep the greatest in front.
bool RunsLater(const Timer& a, const Timer& b) {
  return a.when != b.when ? a.when > b.when : a.sequence > b.sequence;
}

// An exception ends the process here, also when the thread is the caller's own.
void Run(Executor::Task& task) noexcept { task(); }

}  // namespace

// Threads take tasks from one queue. A timer waits in a heap; whoever looks for work
// first moves what is due to the end of the queue, so a timer overtakes nothing that
// was ready before it.
//
// A thread that finds no work sleeps in one of two ways:
//
//   sleeper  until it is woken
//   keeper   until it is woken or the first timer is due; at most one, and always one
//            while there are timers and a thread that could be it
//
// Work wakes a sleeper rather than the keeper, so that the keeper goes on keeping time
// and no timer costs more than one thread its sleep. A keeper that leaves for a task
// while others sleep wakes one of them in its place.
//
// The keeper measures its sleep in the machine's steady time. With a FakeClock a timer
// is therefore noticed when a thread next looks for work, which each Post() sees to,
// and not by the clock's Advance().
//
// Thread-safe.
class Executor::Impl {
 public:
  explicit Impl(Options options)
      : clock_(options.clock != nullptr ? *options.clock : SystemClock()),
        thread_count_(options.threads) {
    HERALD_CHECK(options.threads >= 0);
    threads_.reserve(static_cast<std::size_t>(thread_count_));
    try {
      for (int i = 0; i < thread_count_; ++i) threads_.emplace_back([this] { Work(); });
    } catch (...) {
      // The system has no more threads. Those that it gave must not outlive us.
      Stop();
      throw;
    }
  }

  const Clock& clock() const { return clock_; }
  int threads() const { return thread_count_; }

  // `task` is the caller's, so it is destroyed without the lock if it is not wanted.
  void Post(Task&& task) EXCLUDES(mu_) {
    HERALD_CHECK(task != nullptr, "an empty task");
    CondVar* wake = nullptr;
    {
      MutexLock lock(mu_);
      if (stopping_) return;
      ready_.Push(std::move(task));
      wake = ChooseForWork();
    }
    if (wake != nullptr) wake->NotifyOne();
  }

  void PostAt(SteadyTime when, Task&& task) EXCLUDES(mu_) {
    HERALD_CHECK(task != nullptr, "an empty task");
    CondVar* wake = nullptr;
    {
      MutexLock lock(mu_);
      if (stopping_) return;
      const std::uint64_t sequence = next_sequence_++;
      timers_.push_back({when, sequence, std::move(task)});
      std::push_heap(timers_.begin(), timers_.end(), RunsLater);
      // Behind another timer it changes nobody's sleep.
      if (timers_.front().sequence == sequence) wake = ChooseForTime();
    }
    if (wake != nullptr) wake->NotifyOne();
  }

  std::size_t RunUntilIdle() EXCLUDES(mu_) {
    HERALD_CHECK(thread_count_ == 0, "the executor's own threads run its tasks");
    const void* const outer = std::exchange(running_here, this);
    std::size_t count = 0;
    {
      MutexLock lock(mu_);
      ++callers_running_;
      for (;;) {
        MoveDueTimers();
        if (stopping_ || ready_.empty()) break;
        Task task = ready_.Pop();
        lock.Unlock();
        Run(task);
        task = nullptr;
        ++count;
        lock.Lock();
      }
      --callers_running_;
      if (stopping_) changed_.NotifyAll();
    }
    running_here = outer;
    return count;
  }

  void Stop() EXCLUDES(mu_) {
    HERALD_CHECK(running_here != this, "Stop() in a task would wait for itself");
    TaskRing ready;
    std::vector<Timer> timers;
    std::vector<std::thread> threads;
    {
      MutexLock lock(mu_);
      if (stopping_) {
        changed_.Wait(lock, [this]() REQUIRES(mu_) { return stopped_; });
        return;
      }
      stopping_ = true;
      ready_.Swap(ready);
      timers_.swap(timers);
      threads_.swap(threads);
    }
    sleepers_wake_.NotifyAll();
    keeper_wake_.NotifyAll();
    for (std::thread& thread : threads) thread.join();
    {
      MutexLock lock(mu_);
      changed_.Wait(lock, [this]() REQUIRES(mu_) { return callers_running_ == 0; });
    }

    // What is left is destroyed when nothing runs any more, so that its destructors
    // meet no task. They may post; that is refused by now.
    const void* const outer = std::exchange(running_here, this);
    while (!ready.empty()) (void)ready.Pop();
    timers.clear();
    running_here = outer;

    MutexLock lock(mu_);
    stopped_ = true;
    changed_.NotifyAll();
  }

 private:
  // What each thread does until Stop().
  void Work() EXCLUDES(mu_) {
    NameThisThread("herald-work");
    running_here = this;
    const std::size_t most = thread_count_ == 1 ? kBatch : 1;
    std::vector<Task> batch;
    batch.reserve(most);

    MutexLock lock(mu_);
    while (!stopping_) {
      MoveDueTimers();
      if (ready_.empty()) {
        Sleep(lock);
        continue;
      }
      while (batch.size() < most && !ready_.empty()) batch.push_back(ready_.Pop());
      CondVar* const wake = ChooseSuccessor();
      lock.Unlock();
      if (wake != nullptr) wake->NotifyOne();
      for (Task& task : batch) {
        if (!stopping_) Run(task);
        task = nullptr;  // before the next one starts, and without the lock
      }
      batch.clear();
      lock.Lock();
    }
  }

  void Sleep(MutexLock& lock) REQUIRES(mu_) {
    if (timers_.empty() || keeper_) {
      ++sleepers_;
      sleepers_wake_.Wait(lock, [this]() REQUIRES(mu_) { return woken_ > 0 || stopping_; });
      // Whoever wakes a sleeper has already counted it out.
      if (woken_ > 0) --woken_;
      return;
    }
    keeper_ = true;
    keeper_woken_ = false;
    const SteadyTime now = clock_.Steady();
    const SteadyTime until = std::clamp(timers_.front().when, now, now + kLongestSleep);
    keeper_wake_.WaitFor(lock, until - now,
                         [this]() REQUIRES(mu_) { return keeper_woken_ || stopping_; });
    keeper_ = false;
  }

  void MoveDueTimers() REQUIRES(mu_) {
    if (timers_.empty()) return;
    const SteadyTime now = clock_.Steady();
    while (!timers_.empty() && timers_.front().when <= now) {
      std::pop_heap(timers_.begin(), timers_.end(), RunsLater);
      ready_.Push(std::move(timers_.back().task));
      timers_.pop_back();
    }
    if (timers_.empty() && timers_.capacity() > kKeptEntries) timers_ = std::vector<Timer>();
  }

  // The four below say whom to wake, to be done without the lock, or null. Whoever was
  // chosen is not chosen again: it looks for work before it sleeps, so a second
  // call to the kernel would be for nothing.

  CondVar* ChooseSleeper() REQUIRES(mu_) {
    if (sleepers_ == 0) return nullptr;
    --sleepers_;
    ++woken_;
    return &sleepers_wake_;
  }

  CondVar* ChooseForWork() REQUIRES(mu_) {
    if (CondVar* const sleeper = ChooseSleeper()) return sleeper;
    return keeper_ ? ChooseKeeper() : nullptr;
  }

  // There is a new first timer.
  CondVar* ChooseForTime() REQUIRES(mu_) { return keeper_ ? ChooseKeeper() : ChooseSleeper(); }

  CondVar* ChooseKeeper() REQUIRES(mu_) {
    if (keeper_woken_) return nullptr;
    keeper_woken_ = true;
    return &keeper_wake_;
  }

  // The calling thread goes to work. Somebody else is needed if there is more work than
  // threads on their way to it (timers have come due), or if nobody keeps the time.
  CondVar* ChooseSuccessor() REQUIRES(mu_) {
    const bool no_keeper = !timers_.empty() && !keeper_ && woken_ == 0;
    return ready_.size() > woken_ || no_keeper ? ChooseSleeper() : nullptr;
  }

  const Clock& clock_;
  const int thread_count_;

  // Guards all below but the condition variables. A leaf, but for what the clock locks
  // when it is asked; no task runs or is destroyed under it.
  Mutex mu_;
  CondVar sleepers_wake_;
  CondVar keeper_wake_;
  CondVar changed_;  // stopped_ or callers_running_

  TaskRing ready_ GUARDED_BY(mu_);
  std::vector<Timer> timers_ GUARDED_BY(mu_);  // a heap, the first to run in front
  std::uint64_t next_sequence_ GUARDED_BY(mu_) = 0;

  std::size_t sleepers_ GUARDED_BY(mu_) = 0;  // sleep, and have not been chosen to wake
  std::size_t woken_ GUARDED_BY(mu_) = 0;     // have been chosen, and do not know it yet
  bool keeper_ GUARDED_BY(mu_) = false;       // there is one
  bool keeper_woken_ GUARDED_BY(mu_) = false;

  std::size_t callers_running_ GUARDED_BY(mu_) = 0;  // inside RunUntilIdle()
  std::vector<std::thread> threads_ GUARDED_BY(mu_);
  bool stopped_ GUARDED_BY(mu_) = false;
  // Written under mu_; a thread reads it without between the tasks of its batch.
  std::atomic<bool> stopping_ = false;
};

Executor::Executor(Options options) : impl_(std::make_unique<Impl>(options)) {}

Executor::~Executor() { Stop(); }

const Clock& Executor::clock() const { return impl_->clock(); }

int Executor::threads() const { return impl_->threads(); }

void Executor::Post(Task task) { impl_->Post(std::move(task)); }

void Executor::PostAt(SteadyTime when, Task task) { impl_->PostAt(when, std::move(task)); }

std::size_t Executor::RunUntilIdle() { return impl_->RunUntilIdle(); }

void Executor::Stop() { impl_->Stop(); }

}  // namespace herald
