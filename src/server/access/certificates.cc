#include "server/access/certificates.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "http/tls/openssl.h"
#include "http/url.h"

namespace herald::server {
namespace {

constexpr long kDay = 24L * 3600;
// The same as kubeadm's. The CA's certificate is installed on clients, so it must outlive many leaf
// certificates. Browsers and Go reject leaf certificates that are valid for much longer than a
// year.
constexpr long kCaValidSeconds = 3650 * kDay;
constexpr long kLeafValidSeconds = 365 * kDay;
// How long before it expires a certificate is replaced.
constexpr long kRenewSeconds = 30 * kDay;
// Certificates are valid from one hour ago, because clocks of clients may be behind.
constexpr long kBackdateSeconds = 3600;

constexpr std::string_view kLeafName = "heraldd";

Status OpenSslError(std::string_view what) {
  return Status(StatusReason::kInternalError,
                fmt::format("{}: {}", what, http::TakeOpensslError()));
}

Status FileError(std::string_view what, const std::string& file) {
  return Status(StatusReason::kBadRequest,
                fmt::format("cannot {} {}: {}", what, file, std::strerror(errno)));
}

long UnixSeconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

// Whether the certificate has not expired `seconds` after `now`.
bool IsValidAfter(const X509* certificate, WallTime now, long seconds) {
  time_t then = UnixSeconds(now) + seconds;
  return X509_cmp_time(X509_get0_notAfter(certificate), &then) > 0;
}

bool SetCommonName(X509_NAME* name, std::string_view common_name) {
  return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(common_name.data()),
                                    static_cast<int>(common_name.size()), -1, 0) == 1;
}

std::string CommonName(const X509* certificate) {
  std::array<char, 256> name{};
  const int size = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                             name.data(), name.size());
  return size > 0 ? std::string(name.data(), static_cast<std::size_t>(size)) : std::string();
}

// Whether it is signed with its own key. X509_self_signed() also checks the key usage.
bool IsSelfSigned(X509* certificate) {
  const bool is =
      X509_NAME_cmp(X509_get_subject_name(certificate), X509_get_issuer_name(certificate)) == 0 &&
      X509_verify(certificate, X509_get0_pubkey(certificate)) == 1;
  (void)http::TakeOpensslError();
  return is;
}

// A certificate with a random serial number, a key and a validity, but without issuer, extensions
// and signature. Null if OpenSSL fails.
http::X509Ptr NewCertificate(EVP_PKEY* key, std::string_view common_name, WallTime now,
                             long valid_seconds) {
  http::X509Ptr certificate(X509_new());
  std::array<unsigned char, 16> serial;
  if (!certificate || RAND_bytes(serial.data(), serial.size()) != 1) return nullptr;
  serial[0] &= 0x7f;  // positive
  const http::OpensslPtr<BIGNUM, BN_free> number(BN_bin2bn(serial.data(), serial.size(), nullptr));
  X509* const x = certificate.get();
  const long seconds = UnixSeconds(now);
  const bool made = number != nullptr && X509_set_version(x, X509_VERSION_3) == 1 &&
                    BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(x)) != nullptr &&
                    ASN1_TIME_set(X509_getm_notBefore(x), seconds - kBackdateSeconds) != nullptr &&
                    ASN1_TIME_set(X509_getm_notAfter(x), seconds + valid_seconds) != nullptr &&
                    X509_set_pubkey(x, key) == 1 &&
                    SetCommonName(X509_get_subject_name(x), common_name);
  return made ? std::move(certificate) : nullptr;
}

Result<KeyPair> Encode(const X509* certificate, const EVP_PKEY* key) {
  KeyPair pair{http::CertificatePem(certificate), http::PrivateKeyPem(key)};
  if (pair.certificate.empty() || pair.key.empty())
    return OpenSslError("cannot encode a certificate");
  return pair;
}

// Host names may contain any character, but verifiers such as rustls reject a certificate with a
// name that is not a valid DNS name.
bool IsDnsName(std::string_view name) {
  return !name.empty() && name.size() <= 253 &&
         std::all_of(name.begin(), name.end(),
                     [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '-' || c == '.';
                     }) &&
         name.front() != '-' && name.front() != '.' && name.back() != '-' && name.back() != '.';
}

std::vector<std::string> LocalNames() {
  std::vector<std::string> names = {"localhost", "kubernetes", "127.0.0.1", "::1"};
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) return names;
  const std::string name(host.data());
  if (std::find(names.begin(), names.end(), name) == names.end() &&
      (http::IsAddress(name) || IsDnsName(name)))
    names.push_back(name);
  return names;
}

bool Exists(const std::string& file) {
  std::error_code error;
  return std::filesystem::exists(file, error);
}

// Writes a temporary file and renames it, so that readers never see a partial file.
Status WriteAtomically(const std::string& file, std::string_view text, mode_t mode) {
  const std::string temporary = file + ".tmp";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
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

Status WriteKeyPair(const KeyPair& pair, const std::string& certificate_file,
                    const std::string& key_file) {
  // The key is written first. After a crash between the two writes they do not match, and the next
  // start creates both again.
  if (Status status = WriteAtomically(key_file, pair.key, 0600); !status.ok()) return status;
  return WriteAtomically(certificate_file, pair.certificate, 0644);
}

// A certificate and its key as read from files, which may be invalid.
struct StoredKeyPair {
  KeyPair pair{};
  http::X509Ptr certificate{};  // the first of the chain; null if it is invalid
  bool has_key = false;         // the key is valid
  bool matches = false;         // the key belongs to the certificate
};

Result<StoredKeyPair> ReadStoredKeyPair(const std::string& certificate_file,
                                        const std::string& key_file) {
  Result<std::string> key_text = ReadPrivateFile(key_file);
  if (!key_text) return key_text.error();
  Result<std::string> chain_text = ReadFile(certificate_file);
  if (!chain_text) return chain_text.error();
  StoredKeyPair found{.pair = {*std::move(chain_text), *std::move(key_text)}};
  std::vector<http::X509Ptr> chain = http::ReadCertificates(found.pair.certificate);
  if (!chain.empty()) found.certificate = std::move(chain.front());
  const http::KeyPtr key = http::ReadPrivateKey(found.pair.key);
  found.has_key = key != nullptr;
  found.matches =
      found.certificate && key && X509_check_private_key(found.certificate.get(), key.get()) == 1;
  (void)http::TakeOpensslError();
  return found;
}

// Returns the CA in the directory. Creates one if there is none or if it expires soon.
Result<KeyPair> ReadOrMakeCa(const std::string& directory, WallTime now) {
  const std::string certificate_file = directory + "/ca.crt";
  const std::string key_file = directory + "/ca.key";
  if (Exists(certificate_file)) {
    if (!Exists(key_file))
      return Status(StatusReason::kBadRequest,
                    fmt::format("cannot sign a new {0}/heraldd.crt: {1} is missing; restore it, or "
                                "delete {2} to create a new CA",
                                directory, key_file, certificate_file));
    Result<StoredKeyPair> found = ReadStoredKeyPair(certificate_file, key_file);
    if (!found) return found.error();
    if (found->matches && IsValidAfter(found->certificate.get(), now, kRenewSeconds))
      return std::move(found->pair);
  }
  Result<KeyPair> ca = MakeCertificateAuthority(now);
  if (!ca) return ca;
  if (Status status = WriteKeyPair(*ca, certificate_file, key_file); !status.ok()) return status;
  return ca;
}

// Whether an existing heraldd.crt can be used unchanged.
bool IsUsable(const StoredKeyPair& found, const std::string& directory, WallTime now) {
  X509* const certificate = found.certificate.get();
  if (certificate == nullptr) return true;  // ReadKeyPair() reports the error
  // A version without a CA created it: it is a CA itself, which rustls rejects.
  if (CommonName(certificate) == kLeafName && IsSelfSigned(certificate) &&
      X509_check_ca(certificate) == 1)
    return false;
  const Result<std::string> ca_text = ReadFile(directory + "/ca.crt");
  if (!ca_text) return true;
  const std::vector<http::X509Ptr> ca = http::ReadCertificates(*ca_text);
  const bool ours =
      !ca.empty() && X509_verify(certificate, X509_get0_pubkey(ca.front().get())) == 1;
  (void)http::TakeOpensslError();
  if (!ours) return true;
  if (found.matches && IsValidAfter(certificate, now, kRenewSeconds)) return true;
  // An operator who keeps the CA's key elsewhere renews the certificate, too.
  return found.matches && !Exists(directory + "/ca.key");
}

}  // namespace

Result<std::string> ReadPrivateFile(const std::string& file) {
  struct stat info{};
  if (stat(file.c_str(), &info) != 0) return FileError("read", file);
  if ((info.st_mode & (S_IROTH | S_IWOTH)) != 0)
    return Status(StatusReason::kBadRequest,
                  fmt::format("{} has mode {:04o}, so every user on this machine can {} it; run: "
                              "chmod o-rwx {}",
                              file, info.st_mode & 07777,
                              (info.st_mode & S_IROTH) != 0 ? "read" : "write", file));
  return ReadFile(file);
}

Status WritePrivateFile(const std::string& file, std::string_view text) {
  return WriteAtomically(file, text, 0600);
}

Result<KeyPair> ReadKeyPair(const std::string& certificate_file, const std::string& key_file) {
  Result<StoredKeyPair> found = ReadStoredKeyPair(certificate_file, key_file);
  if (!found) return found.error();
  const auto invalid = [](std::string why) {
    return Status(StatusReason::kBadRequest, std::move(why));
  };
  if (!found->certificate)
    return invalid(fmt::format("{} must contain a certificate in PEM form", certificate_file));
  if (!found->has_key)
    return invalid(
        fmt::format("{} must contain a private key in PEM form, without a passphrase", key_file));
  if (!found->matches)
    return invalid(
        fmt::format("{} is not the key of the certificate in {}", key_file, certificate_file));
  return std::move(found->pair);
}

Result<KeyPair> MakeCertificateAuthority(WallTime now) {
  const http::KeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return OpenSslError("cannot create a key");
  // The time distinguishes the CAs of different servers, as in the self-signed certificates of
  // kube-apiserver.
  const http::X509Ptr certificate = NewCertificate(
      key.get(), fmt::format("heraldd-ca@{}", UnixSeconds(now)), now, kCaValidSeconds);
  X509* const x = certificate.get();
  const bool made =
      x != nullptr && X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
      http::AddExtension(x, NID_basic_constraints, "critical,CA:TRUE") &&
      http::AddExtension(x, NID_key_usage, "critical,digitalSignature,keyCertSign,cRLSign") &&
      http::AddExtension(x, NID_subject_key_identifier, "hash") &&
      X509_sign(x, key.get(), EVP_sha256()) > 0;
  if (!made) return OpenSslError("cannot create a CA certificate");
  return Encode(x, key.get());
}

Result<KeyPair> MakeServerCertificate(const KeyPair& ca, const std::vector<std::string>& names,
                                      WallTime now) {
  const std::vector<http::X509Ptr> issuers = http::ReadCertificates(ca.certificate);
  const http::KeyPtr ca_key = http::ReadPrivateKey(ca.key);
  const http::KeyPtr key(EVP_EC_gen("P-256"));
  if (issuers.empty() || !ca_key || !key) return OpenSslError("cannot read the CA");
  X509* const issuer = issuers.front().get();
  std::string alternatives;
  for (const std::string& name : names)
    alternatives += fmt::format("{}{}:{}", alternatives.empty() ? "" : ",",
                                http::IsAddress(name) ? "IP" : "DNS", name);

  const http::X509Ptr certificate = NewCertificate(key.get(), kLeafName, now, kLeafValidSeconds);
  X509* const x = certificate.get();
  const bool outlives_ca = !IsValidAfter(issuer, now, kLeafValidSeconds);
  const bool made =
      x != nullptr && X509_set_issuer_name(x, X509_get_subject_name(issuer)) == 1 &&
      (!outlives_ca || X509_set1_notAfter(x, X509_get0_notAfter(issuer)) == 1) &&
      http::AddExtension(x, NID_basic_constraints, "critical,CA:FALSE") &&
      http::AddExtension(x, NID_key_usage, "critical,digitalSignature,keyEncipherment") &&
      http::AddExtension(x, NID_ext_key_usage, "serverAuth") &&
      http::AddExtension(x, NID_subject_key_identifier, "hash") &&
      http::AddExtension(x, NID_authority_key_identifier, "keyid:always", issuer) &&
      http::AddExtension(x, NID_subject_alt_name, alternatives) &&
      X509_sign(x, ca_key.get(), EVP_sha256()) > 0;
  if (!made) return OpenSslError("cannot create a certificate");
  Result<KeyPair> pair = Encode(x, key.get());
  if (pair) pair->certificate += ca.certificate;
  return pair;
}

Result<KeyPair> ReadOrMakeKeyPair(const std::string& directory, WallTime now) {
  const std::string certificate_file = directory + "/heraldd.crt";
  const std::string key_file = directory + "/heraldd.key";
  if (Exists(certificate_file) && Exists(key_file)) {
    Result<StoredKeyPair> found = ReadStoredKeyPair(certificate_file, key_file);
    if (!found) return found.error();
    if (IsUsable(*found, directory, now)) return ReadKeyPair(certificate_file, key_file);
  }
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    return Status(StatusReason::kBadRequest,
                  fmt::format("cannot create directory {}: {}", directory, error.message()));
  const Result<KeyPair> ca = ReadOrMakeCa(directory, now);
  if (!ca) return ca.error();
  Result<KeyPair> pair = MakeServerCertificate(*ca, LocalNames(), now);
  if (!pair) return pair;
  if (Status status = WriteKeyPair(*pair, certificate_file, key_file); !status.ok()) return status;
  return pair;
}

std::string TrustAnchors(std::string_view chain) {
  const std::vector<http::X509Ptr> certificates = http::ReadCertificates(chain);
  if (certificates.size() == 1 && IsSelfSigned(certificates.front().get()))
    return http::CertificatePem(certificates.front().get());
  std::string anchors;
  for (std::size_t i = 1; i < certificates.size(); ++i)
    anchors += http::CertificatePem(certificates[i].get());
  return anchors;
}

bool IsCertificateFor(std::string_view chain, const std::string& name) {
  const std::vector<http::X509Ptr> certificates = http::ReadCertificates(chain);
  if (certificates.empty()) return false;
  X509* const leaf = certificates.front().get();
  return http::IsAddress(name) ? X509_check_ip_asc(leaf, name.c_str(), 0) == 1
                               : X509_check_host(leaf, name.data(), name.size(), 0, nullptr) == 1;
}

std::string FirstDnsName(std::string_view chain) {
  const std::vector<http::X509Ptr> certificates = http::ReadCertificates(chain);
  if (certificates.empty()) return {};
  const http::OpensslPtr<GENERAL_NAMES, GENERAL_NAMES_free> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificates.front().get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS) continue;
    std::string text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                     static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
    // A client cannot request a wildcard.
    if (IsDnsName(text)) return text;
  }
  return {};
}

}  // namespace herald::server
