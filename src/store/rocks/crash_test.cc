// Kills a process that writes, at random times and at every kind of write point, and checks that
// all acknowledged writes are there. HERALD_SOAK=1: 200 times instead of 20.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/bytes/random.h"
#include "base/testing/temporary_directory.h"
#include "store/rocks/admin.h"
#include "store/rocks/store.h"
#include "store/testing/crash_schema.h"
#include "store/testing/suite_watch.h"

extern char** environ;

namespace herald::store {
namespace {

constexpr const char* kDeleted = "-";

// The output of the writer before it was killed.
struct WriterOutput {
  struct Done {
    std::string key;
    std::string id;
    Revision revision;  // 0: there was nothing to delete
  };
  std::vector<Done> done;
  std::map<std::string, std::string> under_way;  // key, id
};

class CrashTest : public testing::Test {
 protected:
  // Runs the writer until it is killed. `kill_after`: after that many acknowledgements; 0: it kills
  // itself.
  WriterOutput RunWriter(std::uint64_t seed, const std::string& point, std::uint64_t count,
                         bool power, std::size_t kill_after) {
    int pipe_ends[2];
    EXPECT_EQ(::pipe(pipe_ends), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, pipe_ends[0]);
    posix_spawn_file_actions_addclose(&actions, pipe_ends[1]);
    std::vector<std::string> words = {HERALD_CRASH_WRITER,   store_.string(),
                                      std::to_string(seed),  point,
                                      std::to_string(count), power ? "1" : "0"};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_t child = 0;
    EXPECT_EQ(
        ::posix_spawn(&child, HERALD_CRASH_WRITER, &actions, nullptr, arguments.data(), environ),
        0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(pipe_ends[1]);

    WriterOutput output;
    std::string text;
    char buffer[65'536];
    bool killed = false;
    for (ssize_t size = 0; (size = ::read(pipe_ends[0], buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(size));
      std::size_t line_end = 0;
      while ((line_end = text.find('\n')) != std::string::npos) {
        std::istringstream line(text.substr(0, line_end));
        text.erase(0, line_end + 1);
        std::string what;
        WriterOutput::Done done;
        line >> what >> done.key >> done.id;
        if (what == "start") {
          output.under_way[done.key] = done.id;
        } else {
          line >> done.revision;
          output.under_way.erase(done.key);
          output.done.push_back(done);
        }
      }
      if (!killed && kill_after > 0 && output.done.size() >= kill_after) {
        ::kill(child, SIGKILL);
        killed = true;
      }
    }
    ::close(pipe_ends[0]);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        << "the writer ended by itself: " << status;
    return output;
  }

  // Opens the store and checks its contents against the output of the writer.
  void Verify(const WriterOutput& output) {
    const auto report = CheckStore(store_, MakeCrashOptions().schema);
    ASSERT_TRUE(report) << report.error().ToString();
    for (const std::string& fault : report->faults) ADD_FAILURE() << fault;

    RocksStoreOptions rocks;
    rocks.db.directory = store_;
    auto opened = RocksStore::Open(MakeCrashOptions(), rocks);
    ASSERT_TRUE(opened) << opened.error().ToString();
    Store& store = **opened;
    const StoreStats stats = store.Stats();
    EXPECT_GE(stats.revision, latest_) << "revisions only grow";

    std::map<std::string, std::string> now;
    std::promise<Result<Page>> read;
    store.Read({}, [&read](Result<Page> page) { read.set_value(std::move(page)); });
    const auto page = read.get_future().get();
    ASSERT_TRUE(page) << page.error().ToString();
    std::set<std::string> ids;
    for (const Entry& entry : page->entries) {
      now[entry.key] = entry.value->substr(0, entry.value->find('|'));
      EXPECT_TRUE(ids.insert(now[entry.key]).second) << "written twice: " << now[entry.key];
      EXPECT_LE(entry.revision, stats.revision);
    }

    // Each key has the value of its last acknowledged write, or of the one that was under way.
    std::map<std::string, std::string> expected = known_;
    for (const WriterOutput::Done& done : output.done) expected[done.key] = done.id;
    for (const auto& [key, id] : expected) {
      if (key.starts_with("/short/")) continue;  // may have expired
      const auto found = now.find(key);
      const std::string is = found != now.end() ? found->second : kDeleted;
      const auto under_way = output.under_way.find(key);
      const bool may = under_way != output.under_way.end() && is == under_way->second;
      EXPECT_TRUE(is == id || may) << key << " is " << is << ", acknowledged was " << id;
    }

    // The log has every kept revision once, and each acknowledged write at its revision.
    std::map<Revision, std::string> log;
    const Revision after = stats.compacted;
    for (const auto& change : ChangesAfter(store, after, stats.revision)) {
      EXPECT_TRUE(log.emplace(change->revision(), Describe(*change)).second);
    }
    Revision next = std::max<Revision>(after, 1);
    for (const auto& [revision, what] : log) {
      EXPECT_EQ(revision, ++next) << "no gap";
    }
    for (const WriterOutput::Done& done : output.done) {
      if (done.revision == 0) continue;
      EXPECT_LE(done.revision, stats.revision) << "an acknowledged write is lost";
      const auto logged = log.find(done.revision);
      if (logged == log.end()) continue;  // compacted
      EXPECT_EQ(logged->second, done.key + " " + done.id);
    }

    // A watch resumes from any kept revision.
    Random random(static_cast<std::uint64_t>(stats.revision));
    for (int i = 0; i < 5 && log.size() > 1; ++i) {
      auto from = log.begin();
      std::advance(from, static_cast<std::ptrdiff_t>(random.Next() % (log.size() - 1)));
      auto expected_next = std::next(from);
      for (const auto& change : ChangesAfter(store, from->first, stats.revision)) {
        ASSERT_NE(expected_next, log.end());
        EXPECT_EQ(change->revision(), expected_next->first);
        EXPECT_EQ(Describe(*change), expected_next->second);
        ++expected_next;
      }
      EXPECT_EQ(expected_next, log.end());
    }
    latest_ = stats.revision;
    known_ = std::move(now);
    acknowledged_ += output.done.size();
  }

  // Revision 1 is never among them, because a watch after 0 starts at the latest revision.
  static std::vector<std::shared_ptr<const Change>> ChangesAfter(Store& store, Revision after,
                                                                 Revision until) {
    after = std::max<Revision>(after, 1);
    SuiteWatch watch(store, "", after);
    EXPECT_TRUE(watch.error().ok()) << watch.error().ToString();
    if (!watch.error().ok() || until <= after) return {};
    return watch.Take(static_cast<std::size_t>(until - after));
  }
  static std::string Describe(const Change& change) {
    return change.key() + " " +
           (change.deleted()
                ? kDeleted
                : change.current().value->substr(0, change.current().value->find('|')));
  }

  TemporaryDirectory directory_;
  const std::filesystem::path store_ = directory_.path() / "store";
  std::map<std::string, std::string> known_;  // key, id: found by the last Verify()
  Revision latest_ = 0;
  std::size_t acknowledged_ = 0;
};

TEST_F(CrashTest, HasEveryAcknowledgedWriteHoweverOftenItIsKilled) {
  const char* soak = std::getenv("HERALD_SOAK");
  const int kills = soak != nullptr && std::string(soak) == "1" ? 200 : 20;
  const std::vector<std::string> points = {"ack", "file", "before write", "file", "written",
                                           "ack", "file", "published",    "file"};
  Random random(kills == 20 ? 20261116 : RandomSeed());
  for (int kill = 0; kill < kills; ++kill) {
    const std::string point = points[static_cast<std::size_t>(kill) % points.size()];
    const bool power = kill % 2 == 1;
    // Early ones hit the opening of the store, later ones writes, flushes and compactions.
    const std::uint64_t most = kill % 3 == 0 ? 60 : 1'500;
    const std::uint64_t count = 1 + random.Next() % most;
    SCOPED_TRACE("kill " + std::to_string(kill) + " at " + point + " " + std::to_string(count) +
                 (power ? ", with the power" : ""));
    const WriterOutput output = RunWriter(static_cast<std::uint64_t>(kill) + 1, point, count, power,
                                          point == "ack" ? 1 + random.Next() % 3'000 : 0);
    if (!std::filesystem::exists(store_ / "CURRENT")) {
      EXPECT_TRUE(output.done.empty());  // killed before the store was open
      continue;
    }
    ASSERT_NO_FATAL_FAILURE(Verify(output));
    if (HasFailure()) break;
  }
  EXPECT_GT(acknowledged_, 1'000u) << "too few to test anything";
}

}  // namespace
}  // namespace herald::store
