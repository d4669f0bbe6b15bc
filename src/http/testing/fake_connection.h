#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "herald/base/clock.h"
#include "http/response_head.h"
#include "http/server/codec.h"
#include "http/server/pending_response.h"

namespace herald::http {

// The connection of a codec under test: it keeps the requests, and passes on responses and bytes
// when the test calls it. Its clock is fake. Thread-confined.
class FakeConnection final : public RequestReceiver {
 public:
  struct Received {
    Request request;
    std::shared_ptr<Responder> responder;
  };

  // 2026-11-16 00:00:00 UTC, a Monday.
  static constexpr std::chrono::seconds kStart{1'794'787'200};

  FakeConnection() : FakeConnection(ServerOptions{}) {}
  // Requests are in `requests` with their bodies; a body over `max_body_bytes` is rejected.
  explicit FakeConnection(ServerOptions server_options,
                          std::size_t max_body_bytes = std::size_t{4} * 1024 * 1024)
      : options(std::move(server_options)),
        handler(WithBodies(
            [this](Request request, const Peer&, std::shared_ptr<Responder> responder) {
              requests.push_back({std::move(request), std::move(responder)});
            },
            max_body_bytes)),
        clock(WallTime(kStart)),
        date(clock),
        ready(std::make_shared<ReadyList>([this] { ++wake_ups; })),
        counters(std::make_shared<ServerCounters>()),
        group(std::make_shared<ResponseGroup>(ready, counters, 1, options.max_queued_bytes)) {}

  // Responses that were not taken and the list would keep each other alive.
  ~FakeConnection() override { ready->Close(); }
  FakeConnection(const FakeConnection&) = delete;
  FakeConnection& operator=(const FakeConnection&) = delete;

  CodecContext context() { return {options, date, *this, group}; }
  SteadyTime now() const { return clock.Steady(); }

  void OnRequest(Request request, const std::shared_ptr<PendingResponse>& response) override {
    handler(std::move(request), peer, MakeResponder(response));
  }

  // Takes the oldest request. REQUIRES: there is one
  Received Take() {
    Received received = std::move(requests.front());
    requests.pop_front();
    return received;
  }

  // Passes the responses to the codec and returns up to `limit` bytes of its output.
  std::string Send(ServerCodec& codec, std::size_t limit = kNoLimit) {
    std::vector<std::shared_ptr<PendingResponse>> responses;
    ready->Take(responses);
    for (const std::shared_ptr<PendingResponse>& response : responses)
      codec.OnResponse(*response, now());
    std::string out;
    codec.Produce(out, limit, now());
    return out;
  }

  static constexpr std::size_t kNoLimit = std::size_t{1} << 30;

  const ServerOptions options;
  const Peer peer{};
  Handler handler;  // may be replaced
  FakeClock clock;
  DateValue date;
  int wake_ups = 0;
  const std::shared_ptr<ReadyList> ready;
  const std::shared_ptr<ServerCounters> counters;
  const std::shared_ptr<ResponseGroup> group;
  std::deque<Received> requests;
};

}  // namespace herald::http
