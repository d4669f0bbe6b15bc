#include "http/tls/client.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <utility>
#include <vector>

#include "base/check.h"
#include "http/tls/openssl.h"
#include "http/url.h"

namespace herald::http {
namespace {

// Plaintext is read from OpenSSL in pieces of one full record.
constexpr std::size_t kRecordBytes = 16 * 1024;
// How many names of a certificate an error message shows; some have hundreds.
constexpr int kMaxNamesShown = 8;

Status TlsError(std::string message) {
  return Status(StatusReason::kUnreachable, std::move(message));
}

Status UseAuthorities(SSL_CTX* context, const ClientTls& tls) {
  if (tls.ca.empty()) {
    if (SSL_CTX_set_default_verify_paths(context) != 1)
      return TlsError(
          fmt::format("cannot read the system's CA certificates: {}", TakeOpensslError()));
    return {};
  }
  const std::vector<X509Ptr> authorities = ReadCertificates(tls.ca);
  if (authorities.empty())
    return TlsError(
        fmt::format("the CA has no PEM certificate or an invalid one: {}", TakeOpensslError()));
  for (const X509Ptr& certificate : authorities)
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate.get());
  ERR_clear_error();  // a duplicate certificate is not an error
  return {};
}

Status UseCertificate(SSL_CTX* context, const ClientTls& tls) {
  if (tls.certificate.empty() && tls.key.empty()) return {};
  if (tls.certificate.empty()) return TlsError("a client key is set, but no client certificate");
  if (tls.key.empty()) return TlsError("a client certificate is set, but no client key");
  const std::vector<X509Ptr> chain = ReadCertificates(tls.certificate);
  if (chain.empty())
    return TlsError(fmt::format("the client certificate is not a valid PEM certificate: {}",
                                TakeOpensslError()));
  if (SSL_CTX_use_certificate(context, chain.front().get()) != 1)
    return TlsError(fmt::format("the client certificate cannot be used: {}", TakeOpensslError()));
  for (std::size_t i = 1; i < chain.size(); ++i) SSL_CTX_add1_chain_cert(context, chain[i].get());
  const KeyPtr key = ReadPrivateKey(tls.key);
  if (key == nullptr)
    return TlsError(fmt::format("the client key is not a PEM private key without a passphrase: {}",
                                TakeOpensslError()));
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1)
    return TlsError(fmt::format("the client key does not match the client certificate: {}",
                                TakeOpensslError()));
  return {};
}

std::string Name(const X509_NAME* name) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  return BioContents(bio.get());
}

std::string Time(const ASN1_TIME* time) {
  tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return "an unknown time";
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

// The names and addresses of a certificate: "a.example, 10.0.0.1".
std::string AlternativeNames(const X509* certificate) {
  auto* names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  std::string out;
  int shown = 0;
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    std::string shown_name;
    if (name->type == GEN_DNS) {
      shown_name.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                        static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      char buffer[INET6_ADDRSTRLEN] = "";
      const int family = ASN1_STRING_length(name->d.iPAddress) == 4 ? AF_INET : AF_INET6;
      if (ASN1_STRING_length(name->d.iPAddress) == (family == AF_INET ? 4 : 16))
        inet_ntop(family, ASN1_STRING_get0_data(name->d.iPAddress), buffer, sizeof(buffer));
      shown_name = buffer;
    }
    if (shown_name.empty()) continue;
    if (++shown > kMaxNamesShown) {
      out += ", ...";
      break;
    }
    out += (out.empty() ? "" : ", ") + shown_name;
  }
  GENERAL_NAMES_free(names);
  return out.empty() ? "no names" : out;
}

std::string Describe(int error, const X509* certificate, const std::string& host) {
  if (certificate == nullptr)
    return fmt::format("the server's certificate is invalid: {}",
                       X509_verify_cert_error_string(error));
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return fmt::format("the certificate of {} expired at {}",
                         Name(X509_get_subject_name(certificate)),
                         Time(X509_get0_notAfter(certificate)));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return fmt::format("the certificate of {} is not valid before {}",
                         Name(X509_get_subject_name(certificate)),
                         Time(X509_get0_notBefore(certificate)));
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return fmt::format("the server's certificate is valid for {}, not for {}",
                         AlternativeNames(certificate), host);
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return fmt::format("the server's certificate is signed by an unknown authority ({})",
                         Name(X509_get_issuer_name(certificate)));
    default:
      return fmt::format("the certificate of {} is invalid: {}",
                         Name(X509_get_subject_name(certificate)),
                         X509_verify_cert_error_string(error));
  }
}

}  // namespace

Result<std::shared_ptr<const TlsClientContext>> TlsClientContext::Make(const ClientTls& tls) {
  SslContextPtr context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr)
    return TlsError(fmt::format("cannot create a TLS context: {}", TakeOpensslError()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  if (!tls.insecure_skip_verify)
    if (Status status = UseAuthorities(context.get(), tls); !status.ok()) return status;
  if (Status status = UseCertificate(context.get(), tls); !status.ok()) return status;
  return std::shared_ptr<const TlsClientContext>(new TlsClientContext(context.release(), tls));
}

TlsClientContext::TlsClientContext(ssl_ctx_st* context, const ClientTls& tls)
    : context_(context), server_name_(tls.server_name), verify_(!tls.insecure_skip_verify) {}

TlsClientContext::~TlsClientContext() { SSL_CTX_free(context_); }

struct TlsClient::Verification {
  // Called with the invalid certificate, which is not available later.
  static int OnVerify(int ok, X509_STORE_CTX* store) {
    if (ok == 1) return 1;
    const auto* ssl =
        static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto* self = static_cast<TlsClient*>(SSL_get_app_data(ssl));
    self->verify_error_ = Describe(X509_STORE_CTX_get_error(store),
                                   X509_STORE_CTX_get_current_cert(store), self->host_);
    return 0;
  }

  // Called when the server asks for a certificate.
  static int OnCertificateRequested(SSL* ssl, void* user) {
    if (SSL_get_certificate(ssl) == nullptr)
      static_cast<TlsClient*>(user)->certificate_missing_ = true;
    return 1;
  }
};

TlsClient::TlsClient(const TlsClientContext& context, const std::string& host, bool offer_http2)
    : ssl_(SSL_new(context.context_)),
      host_(context.server_name_.empty() ? host : context.server_name_) {
  HERALD_CHECK(ssl_ != nullptr);
  BIO* in = BIO_new(BIO_s_mem());
  BIO* out = BIO_new(BIO_s_mem());
  HERALD_CHECK(in != nullptr && out != nullptr);
  BIO_set_mem_eof_return(in, -1);  // an empty BIO means wait, not the end
  BIO_set_mem_eof_return(out, -1);
  SSL_set_bio(ssl_, in, out);
  SSL_set_connect_state(ssl_);
  SSL_set_app_data(ssl_, this);

  const bool address = IsAddress(host_);
  if (!address) SSL_set_tlsext_host_name(ssl_, host_.c_str());
  if (context.verify_) {
    X509_VERIFY_PARAM* rules = SSL_get0_param(ssl_);
    // As in Go: the common name is not used as a host name, and every certificate in the CA file is
    // trusted, self-signed or not.
    X509_VERIFY_PARAM_set_hostflags(
        rules, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_PARTIAL_CHAIN);
    if (address)
      X509_VERIFY_PARAM_set1_ip_asc(rules, host_.c_str());
    else
      X509_VERIFY_PARAM_set1_host(rules, host_.data(), host_.size());
    SSL_set_verify(ssl_, SSL_VERIFY_PEER, Verification::OnVerify);
  } else {
    SSL_set_verify(ssl_, SSL_VERIFY_NONE, nullptr);
  }
  SSL_set_cert_cb(ssl_, Verification::OnCertificateRequested, this);
  static constexpr unsigned char kBoth[] = "\x02h2\x08http/1.1";
  const std::size_t skip = offer_http2 ? 0 : 3;
  SSL_set_alpn_protos(ssl_, kBoth + skip, static_cast<unsigned>(sizeof(kBoth) - 1 - skip));
}

TlsClient::~TlsClient() { SSL_free(ssl_); }

Status TlsClient::Receive(std::string_view ciphertext, std::string* plain) {
  if (!ciphertext.empty()) {
    const int written =
        BIO_write(SSL_get_rbio(ssl_), ciphertext.data(), static_cast<int>(ciphertext.size()));
    HERALD_CHECK(written == static_cast<int>(ciphertext.size()));
  }
  ERR_clear_error();
  if (!established_) {
    if (const int result = SSL_do_handshake(ssl_); result != 1) return Failure(result);
    established_ = true;
  }
  while (!ended_) {
    const std::size_t before = plain->size();
    plain->resize(before + kRecordBytes);
    const int result = SSL_read(ssl_, plain->data() + before, static_cast<int>(kRecordBytes));
    plain->resize(before + static_cast<std::size_t>(result > 0 ? result : 0));
    if (result <= 0) return Failure(result);
  }
  return {};
}

Status TlsClient::Send(std::string_view plain) {
  ERR_clear_error();
  while (!plain.empty()) {
    // Writing to memory never blocks.
    const int result = SSL_write(ssl_, plain.data(), static_cast<int>(plain.size()));
    if (result <= 0) return TlsError(fmt::format("TLS: {}", TakeOpensslError()));
    plain.remove_prefix(static_cast<std::size_t>(result));
  }
  return {};
}

void TlsClient::SendEnd() {
  if (established_) SSL_shutdown(ssl_);
  ERR_clear_error();
}

void TlsClient::TakeOutput(std::string* out) {
  // Not BIO_reset(): it clears all the memory that the largest write has used.
  BIO* bio = SSL_get_wbio(ssl_);
  const std::size_t size = BIO_ctrl_pending(bio);
  if (size == 0) return;
  const std::size_t before = out->size();
  out->resize(before + size);
  const int taken = BIO_read(bio, out->data() + before, static_cast<int>(size));
  HERALD_CHECK(taken == static_cast<int>(size));
}

bool TlsClient::http2() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_, &name, &size);
  return std::string_view(reinterpret_cast<const char*>(name), size) == "h2";
}

Status TlsClient::Failure(int result) {
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return {};
    case SSL_ERROR_ZERO_RETURN:
      ended_ = true;
      return {};
    default:
      break;
  }
  if (!verify_error_.empty()) {
    ERR_clear_error();
    return TlsError(verify_error_);
  }
  const unsigned long code = ERR_peek_error();
  const int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
  const std::string message = TakeOpensslError();
  switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
      return TlsError("the server does not use TLS");
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:  // the same in TLS 1.2
      if (certificate_missing_) return TlsError("the server requires a client certificate");
      return TlsError(fmt::format("TLS: {}", message));
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      return TlsError(fmt::format("the server rejected the client certificate: {}", message));
    default:
      return TlsError(fmt::format("TLS: {}", message));
  }
}

}  // namespace herald::http
