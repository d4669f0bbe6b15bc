#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/fields.h"
#include "api/json/reader.h"
#include "api/json/strict_errors.h"
#include "api/json/type_names.h"
#include "api/list_growth.h"
#include "api/type_meta.h"

namespace herald {

// The path from the root of a document to the member that is being decoded. Frames are on the
// decoder's stack and are used only for errors.
struct JsonFrame {
  const JsonFrame* outer = nullptr;
  std::string_view go_name;   // the struct's name in Go
  std::string_view field;     // the member's name in JSON
  std::ptrdiff_t index = -1;  // of the element, if the member is a list
};

// The errors in a document that is valid JSON. Kubernetes reports only one, in this order: a kind
// or apiVersion that is not a string, the first invalid time, the first value of a wrong type.
// Thread-confined.
class JsonDecodeErrors {
 public:
  // Unknown and duplicate members are appended to *field_errors if it is not null.
  explicit JsonDecodeErrors(std::vector<std::string>* field_errors) : field_errors_(field_errors) {}

  bool wants_field_errors() const { return field_errors_.enabled(); }

  void WrongType(const JsonFrame& at, std::string_view found, std::string_view go_type);
  void BadTime(std::string_view why);
  void TimeOfWrongType(const JsonFrame& at, std::string_view found);
  void BadTypeMeta(std::string_view field, std::string_view found);
  void UnknownField(const JsonFrame* outer, std::string_view key);
  void DuplicateField(const JsonFrame* outer, std::string_view key);

  // Empty if there is no error.
  const std::string& type_meta_error() const { return type_meta_error_; }
  const std::string& error() const { return bad_time_.empty() ? wrong_type_ : bad_time_; }

 private:
  void AddFieldError(std::string_view what, const JsonFrame* outer, std::string_view key);

  StrictErrors field_errors_;
  std::string type_meta_error_;
  std::string bad_time_;
  std::string wrong_type_;
};

// Whether `key` equals `name` for Go's encoding/json, which ignores case when it looks for kind and
// apiVersion. REQUIRES: name has only ASCII letters
bool FoldedEqual(std::string_view key, std::string_view name);

// How a document changes a value that is already set.
enum class JsonMode : std::uint8_t {
  // As Go decodes: null does not change a scalar, and duplicate members are merged.
  kDecode,
  // As a merge patch: null clears a member and removes a label.
  kMerge,
};

// Whether null clears a value of this type when Go decodes it: pointers, maps and slices become
// nil. Times handle null themselves; it does not change other types.
template <typename T>
inline constexpr bool kGoEmptiesOnNull =
    std::is_same_v<T, StringMap> || std::is_base_of_v<Timestamp, T> || kIsOptional<T>;
template <typename T>
inline constexpr bool kGoEmptiesOnNull<std::vector<T>> = true;

// Decodes JSON in one API's spelling into our types, with the tables in fields.h.
//
// Kubernetes writes members in the order of its declarations, which is the order of our tables. So
// the decoder first compares each key with the next name of the table. The compiler knows that
// name, and the comparison takes one or two machine words.
//
// Thread-confined.
template <EventApi kApi, JsonMode kMode = JsonMode::kDecode>
class JsonDecoder {
 public:
  JsonDecoder(JsonReader* reader, JsonDecodeErrors* errors) : r_(*reader), errors_(*errors) {}

  // Decodes the whole document into *object, and its kind and apiVersion into *type_meta (null:
  // they are ordinary members). The caller checks the reader and the JsonDecodeErrors for errors.
  template <typename T>
  void Document(T* object, TypeMeta* type_meta) {
    switch (const JsonReader::Type type = r_.Peek()) {
      case JsonReader::Type::kObject:
        Object(object, nullptr, type_meta);
        break;
      case JsonReader::Type::kNull:
        r_.ReadNull();
        break;
      default:
        r_.SkipValue();
        errors_.BadTypeMeta("", JsonTypeName(type));
    }
    r_.Finish();
  }

 private:
  using Type = JsonReader::Type;

  // 64 bits record the members that have occurred: by position in the table, and these two.
  static constexpr std::size_t kKindBit = 62;
  static constexpr std::size_t kVersionBit = 63;

  // T's members by position: their names, and a function that decodes each.
  template <typename T, typename Indexes = std::make_index_sequence<kFieldCount<T, kApi>>>
  struct Table;

  template <typename T, std::size_t... kIndex>
  struct Table<T, std::index_sequence<kIndex...>> {
    static constexpr std::size_t kSize = sizeof...(kIndex);
    static constexpr std::array<std::string_view, kSize> kNames = {
        std::get<kIndex>(FieldTable<T, kApi>::kFields).json...};
    static_assert(kSize <= kKindBit);

    // Decodes the members that are in the order of the table. Returns false at the end of the
    // object, and true if the next member is out of order.
    static bool ReadInOrder(JsonDecoder* decoder, T* object, JsonFrame* frame,
                            std::uint64_t* seen) {
      return (decoder->ReadIfNext<kIndex>(object, frame, seen) && ...);
    }

    static void Read(std::size_t i, JsonDecoder* decoder, T* object, JsonFrame* frame) {
      using Reader = void (JsonDecoder::*)(T*, JsonFrame*);
      constexpr std::array<Reader, kSize> kReaders = {&JsonDecoder::template Member<kIndex, T>...};
      (decoder->*kReaders[i])(object, frame);
    }
  };

  template <typename T>
  void Object(T* object, const JsonFrame* outer, TypeMeta* type_meta = nullptr) {
    JsonFrame frame{outer, FieldTable<T, kApi>::kGoName, {}, -1};
    std::uint64_t seen = 0;
    bool more = r_.BeginObject();
    if (type_meta != nullptr) more = more && ReadTypeIfNext(type_meta, &seen);
    while (more && Table<T>::ReadInOrder(this, object, &frame, &seen)) {
      AnyMember(object, outer, type_meta, &frame, &seen);
      more = r_.NextMember();
    }
  }

  // Decodes the member if it is next. Returns false if it was the last one.
  template <std::size_t kIndex, typename T>
  bool ReadIfNext(T* object, JsonFrame* frame, std::uint64_t* seen) {
    constexpr std::string_view kName = std::get<kIndex>(FieldTable<T, kApi>::kFields).json;
    if (!r_.SkipExpectedKey(kName)) return true;
    if (Seen(kIndex, seen)) errors_.DuplicateField(frame->outer, kName);
    frame->field = kName;
    Member<kIndex>(object, frame);
    return r_.NextMember();
  }

  // The same for a document's kind and apiVersion, which Kubernetes writes first.
  bool ReadTypeIfNext(TypeMeta* type_meta, std::uint64_t* seen) {
    if (r_.SkipExpectedKey("kind")) {
      Seen(kKindBit, seen);
      TypeText("kind", &type_meta->kind);
      if (!r_.NextMember()) return false;
    }
    if (r_.SkipExpectedKey("apiVersion")) {
      Seen(kVersionBit, seen);
      TypeText("apiVersion", &type_meta->api_version);
      if (!r_.NextMember()) return false;
    }
    return true;
  }

  // Decodes the next member, whichever it is.
  template <typename T>
  void AnyMember(T* object, const JsonFrame* outer, TypeMeta* type_meta, JsonFrame* frame,
                 std::uint64_t* seen) {
    const std::string_view key = r_.ReadKey();
    if (type_meta != nullptr && TypeMember(key, outer, type_meta, seen)) return;
    constexpr auto& kNames = Table<T>::kNames;
    const auto i = static_cast<std::size_t>(std::ranges::find(kNames, key) - kNames.begin());
    if (i == kNames.size()) {
      errors_.UnknownField(outer, key);
      r_.SkipValue();
      return;
    }
    if (Seen(i, seen)) errors_.DuplicateField(outer, kNames[i]);
    frame->field = kNames[i];
    Table<T>::Read(i, this, object, frame);
  }

  static bool Seen(std::size_t bit, std::uint64_t* seen) {
    const std::uint64_t mask = std::uint64_t{1} << bit;
    const bool before = (*seen & mask) != 0;
    *seen |= mask;
    return before;
  }

  // Upstream decodes kind and apiVersion twice: first with a decoder that ignores case, to find the
  // type of the document, and then with one that does not. The second ignores "Kind" as an unknown
  // member.
  bool TypeMember(std::string_view key, const JsonFrame* outer, TypeMeta* type_meta,
                  std::uint64_t* seen) {
    const bool is_kind = FoldedEqual(key, "kind");
    if (!is_kind && !FoldedEqual(key, "apiVersion")) return false;
    const std::string_view name = is_kind ? "kind" : "apiVersion";
    if (key != name) {
      errors_.UnknownField(outer, key);
    } else if (Seen(is_kind ? kKindBit : kVersionBit, seen)) {
      errors_.DuplicateField(outer, key);
    }
    TypeText(name, is_kind ? &type_meta->kind : &type_meta->api_version);
    return true;
  }

  void TypeText(std::string_view name, std::string* out) {
    switch (const Type type = r_.Peek()) {
      case Type::kString:
        r_.ReadString(out);
        break;
      case Type::kNull:
        r_.ReadNull();
        break;
      default:
        r_.SkipValue();
        errors_.BadTypeMeta(name, JsonTypeName(type));
    }
  }

  template <std::size_t kIndex, typename T>
  void Member(T* object, JsonFrame* frame) {
    constexpr auto& kField = std::get<kIndex>(FieldTable<T, kApi>::kFields);
    auto& value = object->*kField.member;
    const Type type = r_.Peek();
    if (type == Type::kNull) {
      r_.ReadNull();
      using M = std::remove_cvref_t<decltype(value)>;
      if constexpr (kMode == JsonMode::kMerge || kGoEmptiesOnNull<M>) value = M();
      return;
    }
    Value(type, &value, *frame, kField.go_type);
    frame->index = -1;
  }

  void WrongType(Type found, const JsonFrame& frame, std::string_view go_type) {
    r_.SkipValue();
    errors_.WrongType(frame, JsonTypeName(found), go_type);
  }

  // The name of a member's type in Go; `given` if it does not follow from the C++ type.
  template <typename T>
  static std::string GoType(std::string_view given = {}) {
    if (!given.empty()) return std::string(given);
    if constexpr (std::is_same_v<T, std::string>) return "string";
    if constexpr (std::is_same_v<T, std::int32_t>) return "int32";
    if constexpr (std::is_same_v<T, std::int64_t>) return "int64";
    if constexpr (std::is_same_v<T, bool>) return "bool";
    if constexpr (std::is_same_v<T, StringMap>) return "map[string]string";
    if constexpr (requires { FieldTable<T, kApi>::kGoName; }) {
      return std::string("v1.").append(FieldTable<T, kApi>::kGoName);
    }
    if constexpr (requires { typename T::value_type; } && !std::is_same_v<T, StringMap>) {
      return "[]" + GoType<typename T::value_type>();
    }
    return {};
  }

  void Value(Type type, std::string* out, JsonFrame& frame, std::string_view go_type) {
    if (type != Type::kString) return WrongType(type, frame, GoType<std::string>(go_type));
    r_.ReadString(out);
  }

  void Value(Type type, bool* out, JsonFrame& frame, std::string_view) {
    if (type != Type::kBool) return WrongType(type, frame, "bool");
    *out = r_.ReadBool();
  }

  template <typename T>
    requires std::is_integral_v<T>
  void Value(Type type, T* out, JsonFrame& frame, std::string_view) {
    if (type != Type::kNumber) return WrongType(type, frame, GoType<T>());
    const std::string_view literal = r_.ReadNumber();
    const char* const end = literal.data() + literal.size();
    const auto [parsed, error] = std::from_chars(literal.data(), end, *out);
    if (r_.ok() && (error != std::errc() || parsed != end)) {
      errors_.WrongType(frame, std::string("number ").append(literal), GoType<T>());
    }
  }

  template <typename T>
    requires std::is_base_of_v<Timestamp, T>
  void Value(Type type, T* out, JsonFrame& frame, std::string_view) {
    if (type != Type::kString) {
      r_.SkipValue();
      return errors_.TimeOfWrongType(frame, JsonTypeName(type));
    }
    const std::string_view text = r_.ReadStringView();
    if (!r_.ok()) return;
    if (auto time = T::Parse(text)) {
      *out = *time;
    } else {
      errors_.BadTime(time.error().message());
    }
  }

  template <typename T>
    requires kIsOptional<T>
  void Value(Type type, T* out, JsonFrame& frame, std::string_view go_type) {
    if (!out->has_value()) out->emplace();
    Value(type, &**out, frame, go_type);
  }

  // The only optional string of the tables (fieldsV1): JSON that is kept unchanged.
  void Value(Type, std::optional<std::string>* out, JsonFrame&, std::string_view) {
    *out = r_.SkipValue();
  }

  template <typename T>
    requires requires { FieldTable<T, kApi>::kGoName; }
  void Value(Type type, T* out, JsonFrame& frame, std::string_view) {
    if (type != Type::kObject) return WrongType(type, frame, GoType<T>());
    Object(out, &frame);
  }

  void Value(Type type, StringMap* out, JsonFrame& frame, std::string_view) {
    if (type != Type::kObject) return WrongType(type, frame, GoType<StringMap>());
    // A key that the map already has is a duplicate, unless the map had keys before or nulls
    // removed some. Only in these cases the keys of this object are collected in a set.
    const bool reports = errors_.wants_field_errors();
    const bool map_tells = kMode == JsonMode::kDecode && out->empty();
    std::set<std::string> seen;
    for (bool more = r_.BeginObject(); more; more = r_.NextMember()) {
      std::string key(r_.ReadKey());
      bool is_new = !reports || map_tells || seen.insert(key).second;
      const Type value_type = r_.Peek();
      if (value_type == Type::kNull && kMode == JsonMode::kMerge) {
        if (!is_new) errors_.DuplicateField(&frame, key);
        r_.ReadNull();
        out->erase(key);
        continue;
      }
      const auto [entry, added] = out->emplace(std::move(key), std::string());
      if (map_tells) is_new = added;
      if (!is_new) errors_.DuplicateField(&frame, entry->first);
      std::string& value = entry->second;
      if (value_type == Type::kNull) {
        r_.ReadNull();
        value.clear();
      } else {
        Value(value_type, &value, frame, {});
      }
    }
  }

  template <typename T>
  void Value(Type type, std::vector<T>* out, JsonFrame& frame, std::string_view) {
    if (type != Type::kArray) return WrongType(type, frame, GoType<std::vector<T>>());
    // A duplicate list is decoded over the first one, element by element, because Go reuses the
    // memory without clearing it.
    std::size_t size = 0;
    const char* const start = r_.position();
    for (bool more = r_.BeginArray(); more; more = r_.NextElement()) {
      if (size == out->size()) {
        if (NeedsRoom(*out)) {
          const auto read = static_cast<std::size_t>(r_.position() - start);
          GrowFor(read, r_.left(), CountFor(*out), out);
        }
        out->emplace_back();
      }
      frame.index = static_cast<std::ptrdiff_t>(size);
      const Type element = r_.Peek();
      if (element == Type::kNull) {
        r_.ReadNull();
      } else {
        Value(element, &(*out)[size], frame, {});
      }
      ++size;
    }
    out->resize(size);
    DropSpareRoom(out);
  }

  // The number of elements that follow; 0 if it is unknown. Only counted for large elements, and
  // only once, because a second attempt would fail like the first one.
  template <typename T>
  std::size_t CountFor(const std::vector<T>& list) const {
    if (!std::is_same_v<T, Event> || list.size() > kFirstGuess) return 0;
    return CountObjects({r_.position(), r_.left()});
  }

  JsonReader& r_;
  JsonDecodeErrors& errors_;
};

}  // namespace herald
