#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "herald/base/status.h"

namespace herald::http {

// Unpacks a gzip body that comes in pieces. What is unpacked is handed on in pieces too,
// so that a small body that unpacks into a huge one costs no memory here.
//
// Thread-confined.
class GzipDecoder {
 public:
  // Takes a piece; false stops the work.
  using Sink = std::function<bool(std::string_view)>;

  GzipDecoder();
  ~GzipDecoder();
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;

  // kUnreachable where the bytes are no gzip.
  Status Decode(std::string_view packed, const Sink& sink);
  // The body is over; kUnreachable if it should not have been.
  Status End() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace herald::http
