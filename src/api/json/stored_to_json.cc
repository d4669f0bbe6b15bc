#include "api/json/stored_to_json.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "api/fields.h"
#include "api/json/encoder.h"
#include "api/protobuf/reader.h"
#include "herald/api/codec.h"

namespace herald {
namespace {

// The beginning of every stored event: the magic bytes, the type "v1" "Event", and the tag of the
// event.
constexpr std::string_view kBeginning(
    "k8s\0\x0a\x0b\x0a\x02v1\x12\x05"
    "Event\x12",
    18);
constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

// The supported kinds of fields.
enum class Kind : std::uint8_t { kText, kNumber, kMoment, kMessage, kOther };

template <typename T>
struct Unwrapped {
  using Type = T;
};
template <typename T>
  requires kIsOptional<T>
struct Unwrapped<T> {
  using Type = typename T::value_type;
};

template <typename Member>
constexpr Kind KindOf() {
  using T = typename Unwrapped<Member>::Type;
  if constexpr (std::is_same_v<Member, std::string>) {
    return Kind::kText;
  } else if constexpr (std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t>) {
    return Kind::kNumber;
  } else if constexpr (std::is_base_of_v<Timestamp, T>) {
    return Kind::kMoment;
  } else if constexpr (requires { FieldTable<T, EventApi::kCoreV1>::kGoName; }) {
    return Kind::kMessage;
  } else {
    return Kind::kOther;
  }
}

// Reads a time as Kubernetes writes it. Returns false for other forms.
template <typename T>
bool ReadMoment(std::string_view bytes, T* time) {
  ProtobufReader reader(bytes);
  bool any = false;
  std::int64_t seconds = 0;
  std::int64_t nanos = 0;
  while (reader.NextField({})) {
    if (reader.wire_type() != WireType::kVarint || reader.field() > 2) return false;
    (reader.field() == 1 ? seconds : nanos) = static_cast<std::int64_t>(reader.Varint());
    any = true;
  }
  if (!reader.ok() || nanos < 0 || nanos >= kNanosPerSecond) return false;
  if (any) {
    *time = T(seconds,
              std::is_same_v<T, MicroTime> ? static_cast<std::int32_t>(nanos / 1000 * 1000) : 0);
  }
  return true;
}

template <EventApi kApi>
class StoredToJson {
 public:
  StoredToJson(std::string_view resource_version, JsonWriter* writer)
      : resource_version_(resource_version), w_(*writer) {}

  template <typename T>
  bool Message(std::string_view bytes) {
    return MessageOf<T>(bytes, std::make_index_sequence<kFieldCount<T, kApi>>());
  }

 private:
  // A field of the message. JSON has another order than protobuf, so that fields are collected
  // first.
  struct Slot {
    std::string_view bytes{};
    std::uint64_t number = 0;
    bool present = false;
  };

  template <typename T, std::size_t kIndex>
  using MemberAt = typename std::tuple_element_t<
      kIndex, std::remove_cvref_t<decltype(FieldTable<T, kApi>::kFields)>>::MemberType;

  // The number in core/v1 of a field of this API's table.
  template <typename T, std::size_t kIndex>
  static constexpr int kStoredNumber = [] {
    constexpr auto kMember = std::get<kIndex>(FieldTable<T, kApi>::kFields).member;
    int number = 0;
    const auto look = [&number, kMember](const auto& stored) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(stored.member)>,
                                   std::remove_cvref_t<decltype(kMember)>>) {
        if (stored.member == kMember) number = stored.number;
      }
    };
    std::apply([&look](const auto&... stored) { (look(stored), ...); },
               FieldTable<T, EventApi::kCoreV1>::kFields);
    return number;
  }();

  template <typename T, std::size_t... kIndex>
  bool MessageOf(std::string_view bytes, std::index_sequence<kIndex...>) {
    static constexpr std::array kKinds = {KindOf<MemberAt<T, kIndex>>()...};
    static constexpr std::size_t kNone = sizeof...(kIndex);
    // Indexed by field number; kNone for unknown fields.
    static constexpr auto kIndexes = [] {
      std::array<std::size_t, std::max({kStoredNumber<T, kIndex>...}) + 1> indexes{};
      indexes.fill(kNone);
      ((indexes[static_cast<std::size_t>(kStoredNumber<T, kIndex>)] = kIndex), ...);
      return indexes;
    }();
    std::array<Slot, sizeof...(kIndex)> slots{};
    ProtobufReader reader(bytes);
    while (reader.NextField({})) {
      const auto number = static_cast<std::size_t>(reader.field());
      const std::size_t index = number < kIndexes.size() ? kIndexes[number] : kNone;
      if (index == kNone) return false;
      Slot& slot = slots[index];
      const Kind kind = kKinds[index];
      const WireType expected = kind == Kind::kNumber ? WireType::kVarint : WireType::kBytes;
      // A field that occurs twice has to be merged, which only the decoder does.
      if (kind == Kind::kOther || slot.present || reader.wire_type() != expected) return false;
      if (kind == Kind::kNumber) {
        slot.number = reader.Varint();
      } else {
        slot.bytes = reader.Bytes();
      }
      slot.present = true;
    }
    if (!reader.ok()) return false;
    const std::size_t opened = w_.OpenObject();
    const bool known = (Member<T, kIndex>(slots[kIndex]) && ...);
    w_.CloseObject(opened);
    return known;
  }

  template <typename T, std::size_t kIndex>
  void Key() {
    w_.Raw(JsonEncoder<kApi>::template Key<T, kIndex>());
  }

  template <typename T, std::size_t kIndex>
  bool Member(const Slot& slot) {
    using Held = MemberAt<T, kIndex>;
    using Value = typename Unwrapped<Held>::Type;
    constexpr Kind kKind = KindOf<Held>();
    constexpr auto& kField = std::get<kIndex>(FieldTable<T, kApi>::kFields);
    constexpr bool kOmit = kField.presence == Presence::kOmitEmpty;
    if constexpr (kIsOptional<Held>) {
      static_assert(kOmit);
      if (!slot.present) return true;
    }
    constexpr bool kOmitZero = kOmit && !kIsOptional<Held>;
    if constexpr (kKind == Kind::kText) {
      std::string_view text = slot.bytes;
      if constexpr (std::is_same_v<T, ObjectMeta>) {
        if (kField.member == &ObjectMeta::resource_version) text = resource_version_;
      }
      if (kOmitZero && text.empty()) return true;
      Key<T, kIndex>();
      w_.String(text);
    } else if constexpr (kKind == Kind::kNumber) {
      const auto value = static_cast<Value>(slot.number);
      if (kOmitZero && value == 0) return true;
      Key<T, kIndex>();
      w_.Int(value);
    } else if constexpr (kKind == Kind::kMoment) {
      Value time;
      if (!ReadMoment(slot.bytes, &time)) return false;
      if (kOmitZero && time.is_zero()) return true;
      Key<T, kIndex>();
      JsonEncoder<kApi>(&w_).Value(time);
    } else if constexpr (kKind == Kind::kMessage) {
      Key<T, kIndex>();
      return Message<Value>(slot.bytes);
    }
    return true;
  }

  const std::string_view resource_version_;
  JsonWriter& w_;
};

}  // namespace

bool WriteStoredEventJson(std::string_view stored, EventApi api, std::string_view resource_version,
                          JsonWriter* writer) {
  if (!stored.starts_with(kBeginning) || stored.size() > kMaxRequestBytes) return false;
  ProtobufReader reader(stored.substr(kBeginning.size()));
  const std::string_view event = reader.Bytes();
  // The envelope ends with two empty strings.
  if (!reader.ok() ||
      stored.substr(kBeginning.size() + reader.read()) != std::string_view("\x1a\0\x22\0", 4)) {
    return false;
  }
  return WithApi(api, [&](auto constant) {
    return StoredToJson<constant()>(resource_version, writer).template Message<Event>(event);
  });
}

}  // namespace herald
