#include "herald/api/response_status.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>
#include <utility>

#include "api/quote.h"
#include "base/bytes/trimmed.h"
#include "herald/api/codec.h"

namespace herald {
namespace {

// How much of an unknown body the message has, as in client-go.
constexpr std::size_t kMaxShownBytes = 2048;

struct CodeRow {
  int code;
  StatusReason reason;
  std::string_view message;  // empty: the body
};

// Other codes have no reason of their own.
constexpr CodeRow kCodes[] = {
    {400, StatusReason::kBadRequest, "the server rejected our request for an unknown reason"},
    {401, StatusReason::kUnauthorized,
     "the server has asked for the client to provide credentials"},
    {403, StatusReason::kForbidden, ""},
    {404, StatusReason::kNotFound, "the server could not find the requested resource"},
    {405, StatusReason::kMethodNotAllowed,
     "the server does not allow this method on the requested resource"},
    {406, StatusReason::kNotAcceptable, ""},
    {409, StatusReason::kConflict, "the server reported a conflict"},
    {415, StatusReason::kUnsupportedMediaType, ""},
    {422, StatusReason::kInvalid, "the server rejected our request due to an error in our request"},
    {429, StatusReason::kTooManyRequests,
     "the server has received too many requests and has asked us to try again later"},
    {503, StatusReason::kServiceUnavailable,
     "the server is currently unable to handle the request"},
    {504, StatusReason::kTimeout,
     "the server was unable to return a response in the time allotted, but may still be "
     "processing the request"},
};

bool IsText(std::string_view content_type) {
  return content_type.empty() || content_type.starts_with("text/");
}

std::string Lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  });
  return out;
}

std::chrono::seconds Seconds(std::string_view header) {
  std::int32_t seconds = 0;
  const char* const end = header.data() + header.size();
  const auto [parsed, error] = std::from_chars(header.data(), end, seconds);
  return std::chrono::seconds(error == std::errc() && parsed == end ? std::max(seconds, 0) : 0);
}

}  // namespace

Status StatusFromResponse(const FailedRequest& request, const FailedResponse& response) {
  for (const Codec* codec : {&JsonCodec(), &ProtobufCodec()}) {
    if (!response.content_type.starts_with(codec->media_type())) continue;
    const std::optional<Status> status = codec->DecodeStatus(response.body);
    if (status && !status->ok()) return *status;
  }

  const std::string shown(IsText(response.content_type)
                              ? Trimmed(response.body.substr(0, kMaxShownBytes))
                              : std::string_view("unknown"));
  Status::Parts parts;
  parts.code = response.http_code;
  parts.origin = Status::Origin::kServer;
  parts.retry_after = Seconds(response.retry_after);
  const auto* row = std::find_if(std::begin(kCodes), std::end(kCodes),
                                 [&](const CodeRow& r) { return r.code == response.http_code; });
  if (row != std::end(kCodes)) {
    parts.reason = row->reason;
    parts.message = row->message.empty() ? shown : std::string(row->message);
  } else if (response.http_code >= 500) {
    parts.reason = StatusReason::kInternalError;
    parts.message = fmt::format(
        "an error on the server ({}) has prevented the request from "
        "succeeding",
        Quoted(shown));
  } else {
    parts.message = fmt::format(
        "the server responded with the status code {} but did not return "
        "more information",
        response.http_code);
  }
  // Only a create can conflict with an existing object.
  if (response.http_code == 409 && request.verb == "POST") {
    parts.reason = StatusReason::kAlreadyExists;
  }

  std::string about = Lower(request.verb) + " " + std::string(request.resource);
  if (!request.group.empty()) about.append(".").append(request.group);
  if (!request.name.empty()) about.append(" ").append(request.name);
  parts.message += " (" + about + ")";
  parts.details = StatusDetails{.name = std::string(request.name),
                                .group = std::string(request.group),
                                .kind = std::string(request.resource),
                                .causes = {{"UnexpectedServerResponse", shown, ""}}};
  return Status(std::move(parts));
}

}  // namespace herald
