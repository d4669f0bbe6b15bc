#pragma once

#include <boost/beast/http/basic_parser.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"
#include "http/server/pending_response.h"
#include "http/server/server.h"

namespace herald::http {

// Parses one HTTP/1.1 (or 1.0) request with Boost.Beast's basic_parser, which calls the on_...
// functions with the parts that it finds. basic_parser rejects the usual means of request
// smuggling: two lengths, a length together with chunks, spaces before a colon, lines that end
// with a bare CR or LF. This class also rejects: any transfer coding except "chunked", any
// transfer coding in HTTP/1.0, control characters in a chunk extension, folded fields, and a
// missing or second Host.
//
// Thread-confined.
class Http1RequestParser final : public boost::beast::http::basic_parser<true> {
 public:
  using ErrorCode = boost::beast::error_code;

  // REQUIRES: options outlives the parser
  explicit Http1RequestParser(const ServerOptions& options);

  // ParseHead() and ParseBody() consume as much of the input as they can and return how much that
  // was. The error is need_more while the input ends within a head or within the framing of a
  // chunk.

  // Stops after the head.
  std::size_t ParseHead(std::string_view input, ErrorCode& error);
  // From now on the body is read for `reader`; if that is null, the body is discarded.
  // REQUIRES: reader, if not null, outlives the reading of the body
  void BeginBody(PendingResponse* reader);
  // REQUIRES: BeginBody() was called, !is_done()
  std::size_t ParseBody(std::string_view input, ErrorCode& error);

  // The status code of the response that rejects an invalid request.
  int RejectionStatus(const ErrorCode& error) const;

  bool http10() const { return version_ < 11; }
  bool expects_continue() const { return expects_continue_; }
  // Whether ParseBody() failed because the handler does not accept a body of that size.
  bool body_rejected() const { return body_rejected_; }
  // Whether the rest of the body is short enough to be read only to reach the next request.
  bool is_discardable() const;

  // The request without its body. REQUIRES: is_header_done()
  Request TakeRequest();
  // REQUIRES: is_done()
  std::string TakeBody() { return std::move(body_); }

 private:
  using StringView = boost::beast::string_view;

  // The longest body that is read only to be discarded, in bytes: for a longer one a new
  // connection is cheaper.
  static constexpr std::size_t kMaxDiscardBytes = std::size_t{256} * 1024;

  void on_request_impl(boost::beast::http::verb verb, StringView method, StringView target,
                       int version, ErrorCode& error) override;
  void on_field_impl(boost::beast::http::field field, StringView name_bytes, StringView value_bytes,
                     ErrorCode& error) override;
  void on_header_impl(ErrorCode& error) override;
  void on_body_init_impl(const boost::optional<std::uint64_t>& length, ErrorCode& error) override;
  std::size_t on_body_impl(StringView body, ErrorCode& error) override;
  void on_chunk_header_impl(std::uint64_t size, StringView extensions, ErrorCode& error) override;
  std::size_t on_chunk_body_impl(std::uint64_t remain, StringView body, ErrorCode& error) override;
  void on_response_impl(int /*code*/, StringView /*reason*/, int /*version*/,
                        ErrorCode& /*error*/) override {}
  void on_finish_impl(ErrorCode& /*error*/) override {}

  // Accepts "/path", "*" for OPTIONS, and "http://host/path", which proxies send.
  void SetTarget(std::string_view target, ErrorCode& error);
  bool OffersWebSocket() const;
  // Rejects the request with this status code.
  void Fail(int status, ErrorCode& error);

  const ServerOptions& options_;
  Request request_;
  std::string body_;
  PendingResponse* reader_ = nullptr;  // whose handler reads the body; null: discarded
  bool body_rejected_ = false;
  int rejection_ = 0;  // status code of the rejection; 0: none
  int version_ = 11;
  int hosts_ = 0;
  int transfer_encodings_ = 0;
  bool authority_in_target_ = false;
  bool expects_continue_ = false;
  std::size_t fields_ = 0;
  std::size_t head_bytes_ = 0;
  std::vector<std::string> connection_names_;  // the fields that "connection" names
  std::string upgrade_;
};

}  // namespace herald::http
