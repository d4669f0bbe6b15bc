#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "herald/base/clock.h"
#include "herald/base/status.h"

namespace herald::server {

// A certificate and its key (PEM).
struct KeyPair {
  std::string certificate{};  // chain, leaf first
  std::string key{};
};

// Reads a certificate and, with ReadPrivateFile(), its key. An error names the file that is missing
// or invalid.
Result<KeyPair> ReadKeyPair(const std::string& certificate_file, const std::string& key_file);

// Creates a certificate authority that is valid for ten years from `now`. Its certificate can sign
// other certificates and cannot be used by a server.
Result<KeyPair> MakeCertificateAuthority(WallTime now);

// Creates a key and a server certificate for DNS names and IP addresses, signed by `ca`. It is
// valid for a year from `now`, or until the CA expires. The chain ends with the CA's certificate.
Result<KeyPair> MakeServerCertificate(const KeyPair& ca, const std::vector<std::string>& names,
                                      WallTime now);

// Returns the certificate in a directory (--cert-dir) with these files:
//
//   ca.crt, ca.key            the CA: clients trust ca.crt
//   heraldd.crt, heraldd.key  the server's, signed by that CA, with the CA's certificate appended
//
// Missing files are created, for localhost and the host name of this machine. If the server
// certificate expires within 30 days, it is replaced by another one of the same CA, which clients
// trust already. A self-signed certificate of an older version of heraldd is replaced, too. Any
// other heraldd.crt and heraldd.key are the operator's, and are used unchanged.
Result<KeyPair> ReadOrMakeKeyPair(const std::string& directory, WallTime now);

// The certificates (PEM) that clients of a server with this chain must trust: all but the first, or
// the only one if it is self-signed. Empty if the chain does not contain its CA; clients must then
// have the CA from elsewhere.
std::string TrustAnchors(std::string_view chain);

// Whether the chain's first certificate is for that IP address or DNS name.
bool IsCertificateFor(std::string_view chain, const std::string& name);
// The first DNS name in the chain's first certificate that is not a wildcard; empty if it has none.
std::string FirstDnsName(std::string_view chain);

// Reads a file with a secret: a key, tokens or a password. Fails if users other than its owner and
// group can read or write it. The error names the mode of the file and the command to run.
Result<std::string> ReadPrivateFile(const std::string& file);

// Replaces a file atomically by one that only its owner can read.
Status WritePrivateFile(const std::string& file, std::string_view text);

}  // namespace herald::server
