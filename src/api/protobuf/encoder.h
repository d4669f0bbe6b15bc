#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/fields.h"
#include "api/protobuf/layout.h"
#include "api/protobuf/writer.h"

namespace herald {

// Writes our types as protobuf messages, from the last field to the first: see ProtobufWriter.
// Thread-confined.
template <EventApi kApi>
class ProtobufEncoder {
 public:
  explicit ProtobufEncoder(ProtobufWriter* writer) : w_(*writer) {}

  // Writes the fields of a message, from the highest number to the lowest.
  template <typename T>
  void Message(const T& object) {
    MessageOf(object, std::make_index_sequence<kFieldCount<T, kApi>>());
  }

 private:
  template <typename T, std::size_t... kIndex>
  void MessageOf(const T& object, std::index_sequence<kIndex...> indexes) {
    static constexpr auto kOrder = FieldOrder<T, kApi>(indexes);
    (FieldOf<kOrder[kOrder.size() - 1 - kIndex]>(object), ...);
  }

  template <std::size_t kIndex, typename T>
  void FieldOf(const T& object) {
    constexpr auto& kField = std::get<kIndex>(FieldTable<T, kApi>::kFields);
    Value(kField.number, object.*kField.member);
  }

  void Value(int number, const std::string& text) { w_.BytesField(number, text); }
  // Negative numbers take ten bytes, because protobuf extends their sign.
  void Value(int number, std::int32_t value) {
    w_.VarintField(number, static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
  }
  void Value(int number, std::int64_t value) {
    w_.VarintField(number, static_cast<std::uint64_t>(value));
  }
  void Value(int number, bool value) { w_.VarintField(number, value ? 1 : 0); }

  void Value(int number, const Time& time) { Moment(number, time, 0); }
  void Value(int number, const MicroTime& time) {
    Moment(number, time, time.nanos() / 1000 * 1000);
  }
  void Moment(int number, const Timestamp& time, std::int32_t nanos) {
    const std::size_t before = w_.size();
    if (!time.is_zero()) {
      Value(kNanosField, nanos);
      Value(kSecondsField, time.seconds());
    }
    w_.EndMessage(number, before);
  }

  template <typename T>
    requires requires { FieldTable<T, kApi>::kGoName; }
  void Value(int number, const T& object) {
    const std::size_t before = w_.size();
    Message(object);
    w_.EndMessage(number, before);
  }

  template <typename T>
    requires kIsOptional<T>
  void Value(int number, const T& value) {
    if (value) Value(number, *value);
  }
  // The only optional string of the tables (fieldsV1): JSON in a message of its own.
  void Value(int number, const std::optional<std::string>& raw) {
    if (!raw) return;
    const std::size_t before = w_.size();
    if (!raw->empty()) w_.BytesField(kRawField, *raw);
    w_.EndMessage(number, before);
  }

  void Value(int number, const StringMap& map) {
    for (auto entry = map.rbegin(); entry != map.rend(); ++entry) {
      const std::size_t before = w_.size();
      w_.BytesField(kMapValueField, entry->second);
      w_.BytesField(kMapKeyField, entry->first);
      w_.EndMessage(number, before);
    }
  }

  template <typename T>
  void Value(int number, const std::vector<T>& list) {
    for (auto element = list.rbegin(); element != list.rend(); ++element) Value(number, *element);
  }

  ProtobufWriter& w_;
};

}  // namespace herald
