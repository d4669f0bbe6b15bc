// A tour of Herald in one program: a node records events about its pods, one pod crashes again and
// again, and a sink in memory receives the merged events instead of an API server. It needs no
// cluster; `make run` runs it.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "herald/api/codec.h"
#include "herald/api/table.h"
#include "herald/record/broadcaster.h"
#include "herald/record/fakes.h"

namespace {

// Prints the columns of `kubectl get events`, and the count.
void PrintTable(const std::vector<herald::Event>& events) {
  const herald::Table table =
      herald::MakeEventTable({}, events, herald::EventApi::kCoreV1, herald::TableObject::kNone,
                             herald::Timestamp(herald::SystemClock().Now()));
  std::vector<std::vector<std::string>> lines(table.rows.size() + 1);
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].priority > 0 && table.columns[i].name != "Count") continue;
    lines[0].emplace_back(table.columns[i].name);
    std::size_t width = lines[0].back().size();
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      const herald::Table::Cell& cell = table.rows[row].cells[i];
      const auto* string = std::get_if<std::string>(&cell);
      lines[row + 1].push_back(string != nullptr ? *string
                                                 : fmt::format("{}", std::get<std::int64_t>(cell)));
      width = std::max(width, lines[row + 1].back().size());
    }
    widths.push_back(width);
  }
  for (const std::vector<std::string>& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) fmt::print("{:<{}}   ", line[i], widths[i]);
    fmt::print("\n");
  }
}

}  // namespace

int main() {
  const auto server = std::make_shared<herald::MemorySink>();
  herald::Broadcaster broadcaster;
  if (!broadcaster.StartRecordingToSink(server).ok()) return 1;
  herald::Recorder recorder =
      broadcaster.NewRecorder({.component = "node-agent", .host = "node-1"});

  const herald::ObjectReference web{.kind = "Pod",
                                    .namespace_ = "default",
                                    .name = "web-0",
                                    .uid = "ce611c62-6c1a-4bd8-9029-136a1adf7de4",
                                    .api_version = "v1"};
  herald::ObjectReference db = web;
  db.name = "db-0";
  db.uid = "4f3a1d7e-90b5-4a43-8d0f-7d2c8e0b6a11";

  fmt::print(
      "A pod starts. Another pod fails 20 times, then its probe fails with 12 different "
      "messages.\n");
  recorder.Event(web, herald::kNormal, "Started", "Started container web");
  for (int i = 0; i < 20; ++i) {
    recorder.Event(db, herald::kWarning, "BackOff", "Back-off restarting failed container");
  }
  for (int i = 0; i < 12; ++i) {
    recorder.Eventf(db, herald::kWarning, "Unhealthy", "Probe failed: attempt {} timed out", i);
  }
  const herald::DrainReport report = broadcaster.Flush(std::chrono::seconds(5));

  fmt::print(
      "\n33 events were recorded. The server has these events. Repeated events are counted, and\n"
      "after 25 events about one pod the spam filter suppresses the rest.\n\n");
  PrintTable(server->Events());

  fmt::print("\nThe outcomes of the 33 events:\n\n");
  std::string metrics;
  broadcaster.WritePrometheusText(&metrics);
  fmt::print("{}", metrics);

  fmt::print("\nOne event in the two spellings of the Kubernetes API:\n\n");
  const herald::Event first = server->Events().back();
  for (const auto api : {herald::EventApi::kCoreV1, herald::EventApi::kEventsV1}) {
    std::string json;
    herald::JsonCodec().AppendEvent(first, api, &json);
    fmt::print("{}", json);
  }
  return report.complete ? 0 : 1;
}
