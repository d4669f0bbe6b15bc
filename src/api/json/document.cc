#include "api/json/document.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>

#include "api/json/reader.h"
#include "api/json/strict_errors.h"
#include "api/json/writer.h"
#include "api/quote.h"

namespace herald {
namespace {

Json::Type ScalarType(char first) {
  switch (first) {
    case '"':
      return Json::Type::kString;
    case 't':
    case 'f':
      return Json::Type::kBool;
    case 'n':
      return Json::Type::kNull;
    default:
      return Json::Type::kNumber;
  }
}

// Whether a number that is out of the range of a double is too large and not too small.
// REQUIRES: `text` is a JSON number with a digit other than zero
bool IsHuge(std::string_view text) {
  const std::size_t e = text.find_first_of("eE");
  const std::string_view mantissa = text.substr(0, e);
  const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
  const std::size_t digit = mantissa.find_first_of("123456789");
  // An approximation is enough, because such exponents are 300 or more.
  auto magnitude = static_cast<std::int64_t>(point) - static_cast<std::int64_t>(digit);
  if (e != std::string_view::npos) {
    std::string_view digits = text.substr(e + 1);
    if (digits.front() == '+') digits.remove_prefix(1);
    std::int64_t exponent = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (error != std::errc()) return digits.front() != '-';
    constexpr std::int64_t kFarAway = std::int64_t{1} << 40;
    magnitude += std::clamp(exponent, -kFarAway, kFarAway);
  }
  return magnitude > 0;
}

// nullopt if the number exceeds the range of a double. A number that is too small is zero, as in
// Go.
std::optional<Json::Number> ParseNumber(std::string_view text) {
  const char* const end = text.data() + text.size();
  std::int64_t integer = 0;
  if (const auto [p, error] = std::from_chars(text.data(), end, integer);
      error == std::errc() && p == end) {
    return Json::Number(integer);
  }
  double real = 0;
  if (std::from_chars(text.data(), end, real).ec == std::errc::result_out_of_range) {
    if (IsHuge(text)) return std::nullopt;
    real = text.front() == '-' ? -0.0 : 0.0;
  }
  return Json::Number(real);
}

// The shortest digits that identify a double, and the position of its decimal point: 0.digits *
// 10^point.
struct Decimal {
  std::string digits;
  int point = 0;
};

Decimal ToDecimal(double magnitude) {
  char buffer[32];
  const auto [end, error] =
      std::to_chars(buffer, buffer + sizeof buffer, magnitude, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t e = text.find('e');
  Decimal decimal;
  for (const char c : text.substr(0, e)) {
    if (c != '.') decimal.digits.push_back(c);
  }
  std::string_view exponent = text.substr(e + 1);
  if (exponent.front() == '+') exponent.remove_prefix(1);
  std::from_chars(exponent.data(), exponent.data() + exponent.size(), decimal.point);
  ++decimal.point;
  return decimal;
}

void AppendFixed(const Decimal& decimal, std::string* out) {
  const auto size = static_cast<int>(decimal.digits.size());
  if (decimal.point <= 0) {
    out->append("0.").append(static_cast<std::size_t>(-decimal.point), '0');
    out->append(decimal.digits);
  } else if (decimal.point >= size) {
    out->append(decimal.digits).append(static_cast<std::size_t>(decimal.point - size), '0');
  } else {
    const auto point = static_cast<std::size_t>(decimal.point);
    out->append(decimal.digits, 0, point).push_back('.');
    out->append(decimal.digits, point, std::string::npos);
  }
}

// Exponents have at least `min_digits` digits.
void AppendScientific(const Decimal& decimal, std::size_t min_digits, std::string* out) {
  out->push_back(decimal.digits.front());
  if (decimal.digits.size() > 1) out->append(".").append(decimal.digits, 1, std::string::npos);
  const int exponent = decimal.point - 1;
  out->append(exponent < 0 ? "e-" : "e+");
  const std::string digits = std::to_string(std::abs(exponent));
  if (digits.size() < min_digits) out->append(min_digits - digits.size(), '0');
  out->append(digits);
}

// As Go's encoding/json writes a float64.
void AppendDouble(double value, std::string* out) {
  if (std::signbit(value)) out->push_back('-');
  const double magnitude = std::abs(value);
  const Decimal decimal = ToDecimal(magnitude);
  if (magnitude != 0 && (magnitude < 1e-6 || magnitude >= 1e21)) {
    AppendScientific(decimal, magnitude < 1 ? 1 : 2, out);
  } else {
    AppendFixed(decimal, out);
  }
}

// As Go's fmt prints a float64.
void AppendGoDouble(double value, std::string* out) {
  if (std::signbit(value)) out->push_back('-');
  const double magnitude = std::abs(value);
  const Decimal decimal = ToDecimal(magnitude);
  if (magnitude != 0 && (decimal.point < -3 || decimal.point > 6)) {
    AppendScientific(decimal, 2, out);
  } else {
    AppendFixed(decimal, out);
  }
}

}  // namespace

struct Json::Children {
  Array array;
  Object object;
};

Json::Json() = default;

Json::Json(Array elements)
    : type_(Type::kArray), changed_(true), children_(std::make_unique<Children>()) {
  children_->array = std::move(elements);
}

Json::Json(Object members)
    : type_(Type::kObject), changed_(true), children_(std::make_unique<Children>()) {
  children_->object = std::move(members);
}

Json Json::Scalar(std::string_view text) {
  Json json;
  json.type_ = ScalarType(text.front());
  json.text_ = text;
  return json;
}

Json::Json(Json&& other) noexcept
    : type_(std::exchange(other.type_, Type::kNull)),
      changed_(std::exchange(other.changed_, false)),
      text_(std::exchange(other.text_, {})),
      children_(std::move(other.children_)) {}

Json& Json::operator=(Json&& other) noexcept {
  if (this == &other) return *this;
  // `other` may be a part of this document, so it is moved before the old children are destroyed.
  std::unique_ptr<Children> old = std::move(children_);
  type_ = std::exchange(other.type_, Type::kNull);
  changed_ = std::exchange(other.changed_, false);
  text_ = std::exchange(other.text_, {});
  children_ = std::move(other.children_);
  if (old) Dismantle(std::move(old));
  return *this;
}

Json::~Json() {
  if (children_) Dismantle(std::move(children_));
}

// Destroys the document level by level, so that no destructor recurses deeply.
void Json::Dismantle(std::unique_ptr<Children> children) {
  std::vector<std::unique_ptr<Children>> doomed;
  doomed.push_back(std::move(children));
  while (!doomed.empty()) {
    children = std::move(doomed.back());
    doomed.pop_back();
    const auto take = [&doomed](Json& json) {
      if (json.children_) doomed.push_back(std::move(json.children_));
    };
    for (Json& json : children->array) take(json);
    for (auto& [key, json] : children->object) take(json);
  }
}

Json::Number Json::AsNumber() const {
  // Without check_numbers the parser accepts numbers outside the range of a double.
  return ParseNumber(text_).value_or(Number(text_.front() == '-' ? -HUGE_VAL : HUGE_VAL));
}

std::string Json::AsString() const {
  std::string value;
  JsonReader reader(text_);
  reader.Peek();
  reader.ReadString(&value);
  return value;
}

const Json::Array& Json::array() const { return children_->array; }
const Json::Object& Json::object() const { return children_->object; }

Json::Array& Json::mutable_array() {
  changed_ = true;
  return children_->array;
}

Json::Object& Json::mutable_object() {
  changed_ = true;
  return children_->object;
}

const Json* Json::Find(std::string_view key) const {
  if (!is_object()) return nullptr;
  const auto it = object().find(key);
  return it == object().end() ? nullptr : &it->second;
}

Json Json::Clone() const {
  Json root;
  std::vector<std::pair<const Json*, Json*>> pending = {{this, &root}};
  while (!pending.empty()) {
    const auto [from, to] = pending.back();
    pending.pop_back();
    to->type_ = from->type_;
    to->changed_ = from->changed_;
    to->text_ = from->text_;
    if (!from->is_container()) continue;
    to->children_ = std::make_unique<Children>();
    // Allocates all elements first, because pointers to them must stay valid.
    Array& elements = to->children_->array;
    elements.resize(from->array().size());
    for (std::size_t i = 0; i < elements.size(); ++i) {
      pending.emplace_back(&from->array()[i], &elements[i]);
    }
    for (const auto& [key, value] : from->object()) {
      pending.emplace_back(&value, &to->children_->object[key]);
    }
  }
  return root;
}

bool Json::operator==(const Json& other) const {
  std::vector<std::pair<const Json*, const Json*>> pending = {{this, &other}};
  while (!pending.empty()) {
    const auto [a, b] = pending.back();
    pending.pop_back();
    if (a->type_ != b->type_) return false;
    if (!a->is_container()) {
      if (a->text_ != b->text_) return false;
      continue;
    }
    if (a->array().size() != b->array().size() || a->object().size() != b->object().size()) {
      return false;
    }
    for (std::size_t i = 0; i < a->array().size(); ++i) {
      pending.emplace_back(&a->array()[i], &b->array()[i]);
    }
    for (auto i = a->object().begin(), j = b->object().begin(); i != a->object().end(); ++i, ++j) {
      if (i->first != j->first) return false;
      pending.emplace_back(&i->second, &j->second);
    }
  }
  return true;
}

bool Json::SameScalar(const Json& other) const {
  if (type_ != other.type_ || is_container()) return false;
  if (text_ == other.text_) return true;
  if (type_ == Type::kString) return AsString() == other.AsString();
  return type_ == Type::kNumber && AsNumber() == other.AsNumber();
}

// Parses a document without recursion. Only the innermost open container grows, so pointers to
// values in the others stay valid. Thread-confined.
class JsonParser {
 public:
  JsonParser(std::string_view text, const JsonParseOptions& options)
      : reader_(text),
        options_(options),
        field_errors_(options.field_errors),
        max_path_bytes_(kFreePathBytes + kPathBytesPerByte * text.size()) {}

  Result<Json> Parse() {
    Json root;
    for (Json* slot = &root;; slot = NextSlot()) {
      if (!ReadValue(slot)) CloseWhatEnded();
      if (!reader_.ok() || open_.empty()) break;
    }
    if (!reader_.Finish()) return Status(StatusReason::kBadRequest, reader_.error());
    if (!number_error_.empty()) return Status(StatusReason::kBadRequest, number_error_);
    return root;
  }

 private:
  struct Open {
    Json* json;
    const char* begin;
    const std::string* key = nullptr;  // of the member that is being parsed, in an object
  };

  // Returns true if the value is a container that is not empty; its first value is next.
  bool ReadValue(Json* slot) {
    const JsonReader::Type type = reader_.Peek();
    if (type == JsonReader::Type::kError) return false;
    if (type != JsonReader::Type::kObject && type != JsonReader::Type::kArray) {
      ReadScalar(slot);
      return false;
    }
    const bool is_object = type == JsonReader::Type::kObject;
    const char* const begin = reader_.position();
    const bool inside = is_object ? reader_.BeginObject() : reader_.BeginArray();
    slot->type_ = is_object ? Json::Type::kObject : Json::Type::kArray;
    slot->changed_ = false;
    slot->children_ = std::make_unique<Json::Children>();
    if (inside) {
      open_.push_back({slot, begin});
    } else {
      slot->text_ = TextSince(begin);
    }
    return inside;
  }

  void ReadScalar(Json* slot) {
    const std::string_view text = reader_.SkipValue();
    if (!reader_.ok() || text == "null") return;
    *slot = Json::Scalar(text);
    if (options_.check_numbers && slot->type() == Json::Type::kNumber && number_error_.empty() &&
        !ParseNumber(text)) {
      number_error_.append("json: cannot unmarshal number ").append(text).append(" into Go ");
      number_error_.append(options_.go_place).append(" of type float64");
    }
  }

  void CloseWhatEnded() {
    while (reader_.ok() && !open_.empty()) {
      const Open& open = open_.back();
      const bool more = open.json->is_array() ? reader_.NextElement() : reader_.NextMember();
      if (more || !reader_.ok()) return;
      open.json->text_ = TextSince(open.begin);
      open_.pop_back();
    }
  }

  Json* NextSlot() {
    Open& open = open_.back();
    if (open.json->is_array()) return &open.json->children_->array.emplace_back();
    const std::string_view key = reader_.ReadKey();
    Json::Object& members = open.json->children_->object;
    auto it = members.find(key);
    if (it == members.end()) {
      it = members.emplace(key, Json()).first;
    } else {
      ReportDuplicate(key);
      it->second = Json();
    }
    open.key = &it->first;
    return &it->second;
  }

  void ReportDuplicate(std::string_view key) {
    if (field_errors_.ignored() || path_bytes_ > max_path_bytes_) return;
    std::string path(options_.path);
    for (const Open& open : open_) {
      if (&open == &open_.back()) break;
      if (open.json->is_array()) {
        path += '[' + std::to_string(open.json->array().size() - 1) + ']';
      } else {
        if (!path.empty()) path += '.';
        path += *open.key;
      }
    }
    if (!path.empty()) path += '.';
    path += key;
    path_bytes_ += path.size() + open_.size();
    field_errors_.Add("duplicate field " + Quoted(path));
  }

  std::string_view TextSince(const char* begin) const {
    return {begin, static_cast<std::size_t>(reader_.position() - begin)};
  }

  // The limit for the bytes of paths that are built to report duplicates. A path can be half as
  // long as the text and have a hundred thousand duplicates below it, which are all the same error.
  // The shortest duplicate takes 6 bytes ("a":1,), so a path of up to 96 bytes never reaches the
  // limit.
  static constexpr std::size_t kPathBytesPerByte = 16;
  static constexpr std::size_t kFreePathBytes = 64 << 10;

  JsonReader reader_;
  const JsonParseOptions& options_;
  StrictErrors field_errors_;
  const std::size_t max_path_bytes_;
  std::size_t path_bytes_ = 0;
  std::vector<Open> open_;
  std::string number_error_;  // the first one; syntax errors take precedence
};

Result<Json> ParseJson(std::string_view text, const JsonParseOptions& options) {
  return JsonParser(text, options).Parse();
}

namespace {

// Visits the values of a document in order, without recursion. Enter() returns whether to visit the
// values of a container.
template <typename Visitor>
void Walk(const Json& root, Visitor visitor) {
  struct Open {
    const Json* json;
    std::size_t index = 0;
    Json::Object::const_iterator member = {};
  };
  std::vector<Open> open;
  const Json* next = &root;
  for (;;) {
    if (!next->is_container()) {
      visitor.Scalar(*next);
    } else if (visitor.Enter(*next)) {
      open.push_back({next});
      if (next->is_object()) open.back().member = next->object().begin();
    }
    for (next = nullptr; next == nullptr;) {
      if (open.empty()) return;
      Open& inner = open.back();
      const bool first = inner.index++ == 0;
      if (inner.json->is_array()) {
        const Json::Array& elements = inner.json->array();
        if (inner.index <= elements.size()) next = &elements[inner.index - 1];
      } else if (inner.member != inner.json->object().end()) {
        next = &inner.member->second;
      }
      if (next == nullptr) {
        visitor.Leave(*inner.json);
        open.pop_back();
      } else {
        if (!first) visitor.Separate();
        if (inner.json->is_object()) visitor.Key((inner.member++)->first);
      }
    }
  }
}

struct TextWriter {
  std::string& out;

  bool Enter(const Json& json) {
    out.push_back(json.is_array() ? '[' : '{');
    return true;
  }
  void Leave(const Json& json) { out.push_back(json.is_array() ? ']' : '}'); }
  void Separate() { out.push_back(','); }
  void Key(const std::string& key) {
    AppendJsonString(key, &out);
    out.push_back(':');
  }
  void Scalar(const Json& json) {
    switch (json.type()) {
      case Json::Type::kString:
        AppendJsonString(json.AsString(), &out);
        break;
      case Json::Type::kNumber:
        if (const Json::Number n = json.AsNumber(); std::holds_alternative<double>(n)) {
          AppendDouble(std::get<double>(n), &out);
        } else {
          out.append(std::to_string(std::get<std::int64_t>(n)));
        }
        break;
      default:
        out.append(json.is_null() ? "null" : json.text());
    }
  }
};

struct GoTextWriter {
  std::string& out;
  const bool marks;  // %s: all values except strings are marked with their type
  std::size_t depth = 0;

  bool Enter(const Json& json) {
    ++depth;
    out.append(json.is_array() ? "[" : "map[");
    return true;
  }
  void Leave(const Json&) { out.push_back(']'); }
  void Separate() { out.push_back(' '); }
  void Key(const std::string& key) { out.append(key).push_back(':'); }
  void Scalar(const Json& json) {
    switch (json.type()) {
      case Json::Type::kString:
        out.append(json.AsString());
        return;
      case Json::Type::kNull:
        out.append(marks && depth == 0 ? "%!s(<nil>)" : "<nil>");
        return;
      case Json::Type::kBool:
        if (marks) out.append("%!s(bool=");
        out.append(json.text());
        break;
      default:
        if (const Json::Number n = json.AsNumber(); std::holds_alternative<double>(n)) {
          if (marks) out.append("%!s(float64=");
          AppendGoDouble(std::get<double>(n), &out);
        } else {
          if (marks) out.append("%!s(int64=");
          out.append(std::to_string(std::get<std::int64_t>(n)));
        }
    }
    if (marks) out.push_back(')');
  }
};

struct DepthMeter {
  std::size_t& deepest;
  std::size_t depth = 0;

  bool Enter(const Json&) {
    deepest = std::max(deepest, ++depth);
    return true;
  }
  void Leave(const Json&) { --depth; }
  void Separate() {}
  void Key(const std::string&) {}
  void Scalar(const Json&) {}
};

// The writer of AppendAsWritten(): writes changed parts and copies the others.
struct ChangedTextWriter : TextWriter {
  std::size_t& read;

  bool Enter(const Json& json) {
    if (json.text().empty()) return TextWriter::Enter(json);
    AppendCompactJson(json.text(), &out);
    read += json.text().size();
    return false;
  }
  void Scalar(const Json& json) { AppendCompactJson(json.is_null() ? "null" : json.text(), &out); }
};

}  // namespace

void AppendJson(const Json& json, std::string* out) { Walk(json, TextWriter{*out}); }

std::size_t AppendAsWritten(const Json& json, std::string* out) {
  std::size_t read = 0;
  Walk(json, ChangedTextWriter{{*out}, read});
  return read;
}

void AppendGoText(const Json& json, char verb, std::string* out) {
  Walk(json, GoTextWriter{*out, verb == 's'});
}

void DiscardNulls(Json* json) {
  std::vector<Json*> pending = {json};
  while (!pending.empty()) {
    Json* const next = pending.back();
    pending.pop_back();
    if (next->is_object()) {
      Json::Object& members = next->mutable_object();
      std::erase_if(members, [](const auto& member) { return member.second.is_null(); });
      for (auto& [key, value] : members) pending.push_back(&value);
    } else if (next->is_array()) {
      for (Json& element : next->mutable_array()) pending.push_back(&element);
    }
  }
}

std::size_t Depth(const Json& json) {
  std::size_t deepest = 0;
  Walk(json, DepthMeter{deepest});
  return deepest;
}

}  // namespace herald
