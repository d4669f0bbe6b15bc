#pragma once

#include <cstddef>
#include <string>
#include <tuple>

#include "api/fields.h"

// Emptying an object whose memory is wanted again. Most of what it costs to read an event is
// memory for its texts; a watch, which reads one event after the other, has it already.
namespace herald {

// A text of more than this many bytes gives its memory back, so that one huge event does not
// make a watch huge for good. The messages of the new style, of at most 1,024 bytes, stay
// below it; all texts of an event together keep at most 50 KiB.
inline constexpr std::size_t kMaxKeptText = 2048;

// Makes *object equal to a new one; what it keeps is the memory of texts.
template <typename T>
void EmptyForReuse(T* object) {
  *object = T();
}

inline void EmptyForReuse(std::string* text) {
  if (text->capacity() > kMaxKeptText) {
    std::string().swap(*text);  // assigned, an empty text would leave the memory there
  } else {
    text->clear();
  }
}

// Over the table of its members, so that none is forgotten. Any spelling names all of them.
template <typename T>
  requires requires { FieldTable<T, EventApi::kCoreV1>::kGoName; }
void EmptyForReuse(T* object) {
  static_assert(kFieldCount<T, EventApi::kCoreV1> == kFieldCount<T, EventApi::kEventsV1>);
  std::apply([object](const auto&... field) { (EmptyForReuse(&(object->*field.member)), ...); },
             FieldTable<T, EventApi::kCoreV1>::kFields);
}

}  // namespace herald
