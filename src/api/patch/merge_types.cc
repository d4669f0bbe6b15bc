#include "api/patch/merge_types.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "api/fields.h"
#include "api/patch/merge_errors.h"
#include "api/quote.h"

namespace herald::strategic {
namespace {

template <typename T, EventApi kApi>
struct TypeOf {
  static constexpr MergeType kType = {};
};

template <EventApi kApi>
struct TypeOf<StringMap, kApi> {
  static constexpr MergeType kType = {.kind = MergeType::Kind::kMap};
};

template <typename T, EventApi kApi>
struct TypeOf<std::vector<T>, kApi> {
  static constexpr MergeType kType = {.kind = MergeType::Kind::kList,
                                      .element = &TypeOf<T, kApi>::kType};
};

template <typename T, EventApi kApi>
  requires kIsOptional<T>
struct TypeOf<T, kApi> {
  static constexpr MergeType kType = {.kind = MergeType::Kind::kPointer,
                                      .element = &TypeOf<typename T::value_type, kApi>::kType};
};

template <typename T, EventApi kApi>
  requires requires { FieldTable<T, kApi>::kGoName; }
struct TypeOf<T, kApi> {
  static constexpr auto kMembers = std::apply(
      [](const auto&... field) {
        return std::array{MergeType::Member{
            field.json,
            &TypeOf<typename std::remove_cvref_t<decltype(field)>::MemberType, kApi>::kType}...};
      },
      FieldTable<T, kApi>::kFields);
  static constexpr MergeType kType = {.kind = MergeType::Kind::kStruct,
                                      .go_name = FieldTable<T, kApi>::kGoName,
                                      .members = kMembers};
};

// The lists of an event that are merged. All others are replaced.
struct ListRule {
  std::string_view owner;
  std::string_view list;
  std::string_view key;  // see ListStrategy
};
constexpr ListRule kMergedLists[] = {
    {"ObjectMeta", "ownerReferences", "uid"},
    {"ObjectMeta", "finalizers", ""},
};

bool EqualFold(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [lower](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

const MergeType& EventMergeType(EventApi api) {
  return api == EventApi::kCoreV1 ? TypeOf<Event, EventApi::kCoreV1>::kType
                                  : TypeOf<Event, EventApi::kEventsV1>::kType;
}

Status FindMember(const MergeType& type, std::string_view name, const MergeType::Member** found) {
  const MergeType& owner = type.kind == MergeType::Kind::kPointer ? *type.element : type;
  if (owner.kind != MergeType::Kind::kStruct) {
    const std::string_view kind = owner.kind == MergeType::Kind::kMap    ? "map"
                                  : owner.kind == MergeType::Kind::kList ? "slice"
                                                                         : "string";
    return PlainError("merging an object in json but data type is not struct, instead is: " +
                      std::string(kind));
  }
  *found = nullptr;
  for (const MergeType::Member& member : owner.members) {
    if (member.name == name) {
      *found = &member;
      return Status();
    }
    if (*found == nullptr && EqualFold(member.name, name)) *found = &member;
  }
  if (*found != nullptr) return Status();
  return PlainError("unable to find api field in struct " + std::string(owner.go_name) +
                    " for the json field " + Quoted(name));
}

Status FindList(const MergeType& type, std::string_view name, ListStrategy* strategy) {
  const MergeType::Member* member = nullptr;
  if (Status status = FindMember(type, name, &member); !status.ok()) return status;
  const MergeType::Kind kind = member->type->kind;
  if (kind != MergeType::Kind::kList && kind != MergeType::Kind::kPointer) {
    return PlainError("expected slice or array type, but got: struct");
  }
  strategy->element = member->type->element;
  const MergeType& owner = type.kind == MergeType::Kind::kPointer ? *type.element : type;
  for (const ListRule& rule : kMergedLists) {
    if (rule.owner == owner.go_name && rule.list == member->name) {
      strategy->merges = true;
      strategy->key = rule.key;
    }
  }
  return Status();
}

}  // namespace herald::strategic
