// The frames and the final status of a watch stream do not depend on how it is split. Decoding a
// frame into a used event gives the same result as decoding into a new one. The first byte is the
// size of the pieces.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "client/rest/resource_codec.h"
#include "client/watch/frame_buffer.h"

namespace {

struct Outcome {
  std::vector<std::string> frames;
  bool failed = false;

  bool operator==(const Outcome&) const = default;
};

template <typename T>
Outcome Read(std::string_view stream, std::size_t piece, const herald::Codec& codec) {
  const herald::ResourceCodec<T> resource_codec(herald::Resource{"", "v1", "events"});
  herald::FrameBuffer buffer(codec);
  Outcome outcome;
  typename herald::ResourceCodec<T>::Frame frame;
  for (std::size_t at = 0; at < stream.size() && !outcome.failed; at += piece) {
    const herald::Status status =
        buffer.Append(stream.substr(at, piece), [&](std::string_view payload) {
          typename herald::ResourceCodec<T>::Frame fresh;
          herald::Status verdict = resource_codec.ReadFrame(codec, payload, &frame);
          if (!(resource_codec.ReadFrame(codec, payload, &fresh) == verdict)) std::abort();
          if (!verdict.ok()) return verdict;
          if (!(frame == fresh)) std::abort();
          outcome.frames.push_back(std::to_string(static_cast<int>(frame.type)) +
                                   std::string(payload));
          return verdict;
        });
    outcome.failed = !status.ok();
  }
  return outcome;
}

template <typename T>
void Check(std::string_view stream, std::size_t piece, const herald::Codec& codec) {
  if (Read<T>(stream, piece, codec) != Read<T>(stream, stream.size() + 1, codec)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = data[0] + 1U;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  Check<herald::Event>(stream, piece, herald::JsonCodec());
  Check<herald::Event>(stream, piece, herald::ProtobufCodec());
  Check<herald::Object>(stream, piece, herald::JsonCodec());
  return 0;
}
