#pragma once

#include <memory>

#include "herald/base/export.h"
#include "herald/base/log.h"
#include "herald/client/events.h"
#include "herald/client/rest.h"
#include "herald/record/api_choice.h"
#include "herald/record/sink.h"

namespace herald {

struct RestSinkOptions {
  WireFormat format = WireFormat::kJson;
  // The choice that the recorders were given (RecorderOptions::api_choice). Unless it is made
  // already, the sink makes it: it asks the server which API it has, until the server answers.
  // Null: the sink has a choice of its own, which starts with events.k8s.io/v1.
  std::shared_ptr<ApiChoice> api_choice{};
  LogFunction log{};
};

// A RestSink writes events to an API server. It is the Sink for production. Several requests
// are under way at the same time, on one connection. SinkOptions::max_in_flight limits their
// number, and the pipeline decides when to retry.
//
//   auto rest = RestClient::Open(*LoadConfig());
//   broadcaster.StartRecordingToSink(std::make_shared<RestSink>(*rest));
//
// An event that events.k8s.io/v1 rejects because the server does not have that API, or because
// the account may not use it in the namespace, is written through v1. If v1 accepts the event,
// or rejects it for its content, the sink falls back to v1: in this namespace if the API is
// forbidden, in all namespaces if it is missing. The fallback ends after
// ApiChoice::kFallbackTime, and the next event tries events.k8s.io/v1 again. The log reports
// the first fallback of each namespace.
//
// During a fallback, recorders with this api_choice record in the style of v1. Events in the
// new style are written through v1 as they are, which loses nothing: both APIs have all members
// of an event. Without permission for either API, events are rejected and nothing changes.
//
// Thread-safe. Requests that are under way when the sink is destroyed are answered as long as
// the RestClient lives.
class HERALD_EXPORT RestSink final : public Sink {
 public:
  explicit RestSink(std::shared_ptr<RestClient> rest, RestSinkOptions options = {});
  ~RestSink() override;
  RestSink(const RestSink&) = delete;
  RestSink& operator=(const RestSink&) = delete;

  void Send(SinkRequest request, Completion done) override;

  // Whether a fallback to v1 is in effect now, for at least one namespace.
  bool fell_back() const;

 private:
  struct State;
  std::shared_ptr<RestClient> rest_;
  // Shared with the requests under way.
  const std::shared_ptr<State> state_;
};

}  // namespace herald
