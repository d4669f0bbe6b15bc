#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "capi/errors.h"
#include "herald/base/log.h"
#include "herald/herald.h"

namespace herald {

// A LogGate passes log entries to the user's function until it is closed. It exists because
// recorders may log after their broadcaster was freed, when the user's data may be gone.
//
// Thread-safe.
class LogGate {
 public:
  LogGate(herald_log_function log, void* user_data) : log_(log), user_data_(user_data) {}

  void operator()(const LogEntry& entry) EXCLUDES(mu_) {
    if (log_ == nullptr || !Enter()) return;
    try {
      Call(entry);
    } catch (...) {  // NOLINT(bugprone-empty-catch): an error of the log must not stop the caller
    }
    Leave();
  }

  // After this returns, the function is not running and is never called again.
  void Close() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    closed_ = true;
    left_.Wait(lock, [this]() REQUIRES(mu_) { return running_ == 0; });
  }

 private:
  bool Enter() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (closed_) return false;
    ++running_;
    return true;
  }

  void Leave() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (--running_ == 0) left_.NotifyAll();
  }

  void Call(const LogEntry& entry) const {
    // Copied, because C needs a NUL at the end and string views have none.
    const std::string message(entry.message);
    std::vector<std::pair<std::string, std::string>> strings(entry.fields.begin(),
                                                             entry.fields.end());
    std::vector<herald_pair> fields;
    fields.reserve(strings.size());
    for (const auto& [key, value] : strings) fields.push_back({key.c_str(), value.c_str()});
    const InCallback in_callback;
    log_(user_data_, static_cast<herald_log_level>(entry.level), message.c_str(), fields.data(),
         fields.size());
  }

  const herald_log_function log_;
  void* const user_data_;
  Mutex mu_;
  CondVar left_;
  int running_ GUARDED_BY(mu_) = 0;
  bool closed_ GUARDED_BY(mu_) = false;
};

}  // namespace herald
