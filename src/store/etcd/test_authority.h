#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "base/check.h"

namespace herald::store {

// A certificate authority of a test, which writes what it issues into a folder.
//
// Thread-confined.
class TestAuthority {
 public:
  // `name` makes the files' names, so that two authorities may share a folder.
  TestAuthority(std::filesystem::path folder, const std::string& name)
      : folder_(std::move(folder)), name_(name), key_(NewKey()) {
    certificate_ = NewCertificate(name, key_.get());
    AddExtension(certificate_.get(), NID_basic_constraints, "critical,CA:TRUE");
    Sign(certificate_.get(), certificate_.get());
    Write(ca_file(), [this](FILE* file) { return PEM_write_X509(file, certificate_.get()); });
  }

  std::string ca_file() const { return (folder_ / (name_ + "-ca.pem")).string(); }

  struct Files {
    std::string cert{};
    std::string key{};
  };
  // For both ends of a connection: a server on 127.0.0.1, or the client of that name.
  Files Issue(const std::string& common_name) const {
    const KeyPointer key = NewKey();
    const CertificatePointer certificate = NewCertificate(common_name, key.get());
    AddExtension(certificate.get(), NID_subject_alt_name, "IP:127.0.0.1,DNS:localhost");
    AddExtension(certificate.get(), NID_ext_key_usage, "serverAuth,clientAuth");
    Sign(certificate.get(), certificate_.get());
    Files files{(folder_ / (name_ + "-" + common_name + ".pem")).string(),
                (folder_ / (name_ + "-" + common_name + "-key.pem")).string()};
    Write(files.cert, [&](FILE* file) { return PEM_write_X509(file, certificate.get()); });
    Write(files.key, [&](FILE* file) {
      return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
    return files;
  }

 private:
  template <auto free>
  struct Deleter {
    template <typename T>
    void operator()(T* pointer) const {
      free(pointer);
    }
  };
  using KeyPointer = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
  using CertificatePointer = std::unique_ptr<X509, Deleter<X509_free>>;

  static KeyPointer NewKey() {
    KeyPointer key(EVP_EC_gen("P-256"));
    HERALD_CHECK(key != nullptr);
    return key;
  }

  static CertificatePointer NewCertificate(const std::string& common_name, EVP_PKEY* key) {
    static std::int64_t serial = 1;
    CertificatePointer certificate(X509_new());
    X509* const x = certificate.get();
    HERALD_CHECK(X509_set_version(x, X509_VERSION_3) == 1 &&
                 ASN1_INTEGER_set_int64(X509_get_serialNumber(x), serial++) == 1 &&
                 X509_gmtime_adj(X509_getm_notBefore(x), -3600) != nullptr &&
                 X509_gmtime_adj(X509_getm_notAfter(x), 3600) != nullptr &&
                 X509_set_pubkey(x, key) == 1 &&
                 X509_NAME_add_entry_by_txt(
                     X509_get_subject_name(x), "CN", MBSTRING_ASC,
                     reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1, 0) == 1);
    return certificate;
  }

  static void AddExtension(X509* certificate, int nid, const char* value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
    HERALD_CHECK(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
  }

  void Sign(X509* certificate, X509* issuer) const {
    HERALD_CHECK(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
                 X509_sign(certificate, key_.get(), EVP_sha256()) > 0);
  }

  template <typename F>
  static void Write(const std::string& path, F write) {
    FILE* file = std::fopen(path.c_str(), "we");
    HERALD_CHECK(file != nullptr && write(file) == 1 && std::fclose(file) == 0);
  }

  const std::filesystem::path folder_;
  const std::string name_;
  const KeyPointer key_;
  CertificatePointer certificate_;
};

}  // namespace herald::store
