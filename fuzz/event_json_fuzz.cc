// An event decoded from JSON is encoded as JSON that decodes to the same event, in both spellings.
// Decoding into a used event gives the same result as decoding into a new one. Lists, watch frames
// and statuses do not crash.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/read_over.h"

namespace {

std::string Printed(const herald::Event& event, herald::EventApi api) {
  std::string text;
  herald::JsonCodec().AppendEvent(event, api, &text);
  return text;
}

void CheckRoundTrip(std::string_view input, herald::EventApi api) {
  std::vector<std::string> field_errors;
  const auto event = herald::JsonCodec().DecodeEvent(input, api, &field_errors);
  if (!event) {
    if (event.error().message().empty()) std::abort();
    return;
  }
  for (const auto spelling : {herald::EventApi::kCoreV1, herald::EventApi::kEventsV1}) {
    const std::string text = Printed(*event, spelling);
    const auto again = herald::JsonCodec().DecodeEvent(text, spelling, &field_errors);
    if (!again) {
      // The only exception: an offset can move a time into year 10000 or before year 0, which
      // Kubernetes prints but does not parse.
      if (again.error().message().find("parsing time") == std::string::npos) std::abort();
      continue;
    }
    if (Printed(*again, spelling) != text) std::abort();
    const auto third = herald::JsonCodec().DecodeEvent(text, spelling);
    if (!third || *third != *again) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const herald::Codec& codec = herald::JsonCodec();
  for (const auto api : {herald::EventApi::kCoreV1, herald::EventApi::kEventsV1}) {
    CheckRoundTrip(input, api);
    (void)codec.DecodeEventList(input, api);
    if (const auto frame = codec.NextFrame(input); frame && *frame) {
      herald::fuzz::CheckReadOver(codec, (*frame)->payload, api);
    }
    const std::string frame = R"({"type":"MODIFIED","object":)" + std::string(input) + "}";
    herald::fuzz::CheckReadOver(codec, frame, api);
  }
  (void)codec.DecodeStatus(input);
  return 0;
}
