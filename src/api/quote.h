#pragma once

#include <string>
#include <string_view>

#include "herald/base/export.h"

namespace herald {

// A string as Kubernetes' messages contain it (Go's %q): in double quotes, with everything that is
// not printable escaped: `a"b` becomes "a\"b", a tab \t, the byte 0xff \xff. "Printable" follows
// Unicode 15, as on its servers. (Exported for record, which may be another shared library.)

HERALD_EXPORT void AppendQuoted(std::string_view text, std::string* out);
HERALD_EXPORT std::string Quoted(std::string_view text);

// One byte as Go's JSON errors print it: 'x', '\n', '\'', '\u0080'.
std::string QuotedByte(unsigned char byte);

// Letters, marks, numbers, punctuation, symbols and the space.
HERALD_EXPORT bool IsPrintable(char32_t c);

// Removes the first code point from *text and returns it. A byte that does not begin a valid UTF-8
// sequence is removed alone and becomes U+FFFD. REQUIRES: !text->empty()
HERALD_EXPORT char32_t TakeCodePoint(std::string_view* text);

// REQUIRES: c is a code point and not a surrogate
HERALD_EXPORT void AppendUtf8(char32_t c, std::string* out);

}  // namespace herald
