#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "herald/base/status.h"
#include "http/server/server.h"

struct ssl_ctx_st;
struct ssl_st;

namespace herald::http {

// A server's certificate, key and rules, as OpenSSL wants them: TLS 1.2 or newer, h2 or
// http/1.1 by ALPN. Immutable; sessions share it.
class ServerTlsContext {
 public:
  // What is wrong with which text, if it cannot be used.
  static Result<std::shared_ptr<const ServerTlsContext>> Make(const ServerTls& tls);

  ~ServerTlsContext();
  ServerTlsContext(const ServerTlsContext&) = delete;
  ServerTlsContext& operator=(const ServerTlsContext&) = delete;

 private:
  friend class ServerTlsSession;
  explicit ServerTlsContext(ssl_ctx_st* context) : context_(context) {}

  ssl_ctx_st* const context_;
};

// The server's side of one TLS connection, without I/O: records in, text out, and the
// other way round. It keeps no buffers of its own between calls but what OpenSSL needs
// for half a record, because most of ten thousand connections are silent.
//
// Thread-confined.
class ServerTlsSession {
 public:
  explicit ServerTlsSession(std::shared_ptr<const ServerTlsContext> context);
  ~ServerTlsSession();
  ServerTlsSession(const ServerTlsSession&) = delete;
  ServerTlsSession& operator=(const ServerTlsSession&) = delete;

  enum class State : std::uint8_t {
    kHandshake,
    kOpen,
    kClosed,  // the peer has said goodbye
    kFailed,  // see error()
  };
  State state() const { return state_; }
  // For the log.
  const std::string& error() const { return error_; }

  // Takes records from the peer, calls `text` with what is in them, piece by piece, and
  // appends to `wire` what has to be sent for the sake of TLS.
  void Receive(std::string_view records, std::string& wire,
               const std::function<void(std::string_view)>& text);
  // Appends the text as records. REQUIRES: state() is kOpen or kClosed
  void Send(std::string_view text, std::string& wire);
  // Appends a goodbye.
  void Close(std::string& wire);

  // What ALPN has settled on, or nothing. REQUIRES: the handshake is done
  std::string_view protocol() const;
  // The client's certificate if it has shown one that its authority has signed and that was
  // valid at the handshake. Any other counts as none, as with kube-apiserver: the client may
  // still have a token. REQUIRES: the handshake is done
  std::optional<Peer::Certificate> certificate() const;

 private:
  struct Pipe;

  void Fail();

  const std::shared_ptr<const ServerTlsContext> context_;
  std::unique_ptr<Pipe> pipe_;
  ssl_st* ssl_ = nullptr;
  State state_ = State::kHandshake;
  std::string error_;
};

}  // namespace herald::http
