// Writes to a store until it is killed, by itself at a given point or by its parent. Prints to
// stdout each write before it starts and when it is acknowledged. crash_test runs it.
//
//   crash_writer <directory> <seed> <ack|before write|written|published|file> <count> <power>
//
// It kills itself at the count-th such point; with "ack" never. With power = 1, writes that were
// not synced are lost, as in a power failure.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "base/bytes/random.h"
#include "base/check.h"
#include "base/thread/mutex.h"
#include "store/rocks/store.h"
#include "store/testing/crash_schema.h"
#include "store/testing/faulty_file_system.h"

namespace herald::store {
namespace {

// Number of writers; each has one write under way at any time.
constexpr int kWriters = 16;

class CrashWriter {
 public:
  CrashWriter(std::uint64_t seed, std::string point, std::uint64_t count)
      : random_(seed), seed_(seed), point_(std::move(point)), left_(count) {}

  void Run(const std::string& directory, bool power) {
    faults_.lose_unsynced = power;
    faults_.before_write = [this] { Reach("file"); };
    const std::unique_ptr<rocksdb::Env> env = FaultyFileSystem::MakeEnv(&faults_);
    RocksStoreOptions rocks;
    rocks.db.directory = directory;
    rocks.db.env = env.get();
    // So small that tables are written and merged continuously.
    rocks.db.budget.write_buffer_bytes = 1u << 20;
    rocks.at_step = [this](std::string_view step) { Reach(step); };
    auto store = RocksStore::Open(MakeCrashOptions(), rocks);
    HERALD_CHECK(store.has_value(), store ? "" : store.error().ToString());
    store_ = std::move(*store);
    for (int i = 0; i < kWriters; ++i) SendNext(i);
    // Expires and compacts concurrently with the writes.
    for (;;) store_->Maintain();
  }

 private:
  void Reach(std::string_view point) {
    if (point != point_) return;
    if (left_.fetch_sub(1) == 1) {
      ::kill(::getpid(), SIGKILL);
      for (;;) ::pause();
    }
  }

  static void Print(const std::string& line) {
    // One write(2) per line, so that the parent gets it even if this process is killed next.
    HERALD_CHECK(::write(STDOUT_FILENO, line.data(), line.size()) ==
                 static_cast<ssize_t>(line.size()));
  }

  void SendNext(int writer) {
    std::uint64_t dice = 0;
    std::uint64_t number = 0;
    {
      MutexLock lock(mu_);
      dice = random_.Next();
      number = next_++;
    }
    const std::string key =
        (dice % 5 == 0 ? "/short/" : "/long/") + std::to_string(writer * 8 + dice / 5 % 8);
    const std::string id = std::to_string(seed_) + "." + std::to_string(number);
    Bytes value;
    if (dice / 100 % 4 != 0) {
      value =
          std::make_shared<const std::string>(id + "|" + std::string(dice / 1'000 % 2'000, 'x'));
    }
    Print("start " + key + " " + (value ? id : "-") + "\n");
    store_->Commit({key, value}, [this, writer, key, id, value](const Result<Written>& written) {
      HERALD_CHECK(written.has_value(), written ? "" : written.error().ToString());
      Print("done " + key + " " + (value ? id : "-") + " " +
            std::to_string(written->committed ? written->revision : 0) + "\n");
      SendNext(writer);
    });
  }

  Mutex mu_;
  Random random_ GUARDED_BY(mu_);
  std::uint64_t next_ GUARDED_BY(mu_) = 0;
  const std::uint64_t seed_;
  const std::string point_;
  std::atomic<std::uint64_t> left_;
  Faults faults_;
  std::unique_ptr<RocksStore> store_;
};

}  // namespace
}  // namespace herald::store

int main(int argc, char** argv) {
  HERALD_CHECK(argc == 6, "usage: see the comment at the top of crash_writer.cc");
  herald::store::CrashWriter writer(std::strtoull(argv[2], nullptr, 10), argv[3],
                                    std::strtoull(argv[4], nullptr, 10));
  writer.Run(argv[1], std::string_view(argv[5]) == "1");
}
