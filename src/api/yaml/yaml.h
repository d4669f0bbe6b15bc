#pragma once

#include <string>
#include <string_view>

#include "herald/base/status.h"

// YAML as Kubernetes (sigs.k8s.io/yaml) reads and writes it: each document is a JSON document in
// another syntax.
namespace herald {

// Converts the first document of a YAML stream to JSON: with the scalars of YAML 1.1 (yes, on,
// 0o17; .inf is an error), with merge keys, and with the members of maps in the document's order.
// Errors are kBadRequest and name the line. Aliases are resolved up to a limit, because a few
// lines can stand for gigabytes.
//
// If a map has a key more than once, the last value counts. `duplicates`, if not null, is set to
// the error that Kubernetes reports for such keys in strict mode, all of them in one string; it is
// empty if there are none.
Result<std::string> YamlToJson(std::string_view yaml, std::string* duplicates = nullptr);

// Converts JSON to the YAML that Kubernetes writes: block style, members sorted by name.
// REQUIRES: json is valid
std::string JsonToYaml(std::string_view json);

}  // namespace herald
