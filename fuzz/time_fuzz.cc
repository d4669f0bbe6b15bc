// A parsed time is printed as a string that parses to the same time. Any number of seconds can be
// printed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "herald/api/time.h"

namespace {

template <typename T>
void CheckRoundTrip(std::string_view text, std::int32_t resolution) {
  const auto time = T::Parse(text);
  if (!time) {
    if (time.error().message().empty()) std::abort();
    return;
  }
  const std::string printed = time->ToString();
  const auto again = T::Parse(printed);
  // An offset can move a time out of the four-digit years, which no parser accepts.
  if (!again) {
    if (printed.size() == std::string_view("2006-01-02T15:04:05Z").size()) std::abort();
    return;
  }
  if (again->seconds() != time->seconds()) std::abort();
  if (again->nanos() != time->nanos() / resolution * resolution) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckRoundTrip<herald::Time>(text, 1'000'000'000);
  CheckRoundTrip<herald::MicroTime>(text, 1'000);
  std::int64_t seconds = 0;
  if (size < sizeof(seconds)) return 0;
  std::memcpy(&seconds, data, sizeof(seconds));
  if (herald::Time(seconds, 0).ToString().size() > herald::Timestamp::kMaxTextBytes) std::abort();
  if (herald::MicroTime(seconds, 999'999'999).ToString().size() >
      herald::Timestamp::kMaxTextBytes) {
    std::abort();
  }
  return 0;
}
