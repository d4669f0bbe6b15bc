#include "capi/function_sink.h"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

#include "capi/errors.h"
#include "herald/api/codec.h"
#include "herald/api/response_status.h"

namespace herald {
namespace {

// Namespaces and names may hold any bytes. Only unreserved characters (RFC 3986) need no escape.
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

// The event as the server has it now. An answer without a readable event means the event as it was
// sent: it has been written, and another request would not change that.
Event EventOf(const SinkRequest& request, const herald_answer& answer) {
  if (answer.body) {
    Result<Event> event = JsonCodec().DecodeEvent(*answer.body, request.api);
    if (event && !event->metadata.name.empty()) return std::move(*event);
  }
  return *request.event;
}

Status StatusOf(const SinkRequest& request, const herald_answer& answer) {
  const std::string_view body = answer.body ? *answer.body : std::string_view();
  const std::optional<Status> decoded = JsonCodec().DecodeStatus(body);
  Status::Parts parts;
  if (decoded && !decoded->ok()) {
    parts = decoded->parts();
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

// Final, because its origin is the server: a retry would not bring the sink back.
Status Freed() {
  return Status({.reason = StatusReason::kGone,
                 .message = "the sink was freed",
                 .origin = Status::Origin::kServer});
}

}  // namespace

void FunctionSink::Send(SinkRequest request, Completion done) {
  MutexLock lock(mu_);
  if (closed_) {
    lock.Unlock();
    return done(Freed());
  }
  waiting_.push_back({std::move(request), std::move(done)});
  lock.Unlock();
  thread_.Post([this] { RunNext(); });
}

void FunctionSink::Close() {
  std::deque<Pending> rest;
  {
    MutexLock lock(mu_);
    closed_ = true;
    rest.swap(waiting_);
  }
  for (const Pending& pending : rest) pending.done(Freed());
  thread_.Stop();
}

void FunctionSink::RunNext() {
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
    next->done(Status(StatusReason::kInternalError,
                      fmt::format("the sink threw an exception: {}", e.what())));
  } catch (...) {
    next->done(Status(StatusReason::kInternalError, "the sink threw an exception"));
  }
}

Result<Event> FunctionSink::Write(const SinkRequest& request) const {
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
    // There was no answer. The error is local, so delivery retries.
    return Status({.reason = StatusReason::kUnreachable,
                   .message = answer.message.empty()
                                  ? fmt::format("the sink's function returned {}", result)
                                  : std::move(answer.message),
                   .retry_after = answer.retry_after});
  }
  if (answer.code / 100 == 2) return EventOf(request, answer);
  return StatusOf(request, answer);
}

}  // namespace herald
