#include "server/certificates.h"

#include <gtest/gtest.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/temporary_directory.h"
#include "http/openssl.h"

namespace herald::server {
namespace {

class CertificatesTest : public testing::Test {
 protected:
  const TemporaryDirectory directory_;
  const std::string folder_ = directory_.path() / "certs";  // not there yet
};

TEST_F(CertificatesTest, MakesACertificateForLocalNamesOnce) {
  const Result<KeyPair> first = ReadOrMakeKeyPair(folder_, SystemClock().Now());
  ASSERT_TRUE(first.has_value()) << first.error().message();
  const std::vector<http::X509Ptr> certificates = http::ReadCertificates(first->certificate);
  ASSERT_EQ(certificates.size(), 1U);
  X509* const certificate = certificates.front().get();
  EXPECT_EQ(X509_check_host(certificate, "localhost", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_ip_asc(certificate, "127.0.0.1", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(certificate, "::1", 0), 1);
  EXPECT_EQ(X509_check_host(certificate, "example.com", 0, 0, nullptr), 0);
  EXPECT_EQ(X509_check_ca(certificate), 1);
  EXPECT_EQ(X509_verify(certificate, X509_get0_pubkey(certificate)), 1);

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
