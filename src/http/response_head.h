#pragma once

#include <string>
#include <string_view>

#include "herald/base/clock.h"
#include "http/message.h"

namespace herald::http {

// What the heads of responses, and of requests, have in common in HTTP/1.1 and HTTP/2.

// "Not Found" for 404; "Unknown" for a status that has no name.
std::string_view ReasonPhrase(int status);

// Whether a response of this status never has a body.
bool IsBodiless(int status);

// Fields that belong to a connection and its framing rather than to the message. They
// are taken out of requests, and left out of responses, where the codec decides on them.
// REQUIRES: name is lower-case
bool IsConnectionField(std::string_view name);

// Makes a response of ours fit to be sent, whatever the handler has put into it: a status
// outside 200 to 599 becomes 500, fields of the connection go, and control characters
// in values become spaces, so that no text of a client can add fields to a response.
void MakeSendable(int& status, Headers& headers);

// A plain response of the codec itself, to a request that never reaches the handler.
Response PlainResponse(int status, std::string_view text);

void LowerCase(std::string& text);

// The value of the date field, made once a second. Thread-confined.
class DateValue {
 public:
  explicit DateValue(const Clock& clock) : clock_(clock) {}

  // "Mon, 16 Nov 2026 00:00:00 GMT". Valid until the next call.
  std::string_view Get();

 private:
  const Clock& clock_;
  std::int64_t second_ = -1;
  std::string text_;
};

}  // namespace herald::http
