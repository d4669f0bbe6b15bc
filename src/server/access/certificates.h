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

// Reads both files; the key with ReadPrivateFile(). An error names the file that is missing or
// wrong.
Result<KeyPair> ReadKeyPair(const std::string& certificate_file, const std::string& key_file);

// A new certificate authority, valid for ten years from `now`. Its certificate may sign others
// and cannot be used by a server.
Result<KeyPair> MakeCertificateAuthority(WallTime now);

// A new key and a server certificate for these DNS names and IP addresses, signed by `ca` and
// valid for a year from `now`, or until the CA expires. The chain ends with the CA's certificate.
Result<KeyPair> MakeServerCertificate(const KeyPair& ca, const std::vector<std::string>& names,
                                      WallTime now);

// The certificate of a server that has a folder for it instead of being given one:
//
//   ca.crt, ca.key            the CA: clients trust ca.crt
//   heraldd.crt, heraldd.key  the server's, signed by that CA, with the CA's certificate appended
//
// What is missing is created, for the names that this machine answers to. The server certificate
// is replaced by one of the same CA when it expires within 30 days, so clients notice nothing. A
// self-signed certificate of a version without a CA is replaced, too. Any other heraldd.crt and
// heraldd.key were put there by an operator, and are used as they are.
Result<KeyPair> ReadOrMakeKeyPair(const std::string& folder, WallTime now);

// The certificates (PEM) that clients of a server with this chain must trust: those that follow
// the server's own, or that one where it is alone and self-signed. Empty where the chain does not
// contain its CA: then clients need the CA from elsewhere, or have it already.
std::string TrustAnchors(std::string_view chain);

// Whether the chain's first certificate names that address or DNS name.
bool IsCertificateFor(std::string_view chain, const std::string& name);
// The first DNS name in the chain's first certificate; empty where it has none.
std::string FirstDnsName(std::string_view chain);

// Reads a file that only its owner and group may read: a key, tokens or a password. One that
// everybody on the machine can read is an error that names its mode and the command to run.
Result<std::string> ReadPrivateFile(const std::string& file);

// Writes a file that only its owner can read. It is written under another name and then renamed,
// so that a reader never sees a part of it.
Status WritePrivateFile(const std::string& file, std::string_view text);

}  // namespace herald::server
