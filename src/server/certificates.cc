#include "server/certificates.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "http/openssl.h"
#include "http/url.h"

namespace herald::server {
namespace {

// Browsers and Go refuse leaf certificates that live much longer.
constexpr long kValidSeconds = 365L * 24 * 3600;
// Clocks of clients may be a little behind ours.
constexpr long kBackdateSeconds = 3600;

Status OpenSslError(std::string_view what) {
  return Status(StatusReason::kInternalError,
                fmt::format("{}: {}", what, http::TakeOpensslError()));
}

Status FileError(std::string_view what, const std::string& file) {
  return Status(StatusReason::kBadRequest,
                fmt::format("cannot {} {}: {}", what, file, std::strerror(errno)));
}

}  // namespace

Status WritePrivateFile(const std::string& file, std::string_view text) {
  const std::string temporary = file + ".tmp";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return FileError("create", temporary);
  Status status;
  while (!text.empty() && status.ok()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) status = FileError("write", temporary);
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (status.ok() && fsync(fd) != 0) status = FileError("write", temporary);
  close(fd);
  if (status.ok() && rename(temporary.c_str(), file.c_str()) != 0)
    status = FileError("create", file);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

Result<KeyPair> ReadKeyPair(const std::string& certificate_file, const std::string& key_file) {
  struct stat info{};
  if (stat(key_file.c_str(), &info) != 0) return FileError("read", key_file);
  if ((info.st_mode & S_IROTH) != 0)
    return Status(StatusReason::kBadRequest,
                  fmt::format("{} can be read by everybody on this machine; type: chmod o-rwx {}",
                              key_file, key_file));
  Result<std::string> certificate = ReadFile(certificate_file);
  if (!certificate) return certificate.error();
  Result<std::string> key = ReadFile(key_file);
  if (!key) return key.error();
  return KeyPair{*std::move(certificate), *std::move(key)};
}

Result<KeyPair> MakeSelfSigned(const std::vector<std::string>& names, WallTime now) {
  const http::KeyPtr key(EVP_EC_gen("P-256"));
  const http::X509Ptr certificate(X509_new());
  if (!key || !certificate) return OpenSslError("cannot make a key");
  std::string alternatives;
  for (const std::string& name : names)
    alternatives += fmt::format("{}{}:{}", alternatives.empty() ? "" : ",",
                                http::IsAddress(name) ? "IP" : "DNS", name);

  X509* const x = certificate.get();
  std::array<unsigned char, 16> serial;
  RAND_bytes(serial.data(), serial.size());
  serial[0] &= 0x7f;  // positive
  const http::OpensslPtr<BIGNUM, BN_free> number(BN_bin2bn(serial.data(), serial.size(), nullptr));
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  X509_NAME* const subject = X509_get_subject_name(x);
  const auto* common_name = reinterpret_cast<const unsigned char*>("heraldd");
  const bool made =
      X509_set_version(x, X509_VERSION_3) == 1 &&
      BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(x)) != nullptr &&
      ASN1_TIME_set(X509_getm_notBefore(x), seconds - kBackdateSeconds) != nullptr &&
      ASN1_TIME_set(X509_getm_notAfter(x), seconds + kValidSeconds) != nullptr &&
      X509_set_pubkey(x, key.get()) == 1 &&
      X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, common_name, -1, -1, 0) == 1 &&
      X509_set_issuer_name(x, subject) == 1 &&
      http::AddExtension(x, NID_basic_constraints, "critical,CA:TRUE") &&
      http::AddExtension(x, NID_key_usage, "critical,digitalSignature,keyCertSign") &&
      http::AddExtension(x, NID_ext_key_usage, "serverAuth") &&
      http::AddExtension(x, NID_subject_alt_name, alternatives) &&
      http::AddExtension(x, NID_subject_key_identifier, "hash") &&
      X509_sign(x, key.get(), EVP_sha256()) > 0;
  if (!made) return OpenSslError("cannot make a certificate");

  KeyPair pair{http::CertificateText(x), http::PrivateKeyText(key.get())};
  if (pair.certificate.empty() || pair.key.empty())
    return OpenSslError("cannot write a certificate");
  return pair;
}

Result<KeyPair> ReadOrMakeKeyPair(const std::string& folder, WallTime now) {
  const std::string certificate_file = folder + "/heraldd.crt";
  const std::string key_file = folder + "/heraldd.key";
  std::error_code error;
  if (std::filesystem::exists(certificate_file, error) && std::filesystem::exists(key_file, error))
    return ReadKeyPair(certificate_file, key_file);

  std::filesystem::create_directories(folder, error);
  if (error)
    return Status(StatusReason::kBadRequest,
                  fmt::format("cannot create the folder {}: {}", folder, error.message()));
  std::vector<std::string> names = {"localhost", "127.0.0.1", "::1"};
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) == 0 && host[0] != '\0' &&
      std::string_view(host.data()) != "localhost")
    names.emplace_back(host.data());
  Result<KeyPair> pair = MakeSelfSigned(names, now);
  if (!pair) return pair;
  if (Status status = WritePrivateFile(key_file, pair->key); !status.ok()) return status;
  if (Status status = WritePrivateFile(certificate_file, pair->certificate); !status.ok())
    return status;
  return pair;
}

}  // namespace herald::server
