#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>

#include "api/fields.h"
#include "api/protobuf/magic.h"

// What the encoder and the decoder of Kubernetes' protobuf have in common.
namespace herald {

// metav1.Timestamp, the message of Time and MicroTime.
inline constexpr int kSecondsField = 1;
inline constexpr int kNanosField = 2;

// A map is a list of such entries.
inline constexpr int kMapKeyField = 1;
inline constexpr int kMapValueField = 2;
// metav1.FieldsV1 and runtime.RawExtension are messages with this one field.
inline constexpr int kRawField = 1;

// The positions in T's table, sorted by field number.
template <typename T, EventApi kApi, std::size_t... kIndex>
constexpr auto FieldOrder(std::index_sequence<kIndex...>) {
  const std::array<int, sizeof...(kIndex)> numbers = {
      std::get<kIndex>(FieldTable<T, kApi>::kFields).number...};
  std::array<std::size_t, sizeof...(kIndex)> order = {kIndex...};
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return numbers[a] < numbers[b]; });
  return order;
}

}  // namespace herald
