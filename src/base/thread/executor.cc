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

// The number of tasks that a single thread takes per lock. With several threads it is one, because
// a task after a slow one in a batch would wait while another thread sleeps.
constexpr std::size_t kBatch = 64;

// The capacity, in entries, that empty queues keep, so that steady work does not allocate. Larger
// buffers are freed.
constexpr std::size_t kKeptEntries = 4096;

// The longest time that a thread sleeps for a timer before it checks again. Any value works; it
// prevents an overflow of "now" plus "never".
constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::hours(1);

// The executor whose task the thread is running, or whose dropped tasks it destroys. Only compared
// and never dereferenced: it detects a call of Stop() that would deadlock.
thread_local const void* running_here = nullptr;

// A first-in-first-out queue of tasks in a ring buffer that doubles when it is full: std::deque
// would allocate for every 16th task, even if the queue is always short. Only its destructor
// destroys tasks. Thread-confined.
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
  std::uint64_t sequence;  // of the call; timers with the same time run in this order
  Executor::Task task;
};

// The order for std::push_heap() and std::pop_heap(), which keep the greatest element in front.
bool RunsLater(const Timer& a, const Timer& b) {
  return a.when != b.when ? a.when > b.when : a.sequence > b.sequence;
}

// An exception terminates the process here, also on a caller's thread.
void Run(Executor::Task& task) noexcept { task(); }

}  // namespace

// Threads take tasks from one queue. Timers are in a heap; a thread that looks for work first moves
// due timers to the end of the queue, so that a timer does not overtake tasks that were ready
// before it.
//
// A thread that finds no work sleeps in one of two ways:
//
//   sleeper  until it is woken
//   keeper   until it is woken or the first timer is due. There is at most one, and there is one
//            whenever there are timers and a thread without work
//
// New tasks wake a sleeper and not the keeper, so that the keeper continues to wait for the timer
// and a timer wakes only one thread. A keeper that runs a task while others sleep wakes one of them
// as its successor.
//
// The keeper sleeps in the machine's steady time. So with a FakeClock, due timers run when a thread
// next looks for work, which each Post() causes, and not in the clock's Advance().
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
      // The system has no more threads. Those that were started must not outlive this object.
      Stop();
      throw;
    }
  }

  const Clock& clock() const { return clock_; }
  int threads() const { return thread_count_; }

  // `task` belongs to the caller, so that it is destroyed without the lock if the executor has
  // stopped.
  void Post(Task&& task) EXCLUDES(mu_) {
    HERALD_CHECK(task != nullptr, "the task must not be empty");
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
    HERALD_CHECK(task != nullptr, "the task must not be empty");
    CondVar* wake = nullptr;
    {
      MutexLock lock(mu_);
      if (stopping_) return;
      const std::uint64_t sequence = next_sequence_++;
      timers_.push_back({when, sequence, std::move(task)});
      std::push_heap(timers_.begin(), timers_.end(), RunsLater);
      // Only a new first timer changes how long the keeper sleeps.
      if (timers_.front().sequence == sequence) wake = ChooseForTime();
    }
    if (wake != nullptr) wake->NotifyOne();
  }

  std::size_t RunUntilIdle() EXCLUDES(mu_) {
    HERALD_CHECK(thread_count_ == 0, "RunUntilIdle() requires threads == 0");
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

    // The remaining tasks are destroyed when no task runs any more. Tasks that their destructors
    // post are destroyed, too.
    const void* const outer = std::exchange(running_here, this);
    while (!ready.empty()) (void)ready.Pop();
    timers.clear();
    running_here = outer;

    MutexLock lock(mu_);
    stopped_ = true;
    changed_.NotifyAll();
  }

 private:
  // The loop of each thread until Stop().
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
      // The thread that wakes a sleeper has already decremented sleepers_.
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

  // The next four functions choose a thread to wake, and return its condition variable, to be
  // notified without the lock, or null. A thread is not chosen twice: it looks for work before it
  // sleeps again, so that a second system call would be useless.

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

  // Called by a thread that starts to work. Another thread is needed if there are more tasks than
  // woken threads (timers have become due), or if there is no keeper.
  CondVar* ChooseSuccessor() REQUIRES(mu_) {
    const bool no_keeper = !timers_.empty() && !keeper_ && woken_ == 0;
    return ready_.size() > woken_ || no_keeper ? ChooseSleeper() : nullptr;
  }

  const Clock& clock_;
  const int thread_count_;

  // Guards all below except the condition variables. No other lock is taken under it except the
  // clock's, and no task runs or is destroyed under it.
  Mutex mu_;
  CondVar sleepers_wake_;
  CondVar keeper_wake_;
  CondVar changed_;  // stopped_ or callers_running_

  TaskRing ready_ GUARDED_BY(mu_);
  std::vector<Timer> timers_ GUARDED_BY(mu_);  // a heap, the first to run in front
  std::uint64_t next_sequence_ GUARDED_BY(mu_) = 0;

  std::size_t sleepers_ GUARDED_BY(mu_) = 0;  // threads that sleep and have not been chosen
  std::size_t woken_ GUARDED_BY(mu_) = 0;     // threads that have been chosen and still sleep
  bool keeper_ GUARDED_BY(mu_) = false;       // whether there is a keeper
  bool keeper_woken_ GUARDED_BY(mu_) = false;

  std::size_t callers_running_ GUARDED_BY(mu_) = 0;  // inside RunUntilIdle()
  std::vector<std::thread> threads_ GUARDED_BY(mu_);
  bool stopped_ GUARDED_BY(mu_) = false;
  // Written under mu_. A thread reads it without the lock between the tasks of its batch.
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
