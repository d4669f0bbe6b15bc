#pragma once

#include <string>
#include <string_view>

#include "herald/base/status.h"

namespace herald {

// YAML as Kubernetes takes and gives it: a text that stands for one JSON document.

// The JSON of the first document of a YAML stream, as Kubernetes (sigs.k8s.io/yaml) reads it:
// YAML 1.1 scalars (yes, on, 0o17, .inf as a refusal), merge keys, members of maps in the order of
// the text. A refusal is kBadRequest and names the line. Aliases are resolved, but what they
// stand for is bounded: a few lines can stand for gigabytes.
//
// Of a key that a map has twice the last one counts. Whoever wants to know passes `duplicates`:
// it becomes what Kubernetes says of such keys when asked to be strict, all of them in one
// text, and empty where there is none.
Result<std::string> YamlToJson(std::string_view yaml, std::string* duplicates = nullptr);

// The YAML that Kubernetes writes for a JSON document: block style, members sorted by name.
// REQUIRES: json is valid
std::string JsonToYaml(std::string_view json);

}  // namespace herald
