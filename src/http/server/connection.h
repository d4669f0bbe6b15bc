#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/clock.h"
#include "http/response_head.h"
#include "http/server/codec.h"
#include "http/server/pending_response.h"
#include "http/server/read_rate.h"
#include "http/server/server.h"
#include "http/tls/server.h"

namespace herald::http {

// The state that the connections of one event loop share. Confined to its thread.
struct ConnectionContext {
  ConnectionContext(const ServerOptions& server_options, const Handler& request_handler,
                    std::shared_ptr<ServerCounters> server_counters,
                    std::shared_ptr<ReadyList> ready_list);

  // Size of the read buffer. All connections share one buffer, so it may be large, and an idle
  // connection needs none.
  static constexpr std::size_t kInputBytes = std::size_t{64} * 1024;

  const ServerOptions& options;
  const Handler& handler;
  const std::shared_ptr<ServerCounters> counters;
  const std::shared_ptr<ReadyList> ready;
  DateValue date;
  std::vector<char> input;  // read from the socket
  std::string plaintext;    // to be encrypted
  std::string wire;         // to be sent
};

// One connection: a socket, TLS if the server uses it, and a codec once the protocol of the client
// is known. It never blocks: its event loop calls it when the socket is ready and asks what to wait
// for next.
//
//   handshake --> (detect protocol) --> codec --finished--> lingering --> closed
//
// A lingering connection reads and discards what the client still sends after the last response. If
// it were closed with unread input, the kernel would reset it, and the client might not get the
// response.
//
// Thread-confined.
class Connection final : private RequestReceiver {
 public:
  // The socket is borrowed: the owner closes it, after closed().
  Connection(ConnectionContext& context, int socket, Peer peer,
             std::shared_ptr<const ServerTlsContext> tls, SteadyTime now);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Each may produce output for Flush(), and may close the connection.
  void OnReadable(SteadyTime now);
  void OnResponse(PendingResponse& response, SteadyTime now);
  void Tick(SteadyTime now);
  void Drain(SteadyTime now);

  // Sends pending output, as much as the socket takes.
  void Flush(SteadyTime now);

  bool closed() const { return closed_; }
  bool wants_read() const;
  bool wants_write() const { return !closed_ && (!unsent_.empty() || has_more_); }

  // How much output is collected before it is sent, in bytes: four full TLS records. It is also the
  // most that is buffered here for a client that does not read; the rest stays in the responses.
  static constexpr std::size_t kOutputBytes = std::size_t{64} * 1024;
  // How many times in a row one connection may send that much before the others get their turn.
  static constexpr int kMaxRounds = 16;
  // Lingering ends after this time, or after this many discarded bytes: a client that sends a body
  // which nobody reads should get the response. After a protocol error the limit is lower.
  static constexpr std::chrono::seconds kLingerTime{2};
  static constexpr std::size_t kLingerBytes = std::size_t{16} * 1024 * 1024;
  static constexpr std::size_t kLingerBytesAfterFault = std::size_t{256} * 1024;

 private:
  void OnRequest(Request request, const std::shared_ptr<PendingResponse>& response) override;
  void OnPlaintext(std::string_view bytes, SteadyTime now);
  void OnEof(SteadyTime now);
  void UseCodec(int http_version, SteadyTime now);
  // Returns false if the socket takes no more.
  bool SendOnce(SteadyTime now);
  bool ReadsTooSlowly(SteadyTime now);
  void BeginLinger(SteadyTime now);
  void Close() { closed_ = true; }
  // Closes because of what the client did, and counts it.
  void Terminate(std::string_view why);
  void Log(std::string_view message, std::string_view why) const;

  ConnectionContext& context_;
  const int socket_;
  Peer peer_;
  const std::shared_ptr<ResponseGroup> group_;
  std::unique_ptr<ServerTlsSession> tls_;  // null: no TLS
  std::unique_ptr<ServerCodec> codec_;     // null: the protocol is not known yet
  std::string undetected_;                 // received before the protocol was known
  std::string unsent_;
  SteadyTime since_;              // when it was accepted, the handshake ended, or lingering began
  SteadyTime progress_;           // when the socket last took bytes
  ReadRate rate_;                 // of the socket, while output is unsent
  std::size_t linger_bytes_ = 0;  // how many more may be discarded
  bool has_more_ = false;         // kMaxRounds were not enough, or the codec has more work
  bool eof_ = false;              // the client sends no more
  bool lingering_ = false;
  bool write_closed_ = false;  // our half of the connection is closed as well
  bool closed_ = false;
};

}  // namespace herald::http
