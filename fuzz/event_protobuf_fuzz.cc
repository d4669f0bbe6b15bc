// An event decoded from protobuf is encoded as bytes that decode to the same event, in both
// spellings, and can be printed as JSON. Decoding into a used event gives the same result as
// decoding into a new one. Lists, watch frames and statuses do not crash.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/protobuf/writer.h"
#include "fuzz/read_over.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const herald::Codec& codec = herald::ProtobufCodec();
  for (const auto api : {herald::EventApi::kCoreV1, herald::EventApi::kEventsV1}) {
    (void)codec.DecodeEventList(input, api);
    if (const auto frame = codec.NextFrame(input); frame && *frame) {
      herald::fuzz::CheckReadOver(codec, (*frame)->payload, api);
    }
    herald::ProtobufWriter frame;  // writes backwards
    frame.BytesField(1, input);
    frame.EndMessage(2, 0);
    frame.BytesField(1, "MODIFIED");
    herald::fuzz::CheckReadOver(codec, frame.bytes(), api);
    const auto event = codec.DecodeEvent(input, api);
    if (!event) {
      if (event.error().message().empty()) std::abort();
      continue;
    }
    for (const auto spelling : {herald::EventApi::kCoreV1, herald::EventApi::kEventsV1}) {
      std::string bytes;
      codec.AppendEvent(*event, spelling, &bytes);
      const auto again = codec.DecodeEvent(bytes, spelling);
      if (!again || *again != *event) std::abort();
      std::string json;
      herald::JsonCodec().AppendEvent(*event, spelling, &json);
    }
  }
  (void)codec.DecodeStatus(input);
  return 0;
}
