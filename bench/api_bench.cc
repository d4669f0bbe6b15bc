#include <benchmark/benchmark.h>

#include <string>
#include <string_view>

#include "herald/api/codec.h"
#include "herald/api/patch.h"

// Benchmarks of encoding, decoding and patching events. Each has a peer of the same name in
// test/interop/go/bench, which does the same work with client-go on the same event; tools/bench
// runs both and prints the ratio. As in the peer, decoding returns an event that owns its memory,
// and encoding returns a new string.
namespace herald {
namespace {

constexpr std::string_view kEventJson =
    R"({"kind":"Event","apiVersion":"v1","metadata":{"name":"web-0.18e84d8123e3aa33",)"
    R"("namespace":"default","creationTimestamp":null},"involvedObject":{"kind":"Pod",)"
    R"("namespace":"default","name":"web-0","uid":"ce611c62-6c1a-4bd8-9029-136a1adf7de4",)"
    R"("apiVersion":"v1","resourceVersion":"429837"},"reason":"Started",)"
    R"("message":"Started container web","source":{"component":"kubelet","host":"node-1"},)"
    R"("firstTimestamp":"2026-11-15T19:00:00Z","lastTimestamp":"2026-11-15T19:00:00Z",)"
    R"("count":1,"type":"Normal","eventTime":null,"reportingComponent":"kubelet",)"
    R"("reportingInstance":"node-1"})";

constexpr std::string_view kPatch =
    R"({"count":2,"lastTimestamp":"2026-11-15T19:05:00Z","message":"Started container web again"})";

const Event& SampleEvent() {
  static const Event event = JsonCodec().DecodeEvent(kEventJson, EventApi::kCoreV1).value();
  return event;
}

void Encode(benchmark::State& state, const Codec& codec) {
  std::size_t bytes = 0;
  for (auto _ : state) {
    std::string out;
    codec.AppendEvent(SampleEvent(), EventApi::kCoreV1, &out);
    bytes += out.size();
    benchmark::DoNotOptimize(out);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
}

void Decode(benchmark::State& state, const Codec& codec, std::string_view data) {
  for (auto _ : state) {
    Result<Event> event = codec.DecodeEvent(data, EventApi::kCoreV1);
    if (!event) state.SkipWithError(event.error().message().c_str());
    benchmark::DoNotOptimize(event);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(data.size()));
}

void BM_JsonEncode(benchmark::State& state) { Encode(state, JsonCodec()); }
BENCHMARK(BM_JsonEncode)->MeasureProcessCPUTime();

void BM_JsonDecode(benchmark::State& state) { Decode(state, JsonCodec(), kEventJson); }
BENCHMARK(BM_JsonDecode)->MeasureProcessCPUTime();

void BM_ProtobufEncode(benchmark::State& state) { Encode(state, ProtobufCodec()); }
BENCHMARK(BM_ProtobufEncode)->MeasureProcessCPUTime();

void BM_ProtobufDecode(benchmark::State& state) {
  std::string data;
  ProtobufCodec().AppendEvent(SampleEvent(), EventApi::kCoreV1, &data);
  Decode(state, ProtobufCodec(), data);
}
BENCHMARK(BM_ProtobufDecode)->MeasureProcessCPUTime();

// From the stored JSON to the patched JSON.
void BM_StrategicMergePatch(benchmark::State& state) {
  for (auto _ : state) {
    Result<Event> event = JsonCodec().DecodeEvent(kEventJson, EventApi::kCoreV1);
    const Status status =
        ApplyPatchInPlace(&*event, EventApi::kCoreV1, PatchType::kStrategicMerge, kPatch);
    if (!status.ok()) state.SkipWithError(status.message().c_str());
    std::string out;
    JsonCodec().AppendEvent(*event, EventApi::kCoreV1, &out);
    benchmark::DoNotOptimize(out);
  }
}
BENCHMARK(BM_StrategicMergePatch)->MeasureProcessCPUTime();

// From an event in memory to the patched event, as in an API server.
void BM_StrategicMergePatchObject(benchmark::State& state) {
  for (auto _ : state) {
    Result<Event> event =
        ApplyPatch(SampleEvent(), EventApi::kCoreV1, PatchType::kStrategicMerge, kPatch);
    if (!event) state.SkipWithError(event.error().message().c_str());
    benchmark::DoNotOptimize(event);
  }
}
BENCHMARK(BM_StrategicMergePatchObject)->MeasureProcessCPUTime();

}  // namespace
}  // namespace herald
