#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "client/rest/resource_codec.h"
#include "client/watch/frame_buffer.h"
#include "herald/api/codec.h"
#include "herald/client/rest.h"
#include "herald/client/rest_sink.h"
#include "herald/record/broadcaster.h"

// Benchmarks of the client. Each has a peer of the same name in
// test/interop/go/bench/client_bench_test.go, which does the same with client-go and the same
// server: bench/echo_server, which tools/bench starts and whose URLs it sets in the environment.
// The counters are named after the units in bench/targets.
namespace herald {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

// Events in flight. Fewer than the queue's 1,000, so that none is dropped.
constexpr int kMaxOutstanding = 500;
// Sleep between two polls while waiting for other threads.
constexpr std::chrono::microseconds kPoll{50};

nanoseconds ProcessCpu() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto time = [](const timeval& t) {
    return seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
  };
  return time(usage.ru_utime) + time(usage.ru_stime);
}

// A client of the server whose URL is in the environment; null if it is not set.
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

// Events about distinct objects, so that each is one request, from one thread to one sink.
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

// All requests on one connection.
void BM_RecordToServerHttp2(benchmark::State& state) {
  Record(state, "HERALD_ECHO_URL", {.plain_http2 = true});
}
BENCHMARK(BM_RecordToServerHttp2)->UseRealTime()->MinTime(2);

void BM_RecordToSlowServer(benchmark::State& state) { Record(state, "HERALD_SLOW_ECHO_URL"); }
BENCHMARK(BM_RecordToSlowServer)->UseRealTime()->MinTime(2);

// The JSON of one of many events, as an API server sends it.
Event ServersEvent(int number) {
  Event event;
  event.metadata.name = fmt::format("web-{:07}.17978a1f2b3c4d5e", number);
  event.metadata.namespace_ = "default";
  event.metadata.uid = fmt::format("ce611c62-6c1a-4bd8-9029-{:012x}", number);
  event.metadata.resource_version = std::to_string(429837 + number);
  event.metadata.creation_timestamp = Time(1'700'000'000, 0);
  event.involved_object = {.kind = "Pod",
                           .namespace_ = "default",
                           .name = fmt::format("web-{:07}", number),
                           .uid = "ce611c62-6c1a-4bd8-9029-136a1adf7de4",
                           .api_version = "v1",
                           .resource_version = "429837",
                           .field_path = "spec.containers{nginx}"};
  event.reason = "Started";
  event.message = "Started container nginx";
  event.source = {.component = "kubelet", .host = "node-1"};
  event.first_timestamp = event.last_timestamp = Time(1'700'000'000, 0);
  event.count = 1;
  event.type = kNormal;
  event.reporting_controller = "kubelet";
  event.reporting_instance = "node-1";
  return event;
}

// A watch stream as read from a socket: buffers that end anywhere in a frame.
void WatchDecode(benchmark::State& state, const Codec& codec) {
  constexpr int kFrames = 1000;
  constexpr std::size_t kPiece = 16 * 1024;
  std::string stream;
  for (int i = 0; i < kFrames; ++i) {
    codec.AppendWatchFrame(WatchType::kAdded, ServersEvent(i), EventApi::kCoreV1, &stream);
  }
  const ResourceCodec<Event> resource_codec(Resource{"", "v1", "events"});
  std::int64_t events = 0;
  WatchEvent frame;  // reused for all frames, as in watch_stream.h
  for (auto _ : state) {
    FrameBuffer buffer(codec);
    for (std::size_t at = 0; at < stream.size(); at += kPiece) {
      const Status status =
          buffer.Append(std::string_view(stream).substr(at, kPiece), [&](std::string_view payload) {
            Status unreadable = resource_codec.ReadFrame(codec, payload, &frame);
            if (!unreadable.ok()) return unreadable;
            benchmark::DoNotOptimize(std::get<Event>(frame.object).metadata.name.data());
            ++events;
            return unreadable;
          });
      if (!status.ok()) return state.SkipWithError(status.message().c_str());
    }
  }
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
}

void BM_WatchDecodeJson(benchmark::State& state) { WatchDecode(state, JsonCodec()); }
BENCHMARK(BM_WatchDecodeJson);
void BM_WatchDecodeProtobuf(benchmark::State& state) { WatchDecode(state, ProtobufCodec()); }
BENCHMARK(BM_WatchDecodeProtobuf);

std::size_t HeapBytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// The memory of this process in bytes, from /proc/self/status: VmRSS is the current size, VmHWM the
// maximum since the last call of ResetPeak().
std::size_t KernelBytes(std::string_view field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stoul(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}
void ResetPeak() { std::ofstream("/proc/self/clear_refs") << "5"; }

// Decodes the body of a list of 10,000 events.
void BM_List10k(benchmark::State& state) {
  EventList list;
  list.metadata.resource_version = "439837";
  for (int i = 0; i < 10'000; ++i) list.items.push_back(ServersEvent(i));
  std::string body;
  JsonCodec().AppendEventList(list, EventApi::kCoreV1, &body);
  list = {};
  const ResourceCodec<Event> resource_codec(Resource{"", "v1", "events"});
  const auto read = [&] {
    Result<EventList> all = resource_codec.ReadList("application/json", body);
    if (!all || all->items.size() != 10'000) state.SkipWithError("not read");
    return std::move(all).value_or(EventList());
  };
  for (auto _ : state) {
    const EventList all = read();
    benchmark::DoNotOptimize(all.items.data());
  }
  // The maximum memory while one list is decoded, including the result, and without memory that was
  // freed before.
  malloc_trim(0);
  ResetPeak();
  const std::size_t resident = KernelBytes("VmRSS:");
  std::vector<EventList> kept;
  kept.push_back(read());
  state.counters["peak-bytes"] = static_cast<double>(KernelBytes("VmHWM:") - resident);
  // The memory of the result: the difference between one list and several.
  constexpr int kMore = 4;
  const std::size_t one = HeapBytes();
  for (int i = 0; i < kMore; ++i) kept.push_back(read());
  state.counters["bytes"] = static_cast<double>(HeapBytes() - one) / kMore;
}
BENCHMARK(BM_List10k)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace herald
