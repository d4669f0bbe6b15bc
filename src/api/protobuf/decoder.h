#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/fields.h"
#include "api/list_growth.h"
#include "api/protobuf/layout.h"
#include "api/protobuf/reader.h"
#include "api/reuse.h"
#include "base/bytes/copy_bytes.h"

namespace herald {

// Decodes messages into our types. A message that occurs twice is merged, as protobuf requires: the
// second is decoded over the first. All functions are static and thread-safe.
template <EventApi kApi>
class ProtobufDecoder {
 public:
  // Returns false and sets *error if the bytes are invalid.
  template <typename T>
  static bool Message(std::string_view bytes, T* object, std::string* error) {
    return MessageOf<Before::kPart>(bytes, object, error,
                                    std::make_index_sequence<kFieldCount<T, kApi>>());
  }

  // The same for an object with old values: they are cleared, but the memory of strings is reused.
  template <typename T>
  static bool MessageOver(std::string_view bytes, T* object, std::string* error) {
    return MessageOf<Before::kOther>(bytes, object, error,
                                     std::make_index_sequence<kFieldCount<T, kApi>>());
  }

 private:
  // The values of an object before a message is decoded into it.
  enum class Before : std::uint8_t {
    kPart,   // empty, or from an earlier part of the same message
    kOther,  // old values: each field is decoded or cleared
  };

  template <Before kBefore, typename T, std::size_t... kIndex>
  static bool MessageOf(std::string_view bytes, T* object, std::string* error,
                        std::index_sequence<kIndex...> indexes) {
    using Reader = void (*)(ProtobufReader*, T*);
    // Indexed by field number; null for unknown fields.
    static constexpr auto kReaders = [] {
      constexpr int kLast = std::max({std::get<kIndex>(FieldTable<T, kApi>::kFields).number...});
      std::array<Reader, kLast + 1> readers{};
      ((readers[std::get<kIndex>(FieldTable<T, kApi>::kFields).number] = &FieldOf<kIndex, T>), ...);
      return readers;
    }();
    static constexpr auto kOrder = FieldOrder<T, kApi>(indexes);
    ProtobufReader reader(bytes);
    // Kubernetes writes fields in the order of their numbers, so that most messages are complete
    // after this.
    (ReadIfNext<kBefore, kOrder[kIndex]>(&reader, object), ...);
    while (reader.NextField(FieldTable<T, kApi>::kGoName)) {
      const auto number = static_cast<std::size_t>(reader.field());
      if (number < kReaders.size() && kReaders[number] != nullptr) {
        kReaders[number](&reader, object);
      } else {
        reader.SkipField();
      }
    }
    if (!reader.ok()) *error = reader.error();
    return reader.ok();
  }

  template <Before kBefore, std::size_t kIndex, typename T>
  static void ReadIfNext(ProtobufReader* reader, T* object) {
    constexpr auto& kField = std::get<kIndex>(FieldTable<T, kApi>::kFields);
    auto* const member = &(object->*kField.member);
    const bool is_next = reader->SkipExpectedTag(kField.number, kWireType<kIndex, T>);
    if constexpr (kBefore == Before::kPart) {
      if (is_next) Value(reader, member);
    } else if (is_next) {
      ValueOver(reader, member);
    } else {
      EmptyForReuse(member);
    }
  }

  template <std::size_t kIndex, typename T>
  static void FieldOf(ProtobufReader* reader, T* object) {
    constexpr auto& kField = std::get<kIndex>(FieldTable<T, kApi>::kFields);
    if (reader->Expect(kWireType<kIndex, T>, kField.go)) Value(reader, &(object->*kField.member));
  }

  template <typename T>
  static constexpr bool IsNumber(const T*) {
    return std::is_integral_v<T>;
  }
  template <typename T>
    requires kIsOptional<T>
  static constexpr bool IsNumber(const T*) {
    return std::is_integral_v<typename T::value_type>;
  }
  template <std::size_t kIndex, typename T>
  static constexpr WireType kWireType = [] {
    using Field =
        std::tuple_element_t<kIndex, std::remove_cvref_t<decltype(FieldTable<T, kApi>::kFields)>>;
    const bool is_number = IsNumber(static_cast<const typename Field::MemberType*>(nullptr));
    return is_number ? WireType::kVarint : WireType::kBytes;
  }();

  static void Value(ProtobufReader* reader, std::string* out) {
    const std::string_view text = reader->Bytes();
    // Kubernetes also writes empty strings: a third of those in an event.
    if (text.empty()) {
      out->clear();
    } else {
      KeepText(text, out);
    }
  }

  // ValueOver() is to Value() what MessageOver() is to Message().
  template <typename T>
  static void ValueOver(ProtobufReader* reader, T* out) {
    EmptyForReuse(out);
    Value(reader, out);
  }
  static void ValueOver(ProtobufReader* reader, std::string* out) {
    if (out->capacity() > kMaxKeptText) EmptyForReuse(out);
    OverwriteText(reader->Bytes(), out);
  }
  template <typename T>
    requires requires { FieldTable<T, kApi>::kGoName; }
  static void ValueOver(ProtobufReader* reader, T* out) {
    const std::string_view bytes = reader->Bytes();
    std::string error;
    if (reader->ok() && !MessageOver(bytes, out, &error)) reader->Fail(std::move(error));
  }

  template <typename T>
    requires std::is_integral_v<T>
  static void Value(ProtobufReader* reader, T* out) {
    *out = static_cast<T>(reader->Varint());
  }

  template <typename T>
    requires std::is_base_of_v<Timestamp, T>
  static void Value(ProtobufReader* reader, T* out) {
    ProtobufReader moment(reader->Bytes());
    if (!reader->ok()) return;
    *out = T();
    bool any = false;
    std::int64_t seconds = 0;
    std::int32_t nanos = 0;
    while (moment.NextField("Timestamp")) {
      any = true;
      if (moment.field() == kSecondsField) {
        if (moment.Expect(WireType::kVarint, "Seconds")) Value(&moment, &seconds);
      } else if (moment.field() == kNanosField) {
        if (moment.Expect(WireType::kVarint, "Nanos")) Value(&moment, &nanos);
      } else {
        moment.SkipField();
      }
    }
    if (!moment.ok()) {
      reader->Fail(moment.error());
    } else if (any) {
      *out = Normalized<T>(seconds, std::is_same_v<T, MicroTime> ? nanos / 1000 * 1000 : 0);
    }
  }

  // The nanoseconds may be out of range. Go adds the excess to the seconds, which wrap around.
  template <typename T>
  static T Normalized(std::int64_t seconds, std::int32_t nanos) {
    constexpr std::int32_t kSecond = 1'000'000'000;
    std::int32_t carry = nanos / kSecond;
    nanos %= kSecond;
    if (nanos < 0) {
      nanos += kSecond;
      --carry;
    }
    const auto sum = static_cast<std::uint64_t>(seconds) +
                     static_cast<std::uint64_t>(static_cast<std::int64_t>(carry));
    return T(static_cast<std::int64_t>(sum), nanos);
  }

  template <typename T>
    requires requires { FieldTable<T, kApi>::kGoName; }
  static void Value(ProtobufReader* reader, T* out) {
    const std::string_view bytes = reader->Bytes();
    std::string error;
    if (reader->ok() && !Message(bytes, out, &error)) reader->Fail(std::move(error));
  }

  template <typename T>
    requires kIsOptional<T>
  static void Value(ProtobufReader* reader, T* out) {
    if (!out->has_value()) out->emplace();
    Value(reader, &**out);
  }
  static void Value(ProtobufReader* reader, std::optional<std::string>* out) {
    ProtobufReader raw(reader->Bytes());
    if (!out->has_value()) out->emplace();
    while (raw.NextField("FieldsV1")) {
      if (raw.field() == kRawField) {
        if (raw.Expect(WireType::kBytes, "Raw")) Value(&raw, &**out);
      } else {
        raw.SkipField();
      }
    }
    if (!raw.ok()) reader->Fail(raw.error());
  }

  static void Value(ProtobufReader* reader, StringMap* out) {
    ProtobufReader entry(reader->Bytes());
    std::string key;
    std::string value;
    // Upstream does not check the wire types of key and value.
    while (entry.NextEntryField()) {
      if (entry.field() == kMapKeyField) {
        Value(&entry, &key);
      } else if (entry.field() == kMapValueField) {
        Value(&entry, &value);
      } else {
        entry.SkipField();
      }
    }
    if (!entry.ok()) reader->Fail(entry.error());
    if (reader->ok()) out->insert_or_assign(std::move(key), std::move(value));
  }

  template <typename T>
  static void Value(ProtobufReader* reader, std::vector<T>* out) {
    if (NeedsRoom(*out)) {
      // Counted only once: a list of empty messages may grow a hundred times, and each count reads
      // all of it.
      const std::size_t counted = out->size() > kFirstGuess ? 0 : CountConsecutive(*reader);
      GrowFor(reader->read(), reader->left(), counted, out);
    }
    Value(reader, &out->emplace_back());
  }

  // The number of consecutive fields with the number of the current one, including it.
  static std::size_t CountConsecutive(ProtobufReader reader) {
    const int number = reader.field();
    std::size_t count = 0;
    do {
      reader.SkipField();
      ++count;
    } while (reader.NextField("") && reader.field() == number);
    return count;
  }
};

}  // namespace herald
