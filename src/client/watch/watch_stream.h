#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "client/rest/resource_codec.h"
#include "client/watch/frame_buffer.h"
#include "herald/client/rest.h"

namespace herald {

// Starts one watch. Calls on_frame with each frame and then on_end once, on the client's thread. A
// frame that cannot be decoded ends the watch with an error, and so does a stream that ends in the
// middle of a frame.
//
// All frames are decoded into the same object, so that a frame that on_frame does not move needs
// no new memory.
template <typename T>
void StartWatch(RestClient& rest, RestRequest request, ResourceCodec<T> resource_codec,
                std::function<void(typename ResourceCodec<T>::Frame&&)> on_frame,
                std::function<void(const Status&)> on_end, const std::stop_token& stop) {
  // Confined to the client's thread.
  struct State {
    State(ResourceCodec<T> r, std::function<void(typename ResourceCodec<T>::Frame&&)> f,
          std::function<void(const Status&)> e)
        : resource_codec(std::move(r)), on_frame(std::move(f)), on_end(std::move(e)) {}
    const ResourceCodec<T> resource_codec;
    const std::function<void(typename ResourceCodec<T>::Frame&&)> on_frame;
    const std::function<void(const Status&)> on_end;
    const Codec* codec = nullptr;
    std::optional<FrameBuffer> buffer{};
    typename ResourceCodec<T>::Frame frame{};  // reused for all frames
    std::stop_source stop{};
    Status error{};
  };
  auto state =
      std::make_shared<State>(std::move(resource_codec), std::move(on_frame), std::move(on_end));
  // The stream has its own stop source, so that it can be stopped after an error.
  auto forward = std::make_shared<std::stop_callback<std::function<void()>>>(
      stop, [source = state->stop]() mutable { source.request_stop(); });
  request.accept = state->resource_codec.accept();
  RestClient::StreamCallbacks stream;
  stream.head = [state](std::string_view content_type) {
    state->codec = &state->resource_codec.StreamCodec(content_type);
    state->buffer.emplace(*state->codec);
  };
  stream.data = [state](std::string_view bytes) {
    if (!state->error.ok() || !state->buffer) return;
    state->error = state->buffer->Append(bytes, [&state](std::string_view payload) {
      // No frame is passed on after a stop.
      if (state->stop.stop_requested()) {
        return Status(StatusReason::kCancelled, "the watch was stopped");
      }
      Status status = state->resource_codec.ReadFrame(*state->codec, payload, &state->frame);
      if (status.ok()) state->on_frame(std::move(state->frame));
      return status;
    });
    if (!state->error.ok()) state->stop.request_stop();
  };
  stream.done = [state, forward](const Status& status) {
    Status end = state->error.ok() ? status : state->error;
    if (end.ok() && state->buffer && state->buffer->cut_off()) {
      end = Status(StatusReason::kUnreachable, "the watch ended in the middle of a frame");
    }
    if (state->on_end) state->on_end(end);
  };
  rest.Stream(std::move(request), std::move(stream), state->stop.get_token());
}

}  // namespace herald
