#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "herald/base/status.h"

// The grammar of field selectors, which is the same for every kind of object. Which
// fields an event has is FieldSelector's business.
namespace herald {

struct FieldTerm {
  std::string_view field;  // points into the text
  bool equal = true;       // "=" and "==", against "!="
  std::string value;       // no longer escaped
};

// The terms of `text`, in the order of their text; empty ones are passed over. A
// refusal is kBadRequest in Kubernetes' words.
Result<std::vector<FieldTerm>> ParseFieldTerms(std::string_view text);

// Adds the term to a selector that *out holds so far, escaped as ParseFieldTerms()
// reads it.
void AppendFieldTerm(std::string_view field, bool equal, std::string_view value, std::string* out);

}  // namespace herald
