#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/json/document.h"
#include "api/json/writer.h"
#include "api/quote.h"
#include "api/yaml/scalar.h"
#include "api/yaml/yaml.h"

namespace herald {
namespace yaml {
namespace {

// How deep values may be nested after aliases are resolved; the parser itself stops at 500 levels.
// Deeper nesting means a loop through anchors. Go's JSON encoder stops later and needs more time.
constexpr int kMaxDepth = 1000;
// How many bytes aliases may add to a document: hundreds of times more than in any manifest, and
// about 10 ms of work.
constexpr std::size_t kMaxExpansionBytes = 256u << 10;
// The cost of one byte of the document, in the same unit: an empty list has only two bytes, and a
// key and a value may have one byte each.
constexpr std::size_t kCostPerByte = 4;
// How many duplicate keys are reported. A body of 3 MB could have half a million.
constexpr std::size_t kMaxDuplicates = 100;
// How many characters that may be syntax a document may have, in strings or not. Each may cost the
// parser 300 bytes and 3 microseconds, because it looks ahead to the end of the line. No valid
// object reaches the limit: its annotations are limited to 256 KiB in total.
constexpr std::string_view kSyntaxCharacters = "[]{},:-?&*!\n";
constexpr std::ptrdiff_t kMaxSyntaxCharacters = 512 * 1024;

std::string_view ShortTag(std::string_view tag) {
  constexpr std::string_view kLong = "tag:yaml.org,2002:";
  return tag.starts_with(kLong) ? tag.substr(kLong.size()) : std::string_view();
}

Status Invalid(int line, std::string_view why) {
  std::string message = "yaml: ";
  if (line > 0) message += "line " + std::to_string(line) + ": ";
  message.append(why);
  return {StatusReason::kBadRequest, std::move(message)};
}

using NodeIndex = std::size_t;

struct Node {
  enum class Kind : std::uint8_t { kScalar, kList, kMap, kAlias };
  Kind kind = Kind::kScalar;
  bool open = false;  // being written; an alias to it would be endless
  bool plain = false;
  int line = 0;
  std::string tag{};                  // only if the document has one
  std::string text{};                 // of a scalar
  std::vector<NodeIndex> children{};  // of a map: keys and values alternate
  NodeIndex target = 0;               // of an alias
};

// Builds the nodes of one document from the parser's events. Does not resolve aliases.
// Thread-confined.
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
        max_cost_(kMaxExpansionBytes + kCostPerByte * text_bytes),
        budget_(max_cost_) {}

  Result<std::string> Make() {
    if (nodes_.empty()) return std::string("null");
    if (!Write(0, 0)) return error_;
    return std::move(out_);
  }

  // The keys that a map has more than once, with the message of the library's strict mode; empty if
  // there are none. Keys that a merge adds count, too. Also looks at values that Make() skipped
  // because a later value of the same key replaced them; they may contain loops.
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
    // Not hashed: a client chooses the keys and could make their hashes collide.
    std::map<std::string, std::size_t> places;
  };

  bool Fail(const Node& node, std::string_view why) {
    error_ = Invalid(node.line, why);
    return false;
  }

  // Each visit of a node has a cost, so the work for aliases is limited even where their values are
  // dropped afterwards.
  bool Spend(const Node& node, std::size_t bytes) {
    if (bytes > budget_) return Fail(node, "document contains excessive aliasing");
    budget_ -= bytes;
    return true;
  }

  // The node, or the node that an alias refers to.
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
      Fail(node, "!!binary is not supported; write the base64 as a string");
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
    return Scalar(node.text);  // !!str and unknown tags
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
    // With the digits of a float and not of a double, as in sigs.k8s.io/yaml.
    if (const auto* d = std::get_if<double>(&*value)) return FormatG(static_cast<float>(*d));
    return node.text;
  }

  static bool IsMerge(const Node& key, const Node& given) {
    return key.kind == Node::Kind::kScalar && key.text == "<<" &&
           given.kind == Node::Kind::kScalar && (key.plain || ShortTag(key.tag) == "merge");
  }

  // The members of a map and of the maps that it merges. A member has the position of its key's
  // first occurrence and the value of the last: a merge also replaces earlier values.
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
    // Upstream rejects an alias of a list of maps, too.
    if (node.kind != Node::Kind::kList || index != value) return Fail(node, kWantMap);
    // Backwards, because the earlier maps of the list take precedence.
    for (auto it = node.children.rbegin(); it != node.children.rend(); ++it) {
      const NodeIndex element = Resolved(*it);
      if (nodes_[element].kind != Node::Kind::kMap) return Fail(nodes_[element], kWantMap);
      if (!Collect(element, depth + 1, members)) return false;
    }
    return true;
  }

  // A key as Go's %#v prints it, which distinguishes a number from the same digits in quotes.
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

  // `keys` are the keys that the map has so far.
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
      // In Go, 1 and 1.0 are two keys, although both are printed as 1.
      if (keys->insert(std::holds_alternative<double>(*name) ? shown + " (float)" : shown).second)
        continue;
      duplicates_.push_back("line " + std::to_string(nodes_[value].line) + ": key " + shown +
                            " already set in map");
    }
  }

  // Whether the limits allow to continue.
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

}  // namespace
}  // namespace yaml

Result<std::string> YamlToJson(std::string_view yaml, std::string* duplicates) {
  const auto is_syntax = [](char c) {
    return yaml::kSyntaxCharacters.find(c) != std::string_view::npos;
  };
  if (std::count_if(yaml.begin(), yaml.end(), is_syntax) > yaml::kMaxSyntaxCharacters)
    return yaml::Invalid(0, "the document has too many parts");
  try {
    std::vector<yaml::Node> nodes = yaml::ReadNodes(std::string(yaml));
    if (yaml.find_first_of("'\"") != std::string_view::npos) {
      // yaml-cpp accepts the end of the input as a closing quote, but not the end of a document.
      // With an explicit end it reports a string that is not closed.
      yaml::ReadNodes(std::string(yaml) + "\n...\n");
    }
    yaml::JsonMaker maker(std::move(nodes), yaml.size());
    Result<std::string> json = maker.Make();
    if (json && duplicates != nullptr) *duplicates = maker.Duplicates();
    return json;
  } catch (const YAML::Exception& e) {
    return yaml::Invalid(e.mark.is_null() ? 0 : e.mark.line + 1, e.msg);
  }
}

}  // namespace herald
