#pragma once

#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "api/fields.h"
#include "herald/api/event.h"

// For tests: an event in which all fields of fields.h are set. It shows which values remain if an
// event is decoded over another one.
namespace herald::testing {

template <typename T>
void Fill(T* value);

inline void Fill(std::string* text) { *text = "a string that is allocated on the heap"; }
inline void Fill(bool* value) { *value = true; }
inline void Fill(StringMap* map) { *map = {{"key", "value"}}; }
template <typename T>
void Fill(std::vector<T>* list) {
  list->resize(2);
  for (T& element : *list) Fill(&element);
}

template <typename T>
void Fill(T* value) {
  if constexpr (requires { FieldTable<T, EventApi::kCoreV1>::kGoName; }) {
    std::apply([value](const auto&... field) { (Fill(&(value->*field.member)), ...); },
               FieldTable<T, EventApi::kCoreV1>::kFields);
  } else if constexpr (kIsOptional<T>) {
    Fill(&value->emplace());
  } else if constexpr (std::is_base_of_v<Timestamp, T>) {
    *value = T(1'700'000'000, 0);
  } else {
    static_assert(std::is_integral_v<T>);
    *value = 7;
  }
}

inline Event FullEvent() {
  Event event;
  Fill(&event);
  return event;
}

}  // namespace herald::testing
