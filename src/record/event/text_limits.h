#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace herald {

// The limits of the strings of an event, in bytes. The server rejects a new-style event that
// exceeds one of them, and the event would be lost.
inline constexpr std::size_t kMaxNote = 1024;
inline constexpr std::size_t kMaxWord = 128;  // action, reason, reportingInstance

// Servers do not limit the message of an old-style event. The API documentation promises readers at
// most 64 KiB, and a longer message is probably a mistake that should not fill etcd.
inline constexpr std::size_t kMaxMessage = 64 << 10;

// Cuts a string to `limit` bytes, between characters, and marks the cut with "...". A string that
// is not valid UTF-8 is cut at the byte.
void CutText(std::size_t limit, std::string* text);

// Makes a string a qualified name (`name` or `prefix/name`, as label keys), which
// reportingController must be. Invalid characters become '-', long parts are cut, a prefix that is
// not a DNS subdomain is made one or dropped, and an empty name becomes "unknown". A qualified name
// is returned unchanged.
std::string QualifiedName(std::string_view text);

}  // namespace herald
