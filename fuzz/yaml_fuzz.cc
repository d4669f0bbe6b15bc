// Parsed YAML is converted to JSON, which is written as YAML with the same meaning.
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
  if (!again) return 0;  // deeper, or with its indentation larger, than the limits of the parser
  const auto second_document = herald::ParseJson(*again);
  if (!second_document) std::abort();
  std::string second;
  herald::AppendJson(*second_document, &second);
  // Our writer follows Kubernetes' library, which folds lines at some non-ASCII characters that are
  // not line breaks in YAML 1.2.
  const bool ascii = std::all_of(normal.begin(), normal.end(),
                                 [](char c) { return static_cast<unsigned char>(c) < 0x80; }) &&
                     normal.find("\\u") == std::string::npos;
  if (ascii && second != normal) std::abort();
  return 0;
}
