// For any bytes from a server, the end of each exchange is reported once and last, nothing is
// reported after an exchange is cancelled, and no exchange remains when the connection ends.
//
// The input is a list of steps: a byte for the kind, a byte for the size and, for frames, the
// payload. Most steps are well-formed frames, because random bytes fail at the first frame. One
// kind of step sends raw bytes.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "http/client/http2.h"

namespace {

using herald::http::ClientCodecEvents;
using herald::http::ExchangeEnd;
using herald::http::Http2Client;
using herald::http::Request;
using herald::http::ResponseHead;

constexpr std::size_t kMaxHeaderBytes = 4096;
// The output must be bounded by the requests and the input.
constexpr std::size_t kMaxSentBytes = 64 << 20;

class Reader {
 public:
  explicit Reader(std::string_view input) : input_(input) {}
  bool empty() const { return input_.empty(); }
  std::uint8_t Byte() {
    if (input_.empty()) return 0;
    const auto byte = static_cast<std::uint8_t>(input_.front());
    input_.remove_prefix(1);
    return byte;
  }
  std::string_view Bytes(std::size_t count) {
    const std::string_view out = input_.substr(0, count);
    input_.remove_prefix(out.size());
    return out;
  }

 private:
  std::string_view input_;
};

std::string Frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                  std::string_view payload) {
  std::string out;
  const std::size_t size = payload.size();
  out += static_cast<char>(size >> 16);
  out += static_cast<char>(size >> 8);
  out += static_cast<char>(size);
  out += static_cast<char>(type);
  out += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(stream >> shift);
  return out.append(payload);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  struct Exchange {
    Request request{};
    bool headed = false;
  };
  std::map<std::uint64_t, Exchange> running;
  const auto find = [&](std::uint64_t id) -> Exchange& {
    const auto it = running.find(id);
    if (it == running.end()) std::abort();
    return it->second;
  };
  const ClientCodecEvents events{
      .head =
          [&](std::uint64_t id, const ResponseHead& head) {
            Exchange& exchange = find(id);
            if (exchange.headed || head.status < 200) std::abort();
            exchange.headed = true;
          },
      .data =
          [&](std::uint64_t id, std::string_view bytes) {
            if (!find(id).headed || bytes.empty()) std::abort();
          },
      .end =
          [&](std::uint64_t id, const ExchangeEnd& end) {
            const bool whole = end.outcome == ExchangeEnd::Outcome::kWhole;
            const Exchange& exchange = find(id);
            if (whole && !exchange.headed) std::abort();
            if (end.outcome == ExchangeEnd::Outcome::kNotProcessed && exchange.headed) std::abort();
            if (whole != end.cause.empty()) std::abort();
            // The request is destroyed from here on and must not be used.
            running.erase(id);
          },
  };
  Http2Client codec(events, kMaxHeaderBytes, true);
  std::size_t sent_bytes = 0;
  const auto send = [&] {
    std::string out;
    codec.Send(&out, 1 << 20);
    sent_bytes += out.size();
    if (sent_bytes > kMaxSentBytes) std::abort();
  };
  std::uint64_t last = 0;
  Reader in({reinterpret_cast<const char*>(data), size});
  while (!in.empty()) {
    const std::uint8_t step = in.Byte();
    const std::uint8_t amount = in.Byte();
    switch (step % 8) {
      case 0:
        if (codec.CanStart()) {
          Exchange& exchange = running[++last];
          exchange.request.method = amount % 2 == 0 ? "GET" : "POST";
          exchange.request.authority = "host";
          if (amount % 2 == 1) exchange.request.body.assign(amount * 1000U, 'x');
          codec.Start(last, exchange.request);
        }
        break;
      case 1:
        codec.Cancel(amount);
        running.erase(amount);
        break;
      case 2:
        send();
        break;
      case 3:
        codec.Receive(in.Bytes(amount));
        break;
      case 4:
        codec.Ping();
        break;
      default: {
        // A frame: type and flags, stream, payload.
        const std::uint8_t type = in.Byte() % 11;
        const std::uint8_t flags = in.Byte();
        const std::uint32_t stream = in.Byte() % 16;
        codec.Receive(Frame(type, flags, stream, in.Bytes(amount)));
        break;
      }
    }
    if (codec.active() != running.size()) std::abort();
    if (codec.finished() && (!running.empty() || codec.CanStart())) std::abort();
  }
  send();
  codec.ReceiveEnd(size % 2 == 0, "the end");
  if (!running.empty() || !codec.finished() || codec.active() != 0) std::abort();
  send();
  return 0;
}
