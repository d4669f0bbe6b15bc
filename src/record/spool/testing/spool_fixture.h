#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/testing/temporary_directory.h"
#include "record/spool/spool.h"

namespace herald {

// Where a spool may be; gone at the end.
class SpoolDirectory {
 public:
  // Not made yet.
  std::string path() const { return root_.path() / "spool"; }

  std::vector<std::string> Files() const {
    std::set<std::string> names;
    std::error_code none;  // there is no directory
    for (const auto& entry : std::filesystem::directory_iterator(path(), none))
      names.insert(entry.path().filename());
    return {names.begin(), names.end()};
  }
  std::vector<std::string> Segments() const {
    std::vector<std::string> names;
    for (const std::string& name : Files()) {
      if (name != "LOCK") names.push_back(path() + "/" + name);
    }
    return names;
  }

 private:
  const TemporaryDirectory root_;
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline SpooledWrite Create(const std::string& name, std::string message = "m") {
  auto event = std::make_shared<Event>();
  event->metadata.namespace_ = "ns";
  event->metadata.name = name;
  event->involved_object = {.kind = "Pod", .namespace_ = "ns", .name = "web-0"};
  event->reason = "R";
  event->message = std::move(message);
  event->type = kNormal;
  event->count = 1;
  event->first_timestamp = event->last_timestamp = Time(1'700'000'000, 0);
  return {.request = {.verb = SinkRequest::Verb::kCreate,
                      .api = EventApi::kCoreV1,
                      .event = std::move(event)}};
}

inline std::vector<std::string> NamesOf(const std::vector<SpooledWrite>& writes) {
  std::vector<std::string> names;
  for (const SpooledWrite& write : writes) names.push_back(write.request.event->metadata.name);
  return names;
}

inline std::unique_ptr<Spool> OpenIn(const SpoolDirectory& directory, SpoolOptions options = {},
                                     Spool::FaultHook fault = nullptr) {
  options.directory = directory.path();
  auto spool = Spool::Open(options, std::move(fault));
  EXPECT_TRUE(spool) << spool.error().ToString();
  return *std::move(spool);
}

// Everything, delivered at once.
inline std::vector<std::string> TakeAll(Spool* spool) {
  std::vector<std::string> names;
  while (auto segment = spool->Take()) {
    for (std::string& name : NamesOf(segment->writes)) names.push_back(std::move(name));
    spool->Release();
  }
  return names;
}

}  // namespace herald
