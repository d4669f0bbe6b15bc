#include "api/json/indent.h"

#include <cstddef>
#include <utility>

namespace herald {
namespace {

// The limit of the indentation, in bytes. An element takes at least two bytes of JSON, so that 8
// levels never reach the limit, and a small document never does.
constexpr std::size_t kFreeIndentBytes = 16 << 10;
constexpr std::size_t kIndentBytesPerByte = 8;

}  // namespace

std::string IndentJson(std::string_view json) {
  std::string out;
  JsonIndenter().Append(json, &out);
  return out;
}

JsonIndenter::JsonIndenter() : indent_left_(kFreeIndentBytes) {}

void JsonIndenter::Append(std::string_view piece, std::string* out) {
  out->reserve(out->size() + piece.size() + piece.size() / 2);
  indent_left_ += kIndentBytesPerByte * piece.size();
  const auto new_line = [&] {
    const std::size_t indent = 2 * depth_;
    if (indent > indent_left_) return;
    indent_left_ -= indent;
    *out += '\n';
    out->append(indent, ' ');
  };
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const char c = piece[i];
    if (in_string_) {
      const std::size_t start = i;
      for (; i < piece.size(); ++i) {
        if (escaped_) {
          escaped_ = false;
        } else if (piece[i] == '\\') {
          escaped_ = true;
        } else if (piece[i] == '"') {
          in_string_ = false;
          break;
        }
      }
      out->append(piece.substr(start, i - start + 1));
      continue;
    }
    if (c == '\n') continue;  // at the end of the document
    if (c == '}' || c == ']') {
      if (!std::exchange(opened_, false)) {
        --depth_;
        new_line();
      }
      *out += c;
      continue;
    }
    if (std::exchange(opened_, false)) {
      ++depth_;
      new_line();
    }
    switch (c) {
      case '"':
        *out += c;
        in_string_ = true;
        break;
      case '{':
      case '[':
        *out += c;
        opened_ = true;
        break;
      case ',':
        *out += c;
        new_line();
        break;
      case ':':
        *out += ": ";
        break;
      default:
        *out += c;
    }
  }
}

}  // namespace herald
