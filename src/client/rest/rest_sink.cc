#include "herald/client/rest_sink.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "base/bytes/random.h"
#include "base/limit/backoff.h"
#include "client/rest/event_format.h"
#include "client/rest/requests.h"
#include "client/rest/rest_impl.h"
#include "herald/api/patch.h"

namespace herald {
namespace {

// Whether a refusal is about the whole API: no server has it, or the account may not use
// it. A namespace that is missing or going away is none of these.
bool IsAboutTheApi(const Status& status) {
  if (status.origin() != Status::Origin::kServer) return false;
  const auto& causes = status.details().causes;
  if (status.code() == 403) {
    return std::none_of(causes.begin(), causes.end(), [](const StatusCause& cause) {
      return cause.reason == "NamespaceTerminating";
    });
  }
  // A server answers for a group it does not have with a plain page, not with a Status
  // about some object.
  return status.code() == 404 &&
         std::any_of(causes.begin(), causes.end(), [](const StatusCause& cause) {
           return cause.reason == "UnexpectedServerResponse";
         });
}

}  // namespace

struct RestSink::State : std::enable_shared_from_this<State> {
  State(RestClient* r, RestSinkOptions o)
      : rest(r), options(std::move(o)), backoff(BackoffOptions(), RandomSeed()) {}

  // Asks until the server answers, or the sink is gone.
  void Discover() {
    rest->Send(
        DiscoveryRequest(),
        [weak = weak_from_this()](const Result<RestResponse>& answer) {
          const auto self = weak.lock();
          if (!self || self->options.api_choice->Get()) return;
          const Result<EventApi> api = ReadDiscovery(answer);
          if (api) return self->options.api_choice->Set(*api);
          // One that does not let us ask is still one that has had the API since 1.19.
          if (api.error().code() == 403) return self->options.api_choice->Set(EventApi::kEventsV1);
          if (api.error().Is(StatusReason::kCancelled)) return;
          Transport& transport = self->rest->impl().transport();
          transport.PostAfter(self->backoff.Next(transport.clock().Steady()), [weak] {
            if (const auto still = weak.lock()) still->Discover();
          });
        },
        stop.get_token());
  }

  void FallBack(const Status& refusal) {
    if (fell_back.exchange(true) || !options.log) return;
    const std::string why = refusal.ToString();
    options.log({.level = LogLevel::kWarn,
                 .message = "events.k8s.io/v1 cannot be used, events are written through v1 from "
                            "now on",
                 .fields = {{"reason", why}}});
  }

  void Send(SinkRequest request, Completion done) {
    if (request.api == EventApi::kCoreV1 || fell_back.load(std::memory_order_relaxed)) {
      return SendThrough(request, EventApi::kCoreV1, std::move(done));
    }
    if (options.api_choice) {
      return SendThrough(request, EventApi::kEventsV1,
                         [self = shared_from_this(), done = std::move(done)](Result<Event> result) {
                           if (!result && IsAboutTheApi(result.error())) {
                             self->FallBack(result.error());
                             self->options.api_choice->Set(EventApi::kCoreV1);
                           }
                           done(std::move(result));
                         });
    }
    // Kept for the other API, should this one be refused.
    auto again = std::make_shared<const SinkRequest>(std::move(request));
    SendThrough(*again, EventApi::kEventsV1,
                [self = shared_from_this(), again, done = std::move(done)](Result<Event> result) {
                  if (result || !IsAboutTheApi(result.error())) return done(std::move(result));
                  self->SendThroughOther(*again, result.error(), done);
                });
  }

  void SendThroughOther(const SinkRequest& request, const Status& refusal, const Completion& done) {
    SendThrough(request, EventApi::kCoreV1,
                [self = shared_from_this(), refusal, done](Result<Event> result) {
                  // If v1 is forbidden, too, then events are, and the first answer says it best.
                  // Anything else that v1 says is about this one event.
                  if (!result && IsAboutTheApi(result.error())) return done(refusal);
                  if (result || result.error().origin() == Status::Origin::kServer) {
                    self->FallBack(refusal);
                  }
                  done(std::move(result));
                });
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

  // The sink's. Used by the sink and by callbacks of the client's, which live as long; not
  // owned here, because then a client with requests under way would own itself.
  RestClient* const rest;
  const RestSinkOptions options;
  std::atomic<bool> fell_back{false};
  std::stop_source stop{};  // of the discovery
  Backoff backoff;          // on the client's thread only
};

RestSink::RestSink(std::shared_ptr<RestClient> rest, RestSinkOptions options)
    : rest_(std::move(rest)), state_(std::make_shared<State>(rest_.get(), std::move(options))) {
  if (state_->options.api_choice && !state_->options.api_choice->Get()) state_->Discover();
}

RestSink::~RestSink() { state_->stop.request_stop(); }

void RestSink::Send(SinkRequest request, Completion done) {
  state_->Send(std::move(request), std::move(done));
}

bool RestSink::fell_back() const { return state_->fell_back; }

}  // namespace herald
