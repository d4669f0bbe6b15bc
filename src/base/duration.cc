#include "base/duration.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

namespace herald {
namespace {

using std::chrono::nanoseconds;

struct Unit {
  std::string_view name;
  double nanos;
};
// "ms" is before "m", so that it is not read as minutes. Go does not have the last one.
constexpr std::array<Unit, 9> kUnits = {{{"ns", 1},
                                         {"us", 1e3},
                                         {"\xc2\xb5s", 1e3},
                                         {"\xce\xbcs", 1e3},
                                         {"ms", 1e6},
                                         {"s", 1e9},
                                         {"m", 60e9},
                                         {"h", 3600e9},
                                         {"d", 86400e9}}};

std::optional<nanoseconds> Parse(std::string_view text, bool with_days) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text == "0") return nanoseconds(0);
  if (text.empty()) return std::nullopt;
  const auto* const end = with_days ? kUnits.end() : kUnits.end() - 1;
  double total = 0;
  while (!text.empty()) {
    // Go accepts digits and a point, but no signs and no exponents.
    const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
    double number = 0;
    const auto [stop, error] =
        std::from_chars(text.data(), text.data() + digits, number, std::chars_format::fixed);
    if (error != std::errc() || stop != text.data() + digits) return std::nullopt;
    text.remove_prefix(digits);
    const auto* const unit = std::find_if(kUnits.begin(), end, [&](const Unit& candidate) {
      return text.starts_with(candidate.name);
    });
    if (unit == end) return std::nullopt;
    text.remove_prefix(unit->name.size());
    total += number * unit->nanos;
  }
  if (!(total < 9.2e18)) return std::nullopt;
  const auto nanos = static_cast<std::int64_t>(total);
  return nanoseconds(negative ? -nanos : nanos);
}

}  // namespace

std::optional<nanoseconds> ParseGoDuration(std::string_view text) { return Parse(text, false); }

std::optional<nanoseconds> ParseDuration(std::string_view text) { return Parse(text, true); }

}  // namespace herald
