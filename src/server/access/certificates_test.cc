#include "server/access/certificates.h"

#include <gtest/gtest.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/testing/temporary_directory.h"
#include "http/testing/certificate.h"
#include "http/tls/openssl.h"

namespace herald::server {
namespace {

using std::chrono::hours;

// The result of `openssl verify -x509_strict -purpose sslserver -CAfile anchors` for the chain and
// `host` at the given time: "ok" or the error.
std::string StrictlyVerified(std::string_view chain, std::string_view anchors, WallTime now,
                             const std::string& host = "localhost") {
  const std::vector<http::X509Ptr> certificates = http::ReadCertificates(chain);
  const http::OpensslPtr<X509_STORE, X509_STORE_free> store(X509_STORE_new());
  for (const http::X509Ptr& anchor : http::ReadCertificates(anchors))
    X509_STORE_add_cert(store.get(), anchor.get());
  const http::OpensslPtr<X509_STORE_CTX, X509_STORE_CTX_free> context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), certificates.front().get(), nullptr);
  X509_VERIFY_PARAM* const parameters = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_X509_STRICT);
  X509_VERIFY_PARAM_set_purpose(parameters, X509_PURPOSE_SSL_SERVER);
  X509_VERIFY_PARAM_set_time(parameters, std::chrono::system_clock::to_time_t(now));
  X509_VERIFY_PARAM_set1_host(parameters, host.data(), host.size());
  if (X509_verify_cert(context.get()) == 1) return "ok";
  return X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
}

class CertificatesTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Text(const std::string& name) const { return *ReadFile(Path(name)); }
  void Write(const std::string& name, std::string_view text) const {
    std::filesystem::create_directories(folder_);
    ASSERT_TRUE(WritePrivateFile(Path(name), text).ok());
  }
  KeyPair Make(WallTime now) const {
    Result<KeyPair> pair = ReadOrMakeKeyPair(folder_, now);
    EXPECT_TRUE(pair.has_value()) << (pair ? "" : pair.error().message());
    return pair ? *std::move(pair) : KeyPair();
  }
  static mode_t Mode(const std::string& file) {
    struct stat info{};
    EXPECT_EQ(stat(file.c_str(), &info), 0);
    return info.st_mode & 0777;
  }

  const WallTime now_ = SystemClock().Now();
  const TemporaryDirectory directory_;
  const std::string folder_ = directory_.path() / "certs";  // does not exist yet
};

TEST_F(CertificatesTest, MakesACaAndAServerCertificateOnce) {
  const KeyPair first = Make(now_);
  const std::vector<http::X509Ptr> chain = http::ReadCertificates(first.certificate);
  ASSERT_EQ(chain.size(), 2U);
  X509* const leaf = chain[0].get();
  EXPECT_EQ(X509_check_host(leaf, "localhost", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_host(leaf, "kubernetes", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_ip_asc(leaf, "127.0.0.1", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(leaf, "::1", 0), 1);
  EXPECT_EQ(X509_check_host(leaf, "example.com", 0, 0, nullptr), 0);
  // rustls rejects a server certificate that may sign others: CaUsedAsEndEntity.
  EXPECT_EQ(X509_check_ca(leaf), 0);
  EXPECT_EQ(X509_get_key_usage(leaf), std::uint32_t{KU_DIGITAL_SIGNATURE | KU_KEY_ENCIPHERMENT});
  EXPECT_EQ(X509_get_extended_key_usage(leaf), std::uint32_t{XKU_SSL_SERVER});
  EXPECT_EQ(X509_check_ca(chain[1].get()), 1);
  EXPECT_NE(X509_get_key_usage(chain[1].get()) & KU_KEY_CERT_SIGN, 0U);
  EXPECT_EQ(http::CertificatePem(chain[1].get()), Text("ca.crt"));
  EXPECT_EQ(StrictlyVerified(first.certificate, Text("ca.crt"), now_), "ok");
  EXPECT_EQ(StrictlyVerified(first.certificate, Text("ca.crt"), now_, "example.com"),
            "hostname mismatch");

  const KeyPair second = Make(now_);
  EXPECT_EQ(second.certificate, first.certificate);
  EXPECT_EQ(second.key, first.key);
}

TEST_F(CertificatesTest, RenewsTheServerCertificateAndKeepsTheCa) {
  const KeyPair first = Make(now_);
  const std::string ca = Text("ca.crt");
  EXPECT_EQ(Make(now_ + hours(24 * 334)).certificate, first.certificate);
  const WallTime later = now_ + hours(24 * 336);
  const KeyPair renewed = Make(later);
  EXPECT_NE(renewed.certificate, first.certificate);
  EXPECT_EQ(Text("ca.crt"), ca);
  // Clients with the original CA certificate accept it, too.
  EXPECT_EQ(StrictlyVerified(renewed.certificate, ca, later + hours(24 * 364)), "ok");
  EXPECT_EQ(Make(later).certificate, renewed.certificate);
}

TEST_F(CertificatesTest, ServerCertificatesExpireWithTheCaWhichIsReplacedBeforeItExpires) {
  Make(now_);
  const std::string ca = Text("ca.crt");
  const WallTime late = now_ + hours(24 * 3600);
  const KeyPair last = Make(late);
  EXPECT_EQ(Text("ca.crt"), ca);
  EXPECT_EQ(StrictlyVerified(last.certificate, ca, now_ + hours(24 * 3649)), "ok");
  EXPECT_EQ(StrictlyVerified(last.certificate, ca, now_ + hours(24 * 3651)),
            "certificate has expired");
  const WallTime end = now_ + hours(24 * 3640);
  const KeyPair next = Make(end);
  EXPECT_NE(Text("ca.crt"), ca);
  EXPECT_EQ(StrictlyVerified(next.certificate, Text("ca.crt"), end), "ok");
}

TEST_F(CertificatesTest, ReplacesTheSelfSignedCertificateOfAnOlderVersion) {
  const http::TestCertificate old = http::MakeTestCertificate(
      {.subject = {{"CN", "heraldd"}}, .valid_to_days = 300, .authority = true});
  Write("heraldd.crt", old.certificate);
  Write("heraldd.key", old.key);
  const KeyPair pair = Make(now_);
  EXPECT_EQ(pair.certificate.find(old.certificate), std::string::npos);
  EXPECT_EQ(StrictlyVerified(pair.certificate, Text("ca.crt"), now_), "ok");
}

TEST_F(CertificatesTest, UsesACertificateThatAnOperatorProvided) {
  const http::TestCertificate ca = http::MakeTestCertificate({.authority = true});
  for (const http::TestCertificate& own :
       {http::MakeTestCertificate({}), http::MakeTestCertificate({}, &ca)}) {
    Write("heraldd.crt", own.certificate);
    Write("heraldd.key", own.key);
    EXPECT_EQ(Make(now_).certificate, own.certificate);
    EXPECT_FALSE(std::filesystem::exists(Path("ca.crt")));
  }
}

TEST_F(CertificatesTest, CreatesThePairAgainAfterACrashBetweenItsFiles) {
  Make(now_);
  const std::string ca = Text("ca.crt");
  Write("heraldd.key", http::MakeTestCertificate({}).key);
  const KeyPair pair = Make(now_);
  const std::vector<http::X509Ptr> chain = http::ReadCertificates(pair.certificate);
  EXPECT_EQ(X509_check_private_key(chain.front().get(), http::ReadPrivateKey(pair.key).get()), 1);
  EXPECT_EQ(Text("ca.crt"), ca);
}

TEST_F(CertificatesTest, ServesTheOldCertificateIfTheKeyOfTheCaIsMissing) {
  const KeyPair pair = Make(now_);
  std::filesystem::remove(Path("ca.key"));
  EXPECT_EQ(Make(now_ + hours(24 * 360)).certificate, pair.certificate);
  std::filesystem::remove(Path("heraldd.key"));
  const Result<KeyPair> none = ReadOrMakeKeyPair(folder_, now_);
  ASSERT_FALSE(none.has_value());
  EXPECT_NE(none.error().message().find("ca.key"), std::string::npos) << none.error().message();
}

TEST_F(CertificatesTest, WritesPrivateKeyFilesAndRejectsAReadableOne) {
  Make(now_);
  for (const char* key : {"heraldd.key", "ca.key"}) EXPECT_EQ(Mode(Path(key)), 0600U) << key;
  ASSERT_EQ(chmod(Path("heraldd.key").c_str(), 0644), 0);
  const Result<KeyPair> pair = ReadOrMakeKeyPair(folder_, now_);
  ASSERT_FALSE(pair.has_value());
  EXPECT_EQ(pair.error().message(),
            Path("heraldd.key") + " has mode 0644, so every user on this machine can read it; " +
                "run: chmod o-rwx " + Path("heraldd.key"));
}

TEST_F(CertificatesTest, RejectsPrivateFilesThatOthersCanReadOrWrite) {
  Write("x", "secret");
  EXPECT_EQ(*ReadPrivateFile(Path("x")), "secret");
  for (const mode_t mode : {0640U, 0660U, 0400U}) {
    ASSERT_EQ(chmod(Path("x").c_str(), mode), 0);
    EXPECT_TRUE(ReadPrivateFile(Path("x")).has_value()) << mode;
  }
  for (const mode_t mode : {0604U, 0666U, 0602U}) {
    ASSERT_EQ(chmod(Path("x").c_str(), mode), 0);
    EXPECT_FALSE(ReadPrivateFile(Path("x")).has_value()) << mode;
  }
}

TEST_F(CertificatesTest, FindsTheTrustAnchorsOfAChain) {
  const KeyPair pair = Make(now_);
  EXPECT_EQ(TrustAnchors(pair.certificate), Text("ca.crt"));
  const http::TestCertificate self_signed = http::MakeTestCertificate({});
  EXPECT_EQ(TrustAnchors(self_signed.certificate), self_signed.certificate);
  const http::TestCertificate ca = http::MakeTestCertificate({.authority = true});
  const http::TestCertificate leaf = http::MakeTestCertificate({}, &ca);
  EXPECT_EQ(TrustAnchors(leaf.certificate), "");
  EXPECT_EQ(TrustAnchors(leaf.certificate + ca.certificate), ca.certificate);
  EXPECT_EQ(TrustAnchors("nonsense"), "");
}

TEST_F(CertificatesTest, FindsTheNamesInACertificate) {
  const std::string one = http::MakeTestCertificate({.names = "DNS:*.a.b,DNS:a.b"}).certificate;
  EXPECT_EQ(FirstDnsName(one), "a.b");
  EXPECT_TRUE(IsCertificateFor(one, "x.a.b"));
  EXPECT_FALSE(IsCertificateFor(one, "127.0.0.1"));
  const std::string other = http::MakeTestCertificate({.names = "IP:127.0.0.1"}).certificate;
  EXPECT_EQ(FirstDnsName(other), "");
  EXPECT_TRUE(IsCertificateFor(other, "127.0.0.1"));
}

TEST_F(CertificatesTest, ReportsTheNameOfAMissingFile) {
  EXPECT_NE(ReadKeyPair("/nowhere/a", "/nowhere/b").error().message().find("/nowhere/b"),
            std::string::npos);
  EXPECT_NE(ReadFile("/nowhere/a").error().message().find("/nowhere/a"), std::string::npos);
  EXPECT_FALSE(ReadOrMakeKeyPair("/proc/nowhere", now_).has_value());
}

TEST_F(CertificatesTest, ReplacesFilesAtomically) {
  Write("x", "one");
  Write("x", "");
  EXPECT_EQ(Text("x"), "");
  Write("x", "two");
  EXPECT_EQ(Text("x"), "two");
  EXPECT_FALSE(std::filesystem::exists(Path("x.tmp")));
}

}  // namespace
}  // namespace herald::server
