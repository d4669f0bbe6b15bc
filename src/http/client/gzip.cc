#include "http/client/gzip.h"

#include <zlib.h>

#include <array>

#include "base/check.h"

namespace herald::http {
namespace {

constexpr std::size_t kPieceBytes = 64 * 1024;  // handed on at once
constexpr int kGzipOnly = 16 + MAX_WBITS;       // zlib's way to say: a gzip header, any window

Status Broken(const char* why) { return Status(StatusReason::kUnreachable, why); }

}  // namespace

struct GzipDecoder::State {
  z_stream zlib{};
  bool begun = false;  // in the middle of a member
  bool any = false;    // at least one member was whole
  std::array<char, kPieceBytes> piece;
};

GzipDecoder::GzipDecoder() : state_(std::make_unique<State>()) {
  HERALD_CHECK(inflateInit2(&state_->zlib, kGzipOnly) == Z_OK);
}

GzipDecoder::~GzipDecoder() { inflateEnd(&state_->zlib); }

Status GzipDecoder::Decode(std::string_view packed, const Sink& sink) {
  z_stream& zlib = state_->zlib;
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  zlib.avail_in = static_cast<uInt>(packed.size());
  for (;;) {
    if (!state_->begun) {
      if (zlib.avail_in == 0) return {};
      state_->begun = true;
    }
    zlib.next_out = reinterpret_cast<Bytef*>(state_->piece.data());
    zlib.avail_out = static_cast<uInt>(kPieceBytes);
    const int result = inflate(&zlib, Z_SYNC_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      return Broken("the body of the response is not the gzip it says it is");
    const std::size_t size = kPieceBytes - zlib.avail_out;
    if (size > 0 && !sink({state_->piece.data(), size})) return {};
    if (result == Z_STREAM_END) {
      // Another member may follow: a gzip file may be several, one after the other.
      HERALD_CHECK(inflateReset(&zlib) == Z_OK);
      state_->begun = false;
      state_->any = true;
    } else if (zlib.avail_out > 0) {
      return {};  // it wants more than there is
    }
  }
}

Status GzipDecoder::End() const {
  if (state_->begun || !state_->any) return Broken("the gzip body of the response was cut off");
  return {};
}

}  // namespace herald::http
