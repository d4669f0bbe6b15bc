#include "server/certificates.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>

#include "base/file.h"

namespace herald::server {
namespace {

class CertificatesTest : public testing::Test {
 protected:
  CertificatesTest() { std::filesystem::remove_all(folder_); }
  ~CertificatesTest() override { std::filesystem::remove_all(folder_); }
  const std::string folder_ = testing::TempDir() + "certificates_test";
};

std::unique_ptr<X509, decltype(&X509_free)> Parse(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free);
  return {PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), &X509_free};
}

TEST_F(CertificatesTest, MakesACertificateForLocalNamesOnce) {
  const Result<KeyPair> first = ReadOrMakeKeyPair(folder_, SystemClock().Now());
  ASSERT_TRUE(first.has_value()) << first.error().message();
  const auto certificate = Parse(first->certificate);
  ASSERT_NE(certificate, nullptr);
  EXPECT_EQ(X509_check_host(certificate.get(), "localhost", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_ip_asc(certificate.get(), "127.0.0.1", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(certificate.get(), "::1", 0), 1);
  EXPECT_EQ(X509_check_host(certificate.get(), "example.com", 0, 0, nullptr), 0);
  EXPECT_EQ(X509_check_ca(certificate.get()), 1);
  EXPECT_EQ(X509_verify(certificate.get(), X509_get0_pubkey(certificate.get())), 1);

  const Result<KeyPair> second = ReadOrMakeKeyPair(folder_, SystemClock().Now());
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->certificate, first->certificate);
  EXPECT_EQ(second->key, first->key);
}

TEST_F(CertificatesTest, KeepsTheKeyPrivateAndRefusesOneThatIsNot) {
  ASSERT_TRUE(ReadOrMakeKeyPair(folder_, SystemClock().Now()).has_value());
  const std::string key = folder_ + "/heraldd.key";
  struct stat info{};
  ASSERT_EQ(stat(key.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  ASSERT_EQ(chmod(key.c_str(), 0644), 0);
  const Result<KeyPair> pair = ReadOrMakeKeyPair(folder_, SystemClock().Now());
  ASSERT_FALSE(pair.has_value());
  EXPECT_NE(pair.error().message().find("chmod o-rwx"), std::string::npos);
}

TEST_F(CertificatesTest, NamesTheFileThatIsMissing) {
  EXPECT_NE(ReadKeyPair("/nowhere/a", "/nowhere/b").error().message().find("/nowhere/b"),
            std::string::npos);
  EXPECT_NE(ReadFile("/nowhere/a").error().message().find("/nowhere/a"), std::string::npos);
  EXPECT_FALSE(ReadOrMakeKeyPair("/proc/nowhere", SystemClock().Now()).has_value());
}

TEST_F(CertificatesTest, WritesFilesWhole) {
  std::filesystem::create_directories(folder_);
  ASSERT_TRUE(WritePrivateFile(folder_ + "/x", "one").ok());
  ASSERT_TRUE(WritePrivateFile(folder_ + "/x", "").ok());
  EXPECT_EQ(*ReadFile(folder_ + "/x"), "");
  ASSERT_TRUE(WritePrivateFile(folder_ + "/x", "two").ok());
  EXPECT_EQ(*ReadFile(folder_ + "/x"), "two");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/x.tmp"));
}

}  // namespace
}  // namespace herald::server
