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

// The certificate, the key and the settings of a server for OpenSSL: TLS 1.2 or newer, h2 or
// http/1.1 by ALPN. Immutable; sessions share it.
class ServerTlsContext {
 public:
  // The message of an error (kInvalid) says which of the PEM strings is invalid and why.
  static Result<std::shared_ptr<const ServerTlsContext>> Make(const ServerTls& tls);

  ~ServerTlsContext();
  ServerTlsContext(const ServerTlsContext&) = delete;
  ServerTlsContext& operator=(const ServerTlsContext&) = delete;

 private:
  friend class ServerTlsSession;
  explicit ServerTlsContext(ssl_ctx_st* context) : context_(context) {}

  ssl_ctx_st* const context_;
};

// The server's side of one TLS connection, without I/O: records in, plaintext out, and vice versa.
// Between calls it has no buffers except what OpenSSL needs for a partial record, because most of
// ten thousand connections are idle.
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
    kClosed,  // the client has sent close_notify
    kFailed,  // see error()
  };
  State state() const { return state_; }
  // For the log.
  const std::string& error() const { return error_; }

  // Decrypts records of the client, calls `plaintext` with the contents, piece by piece, and
  // appends to `wire` what TLS itself must send.
  void Receive(std::string_view records, std::string& wire,
               const std::function<void(std::string_view)>& plaintext);
  // Encrypts and appends the records. REQUIRES: state() is kOpen or kClosed
  void Send(std::string_view plaintext, std::string& wire);
  // Appends close_notify.
  void Close(std::string& wire);

  // The protocol chosen by ALPN, or empty. REQUIRES: the handshake is done
  std::string_view protocol() const;
  // The client's certificate, if it sent one that client_ca has signed and that was valid at the
  // handshake. An invalid certificate counts as none, as in kube-apiserver: the client may still
  // have a token. REQUIRES: the handshake is done
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
