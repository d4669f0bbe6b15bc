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

// OpenSSL's objects, which end with the function that OpenSSL has for them.
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

// The oldest error of OpenSSL on this thread, which is the cause of the others. Forgets all of
// them.
std::string TakeOpensslError();

// Of a BIO in memory, what was written to it.
std::string BioContents(BIO* bio);

// PEM, as it stands in files. Where reading fails, TakeOpensslError() says why.
//
// All certificates of a text; none where one of them is bad.
std::vector<X509Ptr> ReadCertificates(std::string_view pem);
// A key with a passphrase is an error: there is nobody to ask.
KeyPtr ReadPrivateKey(std::string_view pem);
// Empty where OpenSSL fails.
std::string CertificatePem(const X509* certificate);
std::string PrivateKeyPem(const EVP_PKEY* key);

// SHA-256 of the whole certificate, in hex.
std::string Fingerprint(const X509* certificate);

// In the words of OpenSSL's configuration: NID_basic_constraints, "critical,CA:TRUE". `issuer` is
// the certificate whose key signs this one; null: its own.
bool AddExtension(X509* certificate, int nid, const std::string& value,
                  const X509* issuer = nullptr);

}  // namespace herald::http
