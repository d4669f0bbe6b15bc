#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace herald::http {

// Owning pointers to OpenSSL's objects, with OpenSSL's function for each type as deleter.
template <auto kFree>
struct OpensslDeleter {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
template <typename T, auto kFree>
using OpensslPtr = std::unique_ptr<T, OpensslDeleter<kFree>>;
using BioPtr = OpensslPtr<BIO, BIO_free>;
using KeyPtr = OpensslPtr<EVP_PKEY, EVP_PKEY_free>;
using SslContextPtr = OpensslPtr<SSL_CTX, SSL_CTX_free>;
using X509Ptr = OpensslPtr<X509, X509_free>;

// The oldest OpenSSL error of this thread, which is the cause of the others. Clears all errors.
std::string TakeOpensslError();

// The bytes that were written to a memory BIO.
std::string BioContents(BIO* bio);

// Reading and writing PEM. If reading fails, TakeOpensslError() returns the reason.
//
// All certificates; empty if one of them is invalid.
std::vector<X509Ptr> ReadCertificates(std::string_view pem);
// Null on an error. A key with a passphrase is an error.
KeyPtr ReadPrivateKey(std::string_view pem);
// Empty if OpenSSL fails.
std::string CertificatePem(const X509* certificate);
std::string PrivateKeyPem(const EVP_PKEY* key);

// SHA-256 of the whole certificate, in hex.
std::string Fingerprint(const X509* certificate);

// `value` has the syntax of OpenSSL's configuration: NID_basic_constraints, "critical,CA:TRUE".
// `issuer` is the certificate whose key signs this one; null: self-signed.
bool AddExtension(X509* certificate, int nid, const std::string& value,
                  const X509* issuer = nullptr);

}  // namespace herald::http
