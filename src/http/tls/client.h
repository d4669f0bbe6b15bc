#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "herald/base/status.h"
#include "http/client/client.h"

struct ssl_st;
struct ssl_ctx_st;

namespace herald::http {

// Parsed TLS material: dear to make (a system's bundle of authorities has 140 of them),
// so one serves all connections until the material changes.
//
// Immutable.
class TlsClientContext {
 public:
  // kUnreachable where a PEM text cannot be read or the key does not fit.
  static Result<std::shared_ptr<const TlsClientContext>> Make(const ClientTls& tls);
  ~TlsClientContext();
  TlsClientContext(const TlsClientContext&) = delete;
  TlsClientContext& operator=(const TlsClientContext&) = delete;

 private:
  friend class TlsClient;
  TlsClientContext(ssl_ctx_st* context, const ClientTls& tls);

  ssl_ctx_st* const context_;
  const std::string server_name_;
  const bool verify_;
};

// The client's side of TLS on one connection: ciphertext in, plain text out and the
// other way round, no I/O. The server's name is verified, by the context's rules.
//
// Thread-confined.
class TlsClient {
 public:
  // `host` is the URL's: a name or an address.
  TlsClient(const TlsClientContext& context, const std::string& host, bool offer_http2);
  ~TlsClient();
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  // Takes ciphertext and appends what it says to `plain`. The error says what is wrong
  // with the server or its certificate; after one nothing can be received any more.
  // Call it once with nothing to begin the handshake.
  Status Receive(std::string_view ciphertext, std::string* plain);
  // Encrypts. REQUIRES: established()
  Status Send(std::string_view plain);
  // Tells the peer that no more will come.
  void SendEnd();
  // Appends the ciphertext that is to be sent.
  void TakeOutput(std::string* out);

  bool established() const { return established_; }
  // The peer has said that no more will come. Without it an end may be an attacker's.
  bool ended() const { return ended_; }
  // Chosen by ALPN. REQUIRES: established()
  bool http2() const;

 private:
  struct Verification;  // what OpenSSL calls

  Status Failure(int result);

  ssl_st* ssl_ = nullptr;
  const std::string host_;  // whose name the certificate must have
  std::string verify_error_{};
  bool certificate_missing_ = false;  // the server asked for one, and we have none
  bool established_ = false;
  bool ended_ = false;
};

}  // namespace herald::http
