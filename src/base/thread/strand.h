#pragma once

#include <memory>

#include "herald/base/executor.h"
#include "herald/base/export.h"

namespace herald {

// A Strand runs tasks on the threads of an Executor one after the other, in the order of the Post()
// calls and never two at once. Data that only a strand's tasks use needs no lock and no thread of
// its own: thousands of strands may share one executor.
//
// A busy strand yields: after a number of tasks, a turn, it queues again behind the executor's
// other tasks. For the executor a turn is one task, which Stop() waits for.
//
// Each task is destroyed before the next one starts. A Strand may be destroyed while tasks are
// queued, and they still run. A task may destroy its strand, even before the Post() of that task
// has returned. Only the executor's Stop() destroys tasks that have not run, both queued ones and
// those posted later.
//
// Thread-safe.
class HERALD_EXPORT Strand {
 public:
  using Task = Executor::Task;

  // The executor is not owned and must outlive the Strand.
  explicit Strand(Executor* executor);
  ~Strand();
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  // Runs the task after those posted before. It never runs inside of the call, even if a task of
  // the strand calls this. REQUIRES: task is not empty
  void Post(Task task);

  // Runs the task inside of the call if the strand is idle. Returns false otherwise. For a thread
  // that would only wait until the task has run on another thread.
  bool TryRun(const Task& task);

  // Whether the calling thread is running a task of this strand, or destroying one that has run.
  bool RunsHere() const;

 private:
  class State;
  class Turn;
  // Shared with the turn that is queued or running, if any.
  const std::shared_ptr<State> state_;
};

}  // namespace herald
