// Tests the C interface only through its header and the shared library.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): setenv() is POSIX
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing/temporary_directory.h"
#include "herald/herald.h"

namespace {

using nlohmann::json;

// Longer than any test takes. Only a test that fails waits so long.
constexpr std::uint64_t kPatienceMs = 60'000;

template <typename T>
T Sized() {
  T value{};
  value.size = sizeof(T);
  return value;
}

struct Free {
  void operator()(herald_sink* sink) const { herald_sink_free(sink); }
  void operator()(herald_broadcaster* broadcaster) const { herald_broadcaster_free(broadcaster); }
  void operator()(herald_recorder* recorder) const { herald_recorder_free(recorder); }
  void operator()(herald_api_choice* choice) const { herald_api_choice_free(choice); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

std::string LastError() {
  char text[256];
  herald_last_error(text, sizeof(text));
  return text;
}

herald_reference Pod(const char* name = "web-0") {
  herald_reference pod{};
  pod.kind = "Pod";
  pod.namespace_ = "default";
  pod.name = name;
  return pod;
}

// A copy of the request that the sink's function got.
struct Seen {
  std::string method, path, content_type, body, api_version, namespace_, name;
};

// A fake API server: stores requests and answers with a function of the test. It is called on the
// sink's thread and read on the test's thread. Thread-safe.
class Server {
 public:
  using Answer = std::function<int(const herald_request&, herald_answer*)>;

  // Without a function every request succeeds.
  explicit Server(Answer answer = nullptr) : answer_(std::move(answer)) {
    sink_.reset(herald_sink_from_function(&Server::Write, this));
  }

  herald_sink* sink() { return sink_.get(); }
  void FreeSink() { sink_.reset(); }

  std::vector<Seen> seen() {
    const std::lock_guard lock(mu_);
    return seen_;
  }
  void WaitFor(std::size_t requests) {
    std::unique_lock lock(mu_);
    EXPECT_TRUE(came_.wait_for(lock, std::chrono::milliseconds(kPatienceMs),
                               [&] { return seen_.size() >= requests; }));
  }

 private:
  static int Write(void* user_data, const herald_request* request, herald_answer* answer) {
    return static_cast<Server*>(user_data)->Handle(*request, answer);
  }

  int Handle(const herald_request& request, herald_answer* answer) {
    EXPECT_EQ(request.body_size, std::string_view(request.body).size());
    {
      const std::lock_guard lock(mu_);
      seen_.push_back({request.method, request.path, request.content_type, request.body,
                       request.api_version, request.namespace_, request.name});
      came_.notify_all();
    }
    return answer_ ? answer_(request, answer) : 0;
  }

  const Answer answer_;
  std::mutex mu_;
  std::condition_variable came_;
  std::vector<Seen> seen_;
  Owned<herald_sink> sink_;  // last, because its thread uses the members above
};

// Blocks threads until it is opened. Thread-safe.
class Barrier {
 public:
  void Pass() {
    std::unique_lock lock(mu_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void WaitForOne() {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }
  void Open() {
    const std::lock_guard lock(mu_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

// Stores log lines and log entries. Thread-safe.
class Log {
 public:
  static void Line(void* user_data, const char* line) { static_cast<Log*>(user_data)->Add(line); }
  static void Entry(void* user_data, herald_log_level level, const char* message,
                    const herald_pair* fields, size_t field_count) {
    std::string text = std::to_string(level) + " " + message;
    for (size_t i = 0; i < field_count; ++i) {
      text += std::string(" ") + fields[i].key + "=" + fields[i].value;
    }
    static_cast<Log*>(user_data)->Add(std::move(text));
  }

  std::vector<std::string> lines() {
    const std::lock_guard lock(mu_);
    return lines_;
  }
  bool Contains(std::string_view part) {
    for (const std::string& line : lines()) {
      if (line.find(part) != std::string::npos) return true;
    }
    return false;
  }

 private:
  void Add(std::string line) {
    const std::lock_guard lock(mu_);
    lines_.push_back(std::move(line));
  }

  std::mutex mu_;
  std::vector<std::string> lines_;
};

// A recorder, a broadcaster and a sink, freed in the recommended order. Retries have no delay.
struct Pipeline {
  static herald_recording_options Recording(std::uint32_t max_tries = 3) {
    auto recording = Sized<herald_recording_options>();
    recording.name = "test";
    recording.max_tries = max_tries;
    recording.retry_after_ms = 1;
    return recording;
  }
  static herald_recorder_options Who(int api = HERALD_API_CORE_V1) {
    auto options = Sized<herald_recorder_options>();
    options.component = "node-agent";
    options.host = "node-1";
    options.api = api;
    return options;
  }

  explicit Pipeline(Server& server, int api = HERALD_API_CORE_V1, std::uint32_t max_tries = 3)
      : Pipeline(server, Recording(max_tries), Who(api)) {}
  Pipeline(Server& server, const herald_recording_options& recording,
           const herald_recorder_options& who) {
    auto broadcaster_options = Sized<herald_broadcaster_options>();
    broadcaster_options.log = &Log::Entry;
    broadcaster_options.log_user_data = &log;
    broadcaster_options.drain_ms = 1;
    broadcaster.reset(herald_broadcaster_new(&broadcaster_options));
    EXPECT_EQ(
        herald_broadcaster_start_recording_to_sink(broadcaster.get(), server.sink(), &recording),
        HERALD_OK)
        << LastError();
    recorder.reset(herald_recorder_new(broadcaster.get(), &who));
    EXPECT_NE(recorder, nullptr);
  }

  void Record(const char* reason = "Started", const char* message = "Started container web",
              const char* name = "web-0") {
    const herald_reference pod = Pod(name);
    EXPECT_EQ(herald_recorder_event(recorder.get(), &pod, HERALD_NORMAL, reason, message),
              HERALD_OK);
  }

  herald_status Flush() {
    return herald_broadcaster_flush(broadcaster.get(), kPatienceMs, nullptr);
  }

  herald_stats Stats() {
    auto stats = Sized<herald_stats>();
    EXPECT_EQ(herald_broadcaster_stats(broadcaster.get(), 0, &stats), HERALD_OK) << LastError();
    return stats;
  }

  Log log;
  Owned<herald_broadcaster> broadcaster;
  Owned<herald_recorder> recorder;
};

TEST(CapiTest, WritesAnEventAndAccountsForIt) {
  Server server;
  Pipeline pipeline(server);
  pipeline.Record();
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);

  const std::vector<Seen> seen = server.seen();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].method, "POST");
  EXPECT_EQ(seen[0].path, "/api/v1/namespaces/default/events");
  EXPECT_EQ(seen[0].content_type, "application/json");
  EXPECT_EQ(seen[0].api_version, "v1");
  EXPECT_EQ(seen[0].namespace_, "default");
  const json event = json::parse(seen[0].body);
  EXPECT_EQ(event["kind"], "Event");
  EXPECT_EQ(event["metadata"]["name"], seen[0].name);
  EXPECT_EQ(event["involvedObject"]["name"], "web-0");
  EXPECT_EQ(event["reason"], "Started");
  EXPECT_EQ(event["message"], "Started container web");
  EXPECT_EQ(event["source"], json({{"component", "node-agent"}, {"host", "node-1"}}));

  const herald_stats stats = pipeline.Stats();
  EXPECT_EQ(stats.recorded, 1u);
  EXPECT_EQ(stats.requests, 1u);
  EXPECT_EQ(stats.retries, 0u);
  EXPECT_EQ(stats.in_flight, 0u);
  EXPECT_EQ(stats.outcomes[HERALD_OUTCOME_WRITTEN], 1u);
}

TEST(CapiTest, WritesAllMembersOfAnEvent) {
  Server server;
  Pipeline pipeline(server, HERALD_API_EVENTS_V1);
  const herald_reference pod = Pod();
  herald_reference node{};
  node.kind = "Node";
  node.name = "node-1";
  const std::array<herald_pair, 3> annotations = {
      {{"example.com/a", "1"}, {"example.com/b", nullptr}, {"example.com/a", "2"}}};
  auto occurrence = Sized<herald_occurrence>();
  occurrence.type = HERALD_WARNING;
  occurrence.reason = "FailedBinding";
  occurrence.message = "100 % {of} it \xff";
  occurrence.action = "Binding";
  occurrence.related = &node;
  occurrence.annotations = annotations.data();
  occurrence.annotation_count = annotations.size();
  occurrence.unix_nanos = 1'136'214'245'123'456'789;
  ASSERT_EQ(herald_recorder_record(pipeline.recorder.get(), &pod, &occurrence), HERALD_OK);
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);

  const std::vector<Seen> seen = server.seen();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].path, "/apis/events.k8s.io/v1/namespaces/default/events");
  EXPECT_EQ(seen[0].api_version, "events.k8s.io/v1");
  const json event = json::parse(seen[0].body);
  EXPECT_EQ(event["regarding"]["name"], "web-0");
  EXPECT_EQ(event["related"], json({{"kind", "Node"}, {"name", "node-1"}}));
  EXPECT_EQ(event["type"], "Warning");
  EXPECT_EQ(event["reason"], "FailedBinding");
  EXPECT_EQ(event["note"], "100 % {of} it \ufffd");
  EXPECT_EQ(event["action"], "Binding");
  EXPECT_EQ(event["eventTime"], "2006-01-02T15:04:05.123456Z");
  EXPECT_EQ(event["metadata"]["annotations"],
            json({{"example.com/a", "2"}, {"example.com/b", ""}}));
}

TEST(CapiTest, PatchesTheNameThatTheServerAssigned) {
  Server server([](const herald_request& request, herald_answer* answer) {
    json event = json::parse(request.body);
    event["metadata"]["name"] = "given by/the server";
    event["metadata"]["namespace"] = "default";
    const std::string body = event.dump();
    const bool create = std::string_view(request.method) == "POST";
    return static_cast<int>(
        herald_answer_set(answer, create ? 201 : 200, body.data(), body.size()));
  });
  Pipeline pipeline(server);
  pipeline.Record();
  pipeline.Record();
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);

  const std::vector<Seen> seen = server.seen();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[1].method, "PATCH");
  EXPECT_EQ(seen[1].content_type, "application/strategic-merge-patch+json");
  EXPECT_EQ(seen[1].path, "/api/v1/namespaces/default/events/given%20by%2Fthe%20server");
  EXPECT_EQ(seen[1].name, "given by/the server");
  EXPECT_EQ(json::parse(seen[1].body)["count"], 2);
  EXPECT_EQ(pipeline.Stats().outcomes[HERALD_OUTCOME_MERGED], 1u);
}

TEST(CapiTest, MapsTheServersAnswersToOutcomes) {
  struct Scenario {
    const char* name;
    int result;  // of the sink's function
    int code;
    const char* body;
    const char* reason;
    const char* message;
    herald_outcome outcome;
    std::uint64_t requests;
    const char* logged;
  };
  constexpr const char* kTerminating =
      R"({"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,)"
      R"("message":"it is ending","details":{"causes":[{"reason":"NamespaceTerminating"}]}})";
  const Scenario scenarios[] = {
      {"200 without a body", 0, 200, nullptr, nullptr, nullptr, HERALD_OUTCOME_WRITTEN, 1, nullptr},
      {"a body that is no Event", 0, 201, "<html>", nullptr, nullptr, HERALD_OUTCOME_WRITTEN, 1,
       nullptr},
      {"an Event without a name", 0, 201, "{}", nullptr, nullptr, HERALD_OUTCOME_WRITTEN, 1,
       nullptr},
      {"no answer", -7, 200, nullptr, nullptr, nullptr, HERALD_OUTCOME_GAVE_UP, 3,
       "the sink's function returned -7"},
      {"no answer, with a message", 1, 200, nullptr, nullptr, "no route to host",
       HERALD_OUTCOME_GAVE_UP, 3, "no route to host"},
      {"500", 0, 500, nullptr, nullptr, nullptr, HERALD_OUTCOME_GAVE_UP, 3,
       "InternalError (500): an error on the server"},
      {"429", 0, 429, nullptr, nullptr, nullptr, HERALD_OUTCOME_GAVE_UP, 3,
       "TooManyRequests (429)"},
      {"400", 0, 400, nullptr, nullptr, "bad", HERALD_OUTCOME_REJECTED, 1, "BadRequest (400): bad"},
      {"403", 0, 403, "no such luck", nullptr, nullptr, HERALD_OUTCOME_REJECTED, 1,
       "Forbidden (403): no such luck (post events)"},
      {"404 to a create", 0, 404, nullptr, nullptr, nullptr, HERALD_OUTCOME_REJECTED, 1,
       "NotFound (404)"},
      {"409 to a create", 0, 409, nullptr, nullptr, nullptr, HERALD_OUTCOME_REJECTED, 1,
       "AlreadyExists (409)"},
      {"a reason of its own", 0, 409, nullptr, "Conflict", nullptr, HERALD_OUTCOME_REJECTED, 1,
       "Conflict (409)"},
      {"a reason that does not exist", 0, 422, nullptr, "Moody", nullptr, HERALD_OUTCOME_REJECTED,
       1, "Invalid (422)"},
      {"a Status", 0, 403, kTerminating, "Conflict", "not this", HERALD_OUTCOME_REJECTED, 1,
       "Forbidden (403): it is ending"},
      {"a Status that says success", 0, 500,
       R"({"kind":"Status","apiVersion":"v1","status":"Success"})", nullptr, nullptr,
       HERALD_OUTCOME_GAVE_UP, 3, "InternalError (500)"},
      {"302", 0, 302, nullptr, nullptr, nullptr, HERALD_OUTCOME_REJECTED, 1,
       "the server responded with the status code 302"},
  };
  for (const Scenario& scenario : scenarios) {
    SCOPED_TRACE(scenario.name);
    Server server([&](const herald_request&, herald_answer* answer) {
      const size_t size = scenario.body == nullptr ? 0 : std::string_view(scenario.body).size();
      EXPECT_EQ(herald_answer_set(answer, scenario.code, scenario.body, size), HERALD_OK);
      EXPECT_EQ(herald_answer_set_error(answer, scenario.reason, scenario.message), HERALD_OK);
      return scenario.result;
    });
    Pipeline pipeline(server);
    pipeline.Record();
    ASSERT_EQ(pipeline.Flush(), HERALD_OK);
    const herald_stats stats = pipeline.Stats();
    EXPECT_EQ(stats.outcomes[scenario.outcome], 1u);
    EXPECT_EQ(stats.requests, scenario.requests);
    EXPECT_EQ(stats.retries, scenario.requests - 1);
    if (scenario.logged == nullptr) {
      EXPECT_EQ(pipeline.log.lines(), std::vector<std::string>());
    } else {
      EXPECT_TRUE(pipeline.log.Contains(scenario.logged)) << pipeline.log.lines().at(0);
    }
  }
}

TEST(CapiTest, RetriesWhenTheServerFailsAtFirst) {
  int failures = 2;  // used only on the sink's thread
  Server server([&](const herald_request&, herald_answer* answer) {
    return failures-- > 0 ? 1 : static_cast<int>(herald_answer_set(answer, 201, nullptr, 0));
  });
  Pipeline pipeline(server);
  pipeline.Record();
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);
  EXPECT_EQ(pipeline.Stats().outcomes[HERALD_OUTCOME_WRITTEN], 1u);
  EXPECT_EQ(pipeline.Stats().retries, 2u);
}

TEST(CapiTest, WaitsAsLongAsTheServerAsks) {
  Server server([](const herald_request&, herald_answer* answer) {
    herald_answer_set_retry_after(answer, 3600);
    return static_cast<int>(herald_answer_set(answer, 429, nullptr, 0));
  });
  Pipeline pipeline(server);
  pipeline.Record();
  // Without Retry-After the next attempt would follow within a millisecond, and the third would be
  // the last.
  std::uint64_t in_flight = 0;
  EXPECT_EQ(herald_broadcaster_flush(pipeline.broadcaster.get(), 20, &in_flight), HERALD_TIMED_OUT);
  EXPECT_EQ(in_flight, 1u);
  EXPECT_LE(server.seen().size(), 1u);
}

TEST(CapiTest, CatchesExceptionsOfCallbacks) {
  Server server([](const herald_request&, herald_answer*) -> int {
    throw std::runtime_error("out of paper");
  });
  Pipeline pipeline(server);
  const auto throwing = [](void*, const char*) { throw 1; };
  ASSERT_EQ(herald_broadcaster_start_logging(pipeline.broadcaster.get(), throwing, nullptr),
            HERALD_OK);
  pipeline.Record();
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);
  EXPECT_EQ(pipeline.Stats().outcomes[HERALD_OUTCOME_GAVE_UP], 1u);
  EXPECT_TRUE(pipeline.log.Contains("out of paper"));
}

TEST(CapiTest, LogsEachEventAsALine) {
  Log log;
  Server server;
  Pipeline pipeline(server);
  ASSERT_EQ(herald_broadcaster_start_logging(pipeline.broadcaster.get(), &Log::Line, &log),
            HERALD_OK);
  pipeline.Record("Started", "one");
  pipeline.Record("Killing", "two");
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);
  const std::vector<std::string> lines = log.lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("type: 'Normal' reason: 'Started' one"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("'Killing' two"), std::string::npos) << lines[1];
}

TEST(CapiTest, CountsInvalidEvents) {
  Server server;
  Pipeline pipeline(server);
  const herald_reference pod = Pod();
  const herald_reference nothing{};
  EXPECT_EQ(herald_recorder_event(pipeline.recorder.get(), &pod, "Urgent", "r", "m"), HERALD_OK);
  EXPECT_EQ(herald_recorder_event(pipeline.recorder.get(), &nothing, HERALD_NORMAL, "r", "m"),
            HERALD_OK);
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);
  EXPECT_EQ(pipeline.Stats().outcomes[HERALD_OUTCOME_INVALID], 2u);
  EXPECT_EQ(server.seen().size(), 0u);
}

TEST(CapiTest, CountsEventsWithoutASink) {
  const Owned<herald_broadcaster> broadcaster(herald_broadcaster_new(nullptr));
  auto options = Sized<herald_recorder_options>();
  options.component = "node-agent";
  const Owned<herald_recorder> recorder(herald_recorder_new(broadcaster.get(), &options));
  const herald_reference pod = Pod();
  herald_recorder_event(recorder.get(), &pod, HERALD_NORMAL, "r", "m");
  ASSERT_EQ(herald_broadcaster_flush(broadcaster.get(), kPatienceMs, nullptr), HERALD_OK);
  EXPECT_EQ(herald_broadcaster_without_sink(broadcaster.get()), 1u);
}

TEST(CapiTest, RejectsNullForRequiredArguments) {
  Server server;
  Pipeline pipeline(server);
  herald_broadcaster* const broadcaster = pipeline.broadcaster.get();
  herald_recorder* const recorder = pipeline.recorder.get();
  const herald_reference pod = Pod();
  auto stats = Sized<herald_stats>();
  int api = 0;
  const Owned<herald_api_choice> choice(herald_api_choice_new());
  auto no_component = Sized<herald_recorder_options>();
  auto no_type = Sized<herald_occurrence>();
  no_type.reason = "r";
  auto no_reason = Sized<herald_occurrence>();
  no_reason.type = HERALD_NORMAL;
  auto no_annotations = Sized<herald_occurrence>();
  no_annotations.type = HERALD_NORMAL;
  no_annotations.reason = "r";
  no_annotations.annotation_count = 1;
  const herald_pair no_key{};
  auto annotation_without_key = no_annotations;
  annotation_without_key.annotations = &no_key;

  struct Call {
    const char* error;
    std::function<int()> make;
  };
  // Functions that return an object return NULL on an error.
  const auto made = [](const void* object) {
    return object == nullptr ? HERALD_INVALID_ARGUMENT : HERALD_OK;
  };
  const Call calls[] = {
      {"choice is NULL", [] { return herald_api_choice_set(nullptr, HERALD_API_CORE_V1); }},
      {"choice is NULL", [&] { return herald_api_choice_get(nullptr, &api); }},
      {"api is NULL", [&] { return herald_api_choice_get(choice.get(), nullptr); }},
      {"write is NULL", [&] { return made(herald_sink_from_function(nullptr, nullptr)); }},
      {"answer is NULL", [] { return herald_answer_set(nullptr, 200, nullptr, 0); }},
      {"answer is NULL", [] { return herald_answer_set_error(nullptr, "r", "m"); }},
      {"answer is NULL", [] { return herald_answer_set_retry_after(nullptr, 1); }},
      {"broadcaster is NULL",
       [] { return herald_broadcaster_start_logging(nullptr, &Log::Line, nullptr); }},
      {"print is NULL",
       [&] { return herald_broadcaster_start_logging(broadcaster, nullptr, nullptr); }},
      {"broadcaster is NULL",
       [&] { return herald_broadcaster_start_recording_to_sink(nullptr, server.sink(), nullptr); }},
      {"sink is NULL",
       [&] { return herald_broadcaster_start_recording_to_sink(broadcaster, nullptr, nullptr); }},
      {"broadcaster is NULL", [] { return herald_broadcaster_flush(nullptr, 0, nullptr); }},
      {"broadcaster is NULL", [] { return herald_broadcaster_shutdown(nullptr, 0, nullptr); }},
      {"broadcaster is NULL", [&] { return herald_broadcaster_stats(nullptr, 0, &stats); }},
      {"stats is NULL", [&] { return herald_broadcaster_stats(broadcaster, 0, nullptr); }},
      {"broadcaster is NULL",
       [] {
         EXPECT_EQ(herald_broadcaster_without_sink(nullptr), 0u);
         return HERALD_INVALID_ARGUMENT;
       }},
      {"broadcaster is NULL",
       [] {
         EXPECT_EQ(herald_broadcaster_prometheus(nullptr, nullptr, 0), 0u);
         return HERALD_INVALID_ARGUMENT;
       }},
      {"buffer is NULL",
       [&] {
         EXPECT_EQ(herald_broadcaster_prometheus(broadcaster, nullptr, 10), 0u);
         return HERALD_INVALID_ARGUMENT;
       }},
      {"broadcaster is NULL", [&] { return made(herald_recorder_new(nullptr, &no_component)); }},
      {"options is NULL", [&] { return made(herald_recorder_new(broadcaster, nullptr)); }},
      {"options.component must not be empty",
       [&] { return made(herald_recorder_new(broadcaster, &no_component)); }},
      {"recorder is NULL",
       [&] { return herald_recorder_event(nullptr, &pod, HERALD_NORMAL, "r", "m"); }},
      {"object is NULL",
       [&] { return herald_recorder_event(recorder, nullptr, HERALD_NORMAL, "r", "m"); }},
      {"type is NULL", [&] { return herald_recorder_event(recorder, &pod, nullptr, "r", "m"); }},
      {"reason is NULL",
       [&] { return herald_recorder_event(recorder, &pod, HERALD_NORMAL, nullptr, "m"); }},
      {"message is NULL",
       [&] { return herald_recorder_event(recorder, &pod, HERALD_NORMAL, "r", nullptr); }},
      {"recorder is NULL", [&] { return herald_recorder_record(nullptr, &pod, &no_type); }},
      {"object is NULL", [&] { return herald_recorder_record(recorder, nullptr, &no_type); }},
      {"occurrence is NULL", [&] { return herald_recorder_record(recorder, &pod, nullptr); }},
      {"occurrence.type is NULL", [&] { return herald_recorder_record(recorder, &pod, &no_type); }},
      {"occurrence.reason is NULL",
       [&] { return herald_recorder_record(recorder, &pod, &no_reason); }},
      {"occurrence.annotations is NULL",
       [&] { return herald_recorder_record(recorder, &pod, &no_annotations); }},
      {"occurrence.annotations.key is NULL",
       [&] { return herald_recorder_record(recorder, &pod, &annotation_without_key); }},
  };
  for (const Call& call : calls) {
    EXPECT_EQ(call.make(), HERALD_INVALID_ARGUMENT) << call.error;
    EXPECT_EQ(LastError(), call.error);
  }
  herald_sink_free(nullptr);
  herald_broadcaster_free(nullptr);
  herald_recorder_free(nullptr);
  herald_api_choice_free(nullptr);
  EXPECT_EQ(pipeline.Stats().recorded, 0u);
}

TEST(CapiTest, RejectsInvalidValues) {
  Server server([](const herald_request&, herald_answer* answer) {
    for (const int code : {-1, 0, 99, 600}) {
      EXPECT_EQ(herald_answer_set(answer, code, nullptr, 0), HERALD_INVALID_ARGUMENT);
      EXPECT_EQ(LastError(), "invalid code " + std::to_string(code) + ": must be from 100 to 599");
    }
    EXPECT_EQ(herald_answer_set(answer, 200, nullptr, 1), HERALD_INVALID_ARGUMENT);
    EXPECT_EQ(LastError(), "body is NULL");
    return 0;
  });
  Pipeline pipeline(server);
  pipeline.Record();
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);
  EXPECT_EQ(pipeline.Stats().outcomes[HERALD_OUTCOME_WRITTEN], 1u);

  auto recorder = Sized<herald_recorder_options>();
  recorder.component = "c";
  recorder.api = 2;
  EXPECT_EQ(herald_recorder_new(pipeline.broadcaster.get(), &recorder), nullptr);
  EXPECT_EQ(LastError(), "invalid options.api 2: must be a herald_api");
  const Owned<herald_api_choice> choice(herald_api_choice_new());
  EXPECT_EQ(herald_api_choice_set(choice.get(), -1), HERALD_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "invalid api -1: must be a herald_api");
  auto stats = Sized<herald_stats>();
  EXPECT_EQ(herald_broadcaster_stats(pipeline.broadcaster.get(), 1, &stats), HERALD_NOT_FOUND);
  EXPECT_EQ(LastError(), "sink 1 does not exist: 1 were started");
  auto broadcaster = Sized<herald_broadcaster_options>();
  broadcaster.reserved = 1;
  EXPECT_EQ(herald_broadcaster_new(&broadcaster), nullptr);
  EXPECT_EQ(LastError(), "options.reserved must be 0");
}

TEST(CapiTest, ReadsStructsOfOtherVersions) {
  struct Later {
    herald_recorder_options known = Sized<herald_recorder_options>();
    std::uint64_t unknown = 0;
  };
  Server server;
  Pipeline pipeline(server);
  herald_broadcaster* const broadcaster = pipeline.broadcaster.get();

  Later later;
  later.known.component = "c";
  later.known.size = sizeof(later);
  EXPECT_NE(Owned<herald_recorder>(herald_recorder_new(broadcaster, &later.known)), nullptr);
  later.unknown = 1;
  EXPECT_EQ(herald_recorder_new(broadcaster, &later.known), nullptr);
  EXPECT_NE(LastError().find("options sets a member that Herald"), std::string::npos);

  // An earlier version of the struct, with only the component.
  herald_recorder_options earlier{};
  earlier.size = offsetof(herald_recorder_options, host);
  earlier.component = "c";
  earlier.api = 99;  // after the end of the struct, so it is not read
  EXPECT_NE(Owned<herald_recorder>(herald_recorder_new(broadcaster, &earlier)), nullptr);

  for (const size_t size : {size_t{0}, size_t{4}, sizeof(earlier) + 1, SIZE_MAX}) {
    earlier.size = size;
    EXPECT_EQ(herald_recorder_new(broadcaster, &earlier), nullptr);
    EXPECT_EQ(LastError(),
              "options.size is " + std::to_string(size) + ", not the size of the struct");
  }
}

TEST(CapiTest, FillsNoMoreStatisticsThanTheCallerHasRoomFor) {
  Server server;
  Pipeline pipeline(server);
  pipeline.Record();
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);

  herald_stats earlier{};
  earlier.size = offsetof(herald_stats, in_flight);
  earlier.in_flight = 77;
  ASSERT_EQ(herald_broadcaster_stats(pipeline.broadcaster.get(), 0, &earlier), HERALD_OK);
  EXPECT_EQ(earlier.recorded, 1u);
  EXPECT_EQ(earlier.in_flight, 77u);

  struct {
    herald_stats known{};
    std::uint64_t unknown = 77;
  } later;
  later.known.size = sizeof(later);
  ASSERT_EQ(herald_broadcaster_stats(pipeline.broadcaster.get(), 0, &later.known), HERALD_OK);
  EXPECT_EQ(later.known.size, sizeof(later));
  EXPECT_EQ(later.known.outcomes[HERALD_OUTCOME_WRITTEN], 1u);
  EXPECT_EQ(later.unknown, 0u);
}

TEST(CapiTest, CopiesStringsOutAsSnprintfDoes) {
  Server server;
  Pipeline pipeline(server);
  pipeline.Record();
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);
  herald_broadcaster* const broadcaster = pipeline.broadcaster.get();

  const size_t length = herald_broadcaster_prometheus(broadcaster, nullptr, 0);
  ASSERT_GT(length, 100u);
  std::string whole(length + 1, 'x');
  EXPECT_EQ(herald_broadcaster_prometheus(broadcaster, whole.data(), whole.size()), length);
  EXPECT_EQ(whole.back(), '\0');
  whole.pop_back();
  EXPECT_NE(whole.find("herald_recorder_events_total{sink=\"test\",outcome=\"written\"} 1\n"),
            std::string::npos)
      << whole;
  std::string part(10, 'x');
  EXPECT_EQ(herald_broadcaster_prometheus(broadcaster, part.data(), part.size()), length);
  EXPECT_EQ(part, whole.substr(0, 9) + '\0');

  herald_recorder_free(nullptr);
  EXPECT_EQ(herald_recorder_event(nullptr, nullptr, "", "", ""), HERALD_INVALID_ARGUMENT);
  EXPECT_EQ(herald_last_error(nullptr, 0), std::string_view("recorder is NULL").size());
  char cut[4];
  EXPECT_EQ(herald_last_error(cut, sizeof(cut)), std::string_view("recorder is NULL").size());
  EXPECT_STREQ(cut, "rec");
  // Each thread has its own last error.
  std::thread([] { EXPECT_EQ(herald_last_error(nullptr, 0), 0u); }).join();
}

TEST(CapiTest, ReturnsTheNamesOfItsEnumerators) {
  for (int status = HERALD_OK; status <= HERALD_IN_USE; ++status) {
    EXPECT_STRNE(herald_status_name(status), "unknown") << status;
  }
  EXPECT_STREQ(herald_status_name(HERALD_TIMED_OUT), "timed out");
  EXPECT_STREQ(herald_status_name(-1), "unknown");
  EXPECT_STREQ(herald_status_name(HERALD_IN_USE + 1), "unknown");
  EXPECT_STREQ(herald_outcome_name(HERALD_OUTCOME_WRITTEN), "written");
  EXPECT_STREQ(herald_outcome_name(HERALD_OUTCOME_NO_SINK), "no_sink");
  EXPECT_STREQ(herald_outcome_name(HERALD_OUTCOME_SPOOLED), "spooled");
  EXPECT_STREQ(herald_outcome_name(-1), "unknown");
  EXPECT_STREQ(herald_outcome_name(1000), "unknown");
  EXPECT_EQ(std::string_view(herald_version()).find_first_not_of("0123456789."),
            std::string_view::npos);
}

TEST(CapiTest, RejectsNewSinksAndLogsAfterAShutdown) {
  Server server;
  Pipeline pipeline(server);
  herald_broadcaster* const broadcaster = pipeline.broadcaster.get();
  pipeline.Record();
  // The maximum of patience_ms does not overflow.
  EXPECT_EQ(herald_broadcaster_shutdown(broadcaster, UINT64_MAX, nullptr), HERALD_OK);
  EXPECT_EQ(herald_broadcaster_shutdown(broadcaster, UINT64_MAX, nullptr), HERALD_OK);
  EXPECT_EQ(herald_broadcaster_start_logging(broadcaster, &Log::Line, &pipeline.log),
            HERALD_STOPPED);
  EXPECT_EQ(herald_broadcaster_start_recording_to_sink(broadcaster, server.sink(), nullptr),
            HERALD_STOPPED);
  EXPECT_EQ(LastError(), "broadcaster already stopped");
  pipeline.Record();
  EXPECT_EQ(pipeline.Stats().outcomes[HERALD_OUTCOME_WRITTEN], 1u);
  EXPECT_EQ(pipeline.Stats().outcomes[HERALD_OUTCOME_LOST], 1u);
}

TEST(CapiTest, ReportsEventsInFlightAfterATimeout) {
  Barrier barrier;
  Server server([&](const herald_request&, herald_answer*) {
    barrier.Pass();
    return 0;
  });
  Pipeline pipeline(server);
  pipeline.Record();
  barrier.WaitForOne();
  std::uint64_t in_flight = 0;
  EXPECT_EQ(herald_broadcaster_flush(pipeline.broadcaster.get(), 1, &in_flight), HERALD_TIMED_OUT);
  EXPECT_EQ(in_flight, 1u);
  EXPECT_EQ(LastError(), "1 events were not written within 1 ms");
  EXPECT_EQ(herald_broadcaster_shutdown(pipeline.broadcaster.get(), 0, &in_flight),
            HERALD_TIMED_OUT);
  EXPECT_EQ(in_flight, 1u);
  EXPECT_EQ(pipeline.Stats().outcomes[HERALD_OUTCOME_LOST], 1u);
  barrier.Open();
}

TEST(CapiTest, RejectsBlockingCallsInACallback) {
  herald_broadcaster* broadcaster = nullptr;
  herald_recorder* recorder = nullptr;
  Server* the_server = nullptr;
  const auto misuse = [&] {
    std::uint64_t in_flight = 77;
    EXPECT_EQ(herald_broadcaster_flush(broadcaster, kPatienceMs, &in_flight), HERALD_IN_CALLBACK);
    EXPECT_EQ(in_flight, 0u);
    EXPECT_EQ(herald_broadcaster_shutdown(broadcaster, kPatienceMs, nullptr), HERALD_IN_CALLBACK);
    herald_broadcaster_free(broadcaster);
    herald_sink_free(the_server->sink());
    EXPECT_EQ(LastError(), "a callback must not wait for the library");
  };
  Server server([&](const herald_request& request, herald_answer*) {
    misuse();
    // Recording is allowed. Only once, because each event calls this function again.
    if (json::parse(request.body)["reason"] == "Started") {
      const herald_reference pod = Pod();
      EXPECT_EQ(herald_recorder_event(recorder, &pod, HERALD_NORMAL, "Echo", ""), HERALD_OK);
    }
    return 0;
  });
  the_server = &server;
  Pipeline pipeline(server);
  broadcaster = pipeline.broadcaster.get();
  recorder = pipeline.recorder.get();
  std::function<void()> in_line = misuse;
  const auto print = [](void* user_data, const char*) {
    (*static_cast<std::function<void()>*>(user_data))();
  };
  ASSERT_EQ(herald_broadcaster_start_logging(broadcaster, print, &in_line), HERALD_OK);
  pipeline.Record();
  // A second flush for the event that the callback recorded after the first flush had begun.
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);
  // The event of the callback was recorded after the first flush had begun.
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);
  EXPECT_EQ(pipeline.Stats().outcomes[HERALD_OUTCOME_WRITTEN], 2u);
}

TEST(CapiTest, AllowsAnyOrderOfFreeing) {
  std::array<int, 3> order = {0, 1, 2};
  do {
    SCOPED_TRACE(testing::PrintToString(order));
    Server server;
    Pipeline pipeline(server);
    for (int i = 0; i < 50; ++i) pipeline.Record("Started", std::to_string(i).c_str());
    for (const int which : order) {
      if (which == 0) pipeline.recorder.reset();
      if (which == 1) pipeline.broadcaster.reset();
      if (which == 2) server.FreeSink();
      if (pipeline.recorder) pipeline.Record();
      if (pipeline.broadcaster) {
        EXPECT_EQ(pipeline.Flush(), HERALD_OK);
        const herald_stats stats = pipeline.Stats();
        std::uint64_t ended = 0;
        for (const std::uint64_t count : stats.outcomes) ended += count;
        EXPECT_EQ(stats.recorded, ended);
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(CapiTest, RejectsEventsAfterTheSinkIsFreed) {
  Server server;
  Pipeline pipeline(server);
  server.FreeSink();
  pipeline.Record();
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);
  EXPECT_EQ(pipeline.Stats().outcomes[HERALD_OUTCOME_REJECTED], 1u);
  EXPECT_TRUE(pipeline.log.Contains("the sink was freed"));
}

TEST(CapiTest, RejectsQueuedEventsWhenTheSinkIsFreed) {
  Barrier barrier;
  Server server([&](const herald_request&, herald_answer*) {
    barrier.Pass();
    return 0;
  });
  Pipeline pipeline(server);
  for (const char* name : {"a", "b", "c"}) pipeline.Record("Started", "", name);
  barrier.WaitForOne();
  std::thread freer([&] { server.FreeSink(); });
  barrier.Open();
  freer.join();
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);
  const herald_stats stats = pipeline.Stats();
  EXPECT_EQ(stats.outcomes[HERALD_OUTCOME_WRITTEN] + stats.outcomes[HERALD_OUTCOME_REJECTED], 3u);
  EXPECT_GE(stats.outcomes[HERALD_OUTCOME_WRITTEN], 1u);
}

TEST(CapiTest, ServesSeveralBroadcastersWithOneSink) {
  Server server;
  Pipeline one(server);
  Pipeline two(server);
  one.Record();
  two.Record();
  ASSERT_EQ(one.Flush(), HERALD_OK);
  ASSERT_EQ(two.Flush(), HERALD_OK);
  EXPECT_EQ(server.seen().size(), 2u);
}

TEST(CapiTest, DoesNotLogAfterTheBroadcasterIsFreed) {
  Server server;
  Pipeline pipeline(server);
  const herald_reference pod = Pod();
  herald_recorder_event(pipeline.recorder.get(), &pod, "Urgent", "r", "m");
  EXPECT_EQ(pipeline.log.lines().size(), 1u);
  pipeline.broadcaster.reset();
  const size_t before = pipeline.log.lines().size();
  herald_recorder_event(pipeline.recorder.get(), &pod, "Urgent", "r", "m");
  EXPECT_EQ(herald_recorder_event(pipeline.recorder.get(), &pod, HERALD_NORMAL, "r", "m"),
            HERALD_OK);
  EXPECT_EQ(pipeline.log.lines().size(), before);
}

TEST(CapiTest, SpoolsEventsThatTheServerDoesNotAccept) {
  const herald::TemporaryDirectory directory;
  const std::string path = directory.path() / "spool";
  auto spool = Sized<herald_spool_options>();
  spool.directory = path.c_str();
  spool.max_bytes = 1 << 20;
  spool.segment_bytes = 1 << 16;
  spool.sync = 1;
  herald_recording_options recording = Pipeline::Recording(/*max_tries=*/1);
  recording.spool = &spool;

  Server down([](const herald_request&, herald_answer*) { return 1; });
  {
    Pipeline pipeline(down, recording, Pipeline::Who());
    pipeline.Record();
    ASSERT_EQ(pipeline.Flush(), HERALD_OK);
    const herald_stats stats = pipeline.Stats();
    EXPECT_EQ(stats.outcomes[HERALD_OUTCOME_SPOOLED], 1u);
    EXPECT_GT(stats.spool_bytes, 0u);
    EXPECT_EQ(stats.spool_dropped, 0u);
    EXPECT_EQ(stats.spool_corrupted, 0u);

    EXPECT_EQ(herald_broadcaster_start_recording_to_sink(pipeline.broadcaster.get(), down.sink(),
                                                         &recording),
              HERALD_IN_USE);
    EXPECT_NE(LastError().find(path), std::string::npos) << LastError();
  }
  ASSERT_EQ(down.seen().size(), 1u);

  Server up;
  Pipeline pipeline(up, recording, Pipeline::Who());
  up.WaitFor(1);
  EXPECT_EQ(up.seen().at(0).body, down.seen().at(0).body) << "with its name and its times";
}

TEST(CapiTest, RejectsInvalidSpoolOptions) {
  const herald::TemporaryDirectory directory;
  Server server;
  Pipeline pipeline(server);
  herald_recording_options recording = Pipeline::Recording();
  auto spool = Sized<herald_spool_options>();
  recording.spool = &spool;
  const auto start = [&](herald_broadcaster* broadcaster) {
    return herald_broadcaster_start_recording_to_sink(broadcaster, server.sink(), &recording);
  };
  EXPECT_EQ(start(pipeline.broadcaster.get()), HERALD_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "options.spool.directory must not be empty");
  spool.directory = "/no/such/place/spool";
  EXPECT_EQ(start(pipeline.broadcaster.get()), HERALD_INTERNAL);
  EXPECT_NE(LastError().find("/no/such/place"), std::string::npos) << LastError();
  spool.directory = directory.path().c_str();
  spool.reserved = 1;
  EXPECT_EQ(start(pipeline.broadcaster.get()), HERALD_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "options.spool.reserved must be 0");
  spool.reserved = 0;
  spool.size = 3;
  EXPECT_EQ(start(pipeline.broadcaster.get()), HERALD_INVALID_ARGUMENT);
  spool.size = sizeof(spool);

  auto exact = Sized<herald_broadcaster_options>();
  exact.upstream_exact = 1;
  const Owned<herald_broadcaster> broadcaster(herald_broadcaster_new(&exact));
  EXPECT_EQ(start(broadcaster.get()), HERALD_INVALID_ARGUMENT);
  EXPECT_NE(LastError().find("upstream_exact"), std::string::npos) << LastError();

  recording.spool = nullptr;
  recording.reserved2 = 1;
  EXPECT_EQ(start(pipeline.broadcaster.get()), HERALD_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "options.reserved must be 0");
}

TEST(CapiTest, PassesNewEventsThroughTheFairFilter) {
  constexpr int kBurst = 25;  // client-go's
  for (const int fair : {0, 1}) {
    SCOPED_TRACE(fair);
    Server server;
    herald_recording_options recording = Pipeline::Recording();
    recording.fair_filter = fair;
    Pipeline pipeline(server, recording, Pipeline::Who());
    for (int i = 0; i < kBurst; ++i) pipeline.Record("Unhealthy", "Readiness probe failed");
    pipeline.Record("Killing", "Stopping container web");
    ASSERT_EQ(pipeline.Flush(), HERALD_OK);
    EXPECT_EQ(pipeline.Stats().outcomes[HERALD_OUTCOME_FILTERED], fair == 1 ? 0u : 1u);
    EXPECT_EQ(server.seen().back().body.find("Killing") != std::string::npos, fair == 1);
  }
}

TEST(CapiTest, RecordsForTheChosenApi) {
  Owned<herald_api_choice> choice(herald_api_choice_new());
  int api = -1;
  EXPECT_EQ(herald_api_choice_get(choice.get(), &api), HERALD_NOT_FOUND);
  EXPECT_EQ(LastError(), "no API has been chosen yet");
  EXPECT_EQ(api, -1);

  Server server;
  herald_recorder_options who = Pipeline::Who();
  who.api_choice = choice.get();
  Pipeline pipeline(server, Pipeline::Recording(), who);
  pipeline.Record();
  EXPECT_EQ(herald_broadcaster_flush(pipeline.broadcaster.get(), 1, nullptr), HERALD_TIMED_OUT);
  EXPECT_TRUE(server.seen().empty());

  ASSERT_EQ(herald_api_choice_set(choice.get(), HERALD_API_EVENTS_V1), HERALD_OK);
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);
  EXPECT_EQ(server.seen().at(0).api_version, "events.k8s.io/v1");
  EXPECT_EQ(herald_api_choice_get(choice.get(), &api), HERALD_OK);
  EXPECT_EQ(api, HERALD_API_EVENTS_V1);

  ASSERT_EQ(herald_api_choice_set(choice.get(), HERALD_API_CORE_V1), HERALD_OK);
  choice.reset();  // the choice stays valid for the recorder
  pipeline.Record("Killing", "Stopping it");
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);
  EXPECT_EQ(server.seen().at(1).api_version, "v1");
}

TEST(CapiTest, CountsEveryEventOfManyThreadsWhileTheServerFails) {
  constexpr int kThreads = 8;
  constexpr int kEvents = 500;
  int calls = 0;  // used only on the sink's thread
  Server server([&](const herald_request&, herald_answer* answer) {
    switch (++calls % 4) {
      case 0:
        return 1;
      case 1:
        return static_cast<int>(herald_answer_set(answer, 503, nullptr, 0));
      case 2:
        return static_cast<int>(herald_answer_set(answer, 403, nullptr, 0));
      default:
        return static_cast<int>(herald_answer_set(answer, 201, nullptr, 0));
    }
  });
  Pipeline pipeline(server);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEvents; ++i) {
        const std::string name = "pod-" + std::to_string(t) + "-" + std::to_string(i % 25);
        pipeline.Record("Started", std::to_string(i).c_str(), name.c_str());
        if (i % 100 == 0) {
          char text[64];
          herald_broadcaster_prometheus(pipeline.broadcaster.get(), text, sizeof(text));
          pipeline.Stats();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(pipeline.Flush(), HERALD_OK);
  const herald_stats stats = pipeline.Stats();
  std::uint64_t ended = 0;
  for (const std::uint64_t count : stats.outcomes) ended += count;
  EXPECT_EQ(stats.recorded, std::uint64_t{kThreads} * kEvents);
  EXPECT_EQ(ended, stats.recorded);
  EXPECT_EQ(stats.in_flight, 0u);
  EXPECT_GT(stats.outcomes[HERALD_OUTCOME_WRITTEN], 0u);
  EXPECT_GT(stats.outcomes[HERALD_OUTCOME_REJECTED], 0u);
}

// An API server for one request on one connection. Answers with the body of the request, or with
// a given answer.
class OneRequestServer {
 public:
  explicit OneRequestServer(std::string answer = "")
      : answer_(std::move(answer)), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket_, 1), 0);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~OneRequestServer() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }
  OneRequestServer(const OneRequestServer&) = delete;
  OneRequestServer& operator=(const OneRequestServer&) = delete;
  int port() const { return port_; }
  const std::string& request() const { return request_; }  // after the answer was sent

 private:
  void Serve() {
    const int connection = ::accept(socket_, nullptr, nullptr);
    if (connection < 0) return;
    char buffer[4096];
    std::size_t body = std::string::npos, length = 0;
    while (body == std::string::npos || request_.size() < body + length) {
      const ssize_t n = ::read(connection, buffer, sizeof(buffer));
      if (n <= 0) break;
      request_.append(buffer, static_cast<std::size_t>(n));
      const std::size_t end = request_.find("\r\n\r\n");
      if (body != std::string::npos || end == std::string::npos) continue;
      body = end + 4;
      std::string head = request_.substr(0, end);
      std::transform(head.begin(), head.end(), head.begin(),
                     [](unsigned char c) { return std::tolower(c); });
      const std::size_t field = head.find("content-length: ");
      if (field != std::string::npos) length = std::stoul(head.substr(field + 16));
    }
    const std::string content =
        answer_.empty() ? request_.substr(std::min(body, request_.size())) : answer_;
    const std::string answer =
        "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: " +
        std::to_string(content.size()) + "\r\n\r\n" + content;
    (void)!::write(connection, answer.data(), answer.size());
    // Waits until the client has read the answer and closes the connection.
    while (::read(connection, buffer, sizeof(buffer)) > 0) {
    }
    ::close(connection);
  }

  const std::string answer_;
  const int socket_;
  int port_ = 0;
  std::string request_;
  std::thread thread_;
};

class ClusterSinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}) {
      ::unsetenv(name);
    }
    ::setenv("HOME", "/nonexistent", 1);
    EXPECT_EQ(herald_sink_from_cluster(nullptr), nullptr);
    if (LastError().find("built without") != std::string::npos) {
      GTEST_SKIP() << "HERALD_CLIENT is off";
    }
  }
  std::string Kubeconfig(const std::string& server) const {
    const std::string path = directory_.path() / "kubeconfig";
    std::ofstream(path) << "clusters: [{name: c, cluster: {server: \"" << server
                        << "\"}}]\ncontexts: [{name: k, context: {cluster: c, user: u}}]\n"
                           "current-context: k\n";
    return path;
  }

 private:
  const herald::TemporaryDirectory directory_;
};

TEST_F(ClusterSinkTest, ReportsWhyItCannotBeOpened) {
  EXPECT_NE(LastError().find("no kubeconfig"), std::string::npos) << LastError();
  auto options = Sized<herald_cluster_options>();
  options.in_cluster = 1;
  EXPECT_EQ(herald_sink_from_cluster(&options), nullptr);
  EXPECT_NE(LastError().find("not in a pod"), std::string::npos) << LastError();
  options.in_cluster = 0;
  options.kubeconfig = "/no/such/file";
  EXPECT_EQ(herald_sink_from_cluster(&options), nullptr);
  EXPECT_NE(LastError().find("/no/such/file"), std::string::npos) << LastError();
  const std::string path = Kubeconfig("http://127.0.0.1:1");
  options.kubeconfig = path.c_str();
  options.context = "other";
  EXPECT_EQ(herald_sink_from_cluster(&options), nullptr);
  EXPECT_NE(LastError().find("context \"other\""), std::string::npos) << LastError();
  options.size = 3;
  EXPECT_EQ(herald_sink_from_cluster(&options), nullptr);
}

TEST_F(ClusterSinkTest, AsksTheServerWhichApiItHas) {
  OneRequestServer server(
      R"({"kind":"APIResourceList","groupVersion":"events.k8s.io/v1","resources":[{"name":"events"}]})");
  const std::string path = Kubeconfig("http://127.0.0.1:" + std::to_string(server.port()));
  const Owned<herald_api_choice> choice(herald_api_choice_new());
  auto options = Sized<herald_cluster_options>();
  options.kubeconfig = path.c_str();
  options.api_choice = choice.get();
  const Owned<herald_sink> sink(herald_sink_from_cluster(&options));
  ASSERT_NE(sink, nullptr) << LastError();
  int api = -1;
  while (herald_api_choice_get(choice.get(), &api) == HERALD_NOT_FOUND) std::this_thread::yield();
  EXPECT_EQ(api, HERALD_API_EVENTS_V1);
  EXPECT_EQ(server.request().substr(0, 39), "GET /apis/events.k8s.io/v1 HTTP/1.1\r\nho");
}

TEST_F(ClusterSinkTest, WritesToTheServerOfAKubeconfig) {
  OneRequestServer server;
  const std::string path = Kubeconfig("http://127.0.0.1:" + std::to_string(server.port()));
  auto options = Sized<herald_cluster_options>();
  options.kubeconfig = path.c_str();
  options.user_agent = "capi-test/1";
  Owned<herald_sink> sink(herald_sink_from_cluster(&options));
  ASSERT_NE(sink, nullptr) << LastError();
  const Owned<herald_broadcaster> broadcaster(herald_broadcaster_new(nullptr));
  ASSERT_EQ(herald_broadcaster_start_recording_to_sink(broadcaster.get(), sink.get(), nullptr),
            HERALD_OK);
  auto who = Sized<herald_recorder_options>();
  who.component = "node-agent";
  const Owned<herald_recorder> recorder(herald_recorder_new(broadcaster.get(), &who));
  const herald_reference pod = Pod();
  herald_recorder_event(recorder.get(), &pod, HERALD_NORMAL, "Started", "Started it");
  ASSERT_EQ(herald_broadcaster_flush(broadcaster.get(), kPatienceMs, nullptr), HERALD_OK);
  auto stats = Sized<herald_stats>();
  ASSERT_EQ(herald_broadcaster_stats(broadcaster.get(), 0, &stats), HERALD_OK);
  EXPECT_EQ(stats.outcomes[HERALD_OUTCOME_WRITTEN], 1u);
  EXPECT_EQ(server.request().substr(0, 47), "POST /api/v1/namespaces/default/events HTTP/1.1");
  EXPECT_NE(server.request().find("capi-test/1"), std::string::npos);
  EXPECT_NE(server.request().find("Started it"), std::string::npos);

  sink.reset();
  herald_recorder_event(recorder.get(), &pod, HERALD_NORMAL, "Gone", "Not accepted");
  ASSERT_EQ(herald_broadcaster_flush(broadcaster.get(), kPatienceMs, nullptr), HERALD_OK);
  ASSERT_EQ(herald_broadcaster_stats(broadcaster.get(), 0, &stats), HERALD_OK);
  EXPECT_EQ(stats.outcomes[HERALD_OUTCOME_REJECTED], 1u);
}

}  // namespace
