#include "http/tls/openssl.h"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "http/testing/certificate.h"

namespace herald::http {
namespace {

constexpr std::string_view kBad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

TEST(Openssl, ReadsAllCertificatesOfAString) {
  const TestCertificate a = MakeTestCertificate({});
  const TestCertificate b = MakeTestCertificate({});
  // Other blocks, and lines between them, are skipped.
  const std::vector<X509Ptr> read =
      ReadCertificates("first:\n" + a.certificate + "and\n" + a.key + b.certificate + "\n");
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(CertificatePem(read[0].get()), a.certificate);
  EXPECT_EQ(CertificatePem(read[1].get()), b.certificate);
  EXPECT_EQ(Fingerprint(read[0].get()).size(), 64U);
  EXPECT_NE(Fingerprint(read[0].get()), Fingerprint(read[1].get()));
  EXPECT_EQ(ERR_peek_error(), 0U);
}

TEST(Openssl, ReturnsNoneIfOneIsInvalid) {
  const std::string good = MakeTestCertificate({}).certificate;
  EXPECT_TRUE(ReadCertificates(good + std::string(kBad) + good).empty());
  EXPECT_NE(TakeOpensslError(), "unknown error");
  EXPECT_EQ(TakeOpensslError(), "unknown error") << "it was taken";

  EXPECT_TRUE(ReadCertificates("").empty());
  EXPECT_EQ(TakeOpensslError(), "no start line");
}

TEST(Openssl, ReadsAKeyAndDoesNotPromptForAPassphrase) {
  const TestCertificate made = MakeTestCertificate({});
  const KeyPtr key = ReadPrivateKey("a key\n" + made.key);
  ASSERT_NE(key, nullptr);
  EXPECT_EQ(PrivateKeyPem(key.get()), made.key);

  const BioPtr locked(BIO_new(BIO_s_mem()));
  ASSERT_EQ(PEM_write_bio_PKCS8PrivateKey(locked.get(), key.get(), EVP_aes_128_cbc(), "secret", 6,
                                          nullptr, nullptr),
            1);
  EXPECT_EQ(ReadPrivateKey(BioContents(locked.get())), nullptr);
  EXPECT_NE(TakeOpensslError(), "unknown error");
  EXPECT_EQ(ReadPrivateKey(made.certificate), nullptr);
  EXPECT_NE(TakeOpensslError(), "unknown error");
}

}  // namespace
}  // namespace herald::http
