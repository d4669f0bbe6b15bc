#include "record/correlate/event_key.h"

#include <bit>
#include <cstring>

#include "base/bytes/random.h"

namespace herald {
namespace {

std::uint64_t ReadLittleEndian(const char* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}

// The state of SipHash, four words, and its round function.
struct SipState {
  std::uint64_t a, b, c, d;

  void Rounds(int n) {
    for (; n > 0; --n) {
      a += b;
      c += d;
      b = std::rotl(b, 13) ^ a;
      d = std::rotl(d, 16) ^ c;
      a = std::rotl(a, 32);
      c += b;
      a += d;
      b = std::rotl(b, 17) ^ c;
      d = std::rotl(d, 21) ^ a;
      c = std::rotl(c, 32);
    }
  }

  void Take(std::uint64_t word, int rounds) {
    d ^= word;
    Rounds(rounds);
    a ^= word;
  }

  std::uint64_t Fold() const { return a ^ b ^ c ^ d; }
};

// The numbers of rounds are constants, so that the compiler unrolls the loops.
template <int kCompression, int kFinalization>
EventKey Hash(std::string_view text, const SipSecret& secret) {
  SipState state{secret[0] ^ 0x736f6d6570736575, secret[1] ^ 0x646f72616e646f6d ^ 0xee,
                 secret[0] ^ 0x6c7967656e657261, secret[1] ^ 0x7465646279746573};
  const char* at = text.data();
  std::size_t left = text.size();
  for (; left >= 8; left -= 8, at += 8) state.Take(ReadLittleEndian(at), kCompression);
  // The rest is assembled in registers: memory that was just written in pieces is slow to read.
  std::uint64_t last = static_cast<std::uint64_t>(text.size()) << 56;
  for (std::size_t i = 0; i < left; ++i) {
    last |= static_cast<std::uint64_t>(static_cast<unsigned char>(at[i])) << (8 * i);
  }
  state.Take(last, kCompression);

  EventKey key;
  state.c ^= 0xee;
  state.Rounds(kFinalization);
  key.low = state.Fold();
  state.b ^= 0xdd;
  state.Rounds(kFinalization);
  key.high = state.Fold();
  return key;
}

}  // namespace

std::string EventKey::ToBytes() const {
  std::string bytes(kBytes, '\0');
  std::memcpy(bytes.data(), &low, sizeof(low));
  std::memcpy(bytes.data() + sizeof(low), &high, sizeof(high));
  return bytes;
}

std::optional<EventKey> EventKey::FromBytes(std::string_view bytes) {
  EventKey key;
  if (bytes.size() != kBytes) return std::nullopt;
  std::memcpy(&key.low, bytes.data(), sizeof(key.low));
  std::memcpy(&key.high, bytes.data() + sizeof(key.low), sizeof(key.high));
  return key;
}

KeyHash::KeyHash() { FillRandom(&secrets_, sizeof(secrets_)); }

EventKey KeyHash::Of(char* text, std::size_t size) const {
  if (size > kMaxShortBytes) return SipHash13({text, size}, secrets_.sip);
  __extension__ using Wide = unsigned __int128;
  const auto product = [](std::uint64_t a, std::uint64_t b) { return static_cast<Wide>(a) * b; };
  std::memset(text + size, 0, kPadding);
  Wide sum = product(size + secrets_.length[0], secrets_.length[1]);
  for (std::size_t at = 0; at < size; at += 16) {
    const std::uint64_t* const secret = &secrets_.words[at / 8];
    sum += product(ReadLittleEndian(text + at) + secret[0],
                   ReadLittleEndian(text + at + 8) + secret[1]);
  }
  const auto high = static_cast<std::uint64_t>(sum >> 64);
  // Hash tables use the lowest bits, which are the worst of a product; the middle bits are the
  // best. The addition is reversible, so no two keys become equal.
  return {.low = static_cast<std::uint64_t>(sum) + high, .high = high};
}

EventKey SipHash13(std::string_view text, const SipSecret& secret) {
  return Hash<1, 3>(text, secret);
}

EventKey SipHash24(std::string_view text, const SipSecret& secret) {
  return Hash<2, 4>(text, secret);
}

}  // namespace herald
