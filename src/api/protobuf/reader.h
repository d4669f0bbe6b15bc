#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/protobuf/writer.h"

namespace herald {

// A ProtobufReader takes the fields of one message off its front.
//
//   while (reader.NextField("Event")) {
//     switch (reader.field()) { ... read the value, or reader.SkipField() ... }
//   }
//   if (!reader.ok()) return reader.error();
//
// After the first error every call returns false, zero or nothing. The errors are
// those of the code that Kubernetes generates for Go.
//
// Thread-confined. The bytes must outlive the views it hands out.
class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view bytes)
      : begin_(bytes.data()), pos_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // Reads the next tag; false at the end. `message` is what errors call it.
  bool NextField(std::string_view message) {
    const char* const start = pos_;
    if (!NextEntryField()) return false;
    if (wire_type_ != WireType::kEndGroup && field_ > 0) return true;
    return FailTag(message, start);
  }
  // The same for the entry of a map, whose tags upstream does not check.
  bool NextEntryField() {
    if (pos_ == end_) return false;
    const std::uint64_t tag = Varint();
    field_ = static_cast<std::int32_t>(tag >> 3);
    wire_type_ = static_cast<WireType>(tag & 7);
    return ok();
  }
  // Steps over the tag if it is this one; otherwise stays where it is. Cheaper than
  // NextField(), where the compiler knows the number; so it has to be inlined. False for
  // numbers whose tags take more than one byte, which few fields have.
  [[gnu::always_inline]] bool SkipExpectedTag(int number, WireType type) {
    const int tag = number << 3 | static_cast<int>(type);
    if (tag >= 0x80 || pos_ == end_ || *pos_ != static_cast<char>(tag)) return false;
    ++pos_;
    return true;
  }
  int field() const { return field_; }
  WireType wire_type() const { return wire_type_; }

  // Fails unless the field just met has the wire type that its member `go_name`
  // must have.
  bool Expect(WireType type, std::string_view go_name) {
    return wire_type_ == type || FailType(go_name);
  }

  // Inlined, as Bytes() is: nearly all lengths and tags are below 128, and then a call
  // would take longer than what it does.
  [[gnu::always_inline]] std::uint64_t Varint() {
    if (pos_ != end_ && static_cast<unsigned char>(*pos_) < 0x80) {
      return static_cast<unsigned char>(*pos_++);
    }
    return LongVarint();
  }
  // A string or a nested message, by its length.
  [[gnu::always_inline]] std::string_view Bytes() {
    const std::uint64_t length = Varint();
    const char* const start = pos_;
    if (!SkipBytes(length)) return {};
    return {start, static_cast<std::size_t>(length)};
  }

  // How much of the message has been taken, and how much is left.
  std::size_t read() const { return static_cast<std::size_t>(pos_ - begin_); }
  std::size_t left() const { return static_cast<std::size_t>(end_ - pos_); }

  // Steps over the value of the field just met, whatever it is.
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
