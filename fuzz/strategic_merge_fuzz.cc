// The input is a strategic merge patch, applied to an event in both spellings.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/patch_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  herald::fuzz::CheckPatch(herald::PatchType::kStrategicMerge,
                           std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
