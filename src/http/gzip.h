#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "herald/base/status.h"

namespace herald::http {

// Decompresses a gzip body that arrives in pieces. The output is passed on in pieces, too, so
// that a small body that decompresses to a huge one costs no memory here.
//
// Thread-confined.
class GzipDecoder {
 public:
  // Takes a piece of output; returning false stops the decoding.
  using Output = std::function<bool(std::string_view)>;

  GzipDecoder();
  ~GzipDecoder();
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;

  // kUnreachable if the bytes are not valid gzip.
  Status Decode(std::string_view compressed, const Output& output);
  // Called at the end of the body; kUnreachable if the gzip data is incomplete.
  Status End() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// Compresses a body, whole or piece by piece, to one gzip member.
//
// Thread-confined.
class GzipEncoder {
 public:
  // `level` is zlib's: 1 (fastest) to 9 (smallest).
  explicit GzipEncoder(int level);
  ~GzipEncoder();
  GzipEncoder(const GzipEncoder&) = delete;
  GzipEncoder& operator=(const GzipEncoder&) = delete;

  // False if zlib could not allocate its memory.
  bool usable() const;
  // Returns the next compressed bytes. They may be empty, except for the last piece.
  // REQUIRES: usable(); no call after the one with `last`
  std::string Encode(std::string_view piece, bool last);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace herald::http
