#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace herald {

// How the room of a list grows while it is read. An Event takes the better part of a
// kilobyte: in a list of ten thousand the half of its room that a std::vector may leave unused
// is megabytes, and so is the old room while the list is moved to a larger one. So we look
// ahead for how many elements there will be, and move the list once, while it is still short.

// Shorter lists grow as vectors do.
inline constexpr std::size_t kFirstGuess = 16;
// Without a count no growth is by more than this factor, whatever the first elements promise.
inline constexpr std::size_t kMaxGrowth = 4;
// No growth is by more bytes than this times the text to come, whatever was counted: a text
// that only looks like a list must not make us reserve gigabytes. An event takes 1.3 times the
// room of its JSON and 2.6 times that of its protobuf, if it is as short as they come.
inline constexpr std::size_t kMaxRoomPerByte = 4;

// Whether to call GrowFor() before the next element.
template <typename T>
bool NeedsRoom(const std::vector<T>& list) {
  return list.size() >= kFirstGuess && list.size() == list.capacity();
}

// Makes room for one more element, and for as many as are likely to follow: `read` bytes of
// the text have given those that are there, `left` bytes are to come, and in these somebody has
// counted `counted` elements; 0 if nobody could.
// REQUIRES: NeedsRoom(*list)
template <typename T>
void GrowFor(std::size_t read, std::size_t left, std::size_t counted, std::vector<T>* list) {
  const std::size_t size = list->size();
  std::size_t to_come = std::min(counted, kMaxRoomPerByte * left / sizeof(T));
  if (counted == 0) {
    // As long as those before; a few percent more, as numbers grow longer and messages vary.
    const std::size_t alike = left / std::max<std::size_t>(read / size, 1);
    to_come = std::clamp(alike + alike / 32 + 1, size / 2, (kMaxGrowth - 1) * size);
  }
  // A count that is wrong each time must not move the list for each element.
  list->reserve(size + std::max(to_come, size / 8));
}

// Gives back the room of a list that is complete, if it is worth moving the list for.
template <typename T>
void DropSpareRoom(std::vector<T>* list) {
  const std::size_t spare = list->capacity() - list->size();
  if (list->capacity() > kFirstGuess && spare > list->size() / 8) list->shrink_to_fit();
}

// How many elements are in the rest of a list in JSON, the one that begins here included, if
// Kubernetes has written it: their metadata comes first, and there is no white space. 0 if it
// cannot be told. It only looks for braces, and takes a twentieth of the time that reading the
// elements does.
std::size_t CountObjects(std::string_view rest_of_list);

}  // namespace herald
