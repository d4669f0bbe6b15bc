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

// Adds the headers of every response: Audit-Id (the request's own, if it has one), Cache-Control
// (unless it is set already) and Content-Type.
void AddCommonHeaders(const http::Request& request, std::string_view content_type,
                      http::Headers* headers);

// The headers that accept the WebSocket a request offers, or the error: kBadRequest if the offer is
// malformed, kForbidden if its origin is not allowed. One subprotocol of any name is accepted, as
// golang.org/x/net/websocket does in kube-apiserver.
//
// A browser lets any page open a WebSocket to any server, with the user's client certificate, and
// does not ask the server for permission as it does for other requests. So the Origin header, which
// browsers always send, must be that of the request itself or one that `cors` allows.
// Other clients need not send it. kube-apiserver accepts every origin.
inline constexpr std::string_view kWebSocketVersion = "13";  // of RFC 6455
Result<http::Headers> AcceptWebSocket(const http::Request& request, const Cors& cors);

// An Exchange is one request and its response: the query, the negotiated format and the headers of
// the response. The callbacks that a request waits for keep it alive.
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
  // Whether work on the body takes so long that it must not run on the threads that serve all
  // clients (those of connections and of the store).
  bool is_long_work() const { return is_long_work_; }
  // The size of the body, also after it was taken.
  std::size_t body_bytes() const { return body_bytes_; }
  // The body, once; an error if it is too large.
  Result<std::string> TakeBody() {
    if (!admitted_.body_error.ok()) return admitted_.body_error;
    return std::move(admitted_.request.body);
  }

  // Chooses the format; kNotAcceptable if the client accepts none.
  Status Accept(const Offer& offer);
  const ResponseFormat& response_format() const { return response_format_; }

  // Adds a Warning header, which kubectl prints. Duplicates are dropped, and so are warnings beyond
  // Kubernetes' limits on their length.
  void Warn(std::string text);
  // Sets another header of the response. REQUIRES: name is lower-case
  void SetHeader(std::string name, std::string value);

  // Sends a JSON document in the negotiated format (indented, or as YAML).
  // REQUIRES: the format is not protobuf
  void SendJson(int code, std::string json);
  // Sends a body that is encoded already.
  void Send(int code, std::string_view content_type, std::string body);
  // The same with 200 and in pieces, so that one is sent while the next is encoded. JSON is
  // indented if the format requires it. Responses of less than kPieceBytes should be sent in one
  // call. After the last piece, End() ends the response, now or later.
  static constexpr std::size_t kPieceBytes = 128 * 1024;
  void SendPiece(std::string_view content_type, std::string piece, bool last);
  void End();
  // Sends an error. After a piece has been sent, aborts the response instead.
  void SendStatus(const Status& status);
  // Sends the head of a stream. The caller writes the body to responder().
  void StartStream(std::string_view content_type);
  // The same as a WebSocket. REQUIRES: `accepted` is what AcceptWebSocket() has made
  void StartWebSocket(http::Headers accepted);

 private:
  http::Headers TakeHeaders(std::string_view content_type);
  // False: the body is not compressed. REQUIRES: called at most once
  bool BeginGzip(http::Headers* headers);

  AdmittedRequest admitted_;
  const std::size_t body_bytes_;
  const bool is_long_work_;
  const std::shared_ptr<http::Responder> responder_;
  ResponseFormat response_format_;
  std::vector<std::string> warnings_;
  std::set<std::string> warned_;  // the same, to find duplicates
  std::size_t warning_runes_ = 0;
  http::Headers headers_;
  std::unique_ptr<http::GzipEncoder> gzip_;
  JsonIndenter indenter_;
  bool started_ = false;  // a piece was sent
};

}  // namespace herald::server
