#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "api/fields.h"
#include "api/json/reader.h"
#include "api/json/writer.h"

namespace herald {

// Encodes our types as JSON in one API's spelling, in the order of the tables in fields.h. The
// compiler resolves the tables, so that encoding an event is a sequence of copies.
//
// Thread-confined, like its writer.
template <EventApi kApi>
class JsonEncoder {
 public:
  explicit JsonEncoder(JsonWriter* writer) : w_(*writer) {}

  template <typename T>
  void Value(const T& object) {
    const std::size_t opened = w_.OpenObject();
    Members(object);
    w_.CloseObject(opened);
  }

  // Writes only the members, for a caller that adds more to the same object.
  template <typename T>
  void Members(const T& object) {
    MembersOf(object, std::make_index_sequence<kFieldCount<T, kApi>>());
  }

  void Value(const std::string& text) { w_.String(text); }
  void Value(std::int32_t number) { w_.Int(number); }
  void Value(std::int64_t number) { w_.Int(number); }
  void Value(bool value) { w_.Raw(value ? "true" : "false"); }
  void Value(const Time& time) { Moment(time); }
  void Value(const MicroTime& time) { Moment(time); }
  template <typename T>
    requires kIsOptional<T>
  void Value(const T& value) {
    if (value) Value(*value);
  }
  // The only optional string of the tables (fieldsV1) is JSON. If it was received as protobuf, it
  // may be invalid, and then it must not make this document invalid.
  void Value(const std::optional<std::string>& raw) {
    const std::string json = raw.value_or(std::string());
    JsonReader reader(json);
    reader.SkipValue();
    if (!reader.Finish()) return w_.Raw("null");
    std::string compact;
    AppendCompactJson(json, &compact);
    w_.Raw(compact);
  }
  void Value(const StringMap& map) {
    const std::size_t opened = w_.OpenObject();
    for (const auto& [key, value] : map) {
      w_.Raw(",");
      w_.String(key);
      w_.Raw(":");
      w_.String(value);
    }
    w_.CloseObject(opened);
  }
  template <typename T>
  void Value(const std::vector<T>& list) {
    w_.Raw("[");
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0) w_.Raw(",");
      Value(list[i]);
    }
    w_.Raw("]");
  }

  // The `,"name":` of a member, by its position in the table.
  template <typename T, std::size_t kIndex>
  static constexpr std::string_view Key() {
    return {kKey<T, kIndex>.data(), kKey<T, kIndex>.size()};
  }

 private:
  template <typename T, std::size_t kIndex>
  static constexpr auto kKey = [] {
    constexpr std::string_view kName = std::get<kIndex>(FieldTable<T, kApi>::kFields).json;
    std::array<char, kName.size() + 4> key{};
    key[0] = ',';
    key[1] = '"';
    for (std::size_t i = 0; i < kName.size(); ++i) key[i + 2] = kName[i];
    key[kName.size() + 2] = '"';
    key[kName.size() + 3] = ':';
    return key;
  }();

  static bool IsEmpty(const std::string& text) { return text.empty(); }
  static bool IsEmpty(std::int32_t number) { return number == 0; }
  static bool IsEmpty(std::int64_t number) { return number == 0; }
  static bool IsEmpty(const Timestamp& time) { return time.is_zero(); }
  static bool IsEmpty(const StringMap& map) { return map.empty(); }
  template <typename T>
    requires kIsOptional<T>
  static bool IsEmpty(const T& value) {
    return !value.has_value();
  }
  template <typename T>
  static bool IsEmpty(const std::vector<T>& list) {
    return list.empty();
  }

  template <typename T, std::size_t... kIndex>
  void MembersOf(const T& object, std::index_sequence<kIndex...>) {
    (Member<kIndex>(object), ...);
  }

  template <std::size_t kIndex, typename T>
  void Member(const T& object) {
    constexpr auto& kField = std::get<kIndex>(FieldTable<T, kApi>::kFields);
    constexpr std::string_view kText = Key<T, kIndex>();
    const auto& value = object.*kField.member;
    if constexpr (kField.presence == Presence::kOmitEmpty) {
      if (IsEmpty(value)) return;
    }
    w_.Ensure(kText.size());
    w_.Put(kText);
    Value(value);
  }

  template <typename T>
  void Moment(const T& time) {
    if (time.is_zero()) return w_.Raw("null");
    w_.Ensure(Timestamp::kMaxTextBytes + 2);
    w_.Put('"');
    w_.set_pos(time.WriteTo(w_.pos()));
    w_.Put('"');
  }

  JsonWriter& w_;
};

}  // namespace herald
