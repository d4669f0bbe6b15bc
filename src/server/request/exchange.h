#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/json/indent.h"
#include "herald/base/status.h"
#include "http/gzip.h"
#include "http/message.h"
#include "http/server/server.h"
#include "http/url.h"
#include "server/access/cors.h"
#include "server/api.h"
#include "server/request/negotiation.h"

namespace herald::server {

// The headers that every answer has, whoever gives it: Audit-Id, which is the request's own where
// it brought one, Cache-Control where it is not there yet, and the type of the body.
void AddCommonHeaders(const http::Request& request, std::string_view content_type,
                      http::Headers* headers);

// The headers that accept the WebSocket a request offers, or the refusal: kBadRequest if the offer
// is malformed, kForbidden if it comes from a foreign origin. One subprotocol is accepted, whatever
// its name, as golang.org/x/net/websocket does below kube-apiserver.
//
// A browser lets any page open a WebSocket to any server, with the user's client certificate, and
// does not ask the server for permission as it does for other requests. So the Origin header, which
// browsers always send, must be that of the request itself or one that `cors` allows.
// Other clients need not send it. kube-apiserver accepts every origin.
inline constexpr std::string_view kWebSocketVersion = "13";  // of RFC 6455
Result<http::Headers> AcceptWebSocket(const http::Request& request, const Cors& cors);

// An Exchange is one request and the answer that is being made for it: the query, what the
// client accepts, and the headers that every answer carries. Whatever a request waits for
// keeps it alive.
//
// Confined to one thread at a time.
class Exchange {
 public:
  Exchange(AdmittedRequest admitted, std::shared_ptr<http::Responder> responder);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const AdmittedRequest& admitted() const { return admitted_; }
  const http::Request& request() const { return admitted_.request; }
  const RequestInfo& info() const { return admitted_.info; }
  const http::Query& query() const { return admitted_.info.query; }
  const std::shared_ptr<http::Responder>& responder() const { return responder_; }
  // Whether work on the body takes so long that it must leave the threads that serve everybody
  // (the connections', the store's).
  bool is_long_work() const { return is_long_work_; }
  // Of the body, also after it was taken.
  std::size_t body_bytes() const { return body_bytes_; }
  // The body, once; an error if it is too large.
  Result<std::string> TakeBody() {
    if (!admitted_.body_error.ok()) return admitted_.body_error;
    return std::move(admitted_.request.body);
  }

  // Chooses the representation; kNotAcceptable where none is left.
  Status Accept(const Offer& offer);
  const ResponseFormat& response_format() const { return response_format_; }

  // Adds a Warning header, which kubectl prints; the same text is added once. Kubernetes' bounds
  // on their length apply, so most of very many are dropped.
  void Warn(std::string text);
  // Any other header that the answer shall have. REQUIRES: name is lower-case
  void SetHeader(std::string name, std::string value);

  // A JSON document in the representation that was chosen (indented, or as YAML).
  // REQUIRES: the representation is not protobuf
  void SendJson(int code, std::string json);
  // A body that is encoded already.
  void Send(int code, std::string_view content_type, std::string body);
  // The same with 200 and in pieces, of which one travels while the next is made; JSON is
  // indented where the representation wants it. An answer of less than kPieceBytes is not worth
  // being sent in pieces. After the last piece the answer ends with End(), now or later.
  static constexpr std::size_t kPieceBytes = 128 * 1024;
  void SendPiece(std::string_view content_type, std::string piece, bool last);
  void End();
  // After a piece, which promised something else, it cuts the answer off.
  void SendStatus(const Status& status);
  // The head of a stream. The body is the caller's to write to responder().
  void StartStream(std::string_view content_type);
  // The same as a WebSocket. REQUIRES: `accepted` is what AcceptWebSocket() has made
  void StartWebSocket(http::Headers accepted);

 private:
  http::Headers TakeHeaders(std::string_view content_type);
  // False: the body goes as it is. REQUIRES: called once at most
  bool BeginGzip(http::Headers* headers);

  AdmittedRequest admitted_;
  const std::size_t body_bytes_;
  const bool is_long_work_;
  const std::shared_ptr<http::Responder> responder_;
  ResponseFormat response_format_;
  std::vector<std::string> warnings_;
  std::set<std::string> warned_;  // the same, to find repetitions
  std::size_t warning_runes_ = 0;
  http::Headers headers_;
  std::unique_ptr<http::GzipEncoder> gzip_;
  JsonIndenter indenter_;
  bool started_ = false;  // a piece was sent
};

}  // namespace herald::server
