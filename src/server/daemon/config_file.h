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

// One mapping of a YAML configuration file. The caller reads each member that it knows. Finish()
// then returns an error if a member has the wrong type, or if the mapping has a member that the
// caller did not read: that is usually a spelling mistake and must not be ignored.
//
// Only the first error of a document is kept. It names the file, the line and the member.
// Cheap to copy; copies share their state. Thread-confined.
class ConfigNode {
 public:
  // Returns the documents of a file. Fails if the file cannot be read, is not valid YAML, or has a
  // mapping with a duplicate key. The error names the file.
  static Result<std::vector<ConfigNode>> Load(const std::string& file);
  // The same from a string. `file` is used in messages only.
  static Result<std::vector<ConfigNode>> Parse(std::string_view text, const std::string& file);

  bool Has(std::string_view member) const;
  // Marks a member as known without reading it.
  void Ignore(std::string_view member);

  // Each returns the default if the member is missing or has the wrong type.
  std::string String(std::string_view member, std::string_view default_value = {});
  bool Bool(std::string_view member, bool default_value);
  std::int64_t Integer(std::string_view member, std::int64_t default_value);
  std::chrono::nanoseconds Duration(std::string_view member,
                                    std::chrono::nanoseconds default_value);
  std::vector<std::string> Strings(std::string_view member);
  // A string or a list of strings.
  std::vector<std::string> StringOrStrings(std::string_view member);
  // A mapping below this one; an empty one if it is missing.
  ConfigNode Child(std::string_view member);
  std::vector<ConfigNode> Children(std::string_view member);
  // The names of all members in the order of the file. Does not mark them as known.
  std::vector<std::string> Members() const;

  // Reports an error about a member.
  void Reject(std::string_view member, std::string_view why);
  // Reports a member whose value is missing or invalid. `rule` says what is allowed ("must be ...")
  // and is printed after the value.
  void RejectValue(std::string_view member, std::string_view rule);

  // Returns the first error of the whole document, if there is one. Otherwise fails if this mapping
  // has a member that the caller did not read.
  Status Finish();

 private:
  struct Document;
  struct Part;
  explicit ConfigNode(std::shared_ptr<Part> part);

  std::shared_ptr<Part> part_;
};

}  // namespace herald::server
