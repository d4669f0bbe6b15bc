#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

// Golden vectors are what the real Kubernetes libraries did with a given input
// (test/interop says how they are made). They are read with another JSON library
// than ours, so that a fault in ours cannot hide itself.
namespace herald::testing {

using Vector = nlohmann::json;

// The vectors of test/testdata/golden/<file>. Throws, and so fails the test, if
// the file is missing or holds none.
std::vector<Vector> LoadGolden(std::string_view file);

bool HasBytes(const Vector& vector, const std::string& key);

// The byte string under `key`, however it is stored: as text, as base64
// (`key`_b64) or as a recipe for something large (`key`_recipe).
std::string Bytes(const Vector& vector, const std::string& key);

// Whether `actual` is the byte string under `key`, or has the length and the hash
// that are given in its place (`key`_digest).
bool BytesMatch(const Vector& vector, const std::string& key, std::string_view actual);

}  // namespace herald::testing
