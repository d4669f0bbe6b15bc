#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

// Golden vectors are inputs and the results of the real Kubernetes libraries (test/interop
// documents how they are created). They are read with another JSON library, so that a bug in ours
// cannot hide itself.
namespace herald::testing {

using Vector = nlohmann::json;

// The vectors of test/testdata/golden/<file>. Throws, which fails the test, if the file is missing
// or empty.
std::vector<Vector> LoadGolden(std::string_view file);

bool HasBytes(const Vector& vector, const std::string& key);

// The byte string of `key`, which is stored as a string, as base64 (`key`_b64) or, if it is large,
// as a recipe (`key`_recipe).
std::string Bytes(const Vector& vector, const std::string& key);

// Whether `actual` equals the byte string of `key`, or has the length and the hash that are stored
// instead (`key`_digest).
bool BytesMatch(const Vector& vector, const std::string& key, std::string_view actual);

}  // namespace herald::testing
