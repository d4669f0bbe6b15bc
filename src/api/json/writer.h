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

// Appends `text` as a JSON string with quotes and with the escapes of Go's encoding/json: also for
// < > & and the two line separators, which are unsafe in HTML, and \ufffd for each byte of invalid
// UTF-8.
HERALD_EXPORT void AppendJsonString(std::string_view text, std::string* out);

// Appends a JSON document without white space between its tokens and with < > & and the line
// separators escaped, as Go writes a json.RawMessage. REQUIRES: `json` is valid JSON
void AppendCompactJson(std::string_view json, std::string* out);

// A JsonWriter builds one document. It is faster than appending to a string: it checks the capacity
// once per member and not once per byte, and most events fit into its own buffer, so that the
// caller's string is allocated once, with the final size.
//
// Thread-confined. (Exported for record, which may be another shared library.)
class HERALD_EXPORT JsonWriter {
 public:
  JsonWriter() = default;
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  std::string_view text() const { return {begin_, size()}; }
  std::size_t size() const { return static_cast<std::size_t>(pos_ - begin_); }

  // Reserves `bytes` bytes for calls of Put().
  void Ensure(std::size_t bytes) {
    if (static_cast<std::size_t>(end_ - pos_) < bytes) Grow(bytes);
  }

  // REQUIRES: Ensure() has reserved a byte
  void Put(char c) { *pos_++ = c; }
  void Put(std::string_view literal) {
    std::memcpy(pos_, literal.data(), literal.size());
    pos_ += literal.size();
  }
  char* pos() { return pos_; }
  void set_pos(char* pos) { pos_ = pos; }

  // These reserve their bytes themselves.
  void Raw(std::string_view text) {
    Ensure(text.size());
    Put(text);
  }
  void String(std::string_view text);
  void Int(std::int64_t value) {
    Ensure(20);
    pos_ = std::to_chars(pos_, end_, value).ptr;
  }

  // Members are written as `,"key":value`. CloseObject() replaces the first comma by the opening
  // brace, so that callers need not know which member is the first.
  std::size_t OpenObject() const { return size(); }
  void CloseObject(std::size_t opened) {
    Ensure(2);
    if (size() == opened) Put('{');
    begin_[opened] = '{';
    Put('}');
  }

 private:
  void Grow(std::size_t bytes);

  // Enough for nearly every event: most have 600 to 2,000 bytes.
  static constexpr std::size_t kInlineBytes = 4096;
  char inline_[kInlineBytes];
  std::unique_ptr<char[]> heap_;
  char* begin_ = inline_;
  char* pos_ = inline_;
  char* end_ = inline_ + kInlineBytes;
};

}  // namespace herald
