#pragma once

#include <memory>

#include "herald/base/executor.h"
#include "herald/base/export.h"

namespace herald {

// A Strand runs tasks on an Executor one after the other, in the order in which they
// were posted and never two at once, on whichever of its threads is free. What only
// a strand's tasks touch needs no lock, and costs no thread: thousands of strands may
// share one executor.
//
// A busy strand gives way: after some tasks, its turn, it queues up behind whatever else
// the executor has to run. To the executor a turn is one task, which Stop() lets finish.
//
// Each task is destroyed before the next one starts. A Strand may be destroyed while
// its tasks are queued: they still run, because they hold what they need. One of them
// may be what destroys it, even before the Post() of that task has returned. Only the
// executor's Stop() destroys tasks unrun, those queued and those posted later.
//
// Thread-safe.
class HERALD_EXPORT Strand {
 public:
  using Task = Executor::Task;

  // The executor is borrowed and outlives the Strand.
  explicit Strand(Executor* executor);
  ~Strand();
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  // Runs the task soon, after those posted before; also when called from one of them:
  // it never runs inside the call. REQUIRES: task is not empty
  void Post(Task task);

  // Runs the task inside the call, if there is nothing else to run now; false if there is.
  // For a thread that would only wait until the task has run on another.
  bool TryRun(const Task& task);

  // Whether the calling thread is inside one of this strand's tasks, or destroys one
  // that has run.
  bool RunsHere() const;

 private:
  class State;
  class Turn;
  // Shared with the turn that is queued or runs, if there is one.
  const std::shared_ptr<State> state_;
};

}  // namespace herald
