#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/bytes/copy_bytes.h"

namespace herald {

// The format of the value after a tag.
enum class WireType : std::uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

// A ProtobufWriter writes a message from its end to its beginning. The length of a nested message
// precedes it, so a forward writer would have to compute all lengths first; backwards, each length
// is known when it is written.
//
// So calls are in reverse order: the last field first, and in each field the value before the tag.
//
// Thread-confined.
class ProtobufWriter {
 public:
  ProtobufWriter() = default;
  ProtobufWriter(const ProtobufWriter&) = delete;
  ProtobufWriter& operator=(const ProtobufWriter&) = delete;

  std::string_view bytes() const { return {pos_, size()}; }
  // The number of bytes so far. The difference of two calls is the number of bytes written in
  // between.
  std::size_t size() const { return static_cast<std::size_t>(end_ - pos_); }

  void Raw(std::string_view bytes) {
    Ensure(bytes.size());
    PutRaw(bytes);
  }

  void BytesField(int number, std::string_view bytes) {
    Ensure(bytes.size() + 2 * kMaxVarintBytes);
    PutRaw(bytes);
    PutVarint(bytes.size());
    PutTag(number, WireType::kBytes);
  }

  void VarintField(int number, std::uint64_t value) {
    Ensure(2 * kMaxVarintBytes);
    PutVarint(value);
    PutTag(number, WireType::kVarint);
  }

  // Ends a nested message that began when size() was `size_before`.
  void EndMessage(int number, std::size_t size_before) {
    const std::size_t length = size() - size_before;
    Ensure(2 * kMaxVarintBytes);
    PutVarint(length);
    PutTag(number, WireType::kBytes);
  }

 private:
  static constexpr std::size_t kMaxVarintBytes = 10;

  void Ensure(std::size_t bytes) {
    if (static_cast<std::size_t>(pos_ - begin_) < bytes) Grow(bytes);
  }
  void Grow(std::size_t bytes);

  // REQUIRES for all of these: Ensure() has reserved the bytes
  void PutRaw(std::string_view bytes) {
    pos_ -= bytes.size();
    CopyBytes(bytes.data(), bytes.size(), pos_);
  }
  void PutVarint(std::uint64_t value) {
    if (value < 0x80) {
      *--pos_ = static_cast<char>(value);
      return;
    }
    char digits[kMaxVarintBytes];
    std::size_t length = 0;
    for (; value >= 0x80; value >>= 7) digits[length++] = static_cast<char>(value | 0x80);
    digits[length++] = static_cast<char>(value);
    pos_ -= length;
    std::memcpy(pos_, digits, length);
  }
  void PutTag(int number, WireType type) {
    PutVarint(static_cast<std::uint64_t>(number) << 3 | static_cast<std::uint64_t>(type));
  }

  // Enough for nearly every event: most have 300 to 1,500 bytes.
  static constexpr std::size_t kInlineBytes = 4096;
  char inline_[kInlineBytes];
  std::unique_ptr<char[]> heap_;
  char* begin_ = inline_;
  char* end_ = inline_ + kInlineBytes;
  char* pos_ = end_;
};

}  // namespace herald
