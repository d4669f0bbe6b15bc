#pragma once

#include <string>
#include <string_view>

#include "herald/base/export.h"

namespace herald {

// How Kubernetes puts a text into a message: in double quotes, with everything
// that is not printable escaped (`a"b` becomes "a\"b", a tab \t, the byte 0xff
// \xff). Its messages are part of the wire, so the notion of "printable" is the
// one that its servers have, Unicode 15's. (Exported for record, which may be another
// shared library.)

HERALD_EXPORT void AppendQuoted(std::string_view text, std::string* out);
HERALD_EXPORT std::string Quoted(std::string_view text);

// One byte as messages about JSON show it: 'x', '\n', '\'', '\u0080'.
std::string QuotedByte(unsigned char byte);

// Letters, marks, numbers, punctuation, symbols and the space.
HERALD_EXPORT bool IsPrintable(char32_t c);

// Takes the first code point off *text. A byte that begins no valid UTF-8 is taken
// alone and yields U+FFFD. REQUIRES: !text->empty()
HERALD_EXPORT char32_t TakeCodePoint(std::string_view* text);

// REQUIRES: c is a code point and no surrogate
HERALD_EXPORT void AppendUtf8(char32_t c, std::string* out);

}  // namespace herald
