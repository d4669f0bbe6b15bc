#include "http/gzip.h"

#include <zlib.h>

#include <array>

#include "base/check.h"

namespace herald::http {
namespace {

constexpr std::size_t kPieceBytes = 64 * 1024;  // largest piece of decoded output
// zlib's code for gzip's format with the largest window, which decodes any window.
constexpr int kGzipWindowBits = 16 + MAX_WBITS;

Status InvalidGzip(const char* why) { return Status(StatusReason::kUnreachable, why); }

}  // namespace

struct GzipDecoder::State {
  z_stream zlib{};
  bool in_member = false;   // a gzip member has begun and not ended
  bool has_member = false;  // at least one member was complete
  std::array<char, kPieceBytes> piece;
};

GzipDecoder::GzipDecoder() : state_(std::make_unique<State>()) {
  HERALD_CHECK(inflateInit2(&state_->zlib, kGzipWindowBits) == Z_OK);
}

GzipDecoder::~GzipDecoder() { inflateEnd(&state_->zlib); }

Status GzipDecoder::Decode(std::string_view compressed, const Output& output) {
  z_stream& zlib = state_->zlib;
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
  zlib.avail_in = static_cast<uInt>(compressed.size());
  for (;;) {
    if (!state_->in_member) {
      if (zlib.avail_in == 0) return {};
      state_->in_member = true;
    }
    zlib.next_out = reinterpret_cast<Bytef*>(state_->piece.data());
    zlib.avail_out = static_cast<uInt>(kPieceBytes);
    const int result = inflate(&zlib, Z_SYNC_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      return InvalidGzip("the body of the response is not valid gzip");
    const std::size_t size = kPieceBytes - zlib.avail_out;
    if (size > 0 && !output({state_->piece.data(), size})) return {};
    if (result == Z_STREAM_END) {
      // Another member may follow: gzip data may be a sequence of members (RFC 1952, 2.2).
      HERALD_CHECK(inflateReset(&zlib) == Z_OK);
      state_->in_member = false;
      state_->has_member = true;
    } else if (zlib.avail_out > 0) {
      return {};  // all input is used
    }
  }
}

Status GzipDecoder::End() const {
  if (state_->in_member || !state_->has_member)
    return InvalidGzip("the gzip body of the response is incomplete");
  return {};
}

struct GzipEncoder::State {
  z_stream zlib{};
  bool usable = false;
};

GzipEncoder::GzipEncoder(int level) : state_(std::make_unique<State>()) {
  constexpr int kMemoryLevel = 8;  // zlib's default
  state_->usable = deflateInit2(&state_->zlib, level, Z_DEFLATED, kGzipWindowBits, kMemoryLevel,
                                Z_DEFAULT_STRATEGY) == Z_OK;
}

GzipEncoder::~GzipEncoder() {
  if (state_->usable) deflateEnd(&state_->zlib);
}

bool GzipEncoder::usable() const { return state_->usable; }

std::string GzipEncoder::Encode(std::string_view piece, bool last) {
  z_stream& zlib = state_->zlib;
  std::string out;
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
  zlib.avail_in = static_cast<uInt>(piece.size());
  do {
    // Enough for the first round, except for what zlib still holds of earlier pieces.
    const std::size_t before = out.size();
    out.resize(before + deflateBound(&zlib, static_cast<uLong>(piece.size())));
    zlib.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    zlib.avail_out = static_cast<uInt>(out.size() - before);
    deflate(&zlib, last ? Z_FINISH : Z_NO_FLUSH);
  } while (zlib.avail_out == 0);
  out.resize(out.size() - zlib.avail_out);
  return out;
}

}  // namespace herald::http
