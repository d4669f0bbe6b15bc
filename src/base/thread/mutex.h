#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

// A mutex that clang can reason about: with -Wthread-safety the compiler refuses
// code that touches a GUARDED_BY member without its lock. gcc sees std::mutex.
//
// The names are those of clang's manual, without a prefix, because they stand in
// every class that has a lock and are read far more often than written. This
// header is private to src/, so they reach no user's program.
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

// A std::mutex with the annotations above. Thread-safe. Lock it with a
// MutexLock; Lock() and Unlock() are for the rare shape that no scope has.
class CAPABILITY("mutex") Mutex {
 public:
  Mutex() {
#if defined(PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP)
    // What is done under our locks takes far less time than to fall asleep and be woken.
    // So whoever finds one taken looks again a few times first; glibc knows how often.
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

// Holds a Mutex for a scope. Unlock() ends it early, which is how a caller
// notifies, calls back or destroys things without the lock; Lock() takes it
// again. Thread-confined.
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
// clang does not look through a call, so a predicate repeats which lock it needs:
//
//   not_empty_.Wait(lock, [this]() REQUIRES(mu_) { return !items_.empty(); });
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // May wake without cause; call it in a loop that asks again.
  // REQUIRES: lock holds the mutex that guards what the caller waits for
  void Wait(MutexLock& lock) { cv_.wait(lock.lock_); }

  // Returns when the predicate is true, which it asks with the lock held.
  // REQUIRES: as above
  template <typename Predicate>
  void Wait(MutexLock& lock, Predicate predicate) NO_THREAD_SAFETY_ANALYSIS {
    while (!predicate()) cv_.wait(lock.lock_);
  }

  // The same, but for `timeout` of steady time at most. Returns what the
  // predicate says at the end.
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
