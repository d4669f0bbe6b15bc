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

#include "base/copy_bytes.h"

namespace herald {

// An EventKey stands for what two events must have in common to be "the same": 128
// bits of a hash instead of some 200 bytes of text, which is why a full cache of a
// correlator is small and why a lookup compares two words.
//
// Equal keys mean equal texts. By chance two texts share a key once in 2^64 texts or
// so; on purpose nobody can find two, because the hash is keyed with a secret.
struct EventKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  auto operator<=>(const EventKey&) const = default;

  static constexpr std::size_t kBytes = 16;

  // The bytes, for whoever has to carry a key about without knowing what it is.
  std::string ToBytes() const;
  static std::optional<EventKey> FromBytes(std::string_view bytes);
};

// The key is a hash already.
struct EventKeyHash {
  std::size_t operator()(const EventKey& key) const noexcept {
    return static_cast<std::size_t>(key.low);
  }
};

// The secret of SipHash.
using SipSecret = std::array<std::uint64_t, 2>;

// SipHash with 128 bits of output (Aumasson and Bernstein, 2012): the 1-3 variant, which
// hash tables of other languages trust as well, and the slower 2-4, which its authors
// publish test vectors for.
EventKey SipHash13(std::string_view text, const SipSecret& secret);
EventKey SipHash24(std::string_view text, const SipSecret& secret);

// A KeyHash makes keys of texts with a secret of its own. Short ones, and nearly all are,
// go through NH, the hash that UMAC is built on (Black, Halevi, Krawczyk, Krovetz and
// Rogaway, 1999): a sum of products of words, each with a secret added,
//
//   (w0 + s0) * (w1 + s1)  +  (w2 + s2) * (w3 + s3)  +  ...      modulo 2^128
//
// whose terms a processor computes side by side. Two texts meet with a probability of 2^-63
// whatever they are, as long as nobody is told the sums. It needs a word of secret for
// each word of text; so longer texts go through SipHash.
//
// Immutable, hence thread-safe.
class KeyHash {
 public:
  static constexpr std::size_t kMaxShortBytes = 1024;
  // What must be readable behind a text, and is zeroed there.
  static constexpr std::size_t kPadding = 16;

  KeyHash();

  // The first `size` bytes of `text`, which has kPadding bytes more.
  EventKey Of(char* text, std::size_t size) const;

 private:
  struct Secrets {
    SipSecret sip;
    std::array<std::uint64_t, 2> length;
    std::array<std::uint64_t, kMaxShortBytes / 8> words;
  };
  Secrets secrets_;
};

// An EventKeyBuilder collects the parts of a key in a buffer that is used over and
// over, and hashes them at once.
//
// client-go joins the parts of its keys without anything between them, so that
// component "ab" on host "c" is the same as "a" on "bc", and one of the two events is
// lost (tools/record/events_cache.go). Here each part carries its length, unless
// upstream's behaviour is asked for.
//
// Thread-confined.
class EventKeyBuilder {
 public:
  explicit EventKeyBuilder(bool join_like_upstream) : join_like_upstream_(join_like_upstream) {}

  // Starts anew. Keys of different `kind`s never meet, except under upstream's rule.
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
  // A key as a part of another: what it stands for.
  EventKeyBuilder& Add(const EventKey& key) {
    Ensure(EventKey::kBytes);
    std::memcpy(&buffer_[used_], &key.low, sizeof(key.low));
    std::memcpy(&buffer_[used_ + sizeof(key.low)], &key.high, sizeof(key.high));
    used_ += EventKey::kBytes;
    return *this;
  }

  EventKey Finish() { return hash_.Of(buffer_.data(), used_); }

  // A key of one part alone, without its kind and length: to be compared only with its like.
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

  // One byte will do for most; nine for the rest.
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
  // Room for most keys; what is used of it, is used_.
  std::vector<char> buffer_ = std::vector<char>(512);
  std::size_t used_ = 0;
};

}  // namespace herald
