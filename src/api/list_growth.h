#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace herald {

// How the room of a list grows while it is read. An Event takes the better part of a
// kilobyte, so the half of its room that a std::vector may leave unused is megabytes in a
// list of ten thousand. How many elements there will be can be told from how much of the
// text the first ones took: the last growth is then close to what is needed.

// Shorter lists grow as vectors do.
inline constexpr std::size_t kFirstGuess = 16;
// No growth is by more than this factor, whatever the first elements promise: a list that
// begins with a thousand empty objects must not make us reserve gigabytes.
inline constexpr std::size_t kMaxGrowth = 4;

// Makes room for one more element, and for as many as are likely to follow: `read` bytes of
// the text have given those that are there, `left` bytes are to come.
template <typename T>
void GrowFor(std::size_t read, std::size_t left, std::vector<T>* list) {
  const std::size_t size = list->size();
  if (size < kFirstGuess || size < list->capacity()) return;
  const std::size_t to_come = left / std::max<std::size_t>(read / size, 1);
  // A few percent more, as numbers grow longer and messages vary.
  const std::size_t likely = size + to_come + to_come / 32 + 1;
  list->reserve(std::clamp(likely, size + size / 2, kMaxGrowth * size));
}

// Gives back the room of a list that is complete, if it is worth moving the list for.
template <typename T>
void DropSpareRoom(std::vector<T>* list) {
  const std::size_t spare = list->capacity() - list->size();
  if (list->capacity() > kFirstGuess && spare > list->size() / 8) list->shrink_to_fit();
}

}  // namespace herald
