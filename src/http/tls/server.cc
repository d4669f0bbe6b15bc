#include "http/tls/server.h"

#include <fmt/core.h>
#include <openssl/err.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/check.h"
#include "http/tls/openssl.h"

namespace herald::http {
namespace {

Status TlsError(std::string_view what) {
  return Status(StatusReason::kInvalid, fmt::format("TLS: {}: {}", what, TakeOpensslError()));
}

int ChooseProtocol(SSL* /*ssl*/, const unsigned char** chosen, unsigned char* chosen_size,
                   const unsigned char* offered, unsigned int offered_size, void* /*user*/) {
  static constexpr unsigned char kOurs[] = "\x02h2\x08http/1.1";
  unsigned char* found = nullptr;
  const int result =
      SSL_select_next_proto(&found, chosen_size, kOurs, sizeof(kOurs) - 1, offered, offered_size);
  *chosen = found;
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

// Verifies, but continues the handshake in any case: certificate() checks the result.
int VerifyWithoutFailing(X509_STORE_CTX* store, void* /*user*/) {
  X509_verify_cert(store);
  return 1;
}

// nullopt if OpenSSL cannot parse it.
std::optional<std::chrono::sys_seconds> TimeOf(const ASN1_TIME* time) {
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return std::nullopt;
  return std::chrono::sys_seconds(std::chrono::seconds(timegm(&parts)));
}

}  // namespace

Result<std::shared_ptr<const ServerTlsContext>> ServerTlsContext::Make(const ServerTls& tls) {
  ERR_clear_error();
  SslContextPtr context(SSL_CTX_new(TLS_server_method()));
  if (!context) return TlsError("cannot create a context");
  SSL_CTX* const ctx = context.get();
  SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
  // The ciphers that HTTP/2 allows with TLS 1.2 (RFC 9113, 9.2.2): forward secrecy and AEAD.
  if (SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1)
    return TlsError("cannot set the ciphers");
  SSL_CTX_set_options(
      ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  // Buffers are released between records, and a write may be retried from another address.
  SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // Sessions are resumed by ticket only: a cache would grow with the number of clients.
  SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(ctx, 1);
  SSL_CTX_set_alpn_select_cb(ctx, ChooseProtocol, nullptr);

  std::vector<X509Ptr> chain = ReadCertificates(tls.certificate);
  if (chain.empty()) return TlsError("the certificate cannot be read");
  if (SSL_CTX_use_certificate(ctx, chain.front().get()) != 1)
    return TlsError("the certificate cannot be used");
  for (std::size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(ctx, chain[i].get()) != 1)
      return TlsError("the certificate chain cannot be used");
  }
  const KeyPtr key = ReadPrivateKey(tls.key);
  if (!key) return TlsError("the private key cannot be read or has a passphrase");
  if (SSL_CTX_use_PrivateKey(ctx, key.get()) != 1 || SSL_CTX_check_private_key(ctx) != 1)
    return TlsError("the private key does not match the certificate");

  if (!tls.client_ca.empty()) {
    const std::vector<X509Ptr> authorities = ReadCertificates(tls.client_ca);
    if (authorities.empty()) return TlsError("the client CA cannot be read");
    X509_STORE* store = SSL_CTX_get_cert_store(ctx);
    for (const X509Ptr& authority : authorities) {
      if (X509_STORE_add_cert(store, authority.get()) != 1 ||
          SSL_CTX_add_client_CA(ctx, authority.get()) != 1) {
        return TlsError("the client CA cannot be used");
      }
    }
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_cert_verify_callback(ctx, VerifyWithoutFailing, nullptr);
    // A resumed session would use a certificate that may have expired since.
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(ctx, 0);
  }
  return std::shared_ptr<const ServerTlsContext>(new ServerTlsContext(context.release()));
}

ServerTlsContext::~ServerTlsContext() { SSL_CTX_free(context_); }

// The buffers of the caller from which OpenSSL reads and to which it writes during one call.
struct ServerTlsSession::Pipe {
  std::string_view in{};
  std::string* out = nullptr;

  static int Read(BIO* bio, char* to, int size) {
    BIO_clear_retry_flags(bio);
    std::string_view& in = static_cast<Pipe*>(BIO_get_data(bio))->in;
    if (in.empty()) {
      BIO_set_retry_read(bio);
      return -1;
    }
    const std::size_t n = std::min(in.size(), static_cast<std::size_t>(size));
    std::memcpy(to, in.data(), n);
    in.remove_prefix(n);
    return static_cast<int>(n);
  }
  static int Write(BIO* bio, const char* from, int size) {
    static_cast<Pipe*>(BIO_get_data(bio))->out->append(from, static_cast<std::size_t>(size));
    return size;
  }
  static long Control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }
  static const BIO_METHOD* Method() {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "herald");
      HERALD_CHECK(made != nullptr, "out of memory");
      BIO_meth_set_read(made, Read);
      BIO_meth_set_write(made, Write);
      BIO_meth_set_ctrl(made, Control);
      return made;
    }();
    return method;
  }
};

ServerTlsSession::ServerTlsSession(std::shared_ptr<const ServerTlsContext> context)
    : context_(std::move(context)), pipe_(std::make_unique<Pipe>()) {
  ssl_ = SSL_new(context_->context_);
  BIO* bio = BIO_new(Pipe::Method());
  HERALD_CHECK(ssl_ != nullptr && bio != nullptr, "out of memory");
  BIO_set_data(bio, pipe_.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);
  SSL_set_accept_state(ssl_);
}

ServerTlsSession::~ServerTlsSession() { SSL_free(ssl_); }

void ServerTlsSession::Receive(std::string_view records, std::string& wire,
                               const std::function<void(std::string_view)>& plaintext) {
  if (state_ == State::kFailed || state_ == State::kClosed) return;
  ERR_clear_error();
  pipe_->in = records;
  pipe_->out = &wire;
  if (state_ == State::kHandshake) {
    const int result = SSL_do_handshake(ssl_);
    if (result != 1) {
      if (SSL_get_error(ssl_, result) != SSL_ERROR_WANT_READ) Fail();
      pipe_->out = nullptr;
      return;
    }
    state_ = State::kOpen;
  }
  std::array<char, SSL3_RT_MAX_PLAIN_LENGTH> buffer;
  for (;;) {
    std::size_t size = 0;
    if (SSL_read_ex(ssl_, buffer.data(), buffer.size(), &size) == 1) {
      plaintext({buffer.data(), size});
      // The callback may have sent something.
      pipe_->out = &wire;
      continue;
    }
    const int error = SSL_get_error(ssl_, 0);
    if (error == SSL_ERROR_ZERO_RETURN) {
      state_ = State::kClosed;
    } else if (error != SSL_ERROR_WANT_READ) {
      Fail();
    }
    break;
  }
  pipe_->out = nullptr;
}

void ServerTlsSession::Send(std::string_view plaintext, std::string& wire) {
  if (state_ == State::kFailed || plaintext.empty()) return;
  ERR_clear_error();
  pipe_->out = &wire;
  std::size_t written = 0;
  // One call writes everything, because Pipe::Write() takes everything.
  if (SSL_write_ex(ssl_, plaintext.data(), plaintext.size(), &written) != 1 ||
      written != plaintext.size())
    Fail();
  pipe_->out = nullptr;
}

void ServerTlsSession::Close(std::string& wire) {
  if (state_ == State::kFailed || state_ == State::kHandshake) return;
  ERR_clear_error();
  pipe_->out = &wire;
  SSL_shutdown(ssl_);
  pipe_->out = nullptr;
}

void ServerTlsSession::Fail() {
  state_ = State::kFailed;
  error_ = TakeOpensslError();
}

std::string_view ServerTlsSession::protocol() const {
  const unsigned char* name = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl_, &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

std::optional<Peer::Certificate> ServerTlsSession::certificate() const {
  const X509* certificate = SSL_get0_peer_certificate(ssl_);
  if (certificate == nullptr || SSL_get_verify_result(ssl_) != X509_V_OK) return std::nullopt;
  Peer::Certificate result;
  const X509_NAME* subject = X509_get_subject_name(certificate);
  for (int i = 0; i < X509_NAME_entry_count(subject); ++i) {
    const X509_NAME_ENTRY* entry = X509_NAME_get_entry(subject, i);
    const int kind = OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry));
    if (kind != NID_commonName && kind != NID_organizationName) continue;
    unsigned char* utf8 = nullptr;
    const int size = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(entry));
    if (size < 0) return std::nullopt;  // the name cannot be decoded
    // With its length: a NUL byte must not shorten the name to that of another user.
    std::string value(reinterpret_cast<const char*>(utf8), static_cast<std::size_t>(size));
    OPENSSL_free(utf8);
    if (kind == NID_commonName) {
      result.common_name = std::move(value);  // the last one, as in Go
    } else {
      result.organizations.push_back(std::move(value));
    }
  }
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (bio && X509_NAME_print_ex(bio.get(), subject, 0, XN_FLAG_RFC2253) >= 0)
    result.subject = BioContents(bio.get());
  // The last certificate of the chain is the configured CA. There is always a chain, since sessions
  // are not resumed if client certificates are requested.
  STACK_OF(X509)* chain = SSL_get0_verified_chain(ssl_);
  if (chain == nullptr || sk_X509_num(chain) == 0) return std::nullopt;
  result.anchor_sha256 = Fingerprint(sk_X509_value(chain, sk_X509_num(chain) - 1));
  result.sha256 = Fingerprint(certificate);
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    const X509* link = sk_X509_value(chain, i);
    const auto not_before = TimeOf(X509_get0_notBefore(link));
    const auto not_after = TimeOf(X509_get0_notAfter(link));
    if (!not_before || !not_after) return std::nullopt;
    result.not_before = std::max(result.not_before, *not_before);
    result.not_after = std::min(result.not_after, *not_after);
  }
  return result;
}

}  // namespace herald::http
