// Benchmarks of the RocksDB store: creates by many writers, gets, lists, index queries and watches.
//
// The data directory is created in $HERALD_BENCH_DIR or the temporary directory. It must be on a
// real disk: on a tmpfs a sync costs nothing. $HERALD_BENCH_ENTRIES (default 100,000) is the number
// of entries for the read benchmarks.
#include <benchmark/benchmark.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <semaphore>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/bytes/random.h"
#include "base/check.h"
#include "store/rocks/store.h"
#include "store/store.h"

namespace herald::store {
namespace {

// A stored event of 700 bytes with five index entries: by uid, name, reason, type and time. It
// compresses like a real event.
struct Sample {
  std::string key;
  std::string value;
};

Sample MakeSample(std::uint64_t number) {
  Random random(number);
  Sample sample;
  sample.key = fmt::format("/registry/events/namespace-{}/pod-{}.{:016x}", number % 50, number / 8,
                           random.Next());
  sample.value = fmt::format(
      R"({{"uid":"{:016x}{:016x}","name":"namespace-{}/pod-{}","reason":"{}","type":"{}",)"
      R"("lastTimestamp":"{:012}","metadata":{{"creationTimestamp":"2026-11-15T23:00:00Z",)"
      R"("managedFields":[{{"manager":"kubelet","operation":"Update","apiVersion":"v1"}}]}},)"
      R"("source":{{"component":"kubelet","host":"node-{}"}},"message":")",
      number / 8, number * 7919, number % 50, number / 8, number % 3 == 0 ? "Pulled" : "BackOff",
      number % 3 == 0 ? "Normal" : "Warning", number, number % 100);
  while (sample.value.size() < 690) {
    sample.value += fmt::format("Back-off restarting container {:x} ", random.Next() % 65536);
  }
  sample.value.resize(698);
  sample.value += "\"}";
  return sample;
}

std::string_view Field(std::string_view value, std::string_view name) {
  const std::string start = fmt::format("\"{}\":\"", name);
  const std::size_t at = value.find(start);
  if (at == std::string_view::npos) return {};
  const std::size_t from = at + start.size();
  return value.substr(from, value.find('"', from) - from);
}

Schema MakeSchema() {
  Schema schema;
  schema.index = [](std::string_view, std::string_view value) {
    std::vector<IndexEntry> entries;
    std::uint8_t index = 0;
    for (const char* field : {"uid", "name", "reason", "type", "lastTimestamp"}) {
      entries.push_back({++index, std::string(Field(value, field))});
    }
    return entries;
  };
  schema.lifetime = [](std::string_view, std::string_view) { return std::chrono::hours(1); };
  return schema;
}

std::filesystem::path BenchDirectory() {
  const char* directory = std::getenv("HERALD_BENCH_DIR");
  std::filesystem::path base =
      directory != nullptr ? directory : std::filesystem::temp_directory_path();
  return base / fmt::format("herald-store-bench-{}", ::getpid());
}

std::filesystem::path WriteDirectory() { return BenchDirectory() / "writes"; }
std::filesystem::path ReadDirectory() { return BenchDirectory() / "reads"; }

std::uint64_t EntriesOfReads() {
  const char* entries = std::getenv("HERALD_BENCH_ENTRIES");
  return entries != nullptr ? std::strtoull(entries, nullptr, 10) : 100'000;
}

std::unique_ptr<RocksStore> OpenStore(const std::filesystem::path& directory) {
  StoreOptions options;
  options.schema = MakeSchema();
  RocksStoreOptions rocks;
  rocks.db.directory = directory;
  auto store = RocksStore::Open(options, rocks);
  HERALD_CHECK(store.has_value(), store ? "" : store.error().ToString());
  return std::move(*store);
}

// Keeps `in_flight` writes in progress: each completion lets one thread send the next write, as the
// connections of a server do. The entries are created before the measurement.
class Writers {
 public:
  // Creates `count` entries. With `rewrites`, writes existing entries that many times, each time
  // with another value of the last index entry.
  Writers(Store* store, std::uint64_t first, std::uint64_t count, std::uint64_t rewrites = 0)
      : store_(*store), expected_(rewrites == 0 ? 0 : Write::kAny) {
    for (std::uint64_t round = 0; round < std::max<std::uint64_t>(rewrites, 1); ++round) {
      for (std::uint64_t i = 0; i < count; ++i) {
        Sample& sample = samples_.emplace_back(MakeSample(first + i));
        if (rewrites == 0) continue;
        const std::string time = fmt::format("{:012}", (round + 1) * count + i);
        sample.value.replace(static_cast<std::size_t>(Field(sample.value, "lastTimestamp").data() -
                                                      sample.value.data()),
                             time.size(), time);
      }
    }
    took_.resize(samples_.size());
  }

  void Run(int in_flight) {
    turns_.release(in_flight);
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      turns_.acquire();
      const auto start = std::chrono::steady_clock::now();
      store_.Commit({std::move(samples_[i].key),
                     std::make_shared<const std::string>(std::move(samples_[i].value)), expected_},
                    [this, start, i](const Result<Written>& written) {
                      HERALD_CHECK(written && written->committed, "a write failed");
                      const std::chrono::duration<double, std::milli> took =
                          std::chrono::steady_clock::now() - start;
                      took_[i] = took.count();
                      turns_.release();
                    });
    }
    for (int i = 0; i < in_flight; ++i) turns_.acquire();
    std::sort(took_.begin(), took_.end());
  }

  double Percentile(double p) const {
    return took_[static_cast<std::size_t>(p * static_cast<double>(took_.size() - 1))];
  }

 private:
  Store& store_;
  const Revision expected_;
  std::vector<Sample> samples_;
  std::vector<double> took_;  // milliseconds
  std::counting_semaphore<> turns_{0};
};

double ResidentMegabytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("VmRSS:")) return std::strtod(line.c_str() + 6, nullptr) / 1024;
  }
  return 0;
}

void BM_Create(benchmark::State& state) {
  constexpr std::uint64_t kWrites = 200'000;
  const auto directory = WriteDirectory();
  double p50 = 0;
  double p99 = 0;
  for (auto _ : state) {
    state.PauseTiming();
    std::filesystem::remove_all(directory);
    auto store = OpenStore(directory);
    Writers writers(store.get(), 0, kWrites);
    state.ResumeTiming();
    writers.Run(static_cast<int>(state.range(0)));
    state.PauseTiming();
    p50 = writers.Percentile(0.5);
    p99 = writers.Percentile(0.99);
    store.reset();
    std::filesystem::remove_all(directory);
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kWrites));
  state.counters["p50_ms"] = p50;
  state.counters["p99_ms"] = p99;
}
BENCHMARK(BM_Create)
    ->Arg(1)
    ->Arg(32)
    ->Arg(256)
    ->UseRealTime()
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

// The store of all read benchmarks, filled once.
Store& FilledStore() {
  static const std::unique_ptr<RocksStore> store = [] {
    const auto directory = ReadDirectory();
    {
      auto filling = OpenStore(directory);
      constexpr std::uint64_t kAtOnce = 100'000;
      for (std::uint64_t i = 0; i < EntriesOfReads(); i += kAtOnce) {
        Writers(filling.get(), i, std::min(kAtOnce, EntriesOfReads() - i)).Run(256);
      }
    }
    const auto start = std::chrono::steady_clock::now();
    auto opened = OpenStore(directory);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::fprintf(stderr, "opened %llu entries in %.2f s, %.0f MB resident\n",
                 static_cast<unsigned long long>(EntriesOfReads()), took.count(),
                 ResidentMegabytes());
    std::atexit([] { std::filesystem::remove_all(BenchDirectory()); });
    return opened;
  }();
  return *store;
}

void BM_Get(benchmark::State& state) {
  Store& store = FilledStore();
  Random random(1);
  for (auto _ : state) {
    // Reads recent entries, as most clients do.
    const std::uint64_t entries = EntriesOfReads();
    const std::uint64_t number =
        entries - 1 - random.Next() % std::min<std::uint64_t>(10'000, entries);
    std::promise<void> found;
    store.Get(MakeSample(number).key, [&found](const Result<std::optional<Entry>>& entry) {
      HERALD_CHECK(entry && *entry, "an entry is missing");
      found.set_value();
    });
    found.get_future().wait();
  }
}
BENCHMARK(BM_Get)->UseRealTime()->Unit(benchmark::kMicrosecond);

void ReadAndWait(Store& store, Query query, std::size_t expected) {
  std::promise<void> read;
  store.Read(std::move(query), [&read, expected](const Result<Page>& page) {
    HERALD_CHECK(page.has_value(), page ? "" : page.error().ToString());
    HERALD_CHECK(expected == 0 || page->entries.size() == expected,
                 fmt::format("{} entries", page->entries.size()));
    read.set_value();
  });
  read.get_future().wait();
}

void BM_List10000(benchmark::State& state) {
  Store& store = FilledStore();
  for (auto _ : state) {
    Query query;
    query.start = "/registry/events/";
    query.limit = 10'000;
    ReadAndWait(store, std::move(query), 10'000);
  }
  state.counters["MB_resident"] = ResidentMegabytes();
}
BENCHMARK(BM_List10000)->UseRealTime()->Unit(benchmark::kMillisecond);

// Rewrites the same entries repeatedly, like crash-looping pods, and then lists all.
void BM_RewriteAndList10000(benchmark::State& state) {
  constexpr std::uint64_t kEntries = 10'000;
  constexpr std::uint64_t kRewrites = 20;
  const auto directory = WriteDirectory();
  double per_second = 0;
  double list_ms = 0;
  for (auto _ : state) {
    std::filesystem::remove_all(directory);
    auto store = OpenStore(directory);
    Writers(store.get(), 0, kEntries).Run(256);
    Writers writers(store.get(), 0, kEntries, kRewrites);
    const auto begun = std::chrono::steady_clock::now();
    writers.Run(32);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    per_second = static_cast<double>(kEntries * kRewrites) / took.count();
    constexpr int kLists = 20;
    const auto listing = std::chrono::steady_clock::now();
    for (int i = 0; i < kLists; ++i) ReadAndWait(*store, {}, kEntries);
    const std::chrono::duration<double, std::milli> lists =
        std::chrono::steady_clock::now() - listing;
    list_ms = lists.count() / kLists;
    store.reset();
    std::filesystem::remove_all(directory);
  }
  state.counters["rewrites_per_s"] = per_second;
  state.counters["list_ms"] = list_ms;
}
BENCHMARK(BM_RewriteAndList10000)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(1);

void BM_FindByUid(benchmark::State& state) {
  Store& store = FilledStore();
  Random random(2);
  for (auto _ : state) {
    const Sample sample = MakeSample(random.Next() % EntriesOfReads());
    Query query;
    query.by.emplace();
    query.by->index = 1;
    query.by->from = Field(sample.value, "uid");
    query.by->to = query.by->from + '\0';
    ReadAndWait(store, std::move(query), 1);
  }
}
BENCHMARK(BM_FindByUid)->UseRealTime()->Unit(benchmark::kMicrosecond);

void BM_NewestHundred(benchmark::State& state) {
  Store& store = FilledStore();
  for (auto _ : state) {
    Query query;
    query.by.emplace();
    query.by->index = 5;
    query.by->to = "\xff";
    query.by->descending = true;
    query.limit = 100;
    ReadAndWait(store, std::move(query), 100);
  }
}
BENCHMARK(BM_NewestHundred)->UseRealTime()->Unit(benchmark::kMicrosecond);

// Creates entries while 20 watches receive every change.
void BM_CreateWith20Watches(benchmark::State& state) {
  constexpr std::uint64_t kWrites = 100'000;
  const auto directory = WriteDirectory();
  for (auto _ : state) {
    state.PauseTiming();
    std::filesystem::remove_all(directory);
    auto store = OpenStore(directory);
    struct Reader {
      std::counting_semaphore<> ready{0};
      std::unique_ptr<Watch> watch;
      std::uint64_t seen = 0;
    };
    std::vector<std::shared_ptr<Reader>> readers;
    for (int i = 0; i < 20; ++i) {
      auto reader = std::make_shared<Reader>();
      auto watch = store->NewWatch("/", 0, [reader] { reader->ready.release(); });
      HERALD_CHECK(watch.has_value());
      reader->watch = std::move(*watch);
      readers.push_back(std::move(reader));
    }
    Writers writers(store.get(), 0, kWrites);
    state.ResumeTiming();
    std::vector<std::thread> threads;
    for (const auto& reader : readers) {
      threads.emplace_back([reader] {
        while (reader->seen < kWrites) {
          auto batch = reader->watch->Next(256);
          HERALD_CHECK(batch.has_value(), batch ? "" : batch.error().ToString());
          reader->seen += batch->changes.size();
          if (batch->changes.empty()) reader->ready.acquire();
        }
      });
    }
    writers.Run(256);
    for (std::thread& thread : threads) thread.join();
    state.PauseTiming();
    for (const auto& reader : readers) reader->watch.reset();
    store.reset();
    std::filesystem::remove_all(directory);
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kWrites));
}
BENCHMARK(BM_CreateWith20Watches)
    ->UseRealTime()
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

}  // namespace
}  // namespace herald::store
