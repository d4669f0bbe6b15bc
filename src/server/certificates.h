#pragma once

#include <string>
#include <vector>

#include "herald/base/clock.h"
#include "herald/base/status.h"

namespace herald::server {

// A certificate and its key, as PEM texts.
struct KeyPair {
  std::string certificate{};  // chain, leaf first
  std::string key{};
};

// Reads both files. A key that everybody on the machine can read is refused: whoever
// has it can pose as this server.
Result<KeyPair> ReadKeyPair(const std::string& certificate_file, const std::string& key_file);

// A new key and a certificate for these names and addresses, signed by itself and so good as
// its own CA, valid for a year from `now`.
Result<KeyPair> MakeSelfSigned(const std::vector<std::string>& names, WallTime now);

// heraldd.crt and heraldd.key in a folder, made where they are missing, with the names
// that this machine answers to.
Result<KeyPair> ReadOrMakeKeyPair(const std::string& folder, WallTime now);

// Writes a file that only its owner can read, by way of another name, so that nobody
// ever sees half of it.
Status WritePrivateFile(const std::string& file, std::string_view text);

}  // namespace herald::server
