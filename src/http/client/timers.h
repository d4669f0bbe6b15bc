#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

namespace herald::http {

// Tasks that are to run at certain times, so that the event loop needs one timer instead of one per
// call.
//
// Thread-confined.
class TimerQueue {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Identifies a timer. The default value identifies none; cancelling it is allowed.
  struct Id {
    Time when{};
    std::uint64_t number = 0;

    auto operator<=>(const Id&) const = default;
  };

  Id Add(Time when, std::function<void()> task) {
    const Id id{when, ++last_number_};
    tasks_.emplace(id, std::move(task));
    return id;
  }
  // Timers that have run are ignored.
  void Cancel(const Id& id) { tasks_.erase(id); }
  void Clear() { tasks_.clear(); }

  std::optional<Time> next() const {
    if (tasks_.empty()) return std::nullopt;
    return tasks_.begin()->first.when;
  }

  // Runs the tasks that are due, in order. Tasks that are added meanwhile wait for the next call.
  void RunDue(Time now) {
    const std::uint64_t last_due_number = last_number_;
    while (!tasks_.empty()) {
      const auto first = tasks_.begin();
      if (first->first.when > now || first->first.number > last_due_number) return;
      const std::function<void()> task = std::move(first->second);
      tasks_.erase(first);
      task();
    }
  }

 private:
  std::uint64_t last_number_ = 0;
  std::map<Id, std::function<void()>> tasks_{};
};

}  // namespace herald::http
