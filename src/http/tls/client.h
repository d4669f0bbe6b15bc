#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "herald/base/status.h"
#include "http/client/client.h"

struct ssl_st;
struct ssl_ctx_st;

namespace herald::http {

// Parsed TLS material. Parsing is expensive (a system's CA bundle has 140 certificates), so one
// context is used for all connections until the material changes.
//
// Immutable.
class TlsClientContext {
 public:
  // kUnreachable if PEM data is invalid or the key does not match the certificate.
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

// The client's side of TLS on one connection: ciphertext in, plaintext out and vice versa, no I/O.
// The server's certificate is verified as the context requires.
//
// Thread-confined.
class TlsClient {
 public:
  // `host` is the host of the URL: a name or an address.
  TlsClient(const TlsClientContext& context, const std::string& host, bool offer_http2);
  ~TlsClient();
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  // Decrypts, and appends the plaintext to `plain`. An error describes what is wrong with the
  // server or its certificate; after an error nothing can be received any more. A first call with
  // an empty ciphertext begins the handshake.
  Status Receive(std::string_view ciphertext, std::string* plain);
  // Encrypts. REQUIRES: established()
  Status Send(std::string_view plain);
  // Sends close_notify.
  void SendEnd();
  // Appends the ciphertext to send.
  void TakeOutput(std::string* out);

  bool established() const { return established_; }
  // The server has sent close_notify. Without it, an attacker may have closed the connection.
  bool ended() const { return ended_; }
  // Chosen by ALPN. REQUIRES: established()
  bool http2() const;

 private:
  struct Verification;  // callbacks of OpenSSL

  Status Failure(int result);

  ssl_st* ssl_ = nullptr;
  const std::string host_;  // the name that the certificate must have
  std::string verify_error_{};
  bool certificate_missing_ = false;  // the server asked for a certificate, and there is none
  bool established_ = false;
  bool ended_ = false;
};

}  // namespace herald::http
