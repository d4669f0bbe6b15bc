#pragma once

#include <memory>

#include "herald/base/export.h"
#include "herald/base/log.h"
#include "herald/client/events.h"
#include "herald/client/rest.h"
#include "herald/record/sink.h"

namespace herald {

struct RestSinkOptions {
  WireFormat format = WireFormat::kJson;
  LogFunction log{};
};

// A RestSink writes events to an API server: the Sink of production. Requests are
// under way at the same time, on one connection; how many is the pipeline's business
// (SinkOptions::max_in_flight), and so is when to try again.
//
//   auto rest = RestClient::Open(*LoadConfig());
//   broadcaster.StartRecordingToSink(std::make_shared<RestSink>(*rest));
//
// Where events.k8s.io/v1 is missing on the server, or forbidden to the account while
// v1 is not, events in the new style are written through v1 from then on, and the log
// says so once. Nothing is lost by it: the two APIs are two spellings of one object.
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

  // Whether events in the new style go through v1 by now.
  bool fell_back() const;

 private:
  struct State;
  // Shared with the requests under way.
  const std::shared_ptr<State> state_;
};

}  // namespace herald
