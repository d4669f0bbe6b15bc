#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "herald/base/export.h"

namespace herald {

// The document with a line for each member and element, indented by two spaces a level, as Go's
// json.Indent() writes it for people. The indentation takes at most a few times the bytes of the
// document: a list at the bottom of 10,000 levels would take gigabytes otherwise. Beyond that the
// text goes on without line breaks.
// REQUIRES: `json` is valid and has no white space between its tokens; newlines at its end are
// removed
HERALD_EXPORT std::string IndentJson(std::string_view json);

// The same for a document that comes in pieces. Thread-confined.
class HERALD_EXPORT JsonIndenter {
 public:
  JsonIndenter();
  // REQUIRES: all pieces together are as above
  void Append(std::string_view piece, std::string* out);

 private:
  std::size_t depth_ = 0;
  std::size_t indent_left_;  // bytes of indentation that are still allowed
  bool in_string_ = false;
  bool escaped_ = false;  // the last character was a backslash
  bool opened_ = false;   // it opened an object or an array, which may be empty
};

}  // namespace herald
