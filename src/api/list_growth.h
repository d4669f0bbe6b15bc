#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace herald {

// The growth of a list's capacity while it is decoded. An Event takes almost a kilobyte. In a list
// of ten thousand, the half of the capacity that a std::vector may leave unused is megabytes, and
// so is the old buffer while the elements are moved to a new one. So the decoder counts the
// elements in advance and reallocates once, while the list is still short.

// Shorter lists grow like any vector.
inline constexpr std::size_t kFirstGuess = 16;
// Without a count, the capacity grows at most by this factor, whatever the size of the first
// elements.
inline constexpr std::size_t kMaxGrowth = 4;
// The capacity grows at most by this many bytes per byte of input that is left, whatever the count:
// input that only looks like a list must not reserve gigabytes. An event takes at most 1.3 times
// the bytes of its JSON and 2.6 times those of its protobuf.
inline constexpr std::size_t kMaxRoomPerByte = 4;

// Whether to call GrowFor() before the next element.
template <typename T>
bool NeedsRoom(const std::vector<T>& list) {
  return list.size() >= kFirstGuess && list.size() == list.capacity();
}

// Reserves capacity for one more element and for those that probably follow. The existing elements
// were decoded from `read` bytes, `left` bytes of input are left, and `counted` is the number of
// elements in these, or 0 if it is unknown.
// REQUIRES: NeedsRoom(*list)
template <typename T>
void GrowFor(std::size_t read, std::size_t left, std::size_t counted, std::vector<T>* list) {
  const std::size_t size = list->size();
  std::size_t to_come = std::min(counted, kMaxRoomPerByte * left / sizeof(T));
  if (counted == 0) {
    // Assumes the average size so far, and a few percent more because sizes vary.
    const std::size_t alike = left / std::max<std::size_t>(read / size, 1);
    to_come = std::clamp(alike + alike / 32 + 1, size / 2, (kMaxGrowth - 1) * size);
  }
  // A count that is wrong each time must not cause a reallocation for each element.
  list->reserve(size + std::max(to_come, size / 8));
}

// Frees the unused capacity of a complete list if that is worth a reallocation.
template <typename T>
void DropSpareRoom(std::vector<T>* list) {
  const std::size_t spare = list->capacity() - list->size();
  if (list->capacity() > kFirstGuess && spare > list->size() / 8) list->shrink_to_fit();
}

// The number of elements in the rest of a JSON list, including the one that begins here, if
// Kubernetes wrote it: each begins with its metadata, without white space. 0 if it is unknown. It
// only looks for braces, which takes a twentieth of the time of decoding the elements.
std::size_t CountObjects(std::string_view rest_of_list);

}  // namespace herald
