// For any bytes from an HTTP/1.1 client, the server does not crash and does not exceed its limits,
// and the parsed requests do not depend on how the bytes are split.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/server/http1.h"
#include "http/testing/fake_connection.h"

namespace {

using namespace herald::http;

constexpr std::size_t kMaxBodyBytes = 1000;

ServerOptions SmallBounds() {
  ServerOptions options;
  options.max_header_bytes = 2000;
  options.max_header_fields = 20;
  return options;
}

void CheckBounds(const Request& request, const ServerOptions& options) {
  std::size_t bytes = request.method.size() + request.target.size() + request.authority.size();
  for (const Headers::Field& field : request.headers) {
    bytes += field.name.size() + field.value.size();
    for (const char c : field.name)
      if (c >= 'A' && c <= 'Z') std::abort();
  }
  if (bytes > options.max_header_bytes || request.headers.size() > options.max_header_fields ||
      request.body.size() > kMaxBodyBytes || request.method.empty() || request.target.empty()) {
    std::abort();
  }
}

// Sends a response that depends only on the request. WebSockets stay open.
void Respond(FakeConnection::Received received, std::vector<std::shared_ptr<Responder>>* open) {
  if (received.request.websocket) {
    received.responder->Start({.status = 101, .headers = {{"sec-websocket-accept", "x"}}});
    open->push_back(std::move(received.responder));
    return;
  }
  switch (received.request.target.size() % 4) {
    case 0:
      received.responder->Send({.body = std::string(received.request.body.size(), 'x')});
      break;
    case 1:
      received.responder->Start({});
      received.responder->Write(std::make_shared<const std::string>("piece"));
      received.responder->End();
      break;
    case 2:
      received.responder->Send({.status = 204});
      break;
    default:
      break;  // dropped: a 500
  }
}

// The requests as strings.
std::vector<std::string> Serve(std::string_view input, std::size_t piece) {
  std::vector<std::string> requests;
  FakeConnection connection(SmallBounds(), kMaxBodyBytes);
  {
    std::vector<std::shared_ptr<Responder>> open;
    Http1Server server(connection.context(), connection.now());
    const auto respond = [&] {
      for (;;) {
        while (!connection.requests.empty()) {
          FakeConnection::Received received = connection.Take();
          CheckBounds(received.request, connection.options);
          std::string text = received.request.method + " " + received.request.target + " " +
                             received.request.authority + " " + received.request.body;
          for (const Headers::Field& field : received.request.headers)
            text += "\n" + field.name + ": " + field.value;
          requests.push_back(std::move(text));
          Respond(std::move(received), &open);
        }
        connection.Send(server);
        if (connection.requests.empty()) return;
      }
    };
    while (!input.empty()) {
      server.Receive(input.substr(0, piece), connection.now());
      input.remove_prefix(std::min(piece, input.size()));
      respond();
    }
    connection.clock.Advance(std::chrono::minutes(10));
    server.Tick(connection.now());
    respond();
    server.ReceiveEof(connection.now());
    respond();
    // All requests have responses, so nothing is pending.
    if (!server.finished()) std::abort();
  }
  if (connection.counters->streams != 0 || connection.group->whole_bytes != 0 ||
      connection.group->streamed_bytes != 0) {
    std::abort();
  }
  return requests;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> whole = Serve(input, size + 1);
  if (Serve(input, 1) != whole) std::abort();
  if (Serve(input, 7) != whole) std::abort();
  return 0;
}
