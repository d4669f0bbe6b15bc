#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "herald/base/status.h"

// The grammar of field selectors, which is the same for all kinds of objects. FieldSelector knows
// the fields of events.
namespace herald {

struct FieldTerm {
  std::string_view field;  // a view into the text
  bool equal = true;       // true for "=" and "==", false for "!="
  std::string value;       // unescaped
};

// Parses the terms of a selector, sorted by their text. Empty terms are ignored. Errors are
// kBadRequest, with Kubernetes' message.
Result<std::vector<FieldTerm>> ParseFieldTerms(std::string_view text);

// Appends a term to the selector in *out, with the escapes that ParseFieldTerms() removes.
void AppendFieldTerm(std::string_view field, bool equal, std::string_view value, std::string* out);

}  // namespace herald
