// The store options that crash_writer and crash_test share.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace herald::store {

inline StoreOptions MakeCrashOptions() {
  StoreOptions options;
  options.background = false;
  // Short enough that compaction runs continuously, long enough that some old versions are left.
  options.watch_window = std::chrono::seconds(1);
  options.max_watch_window_bytes = 2u << 20;
  options.schema.index = [](std::string_view key, std::string_view value) {
    return std::vector<IndexEntry>{{1, std::string(value.substr(0, value.find('|')))},
                                   {2, std::string(key.substr(0, key.rfind('/')))}};
  };
  options.schema.lifetime = [](std::string_view key, std::string_view) {
    return key.starts_with("/short/") ? std::chrono::seconds(1) : std::chrono::hours(1);
  };
  return options;
}

}  // namespace herald::store
