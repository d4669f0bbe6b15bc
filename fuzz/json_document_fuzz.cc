// A parsed document is written as JSON that parses to the same document.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "api/json/document.h"
#include "api/json/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> errors;
  const auto json = herald::ParseJson(input, {.field_errors = &errors, .check_numbers = true});
  if (!json) {
    if (json.error().message().empty()) std::abort();
    return 0;
  }
  if (errors.size() > 100 || herald::Depth(*json) > herald::JsonReader::kMaxDepth) std::abort();

  std::string normal, second, third, written, go;
  herald::AppendJson(*json, &normal);
  const auto from_normal = herald::ParseJson(normal);
  if (!from_normal) std::abort();
  // As in Go, -0.0 is written as -0, which is parsed as the integer 0. After that it is stable.
  herald::AppendJson(*from_normal, &second);
  const auto from_second = herald::ParseJson(second);
  if (!from_second) std::abort();
  herald::AppendJson(*from_second, &third);
  if (third != second) std::abort();

  herald::AppendAsWritten(*json, &written);
  const auto from_written = herald::ParseJson(written);
  if (!from_written) std::abort();
  std::string normal_of_written;
  herald::AppendJson(*from_written, &normal_of_written);
  if (normal_of_written != normal) std::abort();

  if (!(json->Clone() == *json)) std::abort();
  herald::AppendGoText(*json, 'v', &go);
  return 0;
}
