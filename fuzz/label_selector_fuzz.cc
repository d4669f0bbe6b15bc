// A parsed label selector prints a string that parses to the same selector, and both match the same
// objects.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "herald/api/selector.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using herald::LabelSelector;
  const auto selector =
      LabelSelector::Parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!selector) return 0;

  const auto again = LabelSelector::Parse(selector->ToString());
  if (!again || *again != *selector) std::abort();

  herald::StringMap labels = {{"a", "1"}, {"tier", "web"}, {"in", ""}};
  for (const LabelSelector::Requirement& requirement : selector->requirements()) {
    if (!requirement.values.empty()) labels[requirement.key] = requirement.values.front();
    if (selector->Matches(labels) != again->Matches(labels)) std::abort();
  }
  return 0;
}
