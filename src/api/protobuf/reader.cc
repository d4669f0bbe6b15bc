#include "api/protobuf/reader.h"

#include <fmt/core.h>

#include <utility>

namespace herald {

bool ProtobufReader::Fail(std::string error) {
  if (!failed_) error_ = std::move(error);
  failed_ = true;
  pos_ = end_;
  return false;
}

std::uint64_t ProtobufReader::LongVarint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (pos_ == end_) {
      Fail("unexpected EOF");
      return 0;
    }
    const auto byte = static_cast<unsigned char>(*pos_++);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  Fail("proto: integer overflow");
  return 0;
}

bool ProtobufReader::FailTag(std::string_view message, const char* start) {
  if (wire_type_ == WireType::kEndGroup) {
    return Fail(fmt::format("proto: {}: wiretype end group for non-group", message));
  }
  pos_ = start;
  return Fail(fmt::format("proto: {}: illegal tag {} (wire type {})", message, field_, Varint()));
}

bool ProtobufReader::FailType(std::string_view go_name) {
  return Fail(fmt::format("proto: wrong wireType = {} for field {}", static_cast<int>(wire_type_),
                          go_name));
}

// Upstream, lengths and positions are signed: a length with the highest bit set is negative, and a
// length just below that makes the next position negative.
bool ProtobufReader::FailLength(std::uint64_t count) {
  const auto position = static_cast<std::uint64_t>(pos_ - begin_);
  const bool negative = count > static_cast<std::uint64_t>(INT64_MAX) - position;
  return Fail(negative ? "proto: negative length found during unmarshaling" : "unexpected EOF");
}

void ProtobufReader::SkipField() {
  int depth = 0;  // of groups, an obsolete form of nested messages without a length
  WireType type = wire_type_;
  for (;;) {
    switch (type) {
      case WireType::kVarint:
        Varint();
        break;
      case WireType::kFixed64:
        SkipBytes(8);
        break;
      case WireType::kBytes:
        Bytes();
        break;
      case WireType::kStartGroup:
        ++depth;
        break;
      case WireType::kEndGroup:
        if (depth == 0) {
          Fail("proto: unexpected end of group");
        } else {
          --depth;
        }
        break;
      case WireType::kFixed32:
        SkipBytes(4);
        break;
      default:
        Fail(fmt::format("proto: illegal wireType {}", static_cast<int>(type)));
    }
    if (!ok() || depth == 0) return;
    type = static_cast<WireType>(Varint() & 7);
  }
}

}  // namespace herald
