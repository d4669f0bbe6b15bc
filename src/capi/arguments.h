#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "capi/errors.h"
#include "herald/api/event.h"
#include "herald/herald.h"
#include "herald/record/broadcaster.h"
#include "herald/record/recorder.h"

// Translates arguments of C into Herald's own types. Functions that return a herald_status have
// called Fail() where it is not HERALD_OK.
namespace herald {

// A struct that claims to be larger was not initialized: no later version will be so large.
inline constexpr std::size_t kMaxStructBytes = 4096;

// NULL is the empty string.
inline std::string_view View(const char* string) {
  return string == nullptr ? std::string_view() : string;
}

// Copies as much as fits, ends it with NUL, and returns the length of the whole string.
std::size_t CopyOut(std::string_view string, char* buffer, std::size_t capacity);

// Checks the `size` member of a struct, which may be of another version of the header.
template <typename T>
herald_status CheckSize(const T* in, const char* name) {
  static_assert(std::is_trivially_copyable_v<T> && offsetof(T, size) == 0);
  if (in == nullptr) return FailNull(name);
  const std::size_t size = in->size;
  // The size of a struct is a multiple of its alignment, so no pointer is cut in two.
  if (size >= sizeof(size) && size <= kMaxStructBytes && size % alignof(T) == 0) return HERALD_OK;
  return Fail(HERALD_INVALID_ARGUMENT,
              fmt::format("{}.size is {}, not the size of the struct", name, size));
}

// Copies such a struct to *out. Members that the caller's version does not have become zero;
// members that this version does not have must be zero.
template <typename T>
herald_status ReadSized(const T* in, const char* name, T* out) {
  const herald_status status = CheckSize(in, name);
  if (status != HERALD_OK) return status;
  const std::size_t size = in->size;
  *out = T{};
  std::memcpy(out, in, std::min(size, sizeof(T)));
  const char* const bytes = reinterpret_cast<const char*>(in);
  if (size > sizeof(T) &&
      std::any_of(bytes + sizeof(T), bytes + size, [](char byte) { return byte != 0; })) {
    return Fail(
        HERALD_INVALID_ARGUMENT,
        fmt::format("{} sets a member that Herald {} does not have", name, herald_version()));
  }
  return HERALD_OK;
}

herald_status CheckReserved(std::uint32_t reserved, const char* name);
herald_status CheckApi(int api, const char* name);

// A reference without kind or name is not an error here: the pipeline counts it as invalid.
ObjectReference ToReference(const herald_reference& reference);
herald_status ToSpool(const herald_spool_options* options, SpoolOptions* out);
herald_status ToOccurrence(const herald_occurrence& in, Occurrence* out);

}  // namespace herald
