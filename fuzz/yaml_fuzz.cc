// What can be read as YAML is JSON, and is written as YAML that means the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/json/document.h"
#include "api/yaml/yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string duplicates;
  const auto json = herald::YamlToJson({reinterpret_cast<const char*>(data), size}, &duplicates);
  if (!json) {
    if (json.error().message().empty()) std::abort();
    return 0;
  }
  const auto document = herald::ParseJson(*json);
  if (!document) std::abort();
  std::string normal;
  herald::AppendJson(*document, &normal);
  const auto again = herald::YamlToJson(herald::JsonToYaml(*json));
  if (!again) return 0;  // deeper, or larger by its indentation, than is read
  const auto second_document = herald::ParseJson(*again);
  if (!second_document) std::abort();
  std::string second;
  herald::AppendJson(*second_document, &second);
  // Beyond ASCII the library that Kubernetes writes with, and that is followed here, folds
  // lines at characters at which YAML 1.2, which reads it, does not.
  const bool ascii = std::all_of(normal.begin(), normal.end(),
                                 [](char c) { return static_cast<unsigned char>(c) < 0x80; }) &&
                     normal.find("\\u") == std::string::npos;
  if (ascii && second != normal) std::abort();
  return 0;
}
