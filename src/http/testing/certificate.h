#pragma once

#include <openssl/x509v3.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "http/tls/openssl.h"

namespace herald::http {

// A certificate and its key, both in PEM.
struct TestCertificate {
  std::string certificate{};
  std::string key{};
};

struct TestCertificateOptions {
  std::vector<std::pair<std::string, std::string>> subject = {{"CN", "test"}};
  std::string names = "DNS:localhost,IP:127.0.0.1";  // subjectAltName; empty: none
  int valid_from_days = -1;                          // from now
  int valid_to_days = 1;
  bool authority = false;
};

// Makes a certificate that is signed by `issuer`, or self-signed; for servers and clients.
inline TestCertificate MakeTestCertificate(const TestCertificateOptions& options,
                                           const TestCertificate* issuer = nullptr) {
  constexpr long kDaySeconds = 24L * 60 * 60;
  static std::atomic<std::uint64_t> serial{1};
  const KeyPtr key(EVP_EC_gen("P-256"));
  const X509Ptr certificate(X509_new());
  X509* const x = certificate.get();
  HERALD_CHECK(X509_set_version(x, X509_VERSION_3) == 1);
  HERALD_CHECK(ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), serial++) == 1);
  X509_gmtime_adj(X509_getm_notBefore(x), options.valid_from_days * kDaySeconds);
  X509_gmtime_adj(X509_getm_notAfter(x), options.valid_to_days * kDaySeconds);
  for (const auto& [name, value] : options.subject) {
    HERALD_CHECK(X509_NAME_add_entry_by_txt(X509_get_subject_name(x), name.c_str(), MBSTRING_UTF8,
                                            reinterpret_cast<const unsigned char*>(value.data()),
                                            static_cast<int>(value.size()), -1, 0) == 1);
  }
  HERALD_CHECK(X509_set_pubkey(x, key.get()) == 1);
  HERALD_CHECK(AddExtension(x, NID_basic_constraints,
                            options.authority ? "critical,CA:TRUE" : "critical,CA:FALSE"));
  if (!options.authority) {
    HERALD_CHECK(AddExtension(x, NID_ext_key_usage, "serverAuth,clientAuth"));
    if (!options.names.empty()) HERALD_CHECK(AddExtension(x, NID_subject_alt_name, options.names));
  }
  if (issuer != nullptr) {
    const std::vector<X509Ptr> parent = ReadCertificates(issuer->certificate);
    const KeyPtr parent_key = ReadPrivateKey(issuer->key);
    HERALD_CHECK(!parent.empty() && parent_key != nullptr);
    X509_set_issuer_name(x, X509_get_subject_name(parent.front().get()));
    HERALD_CHECK(X509_sign(x, parent_key.get(), EVP_sha256()) > 0);
  } else {
    X509_set_issuer_name(x, X509_get_subject_name(x));
    HERALD_CHECK(X509_sign(x, key.get(), EVP_sha256()) > 0);
  }
  return {.certificate = CertificatePem(x), .key = PrivateKeyPem(key.get())};
}

}  // namespace herald::http
