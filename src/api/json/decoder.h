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

// The way from the top of a document to the member being read. Frames live on the
// stack of the decoder and are looked at only when there is something to complain
// about.
struct JsonFrame {
  const JsonFrame* outer = nullptr;
  std::string_view go_name;   // of the struct whose member is read
  std::string_view field;     // that member
  std::ptrdiff_t index = -1;  // of the element, where the member is a list
};

// What a decoder found wrong with a document that is sound JSON. Kubernetes reports
// one thing only, in this order: a kind or apiVersion that is no text, the first
// time that cannot be read, the first value of a wrong type.
class JsonComplaints {
 public:
  // With `field_errors`, unknown and repeated members are collected there.
  explicit JsonComplaints(std::vector<std::string>* field_errors) : field_errors_(field_errors) {}

  bool wants_field_errors() const { return field_errors_.enabled(); }

  void WrongType(const JsonFrame& at, std::string_view found, std::string_view go_type);
  void BadTime(std::string_view why);
  void TimeOfWrongType(const JsonFrame& at, std::string_view found);
  void BadTypeMeta(std::string_view field, std::string_view found);
  void UnknownField(const JsonFrame* outer, std::string_view key);
  void DuplicateField(const JsonFrame* outer, std::string_view key);

  // Empty if all is well.
  const std::string& type_meta_error() const { return type_meta_error_; }
  const std::string& error() const { return bad_time_.empty() ? wrong_type_ : bad_time_; }

 private:
  void AddFieldError(std::string_view what, const JsonFrame* outer, std::string_view key);

  StrictErrors field_errors_;
  std::string type_meta_error_;
  std::string bad_time_;
  std::string wrong_type_;
};

// Whether Go's encoding/json, which looks for kind and apiVersion without regard to
// case, would take `key` for `name`. REQUIRES: name is ASCII letters
bool FoldedEqual(std::string_view key, std::string_view name);

// How a document is laid over a value that may hold something already.
enum class JsonMode : std::uint8_t {
  // As Go decodes: null leaves a scalar alone, and members given twice merge.
  kDecode,
  // As a merge patch: null empties the member, a null label goes.
  kMerge,
};

// Null sets Go's pointers, maps and slices to nil; times see to it themselves. It
// leaves everything else as it was.
template <typename T>
inline constexpr bool kGoEmptiesOnNull =
    std::is_same_v<T, StringMap> || std::is_base_of_v<Timestamp, T> || kMayBeAbsent<T>;
template <typename T>
inline constexpr bool kGoEmptiesOnNull<std::vector<T>> = true;

// Reads JSON in one API's spelling into our types, over the tables in fields.h.
//
// Kubernetes writes members in the order of its declarations and ours are the
// same, so each member is looked for where it should be. Then which one it is was
// known to the compiler, and comparing its name is a word or two.
//
// Thread-confined.
template <EventApi kApi, JsonMode kMode = JsonMode::kDecode>
class JsonDecoder {
 public:
  JsonDecoder(JsonReader* reader, JsonComplaints* complaints)
      : r_(*reader), complaints_(*complaints) {}

  // Reads the document's only value into *object, its kind and apiVersion into
  // *type_meta (null: they are members like others). The caller looks at the reader
  // and the complaints for errors.
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
        complaints_.BadTypeMeta("", JsonTypeName(type));
    }
    r_.Finish();
  }

 private:
  using Type = JsonReader::Type;

  // Which members were there already is noted in 64 bits: by position, and these.
  static constexpr std::size_t kKindBit = 62;
  static constexpr std::size_t kVersionBit = 63;

  // T's members by position: their names, and a function that reads each.
  template <typename T, typename Indexes = std::make_index_sequence<kFieldCount<T, kApi>>>
  struct Table;

  template <typename T, std::size_t... kIndex>
  struct Table<T, std::index_sequence<kIndex...>> {
    static constexpr std::size_t kSize = sizeof...(kIndex);
    static constexpr std::array<std::string_view, kSize> kNames = {
        std::get<kIndex>(FieldTable<T, kApi>::kFields).json...};
    static_assert(kSize <= kKindBit);

    // Reads all members up to one that is not where the table has it: false if there
    // is none, and the object has ended.
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

  // False if it was the last member. Otherwise it has been read, or another is next.
  template <std::size_t kIndex, typename T>
  bool ReadIfNext(T* object, JsonFrame* frame, std::uint64_t* seen) {
    constexpr std::string_view kName = std::get<kIndex>(FieldTable<T, kApi>::kFields).json;
    if (!r_.SkipExpectedKey(kName)) return true;
    if (Seen(kIndex, seen)) complaints_.DuplicateField(frame->outer, kName);
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

  // Reads one member, whichever it is.
  template <typename T>
  void AnyMember(T* object, const JsonFrame* outer, TypeMeta* type_meta, JsonFrame* frame,
                 std::uint64_t* seen) {
    const std::string_view key = r_.ReadKey();
    if (type_meta != nullptr && TypeMember(key, outer, type_meta, seen)) return;
    constexpr auto& kNames = Table<T>::kNames;
    const auto i = static_cast<std::size_t>(std::ranges::find(kNames, key) - kNames.begin());
    if (i == kNames.size()) {
      complaints_.UnknownField(outer, key);
      r_.SkipValue();
      return;
    }
    if (Seen(i, seen)) complaints_.DuplicateField(outer, kNames[i]);
    frame->field = kNames[i];
    Table<T>::Read(i, this, object, frame);
  }

  static bool Seen(std::size_t bit, std::uint64_t* seen) {
    const std::uint64_t mask = std::uint64_t{1} << bit;
    const bool before = (*seen & mask) != 0;
    *seen |= mask;
    return before;
  }

  // kind and apiVersion are read twice upstream: once by a decoder that ignores
  // letter case, to find out what the document is, and once by the one that does
  // not. The second one passes over "Kind", as over any unknown member.
  bool TypeMember(std::string_view key, const JsonFrame* outer, TypeMeta* type_meta,
                  std::uint64_t* seen) {
    const bool is_kind = FoldedEqual(key, "kind");
    if (!is_kind && !FoldedEqual(key, "apiVersion")) return false;
    const std::string_view name = is_kind ? "kind" : "apiVersion";
    if (key != name) {
      complaints_.UnknownField(outer, key);
    } else if (Seen(is_kind ? kKindBit : kVersionBit, seen)) {
      complaints_.DuplicateField(outer, key);
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
        complaints_.BadTypeMeta(name, JsonTypeName(type));
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
    complaints_.WrongType(frame, JsonTypeName(found), go_type);
  }

  // What Go calls the type of a member; `given` where the C++ type does not tell.
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
      complaints_.WrongType(frame, std::string("number ").append(literal), GoType<T>());
    }
  }

  template <typename T>
    requires std::is_base_of_v<Timestamp, T>
  void Value(Type type, T* out, JsonFrame& frame, std::string_view) {
    if (type != Type::kString) {
      r_.SkipValue();
      return complaints_.TimeOfWrongType(frame, JsonTypeName(type));
    }
    const std::string_view text = r_.ReadStringView();
    if (!r_.ok()) return;
    if (auto time = T::Parse(text)) {
      *out = *time;
    } else {
      complaints_.BadTime(time.error().message());
    }
  }

  template <typename T>
    requires kMayBeAbsent<T>
  void Value(Type type, T* out, JsonFrame& frame, std::string_view go_type) {
    if (!out->has_value()) out->emplace();
    Value(type, &**out, frame, go_type);
  }

  // The one optional string of the tables: JSON that is kept as it came.
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
    // A key that is in the map already is a duplicate, unless the map had keys before or loses
    // some to nulls. Only then the keys of this object are remembered apart from it.
    const bool reports = complaints_.wants_field_errors();
    const bool map_tells = kMode == JsonMode::kDecode && out->empty();
    std::set<std::string> seen;
    for (bool more = r_.BeginObject(); more; more = r_.NextMember()) {
      std::string key(r_.ReadKey());
      bool is_new = !reports || map_tells || seen.insert(key).second;
      const Type value_type = r_.Peek();
      if (value_type == Type::kNull && kMode == JsonMode::kMerge) {
        if (!is_new) complaints_.DuplicateField(&frame, key);
        r_.ReadNull();
        out->erase(key);
        continue;
      }
      const auto [entry, added] = out->emplace(std::move(key), std::string());
      if (map_tells) is_new = added;
      if (!is_new) complaints_.DuplicateField(&frame, entry->first);
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
    // A list given twice is decoded over the first one, element by element: Go
    // reuses the memory without emptying it.
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

  // How many elements are to come; 0 if that is not known. Worth finding out only for what is
  // large, and only once: what could not be counted then cannot be later.
  template <typename T>
  std::size_t CountFor(const std::vector<T>& list) const {
    if (!std::is_same_v<T, Event> || list.size() > kFirstGuess) return 0;
    return CountObjects({r_.position(), r_.left()});
  }

  JsonReader& r_;
  JsonComplaints& complaints_;
};

}  // namespace herald
