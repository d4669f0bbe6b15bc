#include "http/response_head.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace herald::http {

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 101:
      return "Switching Protocols";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 411:
      return "Length Required";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Request Entity Too Large";
    case 414:
      return "Request URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Entity";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return "Unknown";
  }
}

bool IsBodiless(int status) { return status < 200 || status == 204 || status == 304; }

bool IsConnectionField(std::string_view name) {
  // content-length and expect are framing; the codec handles upgrade, and http2-settings belongs to
  // an upgrade that is not supported.
  static constexpr std::array<std::string_view, 11> kNames = {
      "connection",     "content-length", "expect",           "host",
      "http2-settings", "keep-alive",     "proxy-connection", "te",
      "trailer",        "upgrade",        "transfer-encoding"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

void MakeSendable(int& status, Headers& headers) {
  if (status < 200 || status > 599) status = 500;
  const auto is_control = [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return (u < 0x20 && c != '\t') || u == 0x7f;
  };
  const bool clean = std::none_of(headers.begin(), headers.end(), [&](const Headers::Field& f) {
    return IsConnectionField(f.name) || std::any_of(f.value.begin(), f.value.end(), is_control);
  });
  if (clean) return;
  Headers sendable;
  for (const Headers::Field& field : headers) {
    if (IsConnectionField(field.name)) continue;
    std::string value = field.value;
    std::replace_if(value.begin(), value.end(), is_control, ' ');
    sendable.Add(field.name, std::move(value));
  }
  headers = std::move(sendable);
}

Response PlainResponse(int status, std::string_view message) {
  Response response{.status = status,
                    .headers = {{"content-type", "text/plain; charset=utf-8"}},
                    .body = fmt::format("{}\n", message)};
  // The lack of room is usually short.
  if (status == 503) response.headers.Add("retry-after", "1");
  return response;
}

void LowerCase(std::string& value) {
  for (char& c : value)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
}

std::string_view DateValue::Get() {
  using std::chrono::floor;
  const auto now = floor<std::chrono::seconds>(clock_.Now());
  const std::int64_t second = now.time_since_epoch().count();
  if (second == second_) return value_;
  second_ = second;
  static constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed",
                                                       "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto day = floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(now - day);
  value_ = fmt::format(
      "{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", kDays.at(std::chrono::weekday(day).c_encoding()),
      static_cast<unsigned>(date.day()), kMonths.at(static_cast<unsigned>(date.month()) - 1),
      static_cast<int>(date.year()), time.hours().count(), time.minutes().count(),
      time.seconds().count());
  return value_;
}

}  // namespace herald::http
