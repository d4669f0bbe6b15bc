#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "herald/base/clock.h"
#include "herald/base/export.h"

namespace herald {

// An Executor runs short tasks, now or at a time, on a fixed number of threads.
// Everything in Herald that works in the background works on one, so that a process
// with thousands of broadcasters needs no more threads than it has cores.
//
// Tasks must not block: one that waits holds up everything else on its thread. An
// exception that leaves a task ends the process, as it would leave a thread.
//
// With no threads at all nothing runs by itself: the owner calls RunUntilIdle().
// That, with a FakeClock, is how tests decide what happens when.
//
// With threads and a FakeClock, a timer is noticed when a thread next looks for work:
// Advance() wakes nobody, the next Post() does.
//
// A task is destroyed right after it ran, on the same thread, and never under a lock of
// the executor's, so its destructor may post.
//
// Thread-safe. Only tasks may be inside a call, or start one, once the destructor has
// begun.
class HERALD_EXPORT Executor {
 public:
  using Task = std::function<void()>;

  struct Options {
    int threads = 1;               // >= 0
    const Clock* clock = nullptr;  // borrowed; null means SystemClock()
  };

  Executor() : Executor(Options()) {}
  explicit Executor(Options options);
  // Stops.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const Clock& clock() const;
  int threads() const;

  // Runs the task soon. Tasks posted by one thread start in the order of the calls.
  // After Stop() the task is destroyed unrun. REQUIRES: task is not empty
  void Post(Task task);

  // Runs the task once clock().Steady() has reached `when`. Tasks that become due
  // together start in the order of their times, and of the calls where those are equal.
  // After Stop() as above. REQUIRES: task is not empty
  void PostAt(SteadyTime when, Task task);

  // Runs on the calling thread what is due, and what that makes due, until nothing
  // is; returns how many tasks that were. REQUIRES: threads == 0
  std::size_t RunUntilIdle();

  // Finishes the tasks that are running, destroys the others unrun, and joins the
  // threads. Idempotent; whoever calls it second waits until the first is done. Must not
  // be called from a task or from the destructor of one.
  void Stop();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald
