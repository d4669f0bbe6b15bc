// Whatever a client of HTTP/2 sends after its preface, the server neither breaks nor
// leaks, hands over nothing beyond its bounds, and how the bytes were cut into pieces
// makes no difference to which requests are found in them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "http/server/http2.h"
#include "http/testing/fake_connection.h"

namespace {

using namespace herald::http;

constexpr std::size_t kMaxBodyBytes = 1000;

ServerOptions SmallBounds() {
  ServerOptions options;
  options.max_header_bytes = 2000;
  options.max_header_fields = 20;
  options.max_streams = 10;
  options.max_queued_bytes = 5000;
  return options;
}

std::string Text(const Request& request, const ServerOptions& options) {
  std::string text = request.method + " " + request.target + " " + request.authority;
  for (const Headers::Field& field : request.headers)
    text += "\n" + field.name + ": " + field.value;
  if (text.size() > options.max_header_bytes ||
      request.headers.size() > options.max_header_fields || request.body.size() > kMaxBodyBytes) {
    std::abort();
  }
  return text + "\n" + request.body;
}

void Respond(FakeConnection::Received received, std::vector<std::shared_ptr<Responder>>& kept) {
  switch (received.request.target.size() % 5) {
    case 0:
      received.responder->Send({.body = std::string(3000, 'x')});
      break;
    case 1:
      received.responder->Start({});
      received.responder->Write(std::make_shared<const std::string>("piece"));
      kept.push_back(std::move(received.responder));
      break;
    case 2:
      received.responder->Abort();
      break;
    case 3:
      kept.push_back(std::move(received.responder));  // never
      break;
    default:
      break;  // dropped: a 500
  }
}

// The requests, each as a text. With `talk` they are answered as they come; without, the
// server only listens, so that what it says cannot change what it hears.
std::vector<std::string> Serve(std::string_view input, std::size_t piece, bool talk) {
  std::vector<std::string> requests;
  FakeConnection connection(SmallBounds(), kMaxBodyBytes);
  std::vector<std::shared_ptr<Responder>> kept;
  {
    Http2Server server(connection.context(), connection.now());
    server.Receive("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", connection.now());
    while (!input.empty()) {
      server.Receive(input.substr(0, piece), connection.now());
      input.remove_prefix(std::min(piece, input.size()));
      if (!talk) continue;
      while (!connection.requests.empty()) Respond(connection.Take(), kept);
      connection.Send(server);
    }
    for (const FakeConnection::Received& received : connection.requests)
      requests.push_back(Text(received.request, connection.options));
    server.Drain(connection.now());
    connection.Send(server);
    connection.clock.Advance(std::chrono::minutes(10));
    server.Tick(connection.now());
    connection.Send(server);
    server.ReceiveEof(connection.now());
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
  const std::vector<std::string> whole = Serve(input, size + 1, false);
  if (Serve(input, 1, false) != whole) std::abort();
  Serve(input, 11, true);
  return 0;
}
