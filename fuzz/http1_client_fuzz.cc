// For any bytes from a server, in pieces of any size, the end of each exchange is reported once and
// last, and a complete response does not depend on the size of the pieces.
//
// The first byte selects the request and the size of the pieces. The rest is the server's output,
// which is repeated as long as the connection can be used.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "http/client/http1.h"

namespace {

using herald::http::ClientCodecEvents;
using herald::http::ExchangeEnd;
using herald::http::Http1Client;
using herald::http::Request;
using herald::http::ResponseHead;

constexpr std::size_t kMaxHeaderBytes = 4096;

// The results, for comparison.
struct Outcome {
  std::string text{};

  bool operator==(const Outcome&) const = default;
};

Outcome Run(std::string_view input, const Request& request, std::size_t piece) {
  Outcome outcome;
  std::uint64_t exchange = 0;
  bool running = false;
  bool headed = false;
  const ClientCodecEvents events{
      .head =
          [&](std::uint64_t id, const ResponseHead& head) {
            if (!running || headed || id != exchange) std::abort();
            headed = true;
            outcome.text += "head " + std::to_string(head.status);
            for (const auto& field : head.headers) outcome.text += field.name + field.value;
          },
      .data =
          [&](std::uint64_t id, std::string_view data) {
            if (!running || !headed || id != exchange || data.empty()) std::abort();
            outcome.text += data;
          },
      .end =
          [&](std::uint64_t id, const ExchangeEnd& end) {
            if (!running || id != exchange) std::abort();
            const bool whole = end.outcome == ExchangeEnd::Outcome::kWhole;
            if (whole && !headed) std::abort();
            if (whole != end.cause.empty()) std::abort();
            running = headed = false;
            outcome.text += whole ? " whole;" : " broken;";
          },
  };
  Http1Client codec(events, kMaxHeaderBytes);
  while (codec.CanStart()) {
    ++exchange;
    running = true;
    codec.Start(exchange, request);
    std::string sent;
    codec.Send(&sent, 1 << 20);
    while (running && !input.empty()) {
      // A response ends with its piece: any following bytes are an error.
      const std::string_view bytes = input.substr(0, piece);
      codec.Receive(bytes);
      input.remove_prefix(bytes.size());
    }
    if (input.empty()) codec.ReceiveEnd(true, "the end");
    if (running != (codec.active() > 0)) std::abort();
  }
  if (running || !codec.finished()) std::abort();
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr const char* kMethods[] = {"GET", "HEAD", "POST", "CONNECT"};
  const Request request{.method = kMethods[data[0] & 3],
                        .target = "/x",
                        .authority = "host",
                        .body = (data[0] & 3) == 2 ? "body" : ""};
  const std::size_t piece = (data[0] >> 2) + 1U;
  // If a response ends in the middle of a piece, the rest is an error, which cannot happen byte by
  // byte. So only the first responses are compared.
  const Outcome small = Run(input, request, 1);
  const Outcome large = Run(input, request, piece);
  const auto first = [](const Outcome& outcome) {
    return outcome.text.substr(0, outcome.text.find(';'));
  };
  if (first(small) != first(large)) std::abort();
  return 0;
}
