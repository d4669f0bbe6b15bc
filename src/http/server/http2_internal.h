#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/server/http2.h"

// The parts of Http2Server that only http2.cc and http2_callbacks.cc need.

namespace herald::http {

// One request and its response.
struct Http2Server::Stream {
  // What happens to the body of the request.
  enum class Body : std::uint8_t {
    kUndecided,  // the handler has not asked for it; what the client sends anyway is buffered
    kReading,    // the handler waits for it
    kDone,       // passed to the handler, or not wanted: the rest is discarded
  };

  explicit Stream(std::int32_t number) : id(number) {}

  const std::int32_t id;
  Request request{};
  std::string body{};
  Body body_state = Body::kUndecided;
  std::size_t fields = 0;
  int rejection = 0;     // status code with which the request is rejected; 0: its head is valid
  bool is_head = false;  // the method is HEAD
  bool expects_continue = false;
  bool ended = false;                    // the request is complete
  bool submitted = false;                // nghttp2 has the head of the response
  bool deferred = false;                 // nghttp2 waits for more of the response body
  bool finite = false;                   // the response is whole, or its end follows soon
  std::optional<std::size_t> length{};   // content-length
  std::size_t unconsumed = 0;            // bytes received and not yet returned to the windows
  SteadyTime began{};                    // when the handler asked for the body
  SteadyTime progress{};                 // when the client last allowed us to send
  ReadRate rate{};                       // of the response, while a part of it is unsent
  std::optional<SteadyTime> answered{};  // when all of the response was sent
  std::shared_ptr<PendingResponse> response{};
};

// What nghttp2 calls. All functions get the Http2Server as user data.
struct Http2Server::Callbacks {
  // One set for all sessions; nghttp2 copies it.
  static const nghttp2_session_callbacks* All();
  static const nghttp2_option* Options();

  // Reads the body of a response. The source is its Stream.
  static ssize_t ReadBody(nghttp2_session* session, std::int32_t id, std::uint8_t* buffer,
                          std::size_t size, std::uint32_t* flags, nghttp2_data_source* source,
                          void* user_data);

 private:
  static Http2Server& Self(void* user_data) { return *static_cast<Http2Server*>(user_data); }

  static int OnBeginFrame(nghttp2_session* session, const nghttp2_frame_hd* head, void* user_data);
  static int OnInvalidFrame(nghttp2_session* session, const nghttp2_frame* frame, int error,
                            void* user_data);
  static int OnBeginHeaders(nghttp2_session* session, const nghttp2_frame* frame, void* user_data);
  static int OnHeader(nghttp2_session* session, const nghttp2_frame* frame,
                      const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                      std::size_t value_size, std::uint8_t flags, void* user_data);
  static int OnFrame(nghttp2_session* session, const nghttp2_frame* frame, void* user_data);
  static int OnData(nghttp2_session* session, std::uint8_t flags, std::int32_t id,
                    const std::uint8_t* data, std::size_t size, void* user_data);
  static int OnStreamClose(nghttp2_session* session, std::int32_t id, std::uint32_t code,
                           void* user_data);
  static int OnFrameSent(nghttp2_session* session, const nghttp2_frame* frame, void* user_data);
};

// The bytes that nghttp2 points to.
inline std::string_view View(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace herald::http
