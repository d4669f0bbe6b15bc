#include "api/yaml/scalar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <system_error>
#include <type_traits>

namespace herald::yaml {
namespace {

int DaysIn(int year, int month) {
  static constexpr std::array kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  return month == 2 && leap ? 29 : kDays[static_cast<std::size_t>(month - 1)];
}

// 2006-1-2, 2006-1-2 15:4:5.9, 2006-1-2T15:4:5.9Z and the same with a t or an offset.
bool IsTimestamp(std::string_view text) {
  const int year = TakeDigits(&text, 4, 4);
  if (year < 0 || !Take(&text, '-')) return false;
  const int month = TakeDigits(&text, 1, 2);
  if (month < 1 || month > 12 || !Take(&text, '-')) return false;
  const int day = TakeDigits(&text, 1, 2);
  if (day < 1 || day > DaysIn(year, month)) return false;
  if (text.empty()) return true;
  const bool zoned = text.front() == 'T' || text.front() == 't';
  if (!zoned && text.front() != ' ') return false;
  text.remove_prefix(1);
  const int hour = TakeDigits(&text, 1, 2);
  if (hour < 0 || hour > 23 || !Take(&text, ':')) return false;
  const int minute = TakeDigits(&text, 1, 2);
  if (minute < 0 || minute > 59 || !Take(&text, ':')) return false;
  const int second = TakeDigits(&text, 1, 2);
  if (second < 0 || second > 59) return false;
  if (Take(&text, '.') || Take(&text, ',')) {
    if (text.empty() || !IsDigit(text.front())) return false;
    while (!text.empty() && IsDigit(text.front())) text.remove_prefix(1);
  }
  if (!zoned) return text.empty();
  if (Take(&text, 'Z')) return text.empty();
  if (!Take(&text, '+') && !Take(&text, '-')) return false;
  const int offset_hour = TakeDigits(&text, 2, 2);
  if (offset_hour < 0 || offset_hour > 24 || !Take(&text, ':')) return false;
  const int offset_minute = TakeDigits(&text, 2, 2);
  return offset_minute >= 0 && offset_minute < 60 && text.empty();
}

// Go's strconv.ParseInt and ParseUint with base 0: 0x, 0o, 0b and a plain leading 0.
template <typename Int>
std::optional<Int> ParseInteger(std::string_view text) {
  bool negative = false;
  if constexpr (std::is_signed_v<Int>) {
    if (!text.empty() && (text.front() == '+' || text.front() == '-')) {
      negative = text.front() == '-';
      text.remove_prefix(1);
    }
  }
  int base = 10;
  if (text.size() > 1 && text.front() == '0') {
    const char letter = static_cast<char>(text[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'b' ? 2 : 8;
    text.remove_prefix(letter == 'x' || letter == 'b' || letter == 'o' ? 2 : 1);
  }
  // from_chars would accept a second sign.
  if (text.empty() || text.front() == '-' || text.front() == '+') return std::nullopt;
  std::string digits = negative ? "-" : "";
  digits.append(text);
  Int value{};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
bool LooksLikeFloat(std::string_view text) {
  if (!Take(&text, '-')) (void)Take(&text, '+');
  const auto digits = [&text] {
    std::size_t n = 0;
    while (!text.empty() && IsDigit(text.front())) text.remove_prefix(1), ++n;
    return n;
  };
  if (Take(&text, '.')) {
    if (digits() == 0) return false;
  } else {
    if (digits() == 0) return false;
    if (Take(&text, '.')) digits();
  }
  if (Take(&text, 'e') || Take(&text, 'E')) {
    if (!Take(&text, '-')) (void)Take(&text, '+');
    if (digits() == 0) return false;
  }
  return text.empty();
}

// nullopt if it exceeds the range of a double. A number that is too small becomes zero.
// REQUIRES: LooksLikeFloat(text)
std::optional<double> ParseFloat(std::string_view text) {
  (void)Take(&text, '+');
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc()) return value;
  // from_chars does not report whether the number is too large or too small. The power of ten of
  // the first digit that is not 0 does.
  const std::size_t e = text.find_first_of("eE");
  const std::string_view mantissa = text.substr(0, e);
  const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
  const std::size_t first = mantissa.find_first_of("123456789");
  double power = static_cast<double>(point) - static_cast<double>(first);
  if (e != std::string_view::npos) {
    std::string_view exponent = text.substr(e + 1);
    (void)Take(&exponent, '+');
    std::int64_t number = 0;
    const auto parsed = std::from_chars(exponent.data(), exponent.data() + exponent.size(), number);
    power += parsed.ec == std::errc()  ? static_cast<double>(number)
             : exponent.front() == '-' ? -1e9
                                       : 1e9;
  }
  if (power > 0) return std::nullopt;
  return text.front() == '-' ? -0.0 : 0.0;
}

const std::map<std::string_view, Scalar>& Words() {
  static const auto* const words = [] {
    auto* map =
        new std::map<std::string_view, Scalar>;  // never destroyed, so it can be used at exit
    for (const char* w : {"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
      map->emplace(w, true);
    for (const char* w :
         {"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
      map->emplace(w, false);
    for (const char* w : {"", "~", "null", "Null", "NULL"}) map->emplace(w, nullptr);
    for (const char* w : {".nan", ".NaN", ".NAN"}) map->emplace(w, std::nan(""));
    for (const char* w : {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"})
      map->emplace(w, HUGE_VAL);
    for (const char* w : {"-.inf", "-.Inf", "-.INF"}) map->emplace(w, -HUGE_VAL);
    return map;
  }();
  return *words;
}

template <typename Float>
std::string FormatAsG(Float value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific)
                       .ptr;
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const int exponent = std::atoi(std::string(text.substr(text.find('e') + 1)).c_str());
  if (exponent < -4 || exponent >= 6) return std::string(text);
  const auto fixed =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed)
          .ptr;
  return {buffer.data(), fixed};
}

}  // namespace

int TakeDigits(std::string_view* text, std::size_t min, std::size_t max) {
  std::size_t n = 0;
  int value = 0;
  while (n < max && n < text->size() && IsDigit((*text)[n]))
    value = value * 10 + ((*text)[n++] - '0');
  if (n < min) return -1;
  text->remove_prefix(n);
  return value;
}

bool Take(std::string_view* text, char c) {
  if (text->empty() || text->front() != c) return false;
  text->remove_prefix(1);
  return true;
}

Scalar Resolve(std::string_view text, bool timestamps) {
  if (const auto it = Words().find(text); it != Words().end()) return it->second;
  const char first = text.front();
  if (first == '.' && LooksLikeFloat(text)) {
    if (const auto value = ParseFloat(text)) return *value;
  }
  if (first == '+' || first == '-' || IsDigit(first)) {
    if (timestamps && IsTimestamp(text)) return Timestamp{};
    std::string plain(text);
    std::erase(plain, '_');
    if (const auto value = ParseInteger<std::int64_t>(plain)) return *value;
    if (const auto value = ParseInteger<std::uint64_t>(plain)) return *value;
    if (LooksLikeFloat(plain)) {
      if (const auto value = ParseFloat(plain)) return *value;
    }
  }
  return std::string(text);
}

std::string FormatG(float value) { return FormatAsG(value); }
std::string FormatG(double value) { return FormatAsG(value); }

}  // namespace herald::yaml
