// For any bytes from an HTTP/2 client after its preface, the server does not crash or leak and does
// not exceed its limits, and the parsed requests do not depend on how the bytes are split.
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
      kept.push_back(std::move(received.responder));  // never sends a response
      break;
    default:
      break;  // dropped: a 500
  }
}

// The requests as strings. With `talk`, the server sends responses; without, it only parses, so
// that its output cannot influence the parsed requests.
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
