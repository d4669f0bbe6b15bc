#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "herald/api/event.h"
#include "herald/base/status.h"

namespace herald::strategic {

// A Go type as the merge needs it: the types of its members, and its name for errors.
// Immutable.
struct MergeType {
  enum class Kind : std::uint8_t { kStruct, kMap, kList, kPointer, kScalar };
  struct Member {
    std::string_view name;
    const MergeType* type;
  };
  Kind kind = Kind::kScalar;
  std::string_view go_name = {};
  std::span<const Member> members = {};
  const MergeType* element = nullptr;  // of a list or a pointer
};

// The type of an event in one spelling.
const MergeType& EventMergeType(EventApi api);

// How a list is merged.
struct ListStrategy {
  bool merges = false;        // false: the list is replaced
  std::string_view key = {};  // the member that identifies an element; empty: the element itself
  const MergeType* element = nullptr;
};

// Finds the member `name` of a struct, or of the struct that a pointer points to. Where no name is
// equal, one that differs only in case is taken, as Go's JSON decoder did.
Status FindMember(const MergeType& type, std::string_view name, const MergeType::Member** found);

// Finds how the list `name` of a struct is merged.
Status FindList(const MergeType& type, std::string_view name, ListStrategy* strategy);

}  // namespace herald::strategic
