#include "herald/client/rest_sink.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes/random.h"
#include "base/limit/backoff.h"
#include "client/rest/event_format.h"
#include "client/rest/requests.h"
#include "client/rest/rest_impl.h"
#include "herald/api/patch.h"

namespace herald {
namespace {

bool HasCause(const Status& status, std::string_view reason) {
  const auto& causes = status.details().causes;
  return std::any_of(causes.begin(), causes.end(),
                     [&](const StatusCause& cause) { return cause.reason == reason; });
}

// What the rejection of a write means for the API that it was sent through.
enum class ApiProblem : std::uint8_t {
  kNone,       // nothing
  kMissing,    // the server does not have it
  kForbidden,  // the account may not use it in this namespace
};

ApiProblem ApiProblemOf(const Status& status) {
  if (status.origin() != Status::Origin::kServer) return ApiProblem::kNone;
  // Admission rejects creates in a namespace that is being deleted, whatever the API.
  if (status.code() == 403 && !HasCause(status, "NamespaceTerminating")) {
    return ApiProblem::kForbidden;
  }
  // A server answers for a group that it does not have with a plain page, not with a Status
  // about an object.
  if (status.code() == 404 && HasCause(status, "UnexpectedServerResponse")) {
    return ApiProblem::kMissing;
  }
  return ApiProblem::kNone;
}

// Whether the server has looked at the event itself, so that the account may use the API. Other
// errors, such as 401, 429 or 500, do not show that.
bool IsAboutTheEvent(const Status& status) {
  if (status.origin() != Status::Origin::kServer) return false;
  if (ApiProblemOf(status) != ApiProblem::kNone) return false;
  const int code = status.code();
  return code == 400 || code == 404 || code == 409 || code == 413 || code == 422;
}

// Without a choice of the caller the sink has its own.
std::shared_ptr<ApiChoice> ChoiceFor(const RestSinkOptions& options, RestClient* rest) {
  if (options.api_choice) return options.api_choice;
  auto choice = std::make_shared<ApiChoice>(&rest->impl().transport().clock());
  choice->Set(EventApi::kEventsV1);
  return choice;
}

}  // namespace

// Which API to use is known by `choice` alone. This class asks it before each request and
// reports the server's answers to it.
//
// Thread-safe.
struct RestSink::State : std::enable_shared_from_this<State> {
  State(RestClient* r, RestSinkOptions o)
      : rest(r),
        options(std::move(o)),
        choice(ChoiceFor(options, rest)),
        backoff(BackoffOptions(), RandomSeed()) {}

  // Asks until the server answers, or the sink is destroyed.
  void Discover() {
    rest->Send(
        DiscoveryRequest(),
        [weak = weak_from_this()](const Result<RestResponse>& answer) {
          const auto self = weak.lock();
          if (!self || self->choice->Get()) return;
          const Result<EventApi> api = ReadDiscovery(answer);
          if (api && *api == EventApi::kCoreV1) {
            self->choice->FallBack();
            return;
          }
          // Every server has had the API since 1.19, also one that does not let us ask.
          if (api || api.error().code() == 403) return self->choice->Set(EventApi::kEventsV1);
          if (api.error().Is(StatusReason::kCancelled)) return;
          Transport& transport = self->rest->impl().transport();
          transport.PostAfter(self->backoff.Next(transport.clock().Steady()), [weak] {
            if (const auto still = weak.lock()) still->Discover();
          });
        },
        stop.get_token());
  }

  void Send(SinkRequest request, Completion done) {
    const bool use_core = request.api == EventApi::kCoreV1 ||
                          choice->Get(request.event->metadata.namespace_) == EventApi::kCoreV1;
    if (use_core) return SendThrough(request, EventApi::kCoreV1, std::move(done));
    // Kept for v1, in case that this API cannot be used.
    auto kept = std::make_shared<const SinkRequest>(std::move(request));
    SendThrough(*kept, EventApi::kEventsV1,
                [self = shared_from_this(), kept, done = std::move(done)](Result<Event> result) {
                  if (result || ApiProblemOf(result.error()) == ApiProblem::kNone) {
                    return done(std::move(result));
                  }
                  self->TryCore(*kept, result.error(), done);
                });
  }

  // Writes through v1 what events.k8s.io/v1 rejected, and falls back if v1 can be used.
  void TryCore(const SinkRequest& request, const Status& rejection, const Completion& done) {
    SendThrough(request, EventApi::kCoreV1,
                [self = shared_from_this(), namespace_ = request.event->metadata.namespace_,
                 rejection, done](Result<Event> result) {
                  // If neither API can be used, the first answer is the better explanation.
                  if (!result && ApiProblemOf(result.error()) != ApiProblem::kNone) {
                    return done(rejection);
                  }
                  if (result || IsAboutTheEvent(result.error())) {
                    self->FallBack(namespace_, rejection);
                  }
                  done(std::move(result));
                });
  }

  void FallBack(const std::string& namespace_, const Status& rejection) {
    const bool everywhere = ApiProblemOf(rejection) == ApiProblem::kMissing;
    const bool is_news = everywhere ? choice->FallBack() : choice->FallBack(namespace_);
    if (!is_news || !options.log) return;
    const std::string reason = rejection.ToString();
    options.log({.level = LogLevel::kWarn,
                 .message = "events.k8s.io/v1 cannot be used, events are written through v1",
                 .fields = {{"namespace", everywhere ? std::string_view("*") : namespace_},
                            {"reason", reason}}});
  }

  void SendThrough(const SinkRequest& sink_request, EventApi api, Completion done) {
    const Event& event = *sink_request.event;
    const bool create = sink_request.verb == SinkRequest::Verb::kCreate;
    if (event.metadata.namespace_.empty()) {
      return done(Status(StatusReason::kBadRequest, "can't write an event with empty namespace"));
    }
    const std::string_view method = create                                            ? "POST"
                                    : sink_request.verb == SinkRequest::Verb::kUpdate ? "PUT"
                                                                                      : "PATCH";
    RestRequest request =
        ResourceRequest(EventResource(api), method, event.metadata.namespace_,
                        create ? std::string_view() : std::string_view(event.metadata.name));
    request.accept = AcceptOf(options.format);
    // When to try again is the pipeline's decision.
    request.max_retries = 0;
    if (sink_request.verb == SinkRequest::Verb::kPatch) {
      request.content_type = PatchMediaType(PatchType::kStrategicMerge);
      request.body = sink_request.patch;
    } else {
      AddEvent(event, api, options.format, &request);
    }
    rest->Send(std::move(request), [api, done = std::move(done)](Result<RestResponse> response) {
      if (!response) return done(response.error());
      done(CodecOf(response->content_type).DecodeEvent(response->body, api));
    });
  }

  // Owned by the sink. Used by the sink and by callbacks of the client, which the client
  // outlives. Not owned here, or a client with requests under way would own itself.
  RestClient* const rest;
  const RestSinkOptions options;
  const std::shared_ptr<ApiChoice> choice;
  std::stop_source stop{};  // of the discovery
  Backoff backoff;          // on the client's thread only
};

RestSink::RestSink(std::shared_ptr<RestClient> rest, RestSinkOptions options)
    : rest_(std::move(rest)), state_(std::make_shared<State>(rest_.get(), std::move(options))) {
  if (!state_->choice->Get()) state_->Discover();
}

RestSink::~RestSink() { state_->stop.request_stop(); }

void RestSink::Send(SinkRequest request, Completion done) {
  state_->Send(std::move(request), std::move(done));
}

bool RestSink::fell_back() const { return state_->choice->fell_back(); }

}  // namespace herald
