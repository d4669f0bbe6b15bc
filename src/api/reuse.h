#pragma once

#include <cstddef>
#include <string>
#include <tuple>

#include "api/fields.h"

// Clears an object but keeps the memory of its strings. Allocating them takes most of the time of
// decoding an event; a watch decodes one event after the other and reuses it.
namespace herald {

// A string with a larger capacity, in bytes, is freed, so that a watch does not keep the memory of
// one huge event. Messages of the new style have at most 1,024 bytes and are kept; all strings of
// an event together keep at most 50 KiB.
inline constexpr std::size_t kMaxKeptText = 2048;

// Makes *object equal to a new one, but keeps the memory of strings.
template <typename T>
void EmptyForReuse(T* object) {
  *object = T();
}

inline void EmptyForReuse(std::string* text) {
  if (text->capacity() > kMaxKeptText) {
    std::string().swap(*text);  // an assignment would keep the memory
  } else {
    text->clear();
  }
}

// Uses the field table, so that no field is forgotten. Each spelling has all of them.
template <typename T>
  requires requires { FieldTable<T, EventApi::kCoreV1>::kGoName; }
void EmptyForReuse(T* object) {
  static_assert(kFieldCount<T, EventApi::kCoreV1> == kFieldCount<T, EventApi::kEventsV1>);
  std::apply([object](const auto&... field) { (EmptyForReuse(&(object->*field.member)), ...); },
             FieldTable<T, EventApi::kCoreV1>::kFields);
}

}  // namespace herald
