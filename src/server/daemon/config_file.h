#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/status.h"

namespace herald::server {

// One mapping of a YAML file that an operator wrote. The caller asks for each member that it
// knows; Finish() then returns an error if the file has a member of the wrong type, or one that
// was not asked for, which is mostly a spelling mistake and would otherwise be ignored.
//
// The first error is remembered for the whole document and names the file, the line and
// the member. A ConfigNode is a cheap handle. Thread-confined.
class ConfigNode {
 public:
  // The documents of a file. An error names the file that cannot be read, is not YAML, or has a
  // mapping with the same key twice.
  static Result<std::vector<ConfigNode>> Load(const std::string& file);
  // The same from a string; `file` is for messages.
  static Result<std::vector<ConfigNode>> Parse(std::string_view text, const std::string& file);

  bool Has(std::string_view member) const;
  // Passes over a member that is known and does not matter here.
  void Ignore(std::string_view member);

  // Each gives the default where the member is missing, and after an error.
  std::string String(std::string_view member, std::string_view otherwise = {});
  bool Bool(std::string_view member, bool otherwise);
  std::int64_t Integer(std::string_view member, std::int64_t otherwise);
  std::chrono::nanoseconds Duration(std::string_view member, std::chrono::nanoseconds otherwise);
  std::vector<std::string> Strings(std::string_view member);
  // Where one string need not be written as a list.
  std::vector<std::string> StringOrStrings(std::string_view member);
  // A mapping below this one; an empty one where it is missing.
  ConfigNode Child(std::string_view member);
  std::vector<ConfigNode> Children(std::string_view member);
  // The names of all members, in the order of the text; they do not count as known yet.
  std::vector<std::string> Members() const;

  // Remembers an error of the caller's about a member.
  void Refuse(std::string_view member, std::string_view why);

  // The first error of the whole document, if any; else whether this mapping had a
  // member that nobody asked for.
  Status Finish();

 private:
  struct Document;
  struct Part;
  explicit ConfigNode(std::shared_ptr<Part> part);

  std::shared_ptr<Part> part_;
};

}  // namespace herald::server
