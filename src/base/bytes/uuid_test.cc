#include "base/bytes/uuid.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <regex>
#include <set>
#include <thread>
#include <vector>

namespace herald {
namespace {

TEST(UuidTest, HasTheFormatOfVersionFour) {
  const std::regex form("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}");
  for (int i = 0; i < 100; ++i) {
    const std::string uuid = RandomUuid();
    EXPECT_TRUE(std::regex_match(uuid, form)) << uuid;
  }
}

TEST(UuidTest, NeverRepeatsAcrossThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  std::vector<std::vector<std::string>> made(kThreads);
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&made, t] {
      for (int i = 0; i < kEach; ++i) made[t].push_back(RandomUuid());
    });
  }
  threads.clear();
  std::set<std::string> all;
  for (const auto& of_one : made) all.insert(of_one.begin(), of_one.end());
  EXPECT_EQ(all.size(), static_cast<std::size_t>(kThreads * kEach));
}

TEST(UuidTest, AForkedChildDoesNotRepeatItsParent) {
  (void)RandomUuid();  // creates any state before the fork
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string uuid = RandomUuid();
    const bool written = write(fds[1], uuid.data(), uuid.size()) == 36;
    _exit(written ? 0 : 1);
  }
  close(fds[1]);
  const std::string ours = RandomUuid();
  std::string theirs(36, ' ');
  EXPECT_EQ(read(fds[0], theirs.data(), theirs.size()), 36);
  close(fds[0]);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_NE(ours, theirs);
}

}  // namespace
}  // namespace herald
