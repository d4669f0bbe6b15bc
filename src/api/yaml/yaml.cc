#include "api/yaml/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "api/json/document.h"
#include "api/json/writer.h"
#include "api/quote.h"
#include "base/check.h"

// Two directions of one mapping, whose rules are those of the YAML library behind
// Kubernetes (go.yaml.in/yaml/v2 below sigs.k8s.io/yaml): what a plain scalar means decides
// both how text is read and which strings need quotes when written.
namespace herald {
namespace {

// How deep aliases may nest what the parser, which stops at 500 levels, let through.
// More would be a loop through anchors; Go's JSON encoder would stop later, at a cost.
constexpr int kMaxDepth = 1000;
// What aliases may add to a text, in bytes: hundreds of times more than those of any manifest,
// and some 10 ms of work.
constexpr std::size_t kMaxExpansionBytes = 256u << 10;
// What a byte of the text itself may cost, in the same measure: an empty list has two of them
// and a key and a value may be one byte each.
constexpr std::size_t kCostOfAByte = 4;
// How many keys that a map has twice are told: whoever has more of them has other
// troubles, and a body of 3 MB could have half a million.
constexpr std::size_t kMaxDuplicates = 100;
// How many characters of a text may mean something to the parser, wherever they stand: each may
// cost it 300 bytes and three microseconds, because it looks ahead to the end of the line.
// No object comes near: its annotations may have 256 KiB in all.
constexpr std::string_view kMarks = "[]{},:-?&*!\n";
constexpr std::ptrdiff_t kMaxMarks = 512 * 1024;
// Where long texts are folded, as the library does unless told otherwise.
constexpr std::size_t kBestWidth = 80;
// A longer key is written behind a question mark.
constexpr std::size_t kMaxSimpleKeyBytes = 128;
// How many bytes of indentation a document may get when it is written: a list at the bottom of
// 1,000 levels would take gigabytes. Ordinary documents have less than one byte of it per byte of
// JSON. What would need more is written without line breaks, which means the same.
constexpr std::size_t kFreeIndentBytes = 16u << 10;
constexpr std::size_t kIndentBytesPerByte = 8;

// What a scalar stands for. A timestamp stays the text it is, but is no ordinary string:
// it has to be quoted to be one.
struct Timestamp {};
using Scalar =
    std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, Timestamp, std::string>;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Reads up to `max` digits; -1 without any.
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
  // Twice signed would be taken by from_chars.
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

// Nothing if it is beyond a double; too small a number is zero.
// REQUIRES: LooksLikeFloat(text)
std::optional<double> ParseFloat(std::string_view text) {
  (void)Take(&text, '+');
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc()) return value;
  // from_chars does not say at which end of the range it failed. The power of ten of the
  // first digit that is not 0 does.
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
    auto* map = new std::map<std::string_view, Scalar>;  // never destroyed: used at exit, too
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

// What an unquoted scalar stands for in YAML 1.1, as Kubernetes takes it (resolve.go).
Scalar Resolve(std::string_view text, bool timestamps = true) {
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

// Go's strconv.FormatFloat(value, 'g', -1, 32 or 64).
template <typename Float>
std::string FormatG(Float value) {
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

std::string_view ShortTag(std::string_view tag) {
  constexpr std::string_view kLong = "tag:yaml.org,2002:";
  return tag.starts_with(kLong) ? tag.substr(kLong.size()) : std::string_view();
}

// ---------------------------------------------------------------- reading

Status Refused(int line, std::string_view why) {
  std::string message = "yaml: ";
  if (line > 0) message += "line " + std::to_string(line) + ": ";
  message.append(why);
  return {StatusReason::kBadRequest, std::move(message)};
}

using NodeIndex = std::size_t;

struct Node {
  enum class Kind : std::uint8_t { kScalar, kList, kMap, kAlias };
  Kind kind = Kind::kScalar;
  bool open = false;  // being written: an alias to it would never end
  bool plain = false;
  int line = 0;
  std::string tag{};                  // only what the text says
  std::string text{};                 // of a scalar
  std::vector<NodeIndex> children{};  // of a map: keys and values in turn
  NodeIndex target = 0;               // of an alias
};

// Collects the events of one document into nodes, aliases unresolved. Thread-confined.
class Builder final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    OnScalar(mark, "?", anchor, "null");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const NodeIndex index = Add(Node::Kind::kAlias, mark, "", 0);
    nodes_[index].target = anchors_.at(anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const NodeIndex index = Add(Node::Kind::kScalar, mark, tag, anchor);
    nodes_[index].plain = tag == "?";
    nodes_[index].text = value;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open_.push_back(Add(Node::Kind::kList, mark, tag, anchor));
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open_.push_back(Add(Node::Kind::kMap, mark, tag, anchor));
  }
  void OnMapEnd() override { open_.pop_back(); }

  std::vector<Node> Take() { return std::move(nodes_); }

 private:
  NodeIndex Add(Node::Kind kind, const YAML::Mark& mark, const std::string& tag,
                YAML::anchor_t anchor) {
    const NodeIndex index = nodes_.size();
    Node& node = nodes_.emplace_back();
    node.kind = kind;
    node.line = mark.line + 1;
    if (tag != "?" && tag != "!") node.tag = tag;
    if (anchor != YAML::NullAnchor) anchors_[anchor] = index;
    if (!open_.empty()) nodes_[open_.back()].children.push_back(index);
    return index;
  }

  std::vector<Node> nodes_;  // the first is the root
  std::vector<NodeIndex> open_;
  std::unordered_map<YAML::anchor_t, NodeIndex> anchors_;
};

std::vector<Node> ReadNodes(std::string yaml) {
  std::istringstream in(std::move(yaml));
  YAML::Parser parser(in);
  Builder builder;
  parser.HandleNextDocument(builder);
  return builder.Take();
}

// Writes nodes as JSON. Thread-confined, used once.
class JsonMaker {
 public:
  JsonMaker(std::vector<Node> nodes, std::size_t text_bytes)
      : nodes_(std::move(nodes)),
        max_cost_(kMaxExpansionBytes + kCostOfAByte * text_bytes),
        budget_(max_cost_) {}

  Result<std::string> Make() {
    if (nodes_.empty()) return std::string("null");
    if (!Write(0, 0)) return error_;
    return std::move(out_);
  }

  // Which keys maps have twice, as the library's strict reading puts it; empty where none
  // has. What a merge brings in counts as if it stood there. Looks also into values that
  // Make() never saw, because a later one of the same key replaced them: whatever stands in
  // there, it ends somewhere.
  std::string Duplicates() {
    budget_ = max_cost_;
    if (!nodes_.empty()) FindDuplicates(0, 0);
    if (duplicates_.empty()) return {};
    std::string text = "yaml: unmarshal errors:";
    for (const std::string& duplicate : duplicates_) text += "\n  " + duplicate;
    return text;
  }

 private:
  struct Member {
    std::string key;
    NodeIndex value;
  };
  struct Members {
    std::vector<Member> list;
    // Sorted: a client chooses the keys, and could choose some with one hash.
    std::map<std::string, std::size_t> places;
  };

  bool Fail(const Node& node, std::string_view why) {
    error_ = Refused(node.line, why);
    return false;
  }

  // Everything that is visited costs something, so that aliases are bounded also where
  // what they stand for is thrown away again.
  bool Spend(const Node& node, std::size_t bytes) {
    if (bytes > budget_) return Fail(node, "document contains excessive aliasing");
    budget_ -= bytes;
    return true;
  }

  // The node itself, behind any alias.
  NodeIndex Resolved(NodeIndex index) const {
    return nodes_[index].kind == Node::Kind::kAlias ? nodes_[index].target : index;
  }

  std::optional<Scalar> Read(const Node& node) {
    if (node.tag.empty()) {
      if (!node.plain) return Scalar(node.text);
      return Resolve(node.text);
    }
    const std::string_view tag = ShortTag(node.tag);
    if (tag == "binary") {
      Fail(node, "!!binary is not supported; write the base64 text as a string");
      return std::nullopt;
    }
    if (tag == "bool" || tag == "int" || tag == "float" || tag == "null" || tag == "timestamp") {
      Scalar value = Resolve(node.text, tag == "timestamp");
      if (tag == "float") {
        if (const auto* number = std::get_if<std::int64_t>(&value))
          value = static_cast<double>(*number);
      }
      const bool fits = (tag == "bool" && std::holds_alternative<bool>(value)) ||
                        (tag == "int" && (std::holds_alternative<std::int64_t>(value) ||
                                          std::holds_alternative<std::uint64_t>(value))) ||
                        (tag == "float" && std::holds_alternative<double>(value)) ||
                        (tag == "null" && std::holds_alternative<std::nullptr_t>(value)) ||
                        (tag == "timestamp" && std::holds_alternative<Timestamp>(value));
      if (!fits) {
        Fail(node, "cannot decode `" + node.text.substr(0, 100) + "` as a !!" + std::string(tag));
        return std::nullopt;
      }
      return value;
    }
    return Scalar(node.text);  // !!str, and tags of the writer's own
  }

  std::optional<std::string> Key(const Node& node) {
    if (node.kind != Node::Kind::kScalar) {
      Fail(node, "invalid map key: only scalars can be keys");
      return std::nullopt;
    }
    const std::optional<Scalar> value = Read(node);
    if (!value) return std::nullopt;
    if (std::holds_alternative<std::nullptr_t>(*value)) {
      Fail(node, "invalid map key: null");
      return std::nullopt;
    }
    if (const auto* b = std::get_if<bool>(&*value)) return std::string(*b ? "true" : "false");
    if (const auto* i = std::get_if<std::int64_t>(&*value)) return std::to_string(*i);
    if (std::holds_alternative<std::uint64_t>(*value)) {
      Fail(node, "invalid map key: the number is beyond 64 bits");
      return std::nullopt;
    }
    // With the digits of a float, not of a double: sigs.k8s.io/yaml does so.
    if (const auto* d = std::get_if<double>(&*value)) return FormatG(static_cast<float>(*d));
    return node.text;
  }

  static bool IsMerge(const Node& key, const Node& given) {
    return key.kind == Node::Kind::kScalar && key.text == "<<" &&
           given.kind == Node::Kind::kScalar && (key.plain || ShortTag(key.tag) == "merge");
  }

  // The members of a map with what its merge keys bring in. Each comes where its key
  // first stood, with the value that came last: a merge also replaces what was before it.
  bool Collect(NodeIndex index, int depth, Members* members) {
    Node& map = nodes_[index];
    if (depth > kMaxDepth) return Fail(map, "nesting is too deep");
    if (map.open) return Fail(map, "anchor value contains itself");
    map.open = true;
    for (std::size_t i = 0; i + 1 < map.children.size(); i += 2) {
      const Node& key = nodes_[Resolved(map.children[i])];
      if (!Spend(key, 1 + key.text.size())) return false;
      if (IsMerge(key, nodes_[map.children[i]])) {
        if (!Merge(map.children[i + 1], depth, members)) return false;
        continue;
      }
      std::optional<std::string> name = Key(key);
      if (!name) return false;
      const auto [it, added] = members->places.try_emplace(*name, members->list.size());
      if (added) {
        members->list.push_back({std::move(*name), map.children[i + 1]});
      } else {
        members->list[it->second].value = map.children[i + 1];
      }
    }
    map.open = false;
    return true;
  }

  bool Merge(NodeIndex value, int depth, Members* members) {
    const NodeIndex index = Resolved(value);
    const Node& node = nodes_[index];
    constexpr std::string_view kWantMap = "map merge requires map or sequence of maps as the value";
    if (node.kind == Node::Kind::kMap) return Collect(index, depth + 1, members);
    // An alias of a list of maps is refused upstream, too.
    if (node.kind != Node::Kind::kList || index != value) return Fail(node, kWantMap);
    // Backwards: the earlier maps of the list win.
    for (auto it = node.children.rbegin(); it != node.children.rend(); ++it) {
      const NodeIndex element = Resolved(*it);
      if (nodes_[element].kind != Node::Kind::kMap) return Fail(nodes_[element], kWantMap);
      if (!Collect(element, depth + 1, members)) return false;
    }
    return true;
  }

  // A key as Go's %#v shows it, which tells a number from the same digits in quotes.
  static std::string ShownKey(const Scalar& value, const Node& node) {
    if (const auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
    if (const auto* i = std::get_if<std::int64_t>(&value)) return std::to_string(*i);
    if (const auto* d = std::get_if<double>(&value)) return FormatG(*d);
    return Quoted(node.text);
  }

  void FindDuplicates(NodeIndex given, int depth) {
    const NodeIndex index = Resolved(given);
    if (!HasRoom(nodes_[index])) return;
    if (nodes_[index].kind == Node::Kind::kMap) {
      std::set<std::string> keys;
      FindDuplicates(index, depth, &keys);
    } else if (depth < kMaxDepth) {
      for (const NodeIndex child : nodes_[index].children) FindDuplicates(child, depth + 1);
    }
  }

  // `keys` are those that the map has already.
  void FindDuplicates(NodeIndex map, int depth, std::set<std::string>* keys) {
    if (depth >= kMaxDepth) return;
    const std::vector<NodeIndex>& children = nodes_[map].children;
    for (std::size_t i = 0; i + 1 < children.size(); i += 2) {
      const Node& key = nodes_[Resolved(children[i])];
      if (!HasRoom(key)) return;
      const NodeIndex value = children[i + 1];
      if (IsMerge(key, nodes_[children[i]])) {
        const Node& merged = nodes_[Resolved(value)];
        if (merged.kind == Node::Kind::kMap) {
          FindDuplicates(Resolved(value), depth + 1, keys);
        } else {
          for (auto it = merged.children.rbegin(); it != merged.children.rend(); ++it)
            FindDuplicates(Resolved(*it), depth + 1, keys);
        }
        continue;
      }
      FindDuplicates(value, depth + 1);
      const std::optional<Scalar> name = Read(key);
      if (!name) return;
      const std::string shown = ShownKey(*name, key);
      // To Go 1 and 1.0 are two keys, though both are shown as 1.
      if (keys->insert(std::holds_alternative<double>(*name) ? shown + " (float)" : shown).second)
        continue;
      duplicates_.push_back("line " + std::to_string(nodes_[value].line) + ": key " + shown +
                            " already set in map");
    }
  }

  // Whether to look any further: enough is enough.
  bool HasRoom(const Node& node) {
    return duplicates_.size() < kMaxDuplicates && Spend(node, 1 + node.text.size());
  }

  bool WriteScalar(const Node& node) {
    const std::optional<Scalar> value = Read(node);
    if (!value) return false;
    if (std::holds_alternative<std::nullptr_t>(*value)) {
      out_ += "null";
    } else if (const auto* b = std::get_if<bool>(&*value)) {
      out_ += *b ? "true" : "false";
    } else if (const auto* i = std::get_if<std::int64_t>(&*value)) {
      out_ += std::to_string(*i);
    } else if (const auto* u = std::get_if<std::uint64_t>(&*value)) {
      out_ += std::to_string(*u);
    } else if (const auto* d = std::get_if<double>(&*value)) {
      if (!std::isfinite(*d)) return Fail(node, "json: unsupported value: " + node.text);
      std::array<char, 64> buffer{};
      const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), *d,
                                     std::chars_format::scientific)
                           .ptr;
      AppendJson(Json::Scalar({buffer.data(), end}), &out_);
    } else {
      AppendJsonString(node.text, &out_);
    }
    return true;
  }

  bool Write(NodeIndex given, int depth) {
    const NodeIndex index = Resolved(given);
    if (depth > kMaxDepth) return Fail(nodes_[given], "nesting is too deep");
    if (!Spend(nodes_[given], 2 + nodes_[index].text.size())) return false;
    if (nodes_[index].open) return Fail(nodes_[given], "anchor value contains itself");
    switch (nodes_[index].kind) {
      case Node::Kind::kScalar:
        return WriteScalar(nodes_[index]);
      case Node::Kind::kList: {
        nodes_[index].open = true;
        out_ += '[';
        bool first = true;
        for (const NodeIndex child : nodes_[index].children) {
          if (!first) out_ += ',';
          first = false;
          if (!Write(child, depth + 1)) return false;
        }
        out_ += ']';
        nodes_[index].open = false;
        return true;
      }
      case Node::Kind::kMap: {
        Members members;
        if (!Collect(index, depth, &members)) return false;
        nodes_[index].open = true;
        out_ += '{';
        bool first = true;
        for (const Member& member : members.list) {
          if (!first) out_ += ',';
          first = false;
          AppendJsonString(member.key, &out_);
          out_ += ':';
          if (!Write(member.value, depth + 1)) return false;
        }
        out_ += '}';
        nodes_[index].open = false;
        return true;
      }
      case Node::Kind::kAlias:
        break;
    }
    return Fail(nodes_[given], "an alias of an alias");
  }

  std::vector<Node> nodes_;
  const std::size_t max_cost_;
  std::size_t budget_;
  std::string out_;
  Status error_;
  std::vector<std::string> duplicates_;
};

// ---------------------------------------------------------------- writing

// [-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?, a number in YAML 1.1 for other readers.
bool IsBase60(std::string_view text) {
  if (!Take(&text, '-')) (void)Take(&text, '+');
  if (text.empty() || !IsDigit(text.front())) return false;
  while (!text.empty() && (IsDigit(text.front()) || text.front() == '_')) text.remove_prefix(1);
  int groups = 0;
  while (Take(&text, ':')) {
    const std::string_view before = text;
    const int value = TakeDigits(&text, 1, 2);
    if (value < 0 || (before.size() - text.size() == 2 && value > 59)) return false;
    ++groups;
  }
  if (Take(&text, '.')) {
    while (!text.empty() && (IsDigit(text.front()) || text.front() == '_')) text.remove_prefix(1);
  }
  return groups > 0 && text.empty();
}

std::size_t CharBytes(char lead) {
  const auto c = static_cast<unsigned char>(lead);
  return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

// The library's own idea of printable, which leaves out tabs and all beyond U+FFFF.
bool IsPrintable(std::string_view text, std::size_t i) {
  const auto at = [&](std::size_t k) {
    return k < text.size() ? static_cast<unsigned char>(text[k]) : 0U;
  };
  const unsigned c = at(i);
  if (c == '\n' || (c >= 0x20 && c <= 0x7E)) return true;
  if (c == 0xC2) return at(i + 1) >= 0xA0;
  if (c > 0xC2 && c < 0xED) return true;
  if (c == 0xED) return at(i + 1) < 0xA0;
  if (c == 0xEE) return true;
  if (c != 0xEF) return false;
  const bool mark = at(i + 1) == 0xBB && at(i + 2) == 0xBF;
  const bool none = at(i + 1) == 0xBF && (at(i + 2) == 0xBE || at(i + 2) == 0xBF);
  return !mark && !none;
}

// CR, LF, NEL, LS and PS.
bool IsBreak(std::string_view text, std::size_t i) {
  const std::string_view rest = text.substr(i);
  return rest.starts_with('\r') || rest.starts_with('\n') || rest.starts_with("\xC2\x85") ||
         rest.starts_with("\xE2\x80\xA8") || rest.starts_with("\xE2\x80\xA9");
}

// How a text may be written.
struct Analysis {
  std::size_t breaks = 0;  // line breaks of all kinds
  bool plain = true;
  bool single_quoted = true;
  bool block = true;
};

Analysis Analyze(std::string_view text) {
  Analysis result;
  if (text.empty()) {
    result.block = false;
    return result;
  }
  bool indicators = text.starts_with("---") || text.starts_with("...");
  bool special = false, break_space = false, space_break = false;
  bool previous_space = false, previous_break = false, after_blank = true;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const std::size_t next = i + CharBytes(c);
    const bool before_blank = next >= text.size() || text[next] == ' ' || text[next] == '\t';
    if (i == 0 && std::string_view("#,[]{}&*!|>'\"%@`").find(c) != std::string_view::npos) {
      indicators = true;
    } else if (i == 0 && (c == '?' || c == ':' || c == '-')) {
      indicators = indicators || before_blank;
    } else if (c == ':') {
      indicators = indicators || before_blank;
    } else if (c == '#') {
      indicators = indicators || after_blank;
    }
    if (!IsPrintable(text, i)) special = true;
    const bool is_break = IsBreak(text, i);
    if (c == ' ') {
      break_space = break_space || previous_break;
    } else if (is_break) {
      ++result.breaks;
      space_break = space_break || previous_space;
    }
    previous_space = c == ' ';
    previous_break = is_break;
    after_blank = c == ' ' || c == '\t' || c == '\0' || is_break;
    i = next;
  }
  const bool edge = text.front() == ' ' || text.back() == ' ' || IsBreak(text, 0) || previous_break;
  result.plain =
      !(edge || break_space || space_break || special || result.breaks > 0 || indicators);
  result.single_quoted = !(break_space || space_break || special);
  result.block = !(text.back() == ' ' || space_break || special);
  return result;
}

bool IsLetter(std::uint32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80;
}

std::vector<std::uint32_t> Runes(std::string_view text) {
  std::vector<std::uint32_t> runes;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = CharBytes(text[i]);
    auto rune = static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
    if (bytes > 1) rune &= 0xFFU >> (bytes + 1);
    for (std::size_t k = 1; k < bytes && i + k < text.size(); ++k)
      rune = (rune << 6) | (static_cast<unsigned char>(text[i + k]) & 0x3FU);
    runes.push_back(rune);
    i += bytes;
  }
  return runes;
}

// Keys are sorted for people: runs of digits by value, letters after everything else. A key is
// given by its runes.
bool KeyLess(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  const auto digit = [](std::uint32_t c) { return c >= '0' && c <= '9'; };
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] == b[i]) continue;
    const bool a_letter = IsLetter(a[i]), b_letter = IsLetter(b[i]);
    if (a_letter && b_letter) return a[i] < b[i];
    if (a_letter || b_letter) return b_letter;
    std::uint64_t a_number = 0, b_number = 0;
    if (a[i] == '0' || b[i] == '0') {
      for (std::size_t j = i; j-- > 0 && digit(a[j]);) {
        if (a[j] == '0') continue;
        a_number = b_number = 1;
        break;
      }
    }
    std::size_t a_end = i, b_end = i;
    for (; a_end < a.size() && digit(a[a_end]); ++a_end)
      a_number = a_number * 10 + (a[a_end] - '0');
    for (; b_end < b.size() && digit(b[b_end]); ++b_end)
      b_number = b_number * 10 + (b[b_end] - '0');
    if (a_number != b_number) return a_number < b_number;
    if (a_end != b_end) return a_end < b_end;
    return a[i] < b[i];
  }
  return a.size() < b.size();
}

// Writes a document in block style. Thread-confined, used once.
class YamlMaker {
 public:
  explicit YamlMaker(std::size_t json_bytes)
      : indent_left_(kFreeIndentBytes + kIndentBytesPerByte * json_bytes) {}

  std::string Make(const Json& json) {
    Write(json, Place::kRoot, -1, 0);
    if (out_.empty() || out_.back() != '\n') out_ += '\n';
    return std::move(out_);
  }

 private:
  // Behind what a value stands: a key, a dash, or nothing.
  enum class Place : std::uint8_t { kRoot, kKey, kDash };

  void Put(std::string_view text) {
    out_.append(text);
    column_ += text.size();
  }
  void NewLine(int indent) {
    if (!out_.empty() && out_.back() != '\n') out_ += '\n';
    out_.append(static_cast<std::size_t>(std::max(indent, 0)), ' ');
    column_ = static_cast<std::size_t>(std::max(indent, 0));
  }

  // Takes the indentation of so many lines from what is left. False if that is not enough.
  bool TakeIndent(std::size_t lines, int indent) {
    const std::size_t bytes = lines * static_cast<std::size_t>(std::max(indent, 0));
    if (bytes > indent_left_) return false;
    indent_left_ -= bytes;
    return true;
  }

  // JSON is YAML, too, and needs neither stack nor indentation.
  void WriteFlow(const Json& json, Place place) {
    std::string flow;
    AppendJson(json, &flow);
    WriteWord(flow, place);
  }

  // `indent` is that of the container the value is in; -1 at the root.
  void Write(const Json& json, Place place, int indent, int depth) {
    if (depth > kMaxDepth && json.is_container()) return WriteFlow(json, place);
    switch (json.type()) {
      case Json::Type::kObject:
        if (!json.object().empty()) return WriteMap(json, place, indent, depth);
        return WriteWord("{}", place);
      case Json::Type::kArray:
        if (!json.array().empty()) return WriteList(json, place, indent, depth);
        return WriteWord("[]", place);
      case Json::Type::kString:
        return WriteString(json.AsString(), place, indent, false);
      case Json::Type::kNumber: {
        const Scalar number = Resolve(json.text());
        if (const auto* d = std::get_if<double>(&number)) return WriteWord(FormatG(*d), place);
        if (const auto* i = std::get_if<std::int64_t>(&number))
          return WriteWord(std::to_string(*i), place);
        // Beyond a double: it reads as a string, and is written as one.
        if (std::holds_alternative<std::string>(number))
          return WriteString(std::string(json.text()), place, indent, false);
        return WriteWord(json.text(), place);
      }
      case Json::Type::kBool:
        return WriteWord(json.AsBool() ? "true" : "false", place);
      case Json::Type::kNull:
        return WriteWord("null", place);
    }
  }

  void WriteWord(std::string_view word, Place place) {
    if (place != Place::kRoot) Put(" ");
    Put(word);
  }

  void WriteMap(const Json& json, Place place, int indent, int depth) {
    const int inner = indent < 0 ? 0 : indent + 2;
    // A key behind a question mark takes two lines.
    if (!TakeIndent(2 * json.object().size(), inner)) return WriteFlow(json, place);
    struct Member {
      std::vector<std::uint32_t> runes;
      const std::string* key;
      const Json* value;
    };
    std::vector<Member> members;
    members.reserve(json.object().size());
    for (const auto& [key, value] : json.object()) members.push_back({Runes(key), &key, &value});
    std::sort(members.begin(), members.end(),
              [](const Member& a, const Member& b) { return KeyLess(a.runes, b.runes); });
    bool first = true;
    for (const Member& member : members) {
      const std::string& key = *member.key;
      // The first member of a map in a list stands behind the dash.
      if (first && place == Place::kDash) {
        Put(" ");
      } else {
        NewLine(inner);
      }
      first = false;
      if (Analyze(key).breaks == 0 && key.size() <= kMaxSimpleKeyBytes) {
        WriteString(key, Place::kRoot, inner, true);
        Put(":");
      } else {
        Put("?");
        WriteString(key, Place::kKey, inner, false);
        NewLine(inner);
        Put(":");
      }
      Write(*member.value, Place::kKey, inner, depth + 1);
    }
  }

  void WriteList(const Json& json, Place place, int indent, int depth) {
    // A list behind a key is not indented any further than the key.
    const int inner = indent < 0 ? 0 : place == Place::kKey ? indent : indent + 2;
    if (!TakeIndent(json.array().size(), inner)) return WriteFlow(json, place);
    bool first = true;
    for (const Json& element : json.array()) {
      if (first && place == Place::kDash) {
        Put(" ");
      } else {
        NewLine(inner);
      }
      first = false;
      Put("-");
      Write(element, Place::kDash, inner, depth + 1);
    }
  }

  void WriteString(const std::string& text, Place place, int indent, bool key) {
    if (place != Place::kRoot) Put(" ");
    const Analysis can = Analyze(text);
    const int inner = std::max(indent, 0) + 2;
    const bool has_newline = text.find('\n') != std::string::npos;
    if (has_newline && can.block && !key && TakeIndent(can.breaks + 1, inner))
      return WriteLiteral(text, inner);
    const bool meant = std::holds_alternative<std::string>(Resolve(text)) && !IsBase60(text);
    if (!has_newline && meant) {
      if (can.plain) return WriteFolded(text, "", inner, key);
      if (can.single_quoted && TakeIndent(can.breaks, inner))
        return WriteFolded(text, "'", inner, key);
    }
    WriteDoubleQuoted(text, inner, key);
  }

  void WriteLiteral(std::string_view text, int indent) {
    Put("|");
    if (text.front() == ' ' || IsBreak(text, 0)) Put("2");
    if (text.back() != '\n') {
      Put("-");
    } else if (text.size() == 1 || text[text.size() - 2] == '\n') {
      Put("+");
    }
    out_ += '\n';
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t end = std::min(text.find('\n', i), text.size());
      if (end > i) {
        out_.append(static_cast<std::size_t>(indent), ' ');
        out_.append(text.substr(i, end - i));
      }
      out_ += '\n';
      i = end + 1;
    }
    column_ = 0;
  }

  // Plain or in single quotes. REQUIRES: no \n in it
  void WriteFolded(std::string_view text, std::string_view quote, int indent, bool key) {
    Put(quote);
    bool after_space = false, after_break = false;
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t bytes = std::min(CharBytes(text[i]), text.size() - i);
      if (IsBreak(text, i)) {  // one of the odd ones, which stay as they are
        out_.append(text.substr(i, bytes));
        column_ = 0;
        after_break = true;
      } else if (text[i] == ' ') {
        const bool last = i + 1 >= text.size();
        const bool inside = quote.empty() || (i > 0 && !last);
        if (!key && !after_space && column_ > kBestWidth && inside &&
            (last || text[i + 1] != ' ') && TakeIndent(1, indent)) {
          NewLine(indent);
        } else {
          Put(" ");
        }
        after_space = true;
      } else {
        if (after_break) Put(std::string(static_cast<std::size_t>(indent), ' '));
        after_break = false;
        if (!quote.empty() && text[i] == '\'') Put("'");
        out_.append(text.substr(i, bytes));
        ++column_;
        after_space = false;
      }
      i += bytes;
    }
    Put(quote);
  }

  void WriteDoubleQuoted(std::string_view text, int indent, bool key) {
    Put("\"");
    bool after_space = false;
    for (std::size_t i = 0; i < text.size();) {
      const char c = text[i];
      const std::size_t bytes = std::min(CharBytes(c), text.size() - i);
      if (!IsPrintable(text, i) || text.starts_with("\xEF\xBB\xBF") || IsBreak(text, i) ||
          c == '"' || c == '\\') {
        WriteEscape(Runes(text.substr(i, bytes)).front());
        after_space = false;
      } else if (c == ' ') {
        if (!key && !after_space && column_ > kBestWidth && i > 0 && i + 1 < text.size() &&
            TakeIndent(1, indent)) {
          NewLine(indent);
          if (text[i + 1] == ' ') Put("\\");
        } else {
          Put(" ");
        }
        after_space = true;
      } else {
        out_.append(text.substr(i, bytes));
        ++column_;
        after_space = false;
      }
      i += bytes;
    }
    Put("\"");
  }

  void WriteEscape(std::uint32_t rune) {
    static constexpr std::array<std::pair<std::uint32_t, char>, 15> kNamed = {{{0x00, '0'},
                                                                               {0x07, 'a'},
                                                                               {0x08, 'b'},
                                                                               {0x09, 't'},
                                                                               {0x0A, 'n'},
                                                                               {0x0B, 'v'},
                                                                               {0x0C, 'f'},
                                                                               {0x0D, 'r'},
                                                                               {0x1B, 'e'},
                                                                               {0x22, '"'},
                                                                               {0x5C, '\\'},
                                                                               {0x85, 'N'},
                                                                               {0xA0, '_'},
                                                                               {0x2028, 'L'},
                                                                               {0x2029, 'P'}}};
    Put("\\");
    for (const auto& [known, letter] : kNamed) {
      if (rune == known) return Put({&letter, 1});
    }
    const int digits = rune <= 0xFF ? 2 : rune <= 0xFFFF ? 4 : 8;
    Put(digits == 2 ? "x" : digits == 4 ? "u" : "U");
    for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) {
      const char digit = "0123456789ABCDEF"[(rune >> shift) & 0xFU];
      Put({&digit, 1});
    }
  }

  std::string out_;
  std::size_t column_ = 0;  // characters since the last line break
  std::size_t indent_left_;
};

}  // namespace

Result<std::string> YamlToJson(std::string_view yaml, std::string* duplicates) {
  const auto is_mark = [](char c) { return kMarks.find(c) != std::string_view::npos; };
  if (std::count_if(yaml.begin(), yaml.end(), is_mark) > kMaxMarks)
    return Refused(0, "the document has too many parts");
  try {
    std::vector<Node> nodes = ReadNodes(std::string(yaml));
    if (yaml.find_first_of("'\"") != std::string_view::npos) {
      // yaml-cpp takes the end of the text for a closing quote. It does not take the end of a
      // document for one, so that a text that was cut off is refused here.
      ReadNodes(std::string(yaml) + "\n...\n");
    }
    JsonMaker maker(std::move(nodes), yaml.size());
    Result<std::string> json = maker.Make();
    if (json && duplicates != nullptr) *duplicates = maker.Duplicates();
    return json;
  } catch (const YAML::Exception& e) {
    return Refused(e.mark.is_null() ? 0 : e.mark.line + 1, e.msg);
  }
}

std::string JsonToYaml(std::string_view json) {
  const Result<Json> document = ParseJson(json);
  HERALD_CHECK(document.has_value());
  return YamlMaker(json.size()).Make(*document);
}

}  // namespace herald
