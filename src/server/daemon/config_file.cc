#include "server/daemon/config_file.h"

#include <fmt/core.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "base/duration.h"
#include "base/file.h"

namespace herald::server {
namespace {

// Finds the first duplicate key of a mapping. yaml-cpp keeps both members, and a lookup returns
// only one of them. Works on the events of the parser and not on nodes, so that aliases, with which
// a few lines can expand to gigabytes, are not followed.
class DuplicateKeys final : public YAML::EventHandler {
 public:
  // "line 3: key "a" is already set in line 1"; empty if there is no duplicate.
  const std::string& found() const { return found_; }

  void OnDocumentStart(const YAML::Mark&) override { open_.clear(); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { Take(mark, "null"); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { Take(mark, std::nullopt); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string& value) override {
    Take(mark, value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Take(mark, std::nullopt);
    open_.emplace_back();
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    Take(mark, std::nullopt);
    open_.push_back({.is_map = true});
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  struct Collection {
    bool is_map = false;
    bool expects_value = false;
    std::map<std::string, int> lines{};  // key to line number
  };

  // Called at the start of each key and value. Only scalar keys are compared.
  void Take(const YAML::Mark& mark, const std::optional<std::string>& scalar) {
    if (open_.empty() || !open_.back().is_map) return;
    Collection& map = open_.back();
    map.expects_value = !map.expects_value;
    if (!map.expects_value || !scalar) return;
    const auto [first, is_new] = map.lines.emplace(*scalar, mark.line + 1);
    if (!is_new && found_.empty())
      found_ = fmt::format("line {}: key \"{}\" is already set in line {}", mark.line + 1, *scalar,
                           first->second);
  }

  std::vector<Collection> open_;
  std::string found_;
};

std::string FindDuplicateKey(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DuplicateKeys keys;
  while (keys.found().empty() && parser.HandleNextDocument(keys)) {
  }
  return keys.found();
}

}  // namespace

using std::chrono::nanoseconds;

struct ConfigNode::Document {
  std::string file;
  Status error;
};

struct ConfigNode::Part {
  std::shared_ptr<Document> document;
  YAML::Node node;   // a mapping, or undefined
  std::string path;  // "rules[2]."
  std::set<std::string, std::less<>> known;

  // Returns the member and marks it as known. Undefined if it is missing or null.
  YAML::Node Take(std::string_view member) {
    known.emplace(member);
    if (!node.IsDefined() || !node.IsMap()) return YAML::Node(YAML::NodeType::Undefined);
    const YAML::Node& constant = node;  // operator[] of a non-const node would add the member
    YAML::Node value = constant[std::string(member)];
    if (value.IsDefined() && value.IsNull()) return YAML::Node(YAML::NodeType::Undefined);
    return value;
  }

  void Reject(std::string_view member, const YAML::Node& at, std::string_view why) const {
    if (!document->error.ok()) return;
    const YAML::Mark mark = at.IsDefined() ? at.Mark() : YAML::Mark::null_mark();
    const std::string line = mark.is_null() ? "" : fmt::format(" line {}:", mark.line + 1);
    document->error =
        Status(StatusReason::kBadRequest,
               fmt::format("{}:{} {}{}: {}", document->file, line, path, member, why));
  }

  void RejectValue(std::string_view member, const YAML::Node& value, std::string_view rule) const {
    if (!value.IsDefined()) return Reject(member, value, fmt::format("is missing: {}", rule));
    if (!value.IsScalar()) return Reject(member, value, rule);
    Reject(member, value, fmt::format("invalid value \"{}\": {}", value.Scalar(), rule));
  }

  template <typename T>
  T Scalar(std::string_view member, T default_value, std::string_view rule) {
    const YAML::Node value = Take(member);
    if (!value.IsDefined()) return default_value;
    T result = default_value;
    if (!value.IsScalar() || !YAML::convert<T>::decode(value, result)) {
      RejectValue(member, value, rule);
      return default_value;
    }
    return result;
  }
};

ConfigNode::ConfigNode(std::shared_ptr<Part> part) : part_(std::move(part)) {}

Result<std::vector<ConfigNode>> ConfigNode::Load(const std::string& file) {
  const Result<std::string> text = ReadFile(file);
  if (!text) return text.error();
  return Parse(*text, file);
}

Result<std::vector<ConfigNode>> ConfigNode::Parse(std::string_view text, const std::string& file) {
  std::vector<YAML::Node> documents;
  try {
    documents = YAML::LoadAll(std::string(text));
    if (const std::string duplicate = FindDuplicateKey(std::string(text)); !duplicate.empty())
      return Status(StatusReason::kBadRequest, fmt::format("{}: {}", file, duplicate));
  } catch (const YAML::Exception& error) {
    const std::string line =
        error.mark.is_null() ? "" : fmt::format("line {}: ", error.mark.line + 1);
    return Status(StatusReason::kBadRequest,
                  fmt::format("{}: {}invalid YAML: {}", file, line, error.msg));
  }
  std::vector<ConfigNode> out;
  for (const YAML::Node& node : documents) {
    if (!node.IsDefined() || node.IsNull()) continue;  // "---" at the end
    if (!node.IsMap())
      return Status(StatusReason::kBadRequest,
                    fmt::format("{}: line {}: must be a mapping", file, node.Mark().line + 1));
    auto document = std::make_shared<Document>(Document{file, {}});
    out.push_back(ConfigNode(std::make_shared<Part>(Part{std::move(document), node, "", {}})));
  }
  return out;
}

bool ConfigNode::Has(std::string_view member) const { return part_->Take(member).IsDefined(); }

void ConfigNode::Ignore(std::string_view member) { part_->known.emplace(member); }

std::string ConfigNode::String(std::string_view member, std::string_view default_value) {
  return part_->Scalar<std::string>(member, std::string(default_value), "must be a string");
}

bool ConfigNode::Bool(std::string_view member, bool default_value) {
  return part_->Scalar<bool>(member, default_value, "must be true or false");
}

std::int64_t ConfigNode::Integer(std::string_view member, std::int64_t default_value) {
  return part_->Scalar<std::int64_t>(member, default_value, "must be an integer");
}

nanoseconds ConfigNode::Duration(std::string_view member, nanoseconds default_value) {
  const YAML::Node value = part_->Take(member);
  if (!value.IsDefined()) return default_value;
  const std::string text = value.IsScalar() ? value.Scalar() : "";
  if (const auto duration = ParseDuration(text)) return *duration;
  part_->RejectValue(member, value, "must be a duration, such as 90s, 1h30m or 7d");
  return default_value;
}

std::vector<std::string> ConfigNode::Strings(std::string_view member) {
  const YAML::Node value = part_->Take(member);
  std::vector<std::string> out;
  if (!value.IsDefined()) return out;
  if (!value.IsSequence()) {
    part_->RejectValue(member, value, "must be a list of strings");
    return out;
  }
  for (const YAML::Node& element : value) {
    if (!element.IsScalar()) {
      part_->Reject(member, element, "must be a list of strings");
      return {};
    }
    out.push_back(element.Scalar());
  }
  return out;
}

std::vector<std::string> ConfigNode::StringOrStrings(std::string_view member) {
  const YAML::Node value = part_->Take(member);
  if (value.IsDefined() && value.IsScalar()) return {value.Scalar()};
  if (value.IsDefined() && !value.IsSequence()) {
    part_->Reject(member, value, "must be a string or a list of strings");
    return {};
  }
  return Strings(member);
}

ConfigNode ConfigNode::Child(std::string_view member) {
  const YAML::Node value = part_->Take(member);
  const bool fits = !value.IsDefined() || value.IsMap();
  if (!fits) part_->RejectValue(member, value, "must be a mapping");
  return ConfigNode(
      std::make_shared<Part>(Part{part_->document,
                                  fits ? value : YAML::Node(YAML::NodeType::Undefined),
                                  fmt::format("{}{}.", part_->path, member),
                                  {}}));
}

std::vector<ConfigNode> ConfigNode::Children(std::string_view member) {
  const YAML::Node value = part_->Take(member);
  std::vector<ConfigNode> out;
  if (!value.IsDefined()) return out;
  if (!value.IsSequence()) {
    part_->RejectValue(member, value, "must be a list of mappings");
    return out;
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (!value[i].IsMap()) {
      part_->RejectValue(fmt::format("{}[{}]", member, i), value[i], "must be a mapping");
      return {};
    }
    out.push_back(ConfigNode(std::make_shared<Part>(
        Part{part_->document, value[i], fmt::format("{}{}[{}].", part_->path, member, i), {}})));
  }
  return out;
}

std::vector<std::string> ConfigNode::Members() const {
  std::vector<std::string> out;
  if (!part_->node.IsDefined()) return out;
  for (const auto& member : part_->node)
    out.push_back(member.first.IsScalar() ? member.first.Scalar() : "?");
  return out;
}

void ConfigNode::Reject(std::string_view member, std::string_view why) {
  part_->Reject(member, part_->Take(member), why);
}

void ConfigNode::RejectValue(std::string_view member, std::string_view rule) {
  part_->RejectValue(member, part_->Take(member), rule);
}

Status ConfigNode::Finish() {
  for (const std::string& name : Members())
    if (!part_->known.contains(name)) Reject(name, "unknown field");
  return part_->document->error;
}

}  // namespace herald::server
