#pragma once

#include <string>
#include <string_view>

#include "herald/base/clock.h"
#include "http/message.h"

namespace herald::http {

// Functions for the heads of requests and responses that HTTP/1.1 and HTTP/2 share.

// "Not Found" for 404; "Unknown" for a status that has no name.
std::string_view ReasonPhrase(int status);

// Whether a response with this status code never has a body.
bool IsBodiless(int status);

// Whether a field belongs to a connection and its framing and not to the message. Such fields are
// removed from requests and responses; the codec sets them.
// REQUIRES: name is lower-case
bool IsConnectionField(std::string_view name);

// Makes the head of a handler's response safe to send: a status outside 200 to 599 becomes 500,
// fields of the connection are removed, and control characters in values become spaces, so that a
// string that a client has sent cannot add fields to a response.
void MakeSendable(int& status, Headers& headers);

// A response of the codec itself, in plain text, to a request that the handler does not get.
Response PlainResponse(int status, std::string_view message);

void LowerCase(std::string& value);

// The value of the date field, formatted once per second. Thread-confined.
class DateValue {
 public:
  explicit DateValue(const Clock& clock) : clock_(clock) {}

  // "Mon, 16 Nov 2026 00:00:00 GMT". Valid until the next call.
  std::string_view Get();

 private:
  const Clock& clock_;
  std::int64_t second_ = -1;
  std::string value_;
};

}  // namespace herald::http
