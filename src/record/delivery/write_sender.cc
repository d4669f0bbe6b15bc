#include "record/delivery/write_sender.h"

#include <exception>
#include <string>
#include <utility>

#include "record/delivery/held_events.h"

namespace herald {
namespace {

// Whether the event on the server has at least the count that a patch would set.
bool HasCountOf(const Event& on_server, const Event& patched) {
  if (!patched.series) return on_server.count >= patched.count;
  return on_server.series && on_server.series->count >= patched.series->count;
}

// A patch that changes nothing. The answer to it is the event as the server has it, and the
// account needs no permission besides that for the patch itself. The event of the request has no
// count, so a sink that answers with the event of the request does not stop the real patch.
SinkRequest EmptyPatch(const SinkRequest& request) {
  auto event = std::make_shared<Event>(*request.event);
  event->count = 0;
  event->series.reset();
  return {.verb = SinkRequest::Verb::kPatch,
          .api = request.api,
          .event = std::move(event),
          .patch = "{}"};
}

// The server rejects a create that has a resource version.
void DropResourceVersion(SinkRequest* request) {
  if (request->event->metadata.resource_version.empty()) return;
  auto event = std::make_shared<Event>(*request->event);
  event->metadata.resource_version.clear();
  request->event = std::move(event);
}

}  // namespace

WriteSender::WriteSender(Setup setup)
    : upstream_exact_(setup.upstream_exact),
      strand_(*setup.strand),
      counters_(*setup.counters),
      log_(*setup.log),
      owner_(*setup.owner),
      sink_(std::move(setup.sink)),
      policy_(*setup.options, setup.upstream_exact) {}

void WriteSender::Send(const std::shared_ptr<EventWrite>& write) {
  SinkRequest& request = write->correlation.request;
  if (request.verb == SinkRequest::Verb::kCreate) DropResourceVersion(&request);
  counters_.CountRequest(/*is_retry=*/write->tries++ > 0);
  write->compares_count =
      write->replay && request.verb == SinkRequest::Verb::kPatch && !write->count_is_lower;
  const int send = write->awaited = ++write->sends;
  const auto done = [weak = self_, write, send](Result<Event> answer) {
    const auto self = weak.lock();
    if (!self || self->closed_) return;
    self->strand_.Post([self, write, send, answer = std::move(answer)] {
      if (write->awaited != send) return;
      write->awaited = 0;
      if (self->sink_) self->OnAnswer(write, answer);
    });
  };
  try {
    sink_->Send(write->compares_count ? EmptyPatch(request) : request, done);
  } catch (const std::exception& e) {
    done(Status(StatusReason::kInternalError, std::string("sink threw: ") + e.what()));
  } catch (...) {
    done(Status(StatusReason::kInternalError, "sink threw"));
  }
}

void WriteSender::OnAnswer(const std::shared_ptr<EventWrite>& write, const Result<Event>& answer) {
  SinkRequest& request = write->correlation.request;
  if (std::exchange(write->compares_count, false) && answer) return OnCount(write, *answer);
  const Status status = answer ? Status() : answer.error();
  switch (policy_.Decide(request, status)) {
    case NextStep::kDone: {
      const bool is_new = request.verb == SinkRequest::Verb::kCreate;
      return owner_.OnFinished(
          write, {.outcome = is_new ? Outcome::kWritten : Outcome::kMerged, .answer = &*answer});
    }
    case NextStep::kCreateInstead:
      // 404 is ordinary here: the server deletes an event after its TTL (one hour by default),
      // and we remember it longer. Create it again under the same name.
      request.verb = SinkRequest::Verb::kCreate;
      write->replaced_patch = std::exchange(request.patch, {});
      --write->tries;  // still the same try
      return Send(write);
    case NextStep::kRetry:
      return Retry(write, status);
    case NextStep::kReject:
      return Reject(write, status);
    case NextStep::kRejectQuietly: {
      log_.Log(LogLevel::kDebug, "Server rejected event (will not retry!)", *request.event, status);
      // A create that meets its own earlier try, whose answer was lost, was written. A write
      // from disk was tried before, by this process or another.
      const bool is_own = (write->tries > 1 || write->replay.has_value()) &&
                          status.Is(StatusReason::kAlreadyExists);
      return owner_.OnFinished(
          write, {.outcome = is_own ? Outcome::kWritten : Outcome::kRejected, .status = status});
    }
  }
}

void WriteSender::OnCount(const std::shared_ptr<EventWrite>& write, const Event& on_server) {
  if (HasCountOf(on_server, *write->correlation.request.event)) {
    return owner_.OnFinished(write, {.outcome = Outcome::kMerged});
  }
  write->count_is_lower = true;
  --write->tries;  // still the same try
  Send(write);
}

void WriteSender::Reject(const std::shared_ptr<EventWrite>& write, const Status& status) {
  const SinkRequest& request = write->correlation.request;
  if (ChoseOtherApi(write->published, request.api)) return owner_.OnRequeued(write, status);
  log_.Log(LogLevel::kError,
           status.origin() == Status::Origin::kServer
               ? "Server rejected event (will not retry!)"
               : "Unable to construct event (will not retry!)",
           *request.event, status);
  owner_.OnFinished(write, {.outcome = Outcome::kRejected, .status = status, .rejected = true});
}

void WriteSender::Retry(const std::shared_ptr<EventWrite>& write, const Status& status) {
  const std::shared_ptr<const Event> event = write->correlation.request.event;
  const bool is_last = policy_.IsLast(write->tries);
  // That a series meets its own first event is not an error.
  if (!status.Is(StatusReason::kAlreadyExists) && (!is_last || upstream_exact_)) {
    log_.Log(LogLevel::kWarn, "Unable to write event (may retry after sleeping)", *event, status);
  }
  // client-go tries the count of a series once per tick.
  if (upstream_exact_ && !write->published.event) return owner_.OnPostponed(write);
  if (is_last) {
    log_.Log(LogLevel::kError, "Unable to write event (retry limit exceeded!)", *event, status);
    return owner_.OnFinished(write, {.outcome = Outcome::kGaveUp, .status = status});
  }
  // The event that a create met can be patched by then.
  write->correlation.request = write->IntendedRequest();
  write->replaced_patch.reset();
  write->count_is_lower = false;
  owner_.OnSleeps(write, policy_.Delay(*event, write->tries, status));
}

}  // namespace herald
