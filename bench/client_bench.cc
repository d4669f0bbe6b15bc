#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "client/frame_buffer.h"
#include "client/representation.h"
#include "herald/api/codec.h"
#include "herald/client/rest.h"
#include "herald/client/rest_sink.h"
#include "herald/record/broadcaster.h"

// What the client costs. Each row has a peer of the same name in
// test/interop/go/bench/client_bench_test.go, which does the same with client-go against the
// same server: bench/echo_server, which tools/bench starts and whose ports it hands on in
// the environment. The counters are named after the units in bench/targets.
namespace herald {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

// Events on their way at once. Below the queue's thousand, so that none is dropped.
constexpr int kMaxOutstanding = 500;
// What waiting for others sleeps for between two looks.
constexpr std::chrono::microseconds kPoll{50};

nanoseconds ProcessCpu() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto time = [](const timeval& t) {
    return seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
  };
  return time(usage.ru_utime) + time(usage.ru_stime);
}

// A client of the server whose port stands in the environment; null without one.
std::shared_ptr<RestClient> Connect(benchmark::State& state, const char* variable,
                                    RestOptions options = {}) {
  const char* const url = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  if (url == nullptr) {
    state.SkipWithError(fmt::format("{} is not set; run tools/bench", variable).c_str());
    return nullptr;
  }
  ClientConfig config;
  config.server = url;
  config.insecure_skip_tls_verify = true;
  auto rest = RestClient::Open(config, std::move(options));
  if (!rest) {
    state.SkipWithError(rest.error().message().c_str());
    return nullptr;
  }
  return *rest;
}

// Events about ever new objects, so that each is a request, from one thread to one sink.
void Record(benchmark::State& state, const char* variable, RestOptions options = {}) {
  const std::shared_ptr<RestClient> rest = Connect(state, variable, std::move(options));
  if (!rest) return;
  std::atomic<std::int64_t> written{0}, other{0};
  Broadcaster broadcaster;
  if (!broadcaster.StartRecordingToSink(std::make_shared<RestSink>(rest)).ok()) {
    return state.SkipWithError("no sink");
  }
  RecorderOptions who{.component = "kubelet", .host = "node-1"};
  who.on_outcome = [&](Outcome outcome, const Status&) {
    ++(outcome == Outcome::kWritten ? written : other);
  };
  Recorder recorder = broadcaster.NewRecorder(who);
  std::int64_t recorded = 0;
  const nanoseconds cpu = ProcessCpu();
  for (auto _ : state) {
    while (recorded - written - other >= kMaxOutstanding) std::this_thread::sleep_for(kPoll);
    ObjectReference pod{.kind = "Pod",
                        .namespace_ = "default",
                        .name = fmt::format("web-{:07}", recorded),
                        .uid = "ce611c62-6c1a-4bd8-9029-136a1adf7de4",
                        .api_version = "v1",
                        .resource_version = "429837"};
    recorder.Eventf(pod, kNormal, "Started", "Started container {}", "nginx");
    ++recorded;
  }
  while (recorded > written + other) std::this_thread::sleep_for(kPoll);
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(written), benchmark::Counter::kIsRate);
  state.counters["cpu-ns/event"] =
      static_cast<double>((ProcessCpu() - cpu).count()) / static_cast<double>(recorded);
  state.counters["lost"] = static_cast<double>(other.load());
}

void BM_RecordToServer(benchmark::State& state) { Record(state, "HERALD_ECHO_URL"); }
BENCHMARK(BM_RecordToServer)->UseRealTime()->MinTime(2);

void BM_RecordToServerPlain2(benchmark::State& state) {
  Record(state, "HERALD_ECHO_URL", {.plain_http2 = true});
}
BENCHMARK(BM_RecordToServerPlain2)->UseRealTime()->MinTime(2);

void BM_RecordToSlowServer(benchmark::State& state) { Record(state, "HERALD_SLOW_ECHO_URL"); }
BENCHMARK(BM_RecordToSlowServer)->UseRealTime()->MinTime(2);

}  // namespace
}  // namespace herald
