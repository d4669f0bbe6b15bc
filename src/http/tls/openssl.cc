#include "http/tls/openssl.h"

#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <climits>

#include "base/check.h"

namespace herald::http {
namespace {

BioPtr Reader(std::string_view pem) {
  const std::size_t size = std::min<std::size_t>(pem.size(), INT_MAX);
  BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(size)));
  HERALD_CHECK(bio != nullptr);
  return bio;
}

BioPtr Writer() {
  BioPtr bio(BIO_new(BIO_s_mem()));
  HERALD_CHECK(bio != nullptr);
  return bio;
}

// Without this, OpenSSL would prompt on the terminal.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*user*/) { return -1; }

}  // namespace

std::string TakeOpensslError() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "unknown error";
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : fmt::format("error {:x}", code);
}

std::string BioContents(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

std::vector<X509Ptr> ReadCertificates(std::string_view pem) {
  std::vector<X509Ptr> certificates;
  const BioPtr bio = Reader(pem);
  ERR_clear_error();
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr))
    certificates.emplace_back(certificate);
  const unsigned long error = ERR_peek_last_error();
  const bool at_end =
      ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  if (!at_end) return {};
  if (!certificates.empty()) ERR_clear_error();
  return certificates;
}

KeyPtr ReadPrivateKey(std::string_view pem) {
  return KeyPtr(PEM_read_bio_PrivateKey(Reader(pem).get(), nullptr, NoPassphrase, nullptr));
}

std::string CertificatePem(const X509* certificate) {
  const BioPtr bio = Writer();
  return PEM_write_bio_X509(bio.get(), certificate) == 1 ? BioContents(bio.get()) : std::string();
}

std::string PrivateKeyPem(const EVP_PKEY* key) {
  const BioPtr bio = Writer();
  const bool written =
      PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1;
  return written ? BioContents(bio.get()) : std::string();
}

std::string Fingerprint(const X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  HERALD_CHECK(X509_digest(certificate, EVP_sha256(), digest.data(), &size) == 1);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

bool AddExtension(X509* certificate, int nid, const std::string& value, const X509* issuer) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, const_cast<X509*>(issuer != nullptr ? issuer : certificate), certificate,
                 nullptr, nullptr, 0);
  const OpensslPtr<X509_EXTENSION, X509_EXTENSION_free> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

}  // namespace herald::http
