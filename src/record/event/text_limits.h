#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace herald {

// What a server takes of the texts of an event, in bytes. It refuses a new-style event
// for one byte more, and an event that is refused is lost.
inline constexpr std::size_t kMaxNote = 1024;
inline constexpr std::size_t kMaxWord = 128;  // action, reason, reportingInstance

// Servers do not limit the message of an old-style event. Readers are told to expect
// up to 64 KiB, and a message beyond that is a mistake that should not fill etcd.
inline constexpr std::size_t kMaxMessage = 64 << 10;

// Cuts a text to `limit` bytes, between characters, and marks the cut with "...". A text
// that is no UTF-8 has no characters and is cut where it is too long.
void CutText(std::size_t limit, std::string* text);

// The qualified name (`name` or `prefix/name`, as label keys are) that is nearest to a
// text: what reportingController has to be. What cannot stand there becomes '-', what is
// too long is cut, a prefix that is no domain is made one or left out, and of nothing
// comes "unknown". A qualified name stays as it is.
std::string QualifiedName(std::string_view text);

}  // namespace herald
