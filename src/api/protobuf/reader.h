#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/protobuf/writer.h"

namespace herald {

// A ProtobufReader reads the fields of one message in order.
//
//   while (reader.NextField("Event")) {
//     switch (reader.field()) { ... read the value, or reader.SkipField() ... }
//   }
//   if (!reader.ok()) return reader.error();
//
// After the first error every call returns false, zero or an empty value. The errors are those of
// Kubernetes' generated Go code.
//
// Thread-confined. The bytes must outlive the views that it returns.
class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view bytes)
      : begin_(bytes.data()), pos_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // Reads the next tag. Returns false at the end. `message` is the name for errors.
  bool NextField(std::string_view message) {
    const char* const start = pos_;
    if (!NextEntryField()) return false;
    if (wire_type_ != WireType::kEndGroup && field_ > 0) return true;
    return FailTag(message, start);
  }
  // The same for an entry of a map, whose tags upstream does not check.
  bool NextEntryField() {
    if (pos_ == end_) return false;
    const std::uint64_t tag = Varint();
    field_ = static_cast<std::int32_t>(tag >> 3);
    wire_type_ = static_cast<WireType>(tag & 7);
    return ok();
  }
  // Skips the tag if it is this one, and reads nothing otherwise. Cheaper than NextField() if the
  // compiler knows the number, which requires inlining. Always false for the few numbers whose tags
  // take more than one byte.
  [[gnu::always_inline]] bool SkipExpectedTag(int number, WireType type) {
    const int tag = number << 3 | static_cast<int>(type);
    if (tag >= 0x80 || pos_ == end_ || *pos_ != static_cast<char>(tag)) return false;
    ++pos_;
    return true;
  }
  int field() const { return field_; }
  WireType wire_type() const { return wire_type_; }

  // Fails unless the current field has this wire type. `go_name` is the field's name for errors.
  bool Expect(WireType type, std::string_view go_name) {
    return wire_type_ == type || FailType(go_name);
  }

  // Inlined like Bytes(): nearly all lengths and tags are below 128, and a call would take longer
  // than reading one.
  [[gnu::always_inline]] std::uint64_t Varint() {
    if (pos_ != end_ && static_cast<unsigned char>(*pos_) < 0x80) {
      return static_cast<unsigned char>(*pos_++);
    }
    return LongVarint();
  }
  // Reads a string or a nested message.
  [[gnu::always_inline]] std::string_view Bytes() {
    const std::uint64_t length = Varint();
    const char* const start = pos_;
    if (!SkipBytes(length)) return {};
    return {start, static_cast<std::size_t>(length)};
  }

  // The number of bytes that were read, and that are left.
  std::size_t read() const { return static_cast<std::size_t>(pos_ - begin_); }
  std::size_t left() const { return static_cast<std::size_t>(end_ - pos_); }

  // Skips the value of the current field.
  void SkipField();

  bool Fail(std::string error);
  bool ok() const { return !failed_; }
  const std::string& error() const { return error_; }

 private:
  [[gnu::always_inline]] bool SkipBytes(std::uint64_t count) {
    if (failed_ || count > static_cast<std::uint64_t>(end_ - pos_)) return FailLength(count);
    pos_ += count;
    return true;
  }
  std::uint64_t LongVarint();
  bool FailType(std::string_view go_name);
  bool FailTag(std::string_view message, const char* start);
  bool FailLength(std::uint64_t count);

  const char* const begin_;
  const char* pos_;
  const char* const end_;
  int field_ = 0;
  WireType wire_type_ = WireType::kVarint;
  bool failed_ = false;
  std::string error_;
};

}  // namespace herald
