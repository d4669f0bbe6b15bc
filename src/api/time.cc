#include "herald/api/time.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <utility>

namespace herald {
namespace {

constexpr std::int64_t kSecondsPerDay = 86400;
constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

// The Gregorian calendar repeats every 400 years, an era. Years are counted from March, so that the
// leap day is the last day of a year and does not shift other months.
constexpr std::uint64_t kDaysPerEra = 146097;
constexpr std::uint64_t kDaysFromYearZeroToUnix = 719468;  // 0000-03-01 to 1970-01-01

// Years are counted from this many years before year 0, as in Go. Earlier times wrap around and are
// printed as late ones; with the same origin they wrap at the same second as in Go
// (TimeTest.PrintsAnyNumberOfSeconds).
constexpr std::uint64_t kOriginYears = 292'277'022'400;
constexpr std::uint64_t kOriginToUnixSeconds =
    (kOriginYears / 400 * kDaysPerEra + kDaysFromYearZeroToUnix) * kSecondsPerDay;

constexpr std::array<char, 200> kDigitPairs = [] {
  std::array<char, 200> pairs{};
  for (std::size_t i = 0; i < 100; ++i) {
    pairs[2 * i] = static_cast<char>('0' + i / 10);
    pairs[2 * i + 1] = static_cast<char>('0' + i % 10);
  }
  return pairs;
}();

template <typename T>
std::string TextOf(const T& time) {
  char text[Timestamp::kMaxTextBytes];
  return std::string(text, time.WriteTo(text));
}

// REQUIRES: value < 100
char* WritePair(std::uint32_t value, char* out) {
  std::memcpy(out, &kDigitPairs[2 * static_cast<std::size_t>(value)], 2);
  return out + 2;
}

// Writes at least four digits, and a sign if the year is negative.
char* WriteYear(std::int64_t year, char* out) {
  if (year >= 0 && year <= 9999) {
    out = WritePair(static_cast<std::uint32_t>(year) / 100, out);
    return WritePair(static_cast<std::uint32_t>(year) % 100, out);
  }
  if (year < 0) {
    *out++ = '-';
    year = -year;
  }
  for (std::int64_t limit = 1000; year < limit && limit > 1; limit /= 10) *out++ = '0';
  return std::to_chars(out, out + 12, year).ptr;
}

// Writes the date and time without fraction and zone, "2006-01-02T15:04:05".
char* WriteDateTime(std::int64_t seconds, char* out) {
  const std::uint64_t since_origin = static_cast<std::uint64_t>(seconds) + kOriginToUnixSeconds;
  const std::uint64_t days = since_origin / kSecondsPerDay;
  const auto second_of_day = static_cast<std::uint32_t>(since_origin % kSecondsPerDay);

  const std::uint64_t era = days / kDaysPerEra;
  const auto day_of_era = static_cast<std::uint32_t>(days % kDaysPerEra);
  const std::uint32_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const std::uint32_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  // From March on, months have 31, 30, 31, 30 and 31 days, repeated: 153 days in five months.
  const std::uint32_t months_from_march = (5 * day_of_year + 2) / 153;
  const std::uint32_t day = day_of_year - (153 * months_from_march + 2) / 5 + 1;
  const bool next_year = months_from_march >= 10;
  const std::uint32_t month = next_year ? months_from_march - 9 : months_from_march + 3;
  const auto year = static_cast<std::int64_t>(era * 400 + year_of_era + (next_year ? 1 : 0)) -
                    static_cast<std::int64_t>(kOriginYears);

  out = WriteYear(year, out);
  *out++ = '-';
  out = WritePair(month, out);
  *out++ = '-';
  out = WritePair(day, out);
  *out++ = 'T';
  out = WritePair(second_of_day / 3600, out);
  *out++ = ':';
  out = WritePair(second_of_day / 60 % 60, out);
  *out++ = ':';
  return WritePair(second_of_day % 60, out);
}

bool IsLeap(std::uint32_t year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

// REQUIRES: 1 <= month <= 12
std::uint32_t DaysInMonth(std::uint32_t year, std::uint32_t month) {
  constexpr std::uint8_t kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && IsLeap(year) ? 29 : kDays[month - 1];
}

// A date and a time of day.
struct DateTime {
  std::uint32_t year = 0;
  std::uint32_t month = 0;
  std::uint32_t day = 0;
  std::uint32_t hour = 0;
  std::uint32_t minute = 0;
  std::uint32_t second = 0;
};

// REQUIRES: month and day are valid
std::int64_t UnixSeconds(const DateTime& t) {
  // Adds one era, so that January of year 0 is not negative.
  const std::uint32_t year = t.year + 400 - (t.month <= 2 ? 1 : 0);
  const std::uint32_t months_from_march = t.month > 2 ? t.month - 3 : t.month + 9;
  const std::uint32_t day_of_year = (153 * months_from_march + 2) / 5 + t.day - 1;
  const std::uint32_t days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year;
  return (static_cast<std::int64_t>(days) -
          static_cast<std::int64_t>(kDaysFromYearZeroToUnix + kDaysPerEra)) *
             kSecondsPerDay +
         static_cast<std::int64_t>(t.hour * 3600 + t.minute * 60 + t.second);
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Loads eight bytes, the first one into the lowest bits.
std::uint64_t LoadEight(const char* text) {
  std::uint64_t word;
  std::memcpy(&word, text, sizeof word);
  return std::endian::native == std::endian::little ? word : __builtin_bswap64(word);
}

// The pattern of eight bytes, such as "0000-00-": 0 stands for a digit, other characters for
// themselves.
struct Shape {
  consteval explicit Shape(std::string_view pattern) {
    for (std::size_t i = 0; i < 8; ++i) {
      bytes |= static_cast<std::uint64_t>(pattern[i]) << (8 * i);
      digits |= std::uint64_t{pattern[i] == '0'} << (8 * i);
    }
  }
  std::uint64_t bytes = 0;
  std::uint64_t digits = 0;  // 0x01 for each digit
};

// Byte i of the result is the number with the digits i and i + 1. Sets bits of *bad if the text
// does not match the shape.
std::uint64_t ReadEight(const char* text, Shape shape, std::uint64_t* bad) {
  // The XOR leaves a digit's value, which is at most 9 and below 16 with 6 added, and leaves 0 for
  // a separator.
  const std::uint64_t left = LoadEight(text) ^ shape.bytes;
  *bad |= (left & ~(shape.digits * 0x0f)) | ((left + shape.digits * 6) & (shape.digits * 0xf0));
  return left * 10 + (left >> 8);
}

std::uint32_t ByteOf(std::uint64_t word, int i) {
  return static_cast<std::uint32_t>(word >> (8 * i) & 0xff);
}

// A fast path for the form of nearly all times: reads the 19 bytes of "2006-01-02T15:04:05". If it
// returns false, the caller uses LayoutReader, which reports errors.
bool ReadPlainDateTime(const char* text, std::int64_t* seconds) {
  std::uint64_t bad = 0;
  const std::uint64_t date = ReadEight(text, Shape("0000-00-"), &bad);
  const std::uint64_t time = ReadEight(text + 8, Shape("00T00:00"), &bad);
  const std::uint64_t end = ReadEight(text + 11, Shape("00:00:00"), &bad);
  DateTime t;
  t.year = ByteOf(date, 0) * 100 + ByteOf(date, 2);
  t.month = ByteOf(date, 5);
  t.day = ByteOf(time, 0);
  t.hour = ByteOf(time, 3);
  t.minute = ByteOf(time, 6);
  t.second = ByteOf(end, 6);
  if (bad != 0 || t.month - 1 > 11 || t.hour > 23 || t.minute > 59 || t.second > 59) return false;
  if (t.day - 1 > 27 && (t.day == 0 || t.day > DaysInMonth(t.year, t.month))) return false;
  *seconds = UnixSeconds(t);
  return true;
}

// Quotes as Go's package time does, unlike its package strconv: byte by byte, with DEL as a
// printable character.
void AppendTimeQuoted(std::string_view text, std::string* out) {
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  out->push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte >= 0x80) {
      out->append("\\x");
      out->push_back(kHexDigits[byte >> 4]);
      out->push_back(kHexDigits[byte & 0xf]);
      continue;
    }
    if (c == '"' || c == '\\') out->push_back('\\');
    out->push_back(c);
  }
  out->push_back('"');
}

// A LayoutReader parses a time as Go's time.Parse() does with one of the two layouts below. Like
// Kubernetes, it accepts more than RFC 3339: an hour of one digit, a comma before the fraction, an
// offset of 24:60, signs inside of a fixed fraction. Its errors are Go's.
//
// Thread-confined, used once.
class LayoutReader {
 public:
  enum class Layout : std::uint8_t { kSeconds, kMicroseconds };

  LayoutReader(std::string_view text, Layout layout) : text_(text), rest_(text), layout_(layout) {}

  Result<Timestamp> Read() {
    if (!ReadYear() || !ReadFields() || !ReadFraction() || !ReadZone()) return Error();
    if (!rest_.empty()) {
      fault_ = ": extra text: ";
      AppendTimeQuoted(rest_, &fault_);
      return Error();
    }
    if (t_.day < 1 || t_.day > DaysInMonth(t_.year, t_.month)) {
      OutOfRange("day");
      return Error();
    }
    return Timestamp(UnixSeconds(t_) - offset_, nanos_);
  }

 private:
  // A number of the layout and the separator before it.
  struct Field {
    char separator;
    std::string_view element;  // in the layout
    std::uint32_t DateTime::* value;
    bool accepts_one_digit;
    std::uint32_t min, max;
    std::string_view name;
  };
  // The day is checked last, because the limit depends on the month.
  static constexpr Field kFields[] = {
      {'-', "01", &DateTime::month, false, 1, 12, "month"},
      {'-', "02", &DateTime::day, false, 0, 99, "day"},
      {'T', "15", &DateTime::hour, true, 0, 23, "hour"},
      {':', "04", &DateTime::minute, false, 0, 59, "minute"},
      {':', "05", &DateTime::second, false, 0, 59, "second"},
  };

  bool ReadYear() {
    if (rest_.size() < 4) return CannotParse("2006");
    for (int i = 0; i < 4; ++i) {
      if (!IsDigit(rest_[i])) return CannotParse("2006");
      t_.year = t_.year * 10 + static_cast<std::uint32_t>(rest_[i] - '0');
    }
    rest_.remove_prefix(4);
    return true;
  }

  bool ReadFields() {
    for (const Field& field : kFields) {
      if (!rest_.starts_with(field.separator)) {
        return CannotParse(std::string_view(&field.separator, 1));
      }
      rest_.remove_prefix(1);
      const std::size_t digits = LeadingDigits(2);
      if (digits == 0 || (digits == 1 && !field.accepts_one_digit)) {
        return CannotParse(field.element);
      }
      std::uint32_t value = 0;
      for (std::size_t i = 0; i < digits; ++i) {
        value = value * 10 + static_cast<std::uint32_t>(rest_[i] - '0');
      }
      if (value < field.min || value > field.max) return OutOfRange(field.name);
      t_.*field.value = value;
      rest_.remove_prefix(digits);
    }
    return true;
  }

  bool ReadFraction() {
    const bool pointed = !rest_.empty() && (rest_[0] == '.' || rest_[0] == ',');
    if (layout_ == Layout::kMicroseconds) return ReadSixDigits(pointed);
    // Without a fraction in the layout, one of any length is accepted.
    if (!pointed || rest_.size() < 2 || !IsDigit(rest_[1])) return true;
    rest_.remove_prefix(1);
    const std::size_t digits = LeadingDigits(rest_.size());
    for (std::size_t i = 0; i < 9; ++i) nanos_ = nanos_ * 10 + (i < digits ? rest_[i] - '0' : 0);
    rest_.remove_prefix(digits);
    return true;
  }

  bool ReadSixDigits(bool pointed) {
    constexpr std::string_view kElement = ".000000";
    if (!pointed || rest_.size() < kElement.size()) return CannotParse(kElement);
    std::string_view digits = rest_.substr(1, 6);
    const bool negative = digits[0] == '-';
    if (negative || digits[0] == '+') digits.remove_prefix(1);
    std::int32_t micros = 0;
    for (const char c : digits) {
      if (!IsDigit(c)) return CannotParse(kElement);
      micros = micros * 10 + (c - '0');
    }
    if (negative && micros != 0) return OutOfRange("fractional second");
    nanos_ = micros * 1000;
    rest_.remove_prefix(kElement.size());
    return true;
  }

  bool ReadZone() {
    constexpr std::string_view kElement = "Z07:00";
    if (rest_.starts_with('Z')) {
      rest_.remove_prefix(1);
      return true;
    }
    if (rest_.size() < kElement.size() || rest_[3] != ':') return CannotParse(kElement);
    const int hours = TwoDigitsAt(1);
    if (hours < 0) return CannotParse(kElement);
    const int minutes = TwoDigitsAt(4);
    // Go reports a number that is too large before any other error.
    if (minutes > 60) return OutOfRange("time zone offset minute");
    if (hours > 24) return OutOfRange("time zone offset hour");
    if (minutes < 0 || (rest_[0] != '+' && rest_[0] != '-')) return CannotParse(kElement);
    offset_ = hours * 3600 + minutes * 60;
    if (rest_[0] == '-') offset_ = -offset_;
    rest_.remove_prefix(kElement.size());
    return true;
  }

  // The two-digit number at `i`, or -1. REQUIRES: two bytes are left there
  int TwoDigitsAt(std::size_t i) const {
    if (!IsDigit(rest_[i]) || !IsDigit(rest_[i + 1])) return -1;
    return (rest_[i] - '0') * 10 + (rest_[i + 1] - '0');
  }

  // The number of digits at the front, at most `limit`.
  std::size_t LeadingDigits(std::size_t limit) const {
    std::size_t n = 0;
    while (n < limit && n < rest_.size() && IsDigit(rest_[n])) ++n;
    return n;
  }

  // Records that the rest does not match `element`. Always returns false.
  bool CannotParse(std::string_view element) {
    fault_ = " as ";
    AppendTimeQuoted(layout_ == Layout::kSeconds ? "2006-01-02T15:04:05Z07:00"
                                                 : "2006-01-02T15:04:05.000000Z07:00",
                     &fault_);
    fault_.append(": cannot parse ");
    AppendTimeQuoted(rest_, &fault_);
    fault_.append(" as ");
    AppendTimeQuoted(element, &fault_);
    return false;
  }

  bool OutOfRange(std::string_view what) {
    fault_.assign(": ").append(what).append(" out of range");
    return false;
  }

  Status Error() const {
    std::string message = "parsing time ";
    AppendTimeQuoted(text_, &message);
    message.append(fault_);
    return Status(StatusReason::kBadRequest, std::move(message));
  }

  const std::string_view text_;
  std::string_view rest_;
  const Layout layout_;
  DateTime t_;
  std::int32_t nanos_ = 0;
  std::int64_t offset_ = 0;  // seconds east of Greenwich
  std::string fault_;
};

template <typename T>
Result<T> ReadByLayout(std::string_view text, LayoutReader::Layout layout) {
  const Result<Timestamp> read = LayoutReader(text, layout).Read();
  if (!read) return read.error();
  return T(read->seconds(), read->nanos());
}

}  // namespace

Timestamp::Timestamp(WallTime time) {
  const std::int64_t nanos = time.time_since_epoch().count();
  seconds_ = nanos / kNanosPerSecond;
  nanos_ = static_cast<std::int32_t>(nanos % kNanosPerSecond);
  if (nanos_ < 0) {
    seconds_ -= 1;
    nanos_ += static_cast<std::int32_t>(kNanosPerSecond);
  }
}

WallTime Timestamp::ToWallTime() const {
  if (*this >= Timestamp(WallTime::max())) return WallTime::max();
  if (*this <= Timestamp(WallTime::min())) return WallTime::min();
  // Rounds towards zero first: the last whole second before the earliest time is out of range.
  const bool before_epoch = seconds_ < 0;
  const std::int64_t whole = before_epoch ? seconds_ + 1 : seconds_;
  const std::int64_t fraction = before_epoch ? nanos_ - kNanosPerSecond : nanos_;
  return WallTime(std::chrono::nanoseconds(whole * kNanosPerSecond + fraction));
}

std::string Time::ToString() const { return TextOf(*this); }

char* Time::WriteTo(char* out) const {
  out = WriteDateTime(seconds(), out);
  *out++ = 'Z';
  return out;
}

Result<Time> Time::Parse(std::string_view text) {
  std::int64_t seconds = 0;
  if (text.size() == 20 && text[19] == 'Z' && ReadPlainDateTime(text.data(), &seconds)) {
    return Time(seconds, 0);
  }
  return ReadByLayout<Time>(text, LayoutReader::Layout::kSeconds);
}

std::string MicroTime::ToString() const { return TextOf(*this); }

char* MicroTime::WriteTo(char* out) const {
  out = WriteDateTime(seconds(), out);
  const auto micros = static_cast<std::uint32_t>(nanos()) / 1000;
  *out++ = '.';
  out = WritePair(micros / 10000, out);
  out = WritePair(micros / 100 % 100, out);
  out = WritePair(micros % 100, out);
  *out++ = 'Z';
  return out;
}

Result<MicroTime> MicroTime::Parse(std::string_view text) {
  std::int64_t seconds = 0;
  if (text.size() == 27 && ReadPlainDateTime(text.data(), &seconds)) {
    std::uint64_t bad = 0;
    const std::uint64_t fraction = ReadEight(text.data() + 19, Shape(".000000Z"), &bad);
    const std::uint32_t micros =
        ByteOf(fraction, 1) * 10000 + ByteOf(fraction, 3) * 100 + ByteOf(fraction, 5);
    if (bad == 0) return MicroTime(seconds, static_cast<std::int32_t>(micros * 1000));
  }
  return ReadByLayout<MicroTime>(text, LayoutReader::Layout::kMicroseconds);
}

}  // namespace herald
