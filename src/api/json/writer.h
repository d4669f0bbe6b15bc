#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "herald/base/export.h"

namespace herald {

// Appends `text` as a JSON string, quotes included, with exactly the escapes that
// Go's encoding/json writes: also for < > & and the two line separators, which
// would be dangerous inside a page of HTML, and \ufffd for each byte that is no
// UTF-8.
HERALD_EXPORT void AppendJsonString(std::string_view text, std::string* out);

// Appends a JSON text without the white space between its tokens and with < > &
// and the line separators escaped, as Go writes a value that was kept as raw JSON.
// REQUIRES: `json` is valid JSON
void AppendCompactJson(std::string_view json, std::string* out);

// A JsonWriter collects the text of one document. It exists for speed: room is
// asked for once per member instead of once per byte, and most events fit into the
// buffer that comes with it, so that the caller's string is allocated once, at its
// final size.
//
// Thread-confined. (Exported for record, which may be another shared library.)
class HERALD_EXPORT JsonWriter {
 public:
  JsonWriter() = default;
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  std::string_view text() const { return {begin_, size()}; }
  std::size_t size() const { return static_cast<std::size_t>(pos_ - begin_); }

  // Makes room for `bytes`. The calls below that say so rely on it.
  void Ensure(std::size_t bytes) {
    if (static_cast<std::size_t>(end_ - pos_) < bytes) Grow(bytes);
  }

  // REQUIRES: Ensure() made room
  void Put(char c) { *pos_++ = c; }
  void Put(std::string_view literal) {
    std::memcpy(pos_, literal.data(), literal.size());
    pos_ += literal.size();
  }
  char* pos() { return pos_; }
  void set_pos(char* pos) { pos_ = pos; }

  // These make room for themselves.
  void Raw(std::string_view text) {
    Ensure(text.size());
    Put(text);
  }
  void String(std::string_view text);
  void Int(std::int64_t value) {
    Ensure(20);
    pos_ = std::to_chars(pos_, end_, value).ptr;
  }

  // Members are written as `,"key":value`. CloseObject() turns the first comma
  // into the opening brace, so that nobody needs to know which member is first.
  std::size_t OpenObject() const { return size(); }
  void CloseObject(std::size_t opened) {
    Ensure(2);
    if (size() == opened) Put('{');
    begin_[opened] = '{';
    Put('}');
  }

 private:
  void Grow(std::size_t bytes);

  // Room for nearly every event: they are 600 to 2,000 bytes long.
  static constexpr std::size_t kInlineBytes = 4096;
  char inline_[kInlineBytes];
  std::unique_ptr<char[]> heap_;
  char* begin_ = inline_;
  char* pos_ = inline_;
  char* end_ = inline_ + kInlineBytes;
};

}  // namespace herald
