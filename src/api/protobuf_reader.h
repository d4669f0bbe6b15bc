#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/protobuf_writer.h"

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
  int field() const { return field_; }
  WireType wire_type() const { return wire_type_; }

  // Fails unless the field just met has the wire type that its member `go_name`
  // must have.
  bool Expect(WireType type, std::string_view go_name) {
    return wire_type_ == type || FailType(go_name);
  }

  std::uint64_t Varint() {
    // Nearly all lengths and tags are below 128.
    if (pos_ != end_ && static_cast<unsigned char>(*pos_) < 0x80) {
      return static_cast<unsigned char>(*pos_++);
    }
    return LongVarint();
  }
  // A string or a nested message, by its length.
  std::string_view Bytes() {
    const std::uint64_t length = Varint();
    const char* const start = pos_;
    if (!SkipBytes(length)) return {};
    return {start, static_cast<std::size_t>(length)};
  }

  // Steps over the value of the field just met, whatever it is.
  void SkipField();

  bool Fail(std::string error);
  bool ok() const { return !failed_; }
  const std::string& error() const { return error_; }

 private:
  bool SkipBytes(std::uint64_t count) {
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
