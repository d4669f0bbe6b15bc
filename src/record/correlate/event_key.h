#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes/copy_bytes.h"

namespace herald {

// An EventKey identifies what two events must have in common to be the same. It is a hash of 128
// bits instead of a string of about 200 bytes, so a full cache of a correlator is small and a
// lookup compares two words.
//
// Equal keys mean equal strings. By chance, two of 2^64 strings have the same key. Nobody can
// construct two such strings, because the hash is keyed with a secret.
struct EventKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  auto operator<=>(const EventKey&) const = default;

  static constexpr std::size_t kBytes = 16;

  // The key as bytes, for code that stores it without knowing its type.
  std::string ToBytes() const;
  static std::optional<EventKey> FromBytes(std::string_view bytes);
};

// An EventKey is a hash already.
struct EventKeyHash {
  std::size_t operator()(const EventKey& key) const noexcept {
    return static_cast<std::size_t>(key.low);
  }
};

// The key of SipHash.
using SipSecret = std::array<std::uint64_t, 2>;

// SipHash with 128 bits of output (Aumasson and Bernstein, 2012): the 1-3 variant, which hash
// tables of other languages use as well, and the slower 2-4 variant, for which its authors
// published test vectors.
EventKey SipHash13(std::string_view text, const SipSecret& secret);
EventKey SipHash24(std::string_view text, const SipSecret& secret);

// A KeyHash hashes strings to keys, with a secret of its own. Short strings, which nearly all are,
// are hashed with NH, the hash of UMAC (Black, Halevi, Krawczyk, Krovetz and Rogaway, 1999): a sum
// of products of words, each with a secret added,
//
//   (w0 + s0) * (w1 + s1)  +  (w2 + s2) * (w3 + s3)  +  ...      modulo 2^128
//
// whose terms a processor computes in parallel. Any two strings collide with a probability of
// 2^-63, as long as the sums are not published. NH needs a word of secret for each word of the
// string, so longer strings are hashed with SipHash.
//
// Immutable, hence thread-safe.
class KeyHash {
 public:
  static constexpr std::size_t kMaxShortBytes = 1024;
  // The number of bytes after a string that must be readable. They are set to zero.
  static constexpr std::size_t kPadding = 16;

  KeyHash();

  // Hashes the first `size` bytes of `text`, which is followed by kPadding bytes.
  EventKey Of(char* text, std::size_t size) const;

 private:
  struct Secrets {
    SipSecret sip;
    std::array<std::uint64_t, 2> length;
    std::array<std::uint64_t, kMaxShortBytes / 8> words;
  };
  Secrets secrets_;
};

// An EventKeyBuilder collects the parts of a key in a buffer, which it uses again for the next key,
// and hashes them together.
//
// client-go concatenates the parts of its keys without a separator, so component "ab" on host "c"
// is the same as "a" on "bc", and one of the two events is lost (tools/record/events_cache.go).
// Here each part is preceded by its length, unless client-go's behaviour is requested.
//
// Thread-confined.
class EventKeyBuilder {
 public:
  explicit EventKeyBuilder(bool join_like_upstream) : join_like_upstream_(join_like_upstream) {}

  // Starts a new key. Keys of different kinds are different, unless client-go's behaviour is
  // requested.
  EventKeyBuilder& Start(char kind) {
    used_ = 0;
    if (!join_like_upstream_) buffer_[used_++] = kind;
    return *this;
  }

  EventKeyBuilder& Add(std::string_view part) {
    Ensure(kMaxLengthBytes + part.size());
    if (!join_like_upstream_) AddLength(part.size());
    Append(part);
    return *this;
  }
  // Adds a key as a part of another one.
  EventKeyBuilder& Add(const EventKey& key) {
    Ensure(EventKey::kBytes);
    std::memcpy(&buffer_[used_], &key.low, sizeof(key.low));
    std::memcpy(&buffer_[used_ + sizeof(key.low)], &key.high, sizeof(key.high));
    used_ += EventKey::kBytes;
    return *this;
  }

  EventKey Finish() { return hash_.Of(buffer_.data(), used_); }

  // A key of one part, without kind and length. It may be compared only with keys from Of().
  EventKey Of(std::string_view text) {
    used_ = 0;
    Ensure(text.size());
    Append(text);
    return Finish();
  }

 private:
  static constexpr std::size_t kMaxLengthBytes = 9;

  void Ensure(std::size_t bytes) {
    bytes += KeyHash::kPadding;
    if (buffer_.size() - used_ < bytes) buffer_.resize(2 * (used_ + bytes));
  }

  // REQUIRES: Ensure() made room
  void Append(std::string_view text) {
    CopyBytes(text.data(), text.size(), &buffer_[used_]);
    used_ += text.size();
  }

  // One byte for most lengths, nine for the others.
  void AddLength(std::size_t length) {
    constexpr std::size_t kLong = 0xff;
    if (length < kLong) {
      buffer_[used_++] = static_cast<char>(length);
      return;
    }
    buffer_[used_++] = static_cast<char>(kLong);
    for (std::size_t i = 0; i < 8; ++i) buffer_[used_++] = static_cast<char>(length >> (8 * i));
  }

  const KeyHash hash_;
  const bool join_like_upstream_;
  // Large enough for most keys; used_ bytes are in use.
  std::vector<char> buffer_ = std::vector<char>(512);
  std::size_t used_ = 0;
};

}  // namespace herald
