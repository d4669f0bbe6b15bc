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
  // The choice that the recorders were given (RecorderOptions::api_choice). The sink makes it
  // by asking the server, as often as it takes, unless it is made already; and makes
  // it anew where events.k8s.io/v1 turns out to be forbidden.
  std::shared_ptr<ApiChoice> api_choice{};
  LogFunction log{};
};

// A RestSink writes events to an API server: the Sink of production. Requests are
// under way at the same time, on one connection; how many is the pipeline's business
// (SinkOptions::max_in_flight), and so is when to try again.
//
//   auto rest = RestClient::Open(*LoadConfig());
//   broadcaster.StartRecordingToSink(std::make_shared<RestSink>(*rest));
//
// Where events.k8s.io/v1 is missing on the server, or forbidden to the account, events
// are written through v1 from then on, and the log says so once. With an api_choice they are
// then recorded in v1's style; without one, those in the new style are only spelled as v1
// spells them (if v1 is not forbidden as well), which loses nothing: the two APIs speak of one
// object.
//
// Thread-safe. Requests that are under way when it is destroyed are answered as long as
// the RestClient lives.
class HERALD_EXPORT RestSink final : public Sink {
 public:
  explicit RestSink(std::shared_ptr<RestClient> rest, RestSinkOptions options = {});
  ~RestSink() override;
  RestSink(const RestSink&) = delete;
  RestSink& operator=(const RestSink&) = delete;

  void Send(SinkRequest request, Completion done) override;

  // Whether that has happened.
  bool fell_back() const;

 private:
  struct State;
  std::shared_ptr<RestClient> rest_;
  // Shared with the requests under way.
  const std::shared_ptr<State> state_;
};

}  // namespace herald
