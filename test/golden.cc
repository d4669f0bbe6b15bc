#include "test/golden.h"

#include <array>
#include <fstream>
#include <stdexcept>

namespace herald::testing {
namespace {

std::string DecodeBase64(std::string_view text) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    if (c == '=') break;
    const std::size_t digit = kAlphabet.find(c);
    if (digit == std::string_view::npos) throw std::runtime_error("bad base64 in a golden file");
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>(bits >> count));
    }
  }
  return out;
}

std::string Cook(const Vector& recipe) {
  std::string out;
  for (const Vector& piece : recipe) {
    std::string unit;
    if (piece.contains("text")) unit = piece["text"].get<std::string>();
    if (piece.contains("repeat")) unit = piece["repeat"].get<std::string>();
    if (piece.contains("b64")) unit = DecodeBase64(piece["b64"].get<std::string>());
    const std::size_t times = piece.value("times", std::size_t{1});
    for (std::size_t i = 0; i < times; ++i) out += unit;
  }
  return out;
}

std::string Fnv1a64(std::string_view data) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : data) hash = (hash ^ c) * 0x100000001b3;
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

}  // namespace

std::vector<Vector> LoadGolden(std::string_view file) {
  const std::string path = std::string(HERALD_TESTDATA_DIR "/golden/").append(file);
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  const Vector document = Vector::parse(in);
  auto vectors = document.at("vectors").get<std::vector<Vector>>();
  if (vectors.empty()) throw std::runtime_error("no vectors in " + path);
  return vectors;
}

bool HasBytes(const Vector& vector, const std::string& key) {
  return vector.contains(key) || vector.contains(key + "_b64") ||
         vector.contains(key + "_recipe") || vector.contains(key + "_digest");
}

std::string Bytes(const Vector& vector, const std::string& key) {
  if (vector.contains(key)) return vector[key].get<std::string>();
  if (vector.contains(key + "_b64")) return DecodeBase64(vector[key + "_b64"].get<std::string>());
  return Cook(vector.at(key + "_recipe"));
}

bool BytesMatch(const Vector& vector, const std::string& key, std::string_view actual) {
  if (!vector.contains(key + "_digest")) return Bytes(vector, key) == actual;
  const Vector& digest = vector[key + "_digest"];
  return digest.at("len").get<std::size_t>() == actual.size() &&
         digest.at("fnv1a64").get<std::string>() == Fnv1a64(actual);
}

}  // namespace herald::testing
