#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/status.h"
#include "http/message.h"
#include "http/server.h"
#include "http/url.h"
#include "server/api.h"
#include "server/negotiation.h"

namespace herald::server {

// The headers that every answer has, whoever gives it: Audit-Id, which is the request's own where
// it brought one, Cache-Control where it is not there yet, and the type of the body.
void AddCommonHeaders(const http::Request& request, std::string_view content_type,
                      http::Headers* headers);

// What the head of a WebSocket says to a request that offers one, or why there can be none. As
// golang.org/x/net/websocket below kube-apiserver, but that there need be no Origin, which
// only browsers send: one subprotocol is accepted, whatever it is called.
inline constexpr std::string_view kWebSocketVersion = "13";  // of RFC 6455
Result<http::Headers> AcceptWebSocket(const http::Request& request);

// An Exchange is one request and the answer that is being made for it: the query, what the
// client accepts, and the headers that every answer carries. Whatever a request waits for
// keeps it alive.
//
// Confined to one thread at a time.
class Exchange {
 public:
  Exchange(Call call, std::shared_ptr<http::Responder> responder);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const Call& call() const { return call_; }
  const http::Request& request() const { return call_.request; }
  const http::Query& query() const { return query_; }
  const std::shared_ptr<http::Responder>& responder() const { return responder_; }
  // The body may be taken out by whoever reads it.
  std::string TakeBody() { return std::move(call_.request.body); }

  // Chooses the representation; kNotAcceptable where none is left.
  Status Accept(const Offer& offer);
  const Representation& representation() const { return representation_; }

  // Each is told once in a Warning header, which kubectl prints.
  void Warn(std::string text);
  // Any other header that the answer shall have. REQUIRES: name is lower-case
  void SetHeader(std::string name, std::string value);

  // A JSON document in the representation that was chosen (indented, or as YAML).
  // REQUIRES: the representation is not protobuf
  void SendJson(int code, std::string json);
  // A body that is encoded already.
  void Send(int code, std::string_view content_type, std::string body);
  // The same with 200 and in pieces, of which one travels while the next is made. They should be
  // of kPieceBytes or more, so that they are worth it.
  static constexpr std::size_t kPieceBytes = 128 * 1024;
  void SendPiece(std::string_view content_type, std::string piece, bool last);
  // After a piece, which promised something else, it cuts the answer off.
  void SendStatus(const Status& status);
  // The head of a stream. The body is the caller's to write to responder().
  void StartStream(std::string_view content_type);
  // The same as a WebSocket. REQUIRES: `accepted` is what AcceptWebSocket() has made
  void StartWebSocket(http::Headers accepted);

 private:
  class Gzip;

  http::Headers TakeHeaders(std::string_view content_type);
  // False: the body goes as it is. REQUIRES: called once at most
  bool BeginGzip(http::Headers* headers);

  Call call_;
  const http::Query query_;
  const std::shared_ptr<http::Responder> responder_;
  Representation representation_;
  std::vector<std::string> warnings_;
  http::Headers headers_;
  std::unique_ptr<Gzip> gzip_;
  bool started_ = false;  // a piece was sent
};

// A JSON text with line breaks and two spaces per level, as Go's MarshalIndent writes it.
// REQUIRES: json is valid and compact
std::string IndentJson(std::string_view json);

}  // namespace herald::server
