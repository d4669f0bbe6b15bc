#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "herald/api/event.h"
#include "herald/api/reference.h"
#include "herald/base/clock.h"
#include "herald/record/broadcaster.h"
#include "record/correlate/count_correlator.h"

// Benchmarks of recording. Each has a peer of the same name in
// test/interop/go/bench/record_bench_test.go, which does the same work with client-go on the same
// events in the same order; tools/bench runs both and prints the ratio. The counters are named
// after the units in bench/targets.
//
// Logging of dropped events is off on both sides.
namespace herald {
namespace {

using std::chrono::nanoseconds;

// Sleep between two polls while waiting for other threads.
constexpr std::chrono::microseconds kPoll{50};

ObjectReference Pod() {
  return {.kind = "Pod",
          .namespace_ = "default",
          .name = "web-0",
          .uid = "ce611c62-6c1a-4bd8-9029-136a1adf7de4",
          .api_version = "v1",
          .resource_version = "429837"};
}

// One of many pods. All names have the same length.
ObjectReference Pod(int number) {
  ObjectReference pod = Pod();
  pod.name = fmt::format("web-{:07}", number);
  pod.uid = fmt::format("ce611c62-6c1a-4bd8-9029-{:012x}", number);
  return pod;
}

RecorderOptions Kubelet() { return {.component = "kubelet", .host = "node-1"}; }

// The event that a recorder would create; passed to correlators and broadcasters directly.
Event EventAbout(const ObjectReference& pod, std::string message) {
  const Time time(SystemClock().Now());
  return {.metadata = {.name = MakeEventName(pod.name, SystemClock().Now()),
                       .namespace_ = pod.namespace_},
          .involved_object = pod,
          .reason = "Started",
          .message = std::move(message),
          .source = {.component = "kubelet", .host = "node-1"},
          .first_timestamp = time,
          .last_timestamp = time,
          .count = 1,
          .type = std::string(kNormal),
          .reporting_controller = "kubelet",
          .reporting_instance = "node-1"};
}

std::shared_ptr<const Event> SharedEventAbout(const ObjectReference& pod, std::string message) {
  return std::make_shared<const Event>(EventAbout(pod, std::move(message)));
}

nanoseconds ProcessCpu() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto sum = [](const timeval& a, const timeval& b) {
    return std::chrono::seconds(a.tv_sec + b.tv_sec) +
           std::chrono::microseconds(a.tv_usec + b.tv_usec);
  };
  return sum(usage.ru_utime, usage.ru_stime);
}

double Seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

nanoseconds Since(std::chrono::steady_clock::time_point start) {
  return std::chrono::steady_clock::now() - start;
}

std::size_t HeapBytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// A recorder, its broadcaster, and a sink with full caches: it has recorded events about as many
// objects as they hold.
class FullRecorder {
 public:
  FullRecorder() {
    const auto sink = MakeBlockingSink([this](const SinkRequest& request) -> Result<Event> {
      Event answer = *request.event;
      answer.metadata.resource_version = "429838";
      written_.fetch_add(1, std::memory_order_relaxed);
      return answer;
    });
    if (!broadcaster_.StartRecordingToSink(sink).ok()) std::abort();
    constexpr int kObjects = 4096;
    constexpr int kBurst = 512;
    for (int i = 0; i < kObjects; ++i) {
      recorder_.Eventf(Pod(i), kNormal, "Started", "Started container {}", "web");
      if ((i + 1) % kBurst != 0) continue;
      while (written_.load(std::memory_order_relaxed) <= i) std::this_thread::sleep_for(kPoll);
    }
    broadcaster_.Flush(std::chrono::seconds(1));
  }

 private:
  std::atomic<int> written_{0};
  Broadcaster broadcaster_;
  Recorder recorder_ = broadcaster_.NewRecorder(Kubelet());
};

// Runs first and only once: the pool of event memory belongs to the process and is filled by the
// first benchmark that records.
void BM_FullRecorderMemory(benchmark::State& state) {
  for (auto _ : state) {
    const std::size_t before = HeapBytes();
    const FullRecorder recorder;
    state.counters["bytes"] = static_cast<double>(HeapBytes() - before);
  }
}
BENCHMARK(BM_FullRecorderMemory)->UseRealTime()->MeasureProcessCPUTime()->Iterations(1);

// Runs a function on several threads concurrently, once per call of Run().
class Crew {
 public:
  // `work` returns how long it took.
  Crew(int threads, std::function<nanoseconds()> work)
      : work_(std::move(work)), start_(threads + 1), end_(threads + 1), spent_(threads) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, i] {
        for (;;) {
          start_.arrive_and_wait();
          if (leaving_) return;
          spent_[i] = work_();
          end_.arrive_and_wait();
        }
      });
    }
  }
  ~Crew() {
    leaving_ = true;
    start_.arrive_and_wait();
  }

  // The sum of the results of all threads.
  nanoseconds Work() {
    start_.arrive_and_wait();
    end_.arrive_and_wait();
    return std::accumulate(spent_.begin(), spent_.end(), nanoseconds(0));
  }

 private:
  const std::function<nanoseconds()> work_;
  std::barrier<> start_;
  std::barrier<> end_;
  std::vector<nanoseconds> spent_;
  bool leaving_ = false;
  std::vector<std::jthread> threads_;
};

// A recorder whose events are counted by one listener.
class CountedRecorder {
 public:
  CountedRecorder() {
    const Status status = broadcaster_.StartEventWatcher(
        [this](const Event&) { delivered_.fetch_add(1, std::memory_order_relaxed); });
    if (!status.ok()) std::abort();
  }

  nanoseconds Record(int calls) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) {
      recorder_.Eventf(pod_, kNormal, "Started", "Started container {}", container_);
    }
    return Since(start);
  }

  std::int64_t delivered() const { return delivered_.load(std::memory_order_relaxed); }

  void AwaitDelivered(std::int64_t count) const {
    while (delivered() < count) std::this_thread::sleep_for(kPoll);
  }

  // Waits until no more events arrive. Their number is unknown, because some may have been dropped.
  void AwaitQuiet() const {
    constexpr int kQuietLooks = 5;
    constexpr std::chrono::milliseconds kLook{2};
    std::int64_t before = -1;
    for (int quiet = 0; quiet < kQuietLooks; ++quiet) {
      if (const std::int64_t now = delivered(); now != before) {
        before = now;
        quiet = 0;
      }
      std::this_thread::sleep_for(kLook);
    }
  }

 private:
  std::atomic<std::int64_t> delivered_{0};
  Broadcaster broadcaster_;
  Recorder recorder_ = broadcaster_.NewRecorder(Kubelet());
  const ObjectReference pod_ = Pod();
  const std::string container_ = "web";
};

// The time of a call while the queue has room for all events, which is the usual case.
void EventfInBursts(benchmark::State& state, int threads) {
  constexpr int kBurst = 500;  // of all threads together
  CountedRecorder recorder;
  Crew crew(threads, [&] { return recorder.Record(kBurst / threads); });
  std::int64_t calls = 0;
  nanoseconds spent{0};
  for (auto _ : state) {
    const nanoseconds burst = crew.Work();
    state.SetIterationTime(Seconds(burst));
    spent += burst;
    calls += kBurst;
    recorder.AwaitDelivered(calls);
  }
  state.counters["ns/call"] = Seconds(spent) * 1e9 / static_cast<double>(calls);
}

void BM_EventfBurst1(benchmark::State& state) { EventfInBursts(state, 1); }
BENCHMARK(BM_EventfBurst1)->UseManualTime()->MeasureProcessCPUTime();

void BM_EventfBurst4(benchmark::State& state) { EventfInBursts(state, 4); }
BENCHMARK(BM_EventfBurst4)->UseManualTime()->MeasureProcessCPUTime();

// Records as fast as possible, which is faster than the listener.
void EventfFlatOut(benchmark::State& state, int threads) {
  constexpr int kCalls = 200'000;  // of all threads together
  CountedRecorder recorder;
  Crew crew(threads, [&] { return recorder.Record(kCalls / threads); });
  std::int64_t calls = 0;
  nanoseconds cpu{0};
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    const nanoseconds before = ProcessCpu();
    crew.Work();
    recorder.AwaitQuiet();
    cpu += ProcessCpu() - before;
    calls += kCalls;
    state.SetIterationTime(Seconds(Since(start)));
  }
  const auto delivered = static_cast<double>(recorder.delivered());
  state.counters["cpu-ns/event"] = Seconds(cpu) * 1e9 / delivered;
  state.counters["share"] = delivered / static_cast<double>(calls);
}

void BM_EventfFlatOut1(benchmark::State& state) { EventfFlatOut(state, 1); }
BENCHMARK(BM_EventfFlatOut1)->UseManualTime()->MeasureProcessCPUTime();

void BM_EventfFlatOut4(benchmark::State& state) { EventfFlatOut(state, 4); }
BENCHMARK(BM_EventfFlatOut4)->UseManualTime()->MeasureProcessCPUTime();

// One thread sends events, and one thread per watcher receives them. Nothing is dropped: the faster
// side waits.
void Broadcast(benchmark::State& state, int watchers,
               const std::function<std::shared_ptr<const Event>()>& next_event) {
  constexpr int kDeliveries = 256'000;  // per round, to all watchers together
  const int events = kDeliveries / watchers;
  Broadcaster broadcaster({.when_full = WhenFull::kWait});
  std::counting_semaphore<> done{0};
  std::vector<std::unique_ptr<Watcher>> watching;
  std::vector<std::jthread> threads;
  for (int i = 0; i < watchers; ++i) {
    watching.push_back(broadcaster.Watch().value());
    threads.emplace_back([&, watcher = watching.back().get()] {
      constexpr std::size_t kMostAtOnce = 1000;
      int taken = 0;
      for (;;) {
        const std::vector<Watcher::Item> items = watcher->NextBatch(kMostAtOnce);
        if (items.empty()) return;
        for (const Watcher::Item& item : items) {
          benchmark::DoNotOptimize(item.event.get());
          if (++taken % events == 0) done.release();
        }
      }
    });
  }
  nanoseconds spent{0};
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < events; ++i) {
      if (!broadcaster.Action(WatchType::kAdded, next_event()).ok()) std::abort();
    }
    for (int i = 0; i < watchers; ++i) done.acquire();
    const nanoseconds round = Since(start);
    spent += round;
    state.SetIterationTime(Seconds(round));
  }
  const double deliveries = static_cast<double>(state.iterations()) * events * watchers;
  state.counters["deliveries/s"] = deliveries / Seconds(spent);
  broadcaster.Shutdown(std::chrono::seconds(1));
}

void BroadcastOneEvent(benchmark::State& state, int watchers) {
  const auto event = SharedEventAbout(Pod(), "Started container web");
  Broadcast(state, watchers, [&] { return event; });
}

// Copies with distinct names.
void BroadcastManyEvents(benchmark::State& state, int watchers) {
  const Event sample = EventAbout(Pod(), "Started container web");
  WallTime time = SystemClock().Now();
  Broadcast(state, watchers, [&] {
    auto event = std::make_shared<Event>(sample);
    MakeEventName(event->involved_object.name, time += nanoseconds(1), &event->metadata.name);
    return event;
  });
}

void BM_Broadcast1(benchmark::State& state) { BroadcastOneEvent(state, 1); }
BENCHMARK(BM_Broadcast1)->UseManualTime()->MeasureProcessCPUTime();

void BM_Broadcast8(benchmark::State& state) { BroadcastOneEvent(state, 8); }
BENCHMARK(BM_Broadcast8)->UseManualTime()->MeasureProcessCPUTime();

void BM_Broadcast64(benchmark::State& state) { BroadcastOneEvent(state, 64); }
BENCHMARK(BM_Broadcast64)->UseManualTime()->MeasureProcessCPUTime();

void BM_BroadcastDistinct1(benchmark::State& state) { BroadcastManyEvents(state, 1); }
BENCHMARK(BM_BroadcastDistinct1)->UseManualTime()->MeasureProcessCPUTime();

void BM_BroadcastDistinct8(benchmark::State& state) { BroadcastManyEvents(state, 8); }
BENCHMARK(BM_BroadcastDistinct8)->UseManualTime()->MeasureProcessCPUTime();

void BM_BroadcastDistinct64(benchmark::State& state) { BroadcastManyEvents(state, 64); }
BENCHMARK(BM_BroadcastDistinct64)->UseManualTime()->MeasureProcessCPUTime();

// The spam filter accepts everything, because rejected events cost less.
CountOptions OpenFilter() { return {.spam_burst = 1'000'000'000, .spam_qps = 1e9f}; }

Correlation Correlate(CountCorrelator* correlator, const std::shared_ptr<const Event>& event) {
  return correlator->Correlate(event, SystemClock().Now(), SystemClock().Steady());
}

// Correlates the events repeatedly, in their order. Events before the first timed one fill the
// caches.
void CorrelateAll(benchmark::State& state, const std::vector<std::shared_ptr<const Event>>& events,
                  SinkRequest::Verb expected) {
  CountCorrelator correlator(OpenFilter(), /*upstream_exact=*/false);
  for (int i = 0; i < 2; ++i) {
    for (const auto& event : events) benchmark::DoNotOptimize(Correlate(&correlator, event));
  }
  std::size_t next = 0;
  bool as_expected = true;
  for (auto _ : state) {
    const Correlation result = Correlate(&correlator, events[next]);
    if (++next == events.size()) next = 0;
    as_expected &= result.action == Correlation::Action::kSend && result.request.verb == expected;
    benchmark::DoNotOptimize(result.request.patch.data());
  }
  if (!as_expected) state.SkipWithError("an event became another request than it should");
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

// More objects than the caches hold, in turn, so that each object has been evicted when it is used
// again.
void BM_CorrelateUnique(benchmark::State& state) {
  constexpr int kObjects = 3 * 4096;
  std::vector<std::shared_ptr<const Event>> events;
  for (int i = 0; i < kObjects; ++i) {
    events.push_back(SharedEventAbout(Pod(i), "Started container web"));
  }
  CorrelateAll(state, events, SinkRequest::Verb::kCreate);
}
BENCHMARK(BM_CorrelateUnique)->UseRealTime()->MeasureProcessCPUTime();

void BM_CorrelateRepeated(benchmark::State& state) {
  CorrelateAll(state, {SharedEventAbout(Pod(), "Started container web")},
               SinkRequest::Verb::kPatch);
}
BENCHMARK(BM_CorrelateRepeated)->UseRealTime()->MeasureProcessCPUTime();

// One object with a different message each time: nearly all are aggregated.
void BM_CorrelateSimilar(benchmark::State& state) {
  constexpr int kMessages = 4096;
  std::vector<std::shared_ptr<const Event>> events;
  for (int i = 0; i < kMessages; ++i) {
    events.push_back(SharedEventAbout(Pod(), fmt::format("Started container web-{:04}", i)));
  }
  CorrelateAll(state, events, SinkRequest::Verb::kPatch);
}
BENCHMARK(BM_CorrelateSimilar)->UseRealTime()->MeasureProcessCPUTime();

// The cost of an event about the last of a number of distinct objects.
void CorrelateObjects(benchmark::State& state, int objects) {
  // The same event with another name each time, to measure the correlator and not the memory access
  // of many events.
  const auto event = std::make_shared<Event>(EventAbout(Pod(0), "Started container web"));
  std::string& name = event->involved_object.name;
  const std::string first = name;
  for (auto _ : state) {
    name = first;
    CountCorrelator correlator(OpenFilter(), /*upstream_exact=*/false);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < objects; ++i) {
      for (std::size_t digit = name.size() - 1; ++name[digit] > '9'; --digit) name[digit] = '0';
      benchmark::DoNotOptimize(Correlate(&correlator, event));
    }
    state.SetIterationTime(Seconds(Since(start)) / objects);
  }
}
// The time is per event, so the number of iterations must be set explicitly.
void BM_CorrelateObjects100(benchmark::State& state) { CorrelateObjects(state, 100); }
BENCHMARK(BM_CorrelateObjects100)->UseManualTime()->Iterations(2000);

void BM_CorrelateObjects10k(benchmark::State& state) { CorrelateObjects(state, 10'000); }
BENCHMARK(BM_CorrelateObjects10k)->UseManualTime()->Iterations(20);

void BM_CorrelateObjects1M(benchmark::State& state) { CorrelateObjects(state, 1'000'000); }
BENCHMARK(BM_CorrelateObjects1M)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace herald
