#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

// A mutex with annotations for clang: with -Wthread-safety, clang rejects code that accesses a
// GUARDED_BY member without its lock. For gcc the annotations are empty.
//
// The names are those of clang's manual, without a prefix, because they are short to read. This
// header is private to src/, so that they do not reach users' programs.
#if defined(__clang__)
#define HERALD_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define HERALD_THREAD_ANNOTATION(x)
#endif

#define CAPABILITY(x) HERALD_THREAD_ANNOTATION(capability(x))
#define SCOPED_CAPABILITY HERALD_THREAD_ANNOTATION(scoped_lockable)
#define GUARDED_BY(x) HERALD_THREAD_ANNOTATION(guarded_by(x))
#define PT_GUARDED_BY(x) HERALD_THREAD_ANNOTATION(pt_guarded_by(x))
#define ACQUIRED_BEFORE(...) HERALD_THREAD_ANNOTATION(acquired_before(__VA_ARGS__))
#define ACQUIRED_AFTER(...) HERALD_THREAD_ANNOTATION(acquired_after(__VA_ARGS__))
#define REQUIRES(...) HERALD_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) HERALD_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) HERALD_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASE(...) HERALD_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) HERALD_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define RETURN_CAPABILITY(x) HERALD_THREAD_ANNOTATION(lock_returned(x))
#define NO_THREAD_SAFETY_ANALYSIS HERALD_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace herald {

// A std::mutex with the annotations above. Thread-safe. Use a MutexLock; Lock() and Unlock() are
// for the rare cases that do not fit a scope.
class CAPABILITY("mutex") Mutex {
 public:
  Mutex() {
#if defined(PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP)
    // Our critical sections take much less time than sleeping and waking up. So a thread spins a
    // few times before it sleeps; glibc chooses how often.
    *mu_.native_handle() = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
#endif
  }
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ACQUIRE() { mu_.lock(); }
  void Unlock() RELEASE() { mu_.unlock(); }
  bool TryLock() TRY_ACQUIRE(true) { return mu_.try_lock(); }

 private:
  friend class MutexLock;
  std::mutex mu_;
};

// Holds a Mutex for a scope. Unlock() releases it early, for example to notify, to call back or to
// destroy objects without the lock; Lock() takes it again. Thread-confined.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mu) ACQUIRE(mu) : lock_(mu.mu_) {}
  ~MutexLock() RELEASE() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  // REQUIRES: locked
  void Unlock() RELEASE() { lock_.unlock(); }
  // REQUIRES: not locked
  void Lock() ACQUIRE() { lock_.lock(); }

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

// A std::condition_variable for a MutexLock. Thread-safe.
//
// clang does not analyze across calls, so a predicate names its lock again:
//
//   not_empty_.Wait(lock, [this]() REQUIRES(mu_) { return !items_.empty(); });
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // May return spuriously; call it in a loop that checks the condition.
  // REQUIRES: lock holds the mutex that guards the condition
  void Wait(MutexLock& lock) { cv_.wait(lock.lock_); }

  // Returns when the predicate is true. The predicate is called with the lock held.
  // REQUIRES: as above
  template <typename Predicate>
  void Wait(MutexLock& lock, Predicate predicate) NO_THREAD_SAFETY_ANALYSIS {
    while (!predicate()) cv_.wait(lock.lock_);
  }

  // The same, but waits at most `timeout` of steady time. Returns the last result of the predicate.
  // REQUIRES: as above
  template <typename Predicate>
  bool WaitFor(MutexLock& lock, std::chrono::nanoseconds timeout,
               Predicate predicate) NO_THREAD_SAFETY_ANALYSIS {
    return cv_.wait_for(lock.lock_, timeout, predicate);
  }

  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace herald
