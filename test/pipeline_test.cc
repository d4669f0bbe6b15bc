// Compares Herald, with upstream_exact, to the recorded behavior of the real client-go in complete
// scenarios, from the recorder's call to the requests (test/interop/go/cmd/goldens/pipeline.go).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "herald/api/codec.h"
#include "herald/api/reference.h"
#include "herald/base/clock.h"
#include "herald/base/executor.h"
#include "herald/record/broadcaster.h"
#include "test/golden.h"

namespace herald {
namespace {

using std::chrono::nanoseconds;
using testing::Vector;
using Verb = SinkRequest::Verb;

// The step of the fake clock. Delays are exact to one step. It divides all of upstream's periods,
// so their ticks are exact.
constexpr nanoseconds kStep = std::chrono::milliseconds(250);

std::string Text(const Vector& value, const char* key) { return value.value(key, std::string()); }

ObjectReference ReferenceOf(const Vector& value) {
  return {.kind = Text(value, "kind"),
          .namespace_ = Text(value, "namespace"),
          .name = Text(value, "name"),
          .uid = Text(value, "uid"),
          .api_version = Text(value, "apiVersion"),
          .resource_version = Text(value, "resourceVersion"),
          .field_path = Text(value, "fieldPath")};
}

// The object of a step.
ObjectReference ObjectOf(const Vector& step) {
  if (step.contains("object_json")) return ReferenceFromJson(Text(step, "object_json")).value();
  if (step.contains("object")) return ReferenceOf(step["object"]);
  return {.kind = "Pod", .namespace_ = "ns", .name = "web", .uid = "u1", .api_version = "v1"};
}

// The range of a delay before a retry.
std::pair<nanoseconds, nanoseconds> RangeOf(std::string_view wait) {
  using std::chrono::seconds;
  if (wait == "0s-10s") return {seconds(0), seconds(10)};
  if (wait == "10s") return {seconds(10), seconds(10)};
  if (wait == "10s-12.5s") return {seconds(10), std::chrono::milliseconds(12'500)};
  if (wait == "tick") return {std::chrono::minutes(6), std::chrono::minutes(6)};
  throw std::runtime_error("no such wait");
}

// The Status that a sink returns for a response that client-go reports as this error.
Status ErrorOf(const Vector& answer) {
  if (answer.contains("local")) {
    const std::string kind = Text(answer, "local");
    if (kind == "construction") return Status(StatusReason::kBadRequest, "cannot be sent");
    if (kind == "timeout") return Status(StatusReason::kTimeout, "no answer in time");
    if (kind == "unexpected") return Status(StatusReason::kUnknown, "not an event");
    return Status(StatusReason::kUnreachable, "no connection");
  }
  Status::Parts parts{.reason = ReasonFromName(Text(answer, "reason")),
                      .code = answer.at("code").get<int>(),
                      .message = Text(answer, "message"),
                      .retry_after = std::chrono::seconds(answer.value("retry_after", 0)),
                      .origin = Status::Origin::kServer};
  if (answer.contains("causes")) {
    parts.details.emplace();
    for (const Vector& cause : answer["causes"]) {
      parts.details->causes.push_back({.reason = cause.get<std::string>()});
    }
  }
  return Status(std::move(parts));
}

class Replay {
 public:
  explicit Replay(const Vector& scenario)
      : scenario_(scenario),
        api_(Text(scenario, "style") == "events" ? EventApi::kEventsV1 : EventApi::kCoreV1),
        clock_(WallTime(nanoseconds(scenario.at("start_ns").get<std::int64_t>()))),
        start_(clock_.Steady()),
        executor_({.threads = 0, .clock = &clock_}) {}

  // Describes the first difference from client-go; empty if there is none.
  std::vector<std::string> Run() {
    Broadcaster broadcaster(Options());
    Play(&broadcaster);
    const Vector& expected = scenario_.at("requests");
    for (std::size_t i = requests_; i < expected.size(); ++i) {
      Differ("request {} is missing: {} {}", i, Text(expected[i], "verb"),
             Text(expected[i], "path"));
    }
    if (scenario_.contains("lines")) Compare("lines", scenario_["lines"], lines_);
    if (scenario_.contains("structured")) {
      Compare("structured", scenario_["structured"], structured_);
    }
    Compare("complaints", scenario_.at("complaints"), complaints_);
    // Requests during the shutdown of the broadcaster are not part of the scenario.
    over_ = true;
    return std::move(differences_);
  }

  // The same with Herald's own rules: checks only what must be true under any rules.
  std::vector<std::string> RunAccounted() {
    compares_ = false;
    BroadcasterOptions options = Options();
    options.upstream_exact = false;
    Broadcaster broadcaster(std::move(options));
    Play(&broadcaster);
    Advance(std::chrono::hours(1));
    broadcaster.Shutdown(nanoseconds(0));
    const SinkStats stats = broadcaster.Stats().at(0);
    std::uint64_t calls = 0;
    for (const Vector& step : scenario_.at("steps")) calls += Text(step, "call") != "shutdown";
    if (stats.recorded != calls) Differ("{} of {} events were recorded", stats.recorded, calls);
    if (stats.in_flight != 0) Differ("{} events have no outcome", stats.in_flight);
    return std::move(differences_);
  }

 private:
  class ScriptedSink final : public Sink {
   public:
    explicit ScriptedSink(Replay* replay) : replay_(*replay) {}
    void Send(SinkRequest request, Completion done) override { done(replay_.Answer(request)); }

   private:
    Replay& replay_;
  };

  BroadcasterOptions Options() {
    return {.executor = &executor_,
            .log = [this](const LogEntry& entry) { Complain(entry); },
            .upstream_exact = true};
  }

  void Play(Broadcaster* broadcaster) {
    CheckOk(
        broadcaster->StartLogging([this](std::string_view line) { lines_.emplace_back(line); }));
    CheckOk(broadcaster->StartStructuredLogging([this](const LogEntry& entry) {
      std::vector<std::string>& fields = structured_.emplace_back();
      for (const auto& [key, value] : entry.fields) {
        fields.emplace_back(key);
        fields.emplace_back(value);
      }
    }));
    CheckOk(broadcaster->StartRecordingToSink(
        std::make_shared<ScriptedSink>(this),
        {.count = CountOptionsOf(), .max_in_flight = InFlight()}));
    const Recorder recorder = broadcaster->NewRecorder(
        {.component = Text(scenario_, "component"),
         .host = api_ == EventApi::kCoreV1 ? Text(scenario_, "host") : "HOST",
         .api = api_});
    executor_.RunUntilIdle();
    for (const Vector& step : scenario_.at("steps")) {
      Advance(nanoseconds(step.at("advance_ns").get<std::int64_t>()));
      Take(step, recorder, broadcaster);
      executor_.RunUntilIdle();
    }
    Advance(nanoseconds(scenario_.at("settle_ns").get<std::int64_t>()));
  }

  template <typename... Args>
  void Differ(fmt::format_string<Args...> format, Args&&... args) {
    differences_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  template <typename T>
  void Compare(std::string_view what, const Vector& expected, const T& actual) {
    if (Vector(actual) != expected) {
      Differ("{} are {}\n  instead of {}", what, Vector(actual).dump(), expected.dump());
    }
  }

  void CheckOk(const Status& status) {
    if (!status.ok()) Differ("{}", status.ToString());
  }

  void Complain(const LogEntry& entry) {
    // Upstream has only the log levels error and info.
    const std::string_view level = entry.level == LogLevel::kDebug  ? "debug"
                                   : entry.level == LogLevel::kInfo ? "info"
                                                                    : "error";
    if (!over_) complaints_.push_back(fmt::format("{}: {}", level, entry.message));
  }

  CountOptions CountOptionsOf() const {
    CountOptions options;
    if (!scenario_.contains("options")) return options;
    const Vector& given = scenario_["options"];
    options.cache_entries = given.value("cache_entries", std::size_t{0});
    options.spam_burst = given.value("spam_burst", 0);
    options.spam_qps = given.value("spam_qps", 0.0f);
    options.aggregate_after = given.value("aggregate_after", std::size_t{0});
    options.aggregate_within = std::chrono::seconds(given.value("aggregate_within", 0));
    return options;
  }

  // tools/record waits for each response, tools/events does not.
  std::size_t InFlight() const { return api_ == EventApi::kCoreV1 ? 1 : 1000; }

  nanoseconds Elapsed() const { return clock_.Steady() - start_; }

  // Runs timers when they are due, or less than a step later.
  void Advance(nanoseconds by) {
    const nanoseconds end = Elapsed() + by;
    while (Elapsed() < end) {
      clock_.Advance(std::min(kStep - Elapsed() % kStep, end - Elapsed()));
      executor_.RunUntilIdle();
    }
  }

  void Take(const Vector& step, Recorder recorder, Broadcaster* broadcaster) {
    const std::string call = Text(step, "call");
    if (call == "shutdown") {
      broadcaster->Shutdown(nanoseconds(0));
      return;
    }
    if (call == "action") {
      Result<Event> event = JsonCodec().DecodeEvent(step.at("event").dump(), api_);
      if (!event) return Differ("{}", event.error().ToString());
      CheckOk(broadcaster->Action(WatchType::kAdded, std::make_shared<const Event>(*event)));
      return;
    }
    const ObjectReference object = ObjectOf(step);
    const std::string type = Text(step, "type");
    const std::string reason = Text(step, "reason");
    const std::string message = testing::Bytes(step, "message");
    if (api_ == EventApi::kEventsV1) {
      const std::string action = Text(step, "action");
      Occurrence occurrence{.type = type, .reason = reason, .action = action};
      if (step.contains("related")) occurrence.related = ReferenceOf(step["related"]);
      recorder.Record(object, std::move(occurrence), "{}", message);
    } else if (call == "event") {
      recorder.Event(object, type, reason, message);
    } else if (call == "eventf") {
      recorder.Eventf(object, type, reason, "{}", message);
    } else {
      StringMap annotations;
      for (const auto& [key, value] : step.at("annotations").items()) {
        annotations[key] = value.get<std::string>();
      }
      recorder.AnnotatedEventf(object, std::move(annotations), type, reason, "{}", message);
    }
  }

  // Replaces random names by <uuid n>, numbered in the order of their appearance.
  std::string Plain(std::string text) {
    static const std::regex pattern(
        "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}");
    std::smatch match;
    while (std::regex_search(text, match, pattern)) {
      const auto name =
          uuids_.try_emplace(match.str(), fmt::format("<uuid {}>", uuids_.size() + 1)).first;
      text = match.prefix().str() + name->second + match.suffix().str();
    }
    return text;
  }

  std::string PathOf(const SinkRequest& request) {
    const ObjectMeta& metadata = request.event->metadata;
    const std::string_view root =
        request.api == EventApi::kCoreV1 ? "/api/v1" : "/apis/events.k8s.io/v1";
    std::string path = fmt::format("{}/namespaces/{}/events", root, metadata.namespace_);
    if (request.verb != Verb::kCreate) path += "/" + metadata.name;
    return Plain(std::move(path));
  }

  std::string BodyOf(const SinkRequest& request, bool as_protobuf) {
    if (request.verb == Verb::kPatch) return Plain(request.patch);
    std::string body;
    if (as_protobuf) {
      Event event = *request.event;
      event.metadata.name = Plain(std::move(event.metadata.name));
      ProtobufCodec().AppendEvent(event, request.api, &body);
      return body;
    }
    JsonCodec().AppendEvent(*request.event, request.api, &body);
    return Plain(std::move(body));
  }

  // Compares a request with the expected one and sends the recorded response.
  Result<Event> Answer(const SinkRequest& request) {
    if (over_) return *request.event;
    const std::size_t index = requests_++;
    if (!compares_) return AnswerUncompared(request, index);
    const std::string verb = request.verb == Verb::kCreate ? "create" : "patch";
    const std::string path = PathOf(request);
    const Vector& all = scenario_.at("requests");
    if (index >= all.size()) {
      Differ("request {} is one too many: {} {} at {}", index, verb, path, Elapsed().count());
      return *request.event;
    }
    const Vector& expected = all[index];
    if (verb != Text(expected, "verb") || path != Text(expected, "path")) {
      Differ("request {} is {} {}\n  instead of {} {}", index, verb, path, Text(expected, "verb"),
             Text(expected, "path"));
    }
    const std::string_view content_type = request.verb == Verb::kPatch
                                              ? "application/strategic-merge-patch+json"
                                              : "application/json";
    const bool as_protobuf =
        Text(expected, "content_type") == "application/vnd.kubernetes.protobuf";
    if (expected.contains("content_type") && !as_protobuf &&
        content_type != Text(expected, "content_type")) {
      Differ("request {} is {}", index, content_type);
    }
    const std::string body = BodyOf(request, as_protobuf);
    const Vector& first =
        expected.contains("body_of") ? all[expected["body_of"].get<std::size_t>()] : expected;
    if (!testing::BytesMatch(first, "body", body)) {
      Differ("request {} has body {}\n  instead of {}", index, body, first.dump());
    }
    CheckTime(index, expected, path + body);
    return AnswerOf(request, expected.at("answer"));
  }

  Result<Event> AnswerUncompared(const SinkRequest& request, std::size_t index) {
    const bool is_create = request.verb == Verb::kCreate;
    if (is_create && !request.event->metadata.resource_version.empty()) {
      Differ("request {} creates what has a version", index);
    }
    if (is_create != request.patch.empty()) Differ("request {} has a wrong body", index);
    const Vector& all = scenario_.at("requests");
    if (index >= all.size()) return *request.event;
    return AnswerOf(request, all[index].at("answer"));
  }

  void CheckTime(std::size_t index, const Vector& expected, const std::string& sent) {
    const nanoseconds now = Elapsed();
    const nanoseconds before = std::exchange(last_sent_[sent], now);
    if (expected.contains("at_ns") && expected["at_ns"].get<std::int64_t>() != now.count()) {
      Differ("request {} is at {}\n  instead of {}", index, now.count(), expected["at_ns"].dump());
    }
    if (expected.contains("wait")) {
      const auto [least, most] = RangeOf(Text(expected, "wait"));
      if (now - before < least || now - before > most + kStep) {
        Differ("request {} is {} ns after the one before\n  instead of {}", index,
               (now - before).count(), Text(expected, "wait"));
      }
    }
  }

  Result<Event> AnswerOf(const SinkRequest& request, const Vector& answer) const {
    if (answer.contains("empty")) return Event();
    if (answer.contains("event")) {
      return JsonCodec().DecodeEvent(Text(answer, "event"), request.api);
    }
    if (!answer.contains("rv")) return ErrorOf(answer);
    // Encoded and decoded, because times lose their fractions on the wire.
    std::string text;
    JsonCodec().AppendEvent(*request.event, request.api, &text);
    Result<Event> event = JsonCodec().DecodeEvent(text, request.api);
    event->metadata.resource_version = Text(answer, "rv");
    if (answer.contains("name")) event->metadata.name = Text(answer, "name");
    if (answer.contains("count")) event->count = answer["count"].get<std::int32_t>();
    return event;
  }

  const Vector& scenario_;
  const EventApi api_;
  FakeClock clock_;
  const SteadyTime start_;
  Executor executor_;

  std::size_t requests_ = 0;
  std::map<std::string, nanoseconds> last_sent_;  // by path and body
  std::map<std::string, std::string> uuids_;
  std::vector<std::string> lines_;
  std::vector<std::vector<std::string>> structured_;
  std::vector<std::string> complaints_;
  std::vector<std::string> differences_;
  bool compares_ = true;
  bool over_ = false;
};

TEST(Pipeline, BehavesLikeClientGoInEveryScenario) {
  for (const Vector& scenario : testing::LoadGolden("pipeline.json")) {
    SCOPED_TRACE(Text(scenario, "name"));
    const std::vector<std::string> differences = Replay(scenario).Run();
    EXPECT_TRUE(differences.empty()) << fmt::format("{}", fmt::join(differences, "\n"));
  }
}

TEST(Pipeline, HasOneOutcomePerEventInEveryScenarioWithItsOwnRules) {
  for (const Vector& scenario : testing::LoadGolden("pipeline.json")) {
    SCOPED_TRACE(Text(scenario, "name"));
    const std::vector<std::string> wrong = Replay(scenario).RunAccounted();
    EXPECT_TRUE(wrong.empty()) << fmt::format("{}", fmt::join(wrong, "\n"));
  }
}

}  // namespace
}  // namespace herald
