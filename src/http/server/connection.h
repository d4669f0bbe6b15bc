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

// What the connections of one event loop share. Confined to its thread.
struct ConnectionContext {
  ConnectionContext(const ServerOptions& server_options, const Handler& request_handler,
                    std::shared_ptr<ServerCounters> server_counters,
                    std::shared_ptr<ReadyList> ready_list);

  // What is read from a socket at once, in bytes. One buffer serves all connections, so
  // it may be large and an idle connection needs none.
  static constexpr std::size_t kInputBytes = std::size_t{64} * 1024;

  const ServerOptions& options;
  const Handler& handler;
  const std::shared_ptr<ServerCounters> counters;
  const std::shared_ptr<ReadyList> ready;
  DateValue date;
  std::vector<char> input;  // read from the socket
  std::string text;         // to be encrypted
  std::string wire;         // to be sent
};

// One connection: a socket, TLS if the server has it, and a codec once it is known what
// the peer speaks. It never waits: its event loop calls it when the socket is ready and
// asks what to wait for next.
//
//   handshake --> (sniff) --> codec --finished--> lingering --> closed
//
// "Lingering" is reading and throwing away what the peer still sends after the last
// response: closing with unread input would make the kernel reset the connection, and the
// peer might never see why it was refused.
//
// Thread-confined.
class Connection final : private RequestReceiver {
 public:
  // The socket is borrowed: whoever made it closes it, after closed().
  Connection(ConnectionContext& context, int socket, Peer peer,
             std::shared_ptr<const ServerTlsContext> tls, SteadyTime now);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Each may leave something to be flushed, and may close the connection.
  void OnReadable(SteadyTime now);
  void OnResponse(PendingResponse& response, SteadyTime now);
  void Tick(SteadyTime now);
  void Drain(SteadyTime now);

  // Sends what there is to send, as far as the socket takes it.
  void Flush(SteadyTime now);

  bool closed() const { return closed_; }
  bool wants_read() const;
  bool wants_write() const { return !closed_ && (!unsent_.empty() || more_); }

  // What is gathered before it is sent, in bytes: four full records of TLS. It is also
  // all that waits here for a peer that does not read; the rest stays in the responses.
  static constexpr std::size_t kOutputBytes = std::size_t{64} * 1024;
  // Rounds of the above for one connection, before the others have their turn.
  static constexpr int kMaxRounds = 16;
  // Lingering ends after this long, or after so many bytes thrown away: a client that sends a body
  // which nobody reads should see the response. One that is cut off for what it did gets less.
  static constexpr std::chrono::seconds kLingerTime{2};
  static constexpr std::size_t kLingerBytes = std::size_t{16} * 1024 * 1024;
  static constexpr std::size_t kLingerBytesAfterFault = std::size_t{256} * 1024;

 private:
  void OnRequest(Request request, const std::shared_ptr<PendingResponse>& response) override;
  void OnText(std::string_view text, SteadyTime now);
  void OnEof(SteadyTime now);
  void UseCodec(int http_version, SteadyTime now);
  // Returns false when the socket takes no more.
  bool SendOnce(SteadyTime now);
  bool ReadsTooSlowly(SteadyTime now);
  void BeginLinger(SteadyTime now);
  void Close() { closed_ = true; }
  void Cut(std::string_view why);
  void Log(std::string_view message, std::string_view why) const;

  ConnectionContext& context_;
  const int socket_;
  Peer peer_;
  const std::shared_ptr<ResponseGroup> group_;
  std::unique_ptr<ServerTlsSession> tls_;  // null: plain
  std::unique_ptr<ServerCodec> codec_;     // null: not known yet
  std::string sniffed_;                    // what came before the codec was known
  std::string unsent_;
  SteadyTime since_;              // accepted, handshake done, or lingering began
  SteadyTime progress_;           // the socket last took something
  ReadRate rate_;                 // of the socket, while something is unsent
  std::size_t linger_bytes_ = 0;  // how many more may be thrown away
  bool more_ = false;             // kMaxRounds were not enough, or the codec has more work
  bool eof_ = false;              // the peer sends no more
  bool lingering_ = false;
  bool shut_ = false;  // our half is closed as well
  bool closed_ = false;
};

}  // namespace herald::http
