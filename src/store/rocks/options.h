#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "herald/base/log.h"
#include "store/rocks/database.h"

namespace herald::store {

// Options of a RocksStore beyond StoreOptions. All parts of the store share one, which does not
// change after the store is open.
struct RocksStoreOptions {
  RocksDbOptions db{};
  // Threads for reads that need the disk or are long; see ReadScheduler.
  int read_threads = 2;
  LogFunction log{};
  // Called at the steps that other threads can interfere with, for tests that end the process
  // there or force an order of events. Null: not called.
  //   Committer    "before write", "written", "committed" (not yet in the published state),
  //                "published", "rejected" (the store cannot write)
  //   Recovery     "waiting to reopen" (the database is in use), "reopened" (Health() does not
  //                report it yet)
  //   read thread  "before log read" (the revision was checked, the rows were not read)
  std::function<void(std::string_view step)> at_step{};

  void ReachStep(std::string_view step) const {
    if (at_step) at_step(step);
  }
  void Log(LogLevel level, std::string_view message, const std::string& error = {}) const {
    if (!log) return;
    LogEntry entry{level, message, {}};
    if (!error.empty()) entry.fields.emplace_back("error", error);
    log(entry);
  }
};

}  // namespace herald::store
