#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "herald/base/clock.h"
#include "herald/base/export.h"

namespace herald {

// An Executor runs short tasks, at once or at a given time, on a fixed number of threads.
// Background work of the library runs on one, so that a process with thousands of broadcasters
// needs no more threads than it has cores.
//
// Tasks must not block: a task that waits delays all other tasks of its thread. An exception that
// leaves a task terminates the process, as with std::thread.
//
// With threads == 0, tasks run only in RunUntilIdle(). Together with a FakeClock this lets tests
// control the order of all tasks.
//
// With threads and a FakeClock, due timers run when a thread next looks for work: Advance() does
// not wake a thread, the next Post() does.
//
// A task is destroyed after it has run, on the same thread, without a lock of the executor held, so
// its destructor may post other tasks.
//
// Thread-safe. Once the destructor has begun, only tasks may call member functions.
class HERALD_EXPORT Executor {
 public:
  using Task = std::function<void()>;

  struct Options {
    int threads = 1;               // >= 0
    const Clock* clock = nullptr;  // not owned; null means SystemClock()
  };

  Executor() : Executor(Options()) {}
  explicit Executor(Options options);
  // Calls Stop().
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const Clock& clock() const;
  int threads() const;

  // Runs the task as soon as possible. Tasks posted by one thread start in the order of the calls.
  // After Stop(), the task is destroyed and does not run. REQUIRES: task is not empty
  void Post(Task task);

  // Runs the task when clock().Steady() has reached `when`. Tasks that are due at once start in the
  // order of their times, and with equal times in the order of the calls. After Stop(), the task is
  // destroyed and does not run. REQUIRES: task is not empty
  void PostAt(SteadyTime when, Task task);

  // Runs all due tasks on the calling thread, including those that they post, until none is due.
  // Returns the number of tasks. REQUIRES: threads == 0
  std::size_t RunUntilIdle();

  // Waits for the tasks that are running, destroys all others, and joins the threads. Idempotent: a
  // second call waits until the first one is done. Must not be called from a task or from the
  // destructor of a task.
  void Stop();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald
