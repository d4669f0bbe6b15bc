#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "herald/base/export.h"

namespace herald {

// Formats the document with one line per member and element and two spaces of indentation per
// level, as Go's json.Indent() does. The indentation is limited to a few times the bytes of the
// document, because a list below 10,000 levels would take gigabytes. After the limit there are no
// more line breaks. REQUIRES: `json` is valid and has no white space between its tokens. Newlines
// at its end are removed.
HERALD_EXPORT std::string IndentJson(std::string_view json);

// The same for a document in pieces. Thread-confined.
class HERALD_EXPORT JsonIndenter {
 public:
  JsonIndenter();
  // REQUIRES: all pieces together are a valid argument of IndentJson()
  void Append(std::string_view piece, std::string* out);

 private:
  std::size_t depth_ = 0;
  std::size_t indent_left_;  // bytes of indentation that are still allowed
  bool in_string_ = false;
  bool escaped_ = false;  // the last character was a backslash
  bool opened_ = false;   // it began an object or an array, which may be empty
};

}  // namespace herald
