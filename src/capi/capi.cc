// The C interface: herald/herald.h in terms of herald/record. Each function translates
// its arguments, calls, and translates the result; nothing is decided here but what C
// cannot say. Every one is noexcept and catches what is thrown below it.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "capi/cluster_sink.h"
#include "herald/api/codec.h"
#include "herald/api/response_status.h"
#include "herald/base/executor.h"
#include "herald/herald.h"
#include "herald/record/api_choice.h"
#include "herald/record/broadcaster.h"
#include "herald/record/outcome.h"
#include "herald/record/recorder.h"
#include "herald/record/sink.h"

// The numbers of the header are cast from and to these.
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

// What the sink's function has said so far. Confined to the call that it is passed to.
struct herald_answer {
  int code = 200;
  std::optional<std::string> body{};
  std::string reason{};
  std::string message{};
  std::chrono::seconds retry_after{0};
};

namespace herald {
namespace {

// A larger options struct than this is not a later version but a size never set.
constexpr std::size_t kMaxStructBytes = 4096;

// Longer than any program runs, and short enough to be added to the time of day.
constexpr std::uint64_t kMaxPatienceMs = 100ull * 365 * 24 * 3600 * 1000;

// Plain arrays and numbers, so that they need no destructor: a thread may fail a call
// while the process is being torn down.
thread_local char last_error[256] = "";
thread_local int callbacks_here = 0;

herald_status Fail(herald_status status, std::string_view message) noexcept {
  const std::size_t length = std::min(message.size(), sizeof(last_error) - 1);
  std::memcpy(last_error, message.data(), length);
  last_error[length] = '\0';
  return status;
}

herald_status FailNull(const char* what) noexcept {
  char message[64];
  std::snprintf(message, sizeof(message), "%s is NULL", what);
  return Fail(HERALD_INVALID_ARGUMENT, message);
}

herald_status FromStatus(const Status& status) {
  switch (status.reason()) {
    case StatusReason::kOk:
      return HERALD_OK;
    case StatusReason::kGone:
      return Fail(HERALD_STOPPED, status.message());
    case StatusReason::kInvalid:
      return Fail(HERALD_INVALID_ARGUMENT, status.message());
    case StatusReason::kConflict:
      return Fail(HERALD_IN_USE, status.message());
    default:
      return Fail(HERALD_INTERNAL, status.message());
  }
}

// Calls a function that returns a herald_status, and turns what it throws into one.
template <typename Function>
herald_status Guarded(Function&& function) noexcept {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return Fail(HERALD_NO_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return Fail(HERALD_INTERNAL, e.what());
  } catch (...) {
    return Fail(HERALD_INTERNAL, "unknown exception");
  }
}

// The same where the result is an object: null if the function says or throws an error.
template <typename T, typename Function>
T* GuardedNew(Function&& function) noexcept {
  std::unique_ptr<T> object;
  const herald_status status = Guarded([&] { return function(object); });
  return status == HERALD_OK ? object.release() : nullptr;
}

// Marks that a callback of the user's runs on this thread.
class InCallback {
 public:
  InCallback() { ++callbacks_here; }
  ~InCallback() { --callbacks_here; }
  InCallback(const InCallback&) = delete;
  InCallback& operator=(const InCallback&) = delete;
};

// Whoever would wait for a callback must not be in one. Any callback counts, also that
// of another broadcaster: two that wait for each other are as stuck as one.
bool RefusedInCallback() noexcept {
  if (callbacks_here == 0) return false;
  Fail(HERALD_IN_CALLBACK, "a callback must not wait for the library");
  return true;
}

std::string_view Text(const char* text) { return text == nullptr ? std::string_view() : text; }

std::size_t CopyOut(std::string_view text, char* buffer, std::size_t capacity) {
  if (buffer != nullptr && capacity > 0) {
    const std::size_t length = std::min(text.size(), capacity - 1);
    std::memcpy(buffer, text.data(), length);
    buffer[length] = '\0';
  }
  return text.size();
}

// Whether a struct that says its own size can have that size, in this version or another.
template <typename T>
herald_status CheckSize(const T* in, const char* what) {
  static_assert(std::is_trivially_copyable_v<T> && offsetof(T, size) == 0);
  if (in == nullptr) return FailNull(what);
  const std::size_t size = in->size;
  // Sizes of structs are multiples of their alignment, so no pointer is cut in two.
  if (size >= sizeof(size) && size <= kMaxStructBytes && size % alignof(T) == 0) return HERALD_OK;
  return Fail(HERALD_INVALID_ARGUMENT,
              fmt::format("{}.size is {}, not the size of the struct", what, size));
}

// Reads such a struct: members that the caller does not have are zero, and those that
// we do not have must be.
template <typename T>
herald_status ReadSized(const T* in, const char* what, T* out) {
  const herald_status status = CheckSize(in, what);
  if (status != HERALD_OK) return status;
  const std::size_t size = in->size;
  *out = T{};
  std::memcpy(out, in, std::min(size, sizeof(T)));
  const char* const bytes = reinterpret_cast<const char*>(in);
  if (size > sizeof(T) &&
      std::any_of(bytes + sizeof(T), bytes + size, [](char byte) { return byte != 0; })) {
    return Fail(
        HERALD_INVALID_ARGUMENT,
        fmt::format("{} asks for something that Herald {} does not know", what, herald_version()));
  }
  return HERALD_OK;
}

herald_status CheckReserved(std::uint32_t reserved, const char* what) {
  if (reserved == 0) return HERALD_OK;
  return Fail(HERALD_INVALID_ARGUMENT, fmt::format("{}.reserved is not 0", what));
}

// A reference without kind and name is not refused here: the pipeline counts it.
ObjectReference ToReference(const herald_reference& reference) {
  return {.kind = std::string(Text(reference.kind)),
          .namespace_ = std::string(Text(reference.namespace_)),
          .name = std::string(Text(reference.name)),
          .uid = std::string(Text(reference.uid)),
          .api_version = std::string(Text(reference.api_version)),
          .resource_version = std::string(Text(reference.resource_version)),
          .field_path = std::string(Text(reference.field_path))};
}

// Hands log entries to the user's function until it is closed. Recorders outlive their
// broadcaster and still complain then; the user's data need not live so long.
//
// Thread-safe.
class LogGate {
 public:
  LogGate(herald_log_function log, void* user_data) : log_(log), user_data_(user_data) {}

  void operator()(const LogEntry& entry) EXCLUDES(mu_) {
    if (log_ == nullptr || !Enter()) return;
    try {
      Call(entry);
    } catch (...) {  // NOLINT(bugprone-empty-catch): a log that fails stops nothing
    }
    Leave();
  }

  // When this returns, the function is not running and never will.
  void Close() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    closed_ = true;
    left_.Wait(lock, [this]() REQUIRES(mu_) { return running_ == 0; });
  }

 private:
  bool Enter() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (closed_) return false;
    ++running_;
    return true;
  }

  void Leave() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (--running_ == 0) left_.NotifyAll();
  }

  void Call(const LogEntry& entry) const {
    // C wants a NUL at the end of each, which views do not promise.
    const std::string message(entry.message);
    std::vector<std::pair<std::string, std::string>> texts(entry.fields.begin(),
                                                           entry.fields.end());
    std::vector<herald_pair> fields;
    fields.reserve(texts.size());
    for (const auto& [key, value] : texts) fields.push_back({key.c_str(), value.c_str()});
    const InCallback in_callback;
    log_(user_data_, static_cast<herald_log_level>(entry.level), message.c_str(), fields.data(),
         fields.size());
  }

  const herald_log_function log_;
  void* const user_data_;
  Mutex mu_;
  CondVar left_;
  int running_ GUARDED_BY(mu_) = 0;
  bool closed_ GUARDED_BY(mu_) = false;
};

// Names are the user's and may hold anything; in a path only these stand for themselves
// whatever the server's taste.
void AppendPathSegment(std::string_view segment, std::string* out) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  for (const char c : segment) {
    if (kPlain.find(c) != std::string_view::npos) {
      out->push_back(c);
    } else {
      *out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
}

std::string RequestPath(const SinkRequest& request) {
  std::string path =
      fmt::format("/{}/{}/namespaces/", ApiGroupName(request.api).empty() ? "api" : "apis",
                  ApiVersionName(request.api));
  AppendPathSegment(request.event->metadata.namespace_, &path);
  path += "/events";
  if (request.verb != SinkRequest::Verb::kCreate) {
    path += '/';
    AppendPathSegment(request.event->metadata.name, &path);
  }
  return path;
}

const char* Method(SinkRequest::Verb verb) {
  switch (verb) {
    case SinkRequest::Verb::kCreate:
      return "POST";
    case SinkRequest::Verb::kUpdate:
      return "PUT";
    case SinkRequest::Verb::kPatch:
      return "PATCH";
  }
  return "";
}

// What the server has now. Where it does not say, or says it unreadably, that is what
// was asked for: the write itself is done, and a second one would not undo that.
Event EventOf(const SinkRequest& request, const herald_answer& answer) {
  if (answer.body) {
    Result<Event> event = JsonCodec().DecodeEvent(*answer.body, request.api);
    if (event && !event->metadata.name.empty()) return std::move(*event);
  }
  return *request.event;
}

Status StatusOf(const SinkRequest& request, const herald_answer& answer) {
  const std::string_view body = answer.body ? *answer.body : std::string_view();
  const std::optional<Status> said = JsonCodec().DecodeStatus(body);
  Status::Parts parts;
  if (said && !said->ok()) {
    parts = said->parts();
  } else {
    const bool create = request.verb == SinkRequest::Verb::kCreate;
    parts = StatusFromResponse({.verb = Method(request.verb),
                                .group = ApiGroupName(request.api),
                                .resource = "events",
                                .name = create ? std::string_view() : request.event->metadata.name},
                               {.http_code = answer.code, .body = body})
                .parts();
    const StatusReason reason = ReasonFromName(answer.reason);
    if (reason != StatusReason::kUnknown && reason != StatusReason::kOk) parts.reason = reason;
    if (!answer.message.empty()) parts.message = answer.message;
  }
  parts.code = answer.code;
  parts.retry_after = std::max(parts.retry_after, answer.retry_after);
  return Status(std::move(parts));
}

// A sink over a function that blocks. The function has a thread to itself: on the
// broadcaster's it would hold up everything else there, and a busy server would make
// recorded events pile up before anybody looked at them.
//
// Requests wait in a queue, which broadcasters bound by their max_in_flight.
//
// Thread-safe. Close() comes before the destructor, which then may run anywhere, also
// on a thread of a broadcaster that held the last reference.
class FunctionSink final : public Sink {
 public:
  FunctionSink(herald_write_function write, void* user_data)
      : write_(write), user_data_(user_data) {}

  void Send(SinkRequest request, Completion done) override EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (closed_) {
      lock.Unlock();
      return done(Freed());
    }
    waiting_.push_back({std::move(request), std::move(done)});
    lock.Unlock();
    thread_.Post([this] { RunNext(); });
  }

  // When this returns, the function is not running and never will, and every request
  // has its answer.
  void Close() EXCLUDES(mu_) {
    std::deque<Pending> rest;
    {
      MutexLock lock(mu_);
      closed_ = true;
      rest.swap(waiting_);
    }
    for (const Pending& pending : rest) pending.done(Freed());
    thread_.Stop();
  }

 private:
  struct Pending {
    SinkRequest request;
    Completion done;
  };

  // Final: trying again would not bring the sink back.
  static Status Freed() {
    return Status({.reason = StatusReason::kGone,
                   .message = "the sink was freed",
                   .origin = Status::Origin::kServer});
  }

  void RunNext() EXCLUDES(mu_) {
    std::optional<Pending> next;
    {
      MutexLock lock(mu_);
      if (waiting_.empty()) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    try {
      next->done(Write(next->request));
    } catch (const std::exception& e) {
      next->done(Status(StatusReason::kInternalError, fmt::format("sink threw: {}", e.what())));
    } catch (...) {
      next->done(Status(StatusReason::kInternalError, "sink threw"));
    }
  }

  Result<Event> Write(const SinkRequest& request) const {
    const bool patch = request.verb == SinkRequest::Verb::kPatch;
    std::string json;
    if (!patch) JsonCodec().AppendEvent(*request.event, request.api, &json);
    const std::string& body = patch ? request.patch : json;
    const std::string path = RequestPath(request);
    const std::string api_version(ApiVersionName(request.api));
    const herald_request c_request = {
        .method = Method(request.verb),
        .path = path.c_str(),
        .content_type = patch ? "application/strategic-merge-patch+json" : "application/json",
        .body = body.c_str(),
        .body_size = body.size(),
        .api_version = api_version.c_str(),
        .namespace_ = request.event->metadata.namespace_.c_str(),
        .name = request.event->metadata.name.c_str(),
    };
    herald_answer answer;
    int result = 0;
    {
      const InCallback in_callback;
      result = write_(user_data_, &c_request, &answer);
    }
    if (result != 0) {
      // Nobody answered, so this is ours, and worth another try.
      return Status({.reason = StatusReason::kUnreachable,
                     .message = answer.message.empty()
                                    ? fmt::format("the sink's function returned {}", result)
                                    : std::move(answer.message),
                     .retry_after = answer.retry_after});
    }
    if (answer.code / 100 == 2) return EventOf(request, answer);
    return StatusOf(request, answer);
  }

  const herald_write_function write_;
  void* const user_data_;
  Mutex mu_;
  std::deque<Pending> waiting_ GUARDED_BY(mu_);
  bool closed_ GUARDED_BY(mu_) = false;
  Executor thread_;  // last: its tasks use all above
};

}  // namespace
}  // namespace herald

struct herald_api_choice {
  std::shared_ptr<herald::ApiChoice> choice = std::make_shared<herald::ApiChoice>();
};

// A sink of any kind, and how to end its use. New kinds are new functions that make one.
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

// Flush and shutdown, which differ only in what they call.
template <typename Drain>
herald_status DrainWith(herald_broadcaster* broadcaster, std::uint64_t patience_ms,
                        std::uint64_t* in_flight, Drain drain) noexcept {
  return Guarded([&] {
    if (in_flight != nullptr) *in_flight = 0;
    if (broadcaster == nullptr) return FailNull("broadcaster");
    if (RefusedInCallback()) return HERALD_IN_CALLBACK;
    const std::chrono::milliseconds patience(std::min(patience_ms, kMaxPatienceMs));
    const DrainReport report = drain(broadcaster->broadcaster, patience);
    if (in_flight != nullptr) *in_flight = report.in_flight;
    if (report.complete) return HERALD_OK;
    return Fail(HERALD_TIMED_OUT, fmt::format("{} events were not written within {} ms",
                                              report.in_flight, patience_ms));
  });
}

// Null for null.
std::shared_ptr<ApiChoice> ChoiceOf(const herald_api_choice* choice) {
  return choice == nullptr ? nullptr : choice->choice;
}

herald_status CheckApi(int api, const char* what) {
  if (api == HERALD_API_CORE_V1 || api == HERALD_API_EVENTS_V1) return HERALD_OK;
  return Fail(HERALD_INVALID_ARGUMENT, fmt::format("{} is {}", what, api));
}

herald_status ToSpool(const herald_spool_options* options, SpoolOptions* out) {
  herald_spool_options given = {};
  herald_status status = ReadSized(options, "options.spool", &given);
  if (status == HERALD_OK) status = CheckReserved(given.reserved, "options.spool");
  if (status != HERALD_OK) return status;
  if (Text(given.directory).empty()) {
    return Fail(HERALD_INVALID_ARGUMENT, "options.spool.directory is empty");
  }
  out->directory = given.directory;
  if (given.max_bytes != 0) out->max_bytes = given.max_bytes;
  if (given.segment_bytes != 0) out->segment_bytes = given.segment_bytes;
  out->sync = given.sync != 0;
  return HERALD_OK;
}

herald_status ToOccurrence(const herald_occurrence& in, Occurrence* out) {
  if (in.type == nullptr) return FailNull("occurrence.type");
  if (in.reason == nullptr) return FailNull("occurrence.reason");
  if (in.annotations == nullptr && in.annotation_count > 0) {
    return FailNull("occurrence.annotations");
  }
  out->type = in.type;
  out->reason = in.reason;
  out->action = Text(in.action);
  if (in.related != nullptr) out->related = ToReference(*in.related);
  for (std::size_t i = 0; i < in.annotation_count; ++i) {
    const herald_pair& annotation = in.annotations[i];
    if (annotation.key == nullptr) return FailNull("occurrence.annotations.key");
    out->annotations[annotation.key] = Text(annotation.value);
  }
  if (in.unix_nanos != 0) out->when = WallTime(std::chrono::nanoseconds(in.unix_nanos));
  return HERALD_OK;
}

}  // namespace
}  // namespace herald

using herald::CheckReserved;
using herald::Fail;
using herald::FailNull;
using herald::Guarded;
using herald::GuardedNew;
using herald::ReadSized;
using herald::Text;

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
  return herald::CopyOut(herald::last_error, buffer, capacity);
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
    if (!chosen) return Fail(HERALD_NOT_FOUND, "nothing has been chosen yet");
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
        herald::OpenClusterSink({.kubeconfig = std::string(Text(given.kubeconfig)),
                                 .context = std::string(Text(given.context)),
                                 .user_agent = std::string(Text(given.user_agent)),
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
  if (sink == nullptr || herald::RefusedInCallback()) return;
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
      return Fail(HERALD_INVALID_ARGUMENT, fmt::format("{} is not an HTTP code", code));
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
    answer->reason = Text(reason);
    answer->message = Text(message);
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
  if (broadcaster == nullptr || herald::RefusedInCallback()) return;
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
          const std::string text(line);
          const herald::InCallback in_callback;
          print(user_data, text.c_str());
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
  // Literals, so there is a NUL behind each.
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
                  fmt::format("there is no sink {}; {} were started", sink, all.size()));
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
    // What only a later version counts is zero here.
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
    std::string text;
    broadcaster->broadcaster.WritePrometheusText(&text);
    length = herald::CopyOut(text, buffer, capacity);
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
    if (Text(given.component).empty()) {
      return Fail(HERALD_INVALID_ARGUMENT, "options.component is empty");
    }
    status = herald::CheckApi(given.api, "options.api");
    if (status != HERALD_OK) return status;
    made = std::make_unique<herald_recorder>(herald_recorder{
        broadcaster->broadcaster.NewRecorder({.component = given.component,
                                              .host = std::string(Text(given.host)),
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
    herald::Occurrence said;
    status = herald::ToOccurrence(given, &said);
    if (status != HERALD_OK) return status;
    recorder->recorder.Record(herald::ToReference(*object), std::move(said), "{}",
                              Text(given.message));
    return HERALD_OK;
  });
}
