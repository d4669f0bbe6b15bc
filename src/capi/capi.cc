// The functions of herald/herald.h, over herald/record. Each function translates its arguments,
// calls the C++ interface, and translates the result. All are noexcept and catch all exceptions.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capi/arguments.h"
#include "capi/cluster_sink.h"
#include "capi/errors.h"
#include "capi/function_sink.h"
#include "capi/log_gate.h"
#include "herald/herald.h"
#include "herald/record/api_choice.h"
#include "herald/record/broadcaster.h"
#include "herald/record/outcome.h"
#include "herald/record/recorder.h"
#include "herald/record/sink.h"

// The enumerators of the header are cast to and from these.
static_assert(HERALD_OUTCOME_WRITTEN == static_cast<int>(herald::Outcome::kWritten));
static_assert(HERALD_OUTCOME_MERGED == static_cast<int>(herald::Outcome::kMerged));
static_assert(HERALD_OUTCOME_FILTERED == static_cast<int>(herald::Outcome::kFiltered));
static_assert(HERALD_OUTCOME_DROPPED == static_cast<int>(herald::Outcome::kDropped));
static_assert(HERALD_OUTCOME_REJECTED == static_cast<int>(herald::Outcome::kRejected));
static_assert(HERALD_OUTCOME_GAVE_UP == static_cast<int>(herald::Outcome::kGaveUp));
static_assert(HERALD_OUTCOME_LOST == static_cast<int>(herald::Outcome::kLost));
static_assert(HERALD_OUTCOME_INVALID == static_cast<int>(herald::Outcome::kInvalid));
static_assert(HERALD_OUTCOME_NO_SINK == static_cast<int>(herald::Outcome::kNoSink));
static_assert(HERALD_OUTCOME_SPOOLED == static_cast<int>(herald::Outcome::kSpooled));
static_assert(herald::kOutcomes <= std::size(herald_stats{}.outcomes));
static_assert(HERALD_LOG_DEBUG == static_cast<int>(herald::LogLevel::kDebug));
static_assert(HERALD_LOG_INFO == static_cast<int>(herald::LogLevel::kInfo));
static_assert(HERALD_LOG_WARN == static_cast<int>(herald::LogLevel::kWarn));
static_assert(HERALD_LOG_ERROR == static_cast<int>(herald::LogLevel::kError));
static_assert(HERALD_API_CORE_V1 == static_cast<int>(herald::EventApi::kCoreV1));
static_assert(HERALD_API_EVENTS_V1 == static_cast<int>(herald::EventApi::kEventsV1));

struct herald_api_choice {
  std::shared_ptr<herald::ApiChoice> choice = std::make_shared<herald::ApiChoice>();
};

// A sink of any kind, and a function that ends its use.
struct herald_sink {
  std::shared_ptr<herald::Sink> sink;
  std::function<void()> close;
};

struct herald_broadcaster {
  herald_broadcaster(std::shared_ptr<herald::LogGate> log_gate,
                     const herald::BroadcasterOptions& options)
      : gate(std::move(log_gate)), broadcaster(options) {}

  const std::shared_ptr<herald::LogGate> gate;
  herald::Broadcaster broadcaster;
};

struct herald_recorder {
  herald::Recorder recorder;
};

namespace herald {
namespace {

// 100 years: longer than any program runs, and no overflow when it is added to a time.
constexpr std::uint64_t kMaxPatienceMs = 100ull * 365 * 24 * 3600 * 1000;

// Flush and shutdown differ only in the function that they call.
template <typename Drain>
herald_status DrainWith(herald_broadcaster* broadcaster, std::uint64_t patience_ms,
                        std::uint64_t* in_flight, Drain drain) noexcept {
  return Guarded([&] {
    if (in_flight != nullptr) *in_flight = 0;
    if (broadcaster == nullptr) return FailNull("broadcaster");
    if (RejectInCallback()) return HERALD_IN_CALLBACK;
    const std::chrono::milliseconds patience(std::min(patience_ms, kMaxPatienceMs));
    const DrainReport report = drain(broadcaster->broadcaster, patience);
    if (in_flight != nullptr) *in_flight = report.in_flight;
    if (report.complete) return HERALD_OK;
    return Fail(HERALD_TIMED_OUT, fmt::format("{} events were not written within {} ms",
                                              report.in_flight, patience_ms));
  });
}

// Null if `choice` is NULL.
std::shared_ptr<ApiChoice> ChoiceOf(const herald_api_choice* choice) {
  return choice == nullptr ? nullptr : choice->choice;
}

}  // namespace
}  // namespace herald

using herald::CheckReserved;
using herald::Fail;
using herald::FailNull;
using herald::Guarded;
using herald::GuardedNew;
using herald::ReadSized;
using herald::View;

const char* herald_status_name(int status) noexcept {
  switch (status) {
    case HERALD_OK:
      return "ok";
    case HERALD_INVALID_ARGUMENT:
      return "invalid argument";
    case HERALD_STOPPED:
      return "stopped";
    case HERALD_TIMED_OUT:
      return "timed out";
    case HERALD_NOT_FOUND:
      return "not found";
    case HERALD_IN_CALLBACK:
      return "in a callback";
    case HERALD_NO_MEMORY:
      return "no memory";
    case HERALD_INTERNAL:
      return "internal error";
    case HERALD_IN_USE:
      return "in use";
    default:
      return "unknown";
  }
}

size_t herald_last_error(char* buffer, size_t capacity) noexcept {
  return herald::CopyOut(herald::LastError(), buffer, capacity);
}

const char* herald_version(void) noexcept { return HERALD_VERSION; }

herald_api_choice* herald_api_choice_new(void) noexcept {
  return GuardedNew<herald_api_choice>([](std::unique_ptr<herald_api_choice>& made) {
    made = std::make_unique<herald_api_choice>();
    return HERALD_OK;
  });
}

void herald_api_choice_free(herald_api_choice* choice) noexcept { delete choice; }

herald_status herald_api_choice_set(herald_api_choice* choice, int api) noexcept {
  return Guarded([&] {
    if (choice == nullptr) return FailNull("choice");
    const herald_status status = herald::CheckApi(api, "api");
    if (status == HERALD_OK) choice->choice->Set(static_cast<herald::EventApi>(api));
    return status;
  });
}

herald_status herald_api_choice_get(const herald_api_choice* choice, int* api) noexcept {
  return Guarded([&] {
    if (choice == nullptr) return FailNull("choice");
    if (api == nullptr) return FailNull("api");
    const std::optional<herald::EventApi> chosen = choice->choice->Get();
    if (!chosen) return Fail(HERALD_NOT_FOUND, "no API has been chosen yet");
    *api = static_cast<int>(*chosen);
    return HERALD_OK;
  });
}

herald_sink* herald_sink_from_function(herald_write_function write, void* user_data) noexcept {
  return GuardedNew<herald_sink>([&](std::unique_ptr<herald_sink>& made) {
    if (write == nullptr) return FailNull("write");
    auto sink = std::make_shared<herald::FunctionSink>(write, user_data);
    made = std::make_unique<herald_sink>(herald_sink{sink, [sink] { sink->Close(); }});
    return HERALD_OK;
  });
}

herald_sink* herald_sink_from_cluster(const herald_cluster_options* options) noexcept {
  return GuardedNew<herald_sink>([&](std::unique_ptr<herald_sink>& made) {
    herald_cluster_options given = {};
    if (options != nullptr) {
      const herald_status status = herald::ReadSized(options, "options", &given);
      if (status != HERALD_OK) return status;
    }
    herald::Result<herald::ClusterSink> sink =
        herald::OpenClusterSink({.kubeconfig = std::string(View(given.kubeconfig)),
                                 .context = std::string(View(given.context)),
                                 .user_agent = std::string(View(given.user_agent)),
                                 .in_cluster = given.in_cluster != 0,
                                 .protobuf = given.protobuf != 0,
                                 .api_choice = herald::ChoiceOf(given.api_choice)});
    if (!sink) {
      const herald::StatusReason reason = sink.error().reason();
      return Fail(reason == herald::StatusReason::kNotFound           ? HERALD_NOT_FOUND
                  : reason == herald::StatusReason::kMethodNotAllowed ? HERALD_INTERNAL
                                                                      : HERALD_INVALID_ARGUMENT,
                  sink.error().message());
    }
    made =
        std::make_unique<herald_sink>(herald_sink{std::move(sink->sink), std::move(sink->close)});
    return HERALD_OK;
  });
}

void herald_sink_free(herald_sink* sink) noexcept {
  if (sink == nullptr || herald::RejectInCallback()) return;
  Guarded([&] {
    sink->close();
    return HERALD_OK;
  });
  delete sink;
}

herald_status herald_answer_set(herald_answer* answer, int code, const char* body,
                                size_t body_size) noexcept {
  return Guarded([&] {
    if (answer == nullptr) return FailNull("answer");
    if (body == nullptr && body_size > 0) return FailNull("body");
    if (code < 100 || code > 599) {
      return Fail(HERALD_INVALID_ARGUMENT,
                  fmt::format("invalid code {}: must be from 100 to 599", code));
    }
    answer->body.reset();
    if (body != nullptr) answer->body.emplace(body, body_size);
    answer->code = code;
    return HERALD_OK;
  });
}

herald_status herald_answer_set_error(herald_answer* answer, const char* reason,
                                      const char* message) noexcept {
  return Guarded([&] {
    if (answer == nullptr) return FailNull("answer");
    answer->reason = View(reason);
    answer->message = View(message);
    return HERALD_OK;
  });
}

herald_status herald_answer_set_retry_after(herald_answer* answer, uint32_t seconds) noexcept {
  if (answer == nullptr) return FailNull("answer");
  answer->retry_after = std::chrono::seconds(seconds);
  return HERALD_OK;
}

herald_broadcaster* herald_broadcaster_new(const herald_broadcaster_options* options) noexcept {
  return GuardedNew<herald_broadcaster>([&](std::unique_ptr<herald_broadcaster>& made) {
    herald_broadcaster_options given = {};
    if (options != nullptr) {
      herald_status status = ReadSized(options, "options", &given);
      if (status == HERALD_OK) status = CheckReserved(given.reserved, "options");
      if (status != HERALD_OK) return status;
    }
    const auto gate = std::make_shared<herald::LogGate>(given.log, given.log_user_data);
    herald::BroadcasterOptions wanted;
    if (given.incoming_events != 0) wanted.incoming_events = given.incoming_events;
    if (given.watcher_events != 0) wanted.watcher_events = given.watcher_events;
    if (given.queue_bytes != 0) wanted.queue_bytes = given.queue_bytes;
    if (given.wait_when_full != 0) wanted.when_full = herald::WhenFull::kWait;
    if (given.drain_ms != 0) wanted.drain = std::chrono::milliseconds(given.drain_ms);
    if (given.log != nullptr) wanted.log = [gate](const herald::LogEntry& e) { (*gate)(e); };
    wanted.upstream_exact = given.upstream_exact != 0;
    made = std::make_unique<herald_broadcaster>(gate, wanted);
    return HERALD_OK;
  });
}

void herald_broadcaster_free(herald_broadcaster* broadcaster) noexcept {
  if (broadcaster == nullptr || herald::RejectInCallback()) return;
  const std::shared_ptr<herald::LogGate> gate = broadcaster->gate;
  delete broadcaster;
  gate->Close();
}

herald_status herald_broadcaster_start_logging(herald_broadcaster* broadcaster,
                                               herald_line_function print,
                                               void* user_data) noexcept {
  return Guarded([&] {
    if (broadcaster == nullptr) return FailNull("broadcaster");
    if (print == nullptr) return FailNull("print");
    return herald::FromStatus(
        broadcaster->broadcaster.StartLogging([print, user_data](std::string_view line) {
          const std::string copy(line);
          const herald::InCallback in_callback;
          print(user_data, copy.c_str());
        }));
  });
}

herald_status herald_broadcaster_start_recording_to_sink(
    herald_broadcaster* broadcaster, herald_sink* sink,
    const herald_recording_options* options) noexcept {
  return Guarded([&] {
    if (broadcaster == nullptr) return FailNull("broadcaster");
    if (sink == nullptr) return FailNull("sink");
    herald_recording_options given = {};
    if (options != nullptr) {
      herald_status status = ReadSized(options, "options", &given);
      if (status == HERALD_OK) status = CheckReserved(given.reserved | given.reserved2, "options");
      if (status != HERALD_OK) return status;
    }
    herald::SinkOptions wanted;
    if (given.name != nullptr) wanted.name = given.name;
    if (given.max_in_flight != 0) wanted.max_in_flight = given.max_in_flight;
    if (given.max_tries != 0) {
      wanted.max_tries = static_cast<int>(
          std::min<std::uint32_t>(given.max_tries, std::numeric_limits<int>::max()));
    }
    if (given.retry_after_ms != 0) {
      wanted.retry_after = std::chrono::milliseconds(given.retry_after_ms);
    }
    wanted.prefer_warnings = given.prefer_warnings != 0;
    if (given.self != nullptr) wanted.self = herald::ToReference(*given.self);
    if (given.spool != nullptr) {
      const herald_status status = herald::ToSpool(given.spool, &wanted.spool.emplace());
      if (status != HERALD_OK) return status;
    }
    wanted.count.fair_filter = given.fair_filter != 0;
    return herald::FromStatus(
        broadcaster->broadcaster.StartRecordingToSink(sink->sink, std::move(wanted)));
  });
}

herald_status herald_broadcaster_flush(herald_broadcaster* broadcaster, uint64_t patience_ms,
                                       uint64_t* in_flight) noexcept {
  return herald::DrainWith(broadcaster, patience_ms, in_flight,
                           [](herald::Broadcaster& it, std::chrono::nanoseconds patience) {
                             return it.Flush(patience);
                           });
}

herald_status herald_broadcaster_shutdown(herald_broadcaster* broadcaster, uint64_t patience_ms,
                                          uint64_t* in_flight) noexcept {
  return herald::DrainWith(broadcaster, patience_ms, in_flight,
                           [](herald::Broadcaster& it, std::chrono::nanoseconds patience) {
                             return it.Shutdown(patience);
                           });
}

const char* herald_outcome_name(int outcome) noexcept {
  if (outcome < 0 || static_cast<std::size_t>(outcome) >= herald::kOutcomes) return "unknown";
  // The names are string literals, so they end with NUL.
  return herald::OutcomeName(static_cast<herald::Outcome>(outcome)).data();
}

herald_status herald_broadcaster_stats(const herald_broadcaster* broadcaster, size_t sink,
                                       herald_stats* stats) noexcept {
  return Guarded([&] {
    if (broadcaster == nullptr) return FailNull("broadcaster");
    const herald_status status = herald::CheckSize(stats, "stats");
    if (status != HERALD_OK) return status;
    const std::vector<herald::SinkStats> all = broadcaster->broadcaster.Stats();
    if (sink >= all.size()) {
      return Fail(HERALD_NOT_FOUND,
                  fmt::format("sink {} does not exist: {} were started", sink, all.size()));
    }
    const herald::SinkStats& from = all[sink];
    herald_stats filled = {};
    filled.size = stats->size;
    filled.recorded = from.recorded;
    filled.in_flight = from.in_flight;
    filled.requests = from.requests;
    filled.retries = from.retries;
    std::copy(from.outcomes.begin(), from.outcomes.end(), filled.outcomes);
    filled.spool_bytes = from.spool_bytes;
    filled.spool_dropped = from.spool_dropped;
    filled.spool_corrupted = from.spool_corrupted;
    // Members that only a later version has become zero.
    std::memset(stats, 0, filled.size);
    std::memcpy(stats, &filled, std::min(filled.size, sizeof(filled)));
    return HERALD_OK;
  });
}

uint64_t herald_broadcaster_without_sink(const herald_broadcaster* broadcaster) noexcept {
  std::uint64_t count = 0;
  Guarded([&] {
    if (broadcaster == nullptr) return FailNull("broadcaster");
    count = broadcaster->broadcaster.without_sink();
    return HERALD_OK;
  });
  return count;
}

size_t herald_broadcaster_prometheus(const herald_broadcaster* broadcaster, char* buffer,
                                     size_t capacity) noexcept {
  std::size_t length = 0;
  if (buffer != nullptr && capacity > 0) buffer[0] = '\0';
  Guarded([&] {
    if (broadcaster == nullptr) return FailNull("broadcaster");
    if (buffer == nullptr && capacity > 0) return FailNull("buffer");
    std::string metrics;
    broadcaster->broadcaster.WritePrometheusText(&metrics);
    length = herald::CopyOut(metrics, buffer, capacity);
    return HERALD_OK;
  });
  return length;
}

herald_recorder* herald_recorder_new(herald_broadcaster* broadcaster,
                                     const herald_recorder_options* options) noexcept {
  return GuardedNew<herald_recorder>([&](std::unique_ptr<herald_recorder>& made) {
    if (broadcaster == nullptr) return FailNull("broadcaster");
    herald_recorder_options given = {};
    herald_status status = ReadSized(options, "options", &given);
    if (status == HERALD_OK) status = CheckReserved(given.reserved, "options");
    if (status != HERALD_OK) return status;
    if (View(given.component).empty()) {
      return Fail(HERALD_INVALID_ARGUMENT, "options.component must not be empty");
    }
    status = herald::CheckApi(given.api, "options.api");
    if (status != HERALD_OK) return status;
    made = std::make_unique<herald_recorder>(herald_recorder{
        broadcaster->broadcaster.NewRecorder({.component = given.component,
                                              .host = std::string(View(given.host)),
                                              .api = static_cast<herald::EventApi>(given.api),
                                              .api_choice = herald::ChoiceOf(given.api_choice)})});
    return HERALD_OK;
  });
}

void herald_recorder_free(herald_recorder* recorder) noexcept { delete recorder; }

herald_status herald_recorder_event(herald_recorder* recorder, const herald_reference* object,
                                    const char* type, const char* reason,
                                    const char* message) noexcept {
  return Guarded([&] {
    if (recorder == nullptr) return FailNull("recorder");
    if (object == nullptr) return FailNull("object");
    if (type == nullptr) return FailNull("type");
    if (reason == nullptr) return FailNull("reason");
    if (message == nullptr) return FailNull("message");
    recorder->recorder.Event(herald::ToReference(*object), type, reason, message);
    return HERALD_OK;
  });
}

herald_status herald_recorder_record(herald_recorder* recorder, const herald_reference* object,
                                     const herald_occurrence* occurrence) noexcept {
  return Guarded([&] {
    if (recorder == nullptr) return FailNull("recorder");
    if (object == nullptr) return FailNull("object");
    herald_occurrence given = {};
    herald_status status = ReadSized(occurrence, "occurrence", &given);
    if (status != HERALD_OK) return status;
    herald::Occurrence converted;
    status = herald::ToOccurrence(given, &converted);
    if (status != HERALD_OK) return status;
    recorder->recorder.Record(herald::ToReference(*object), std::move(converted), "{}",
                              View(given.message));
    return HERALD_OK;
  });
}
