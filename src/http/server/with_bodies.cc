#include <memory>
#include <utility>

#include "http/response_head.h"
#include "http/server/server.h"

namespace herald::http {
namespace {

int CodeFor(const Status& error) {
  if (error.Is(StatusReason::kRequestEntityTooLarge)) return 413;
  if (error.Is(StatusReason::kTimeout)) return 408;
  return 503;
}

}  // namespace

Handler WithBodies(Handler handler, std::size_t max_bytes) {
  auto shared = std::make_shared<const Handler>(std::move(handler));
  return
      [shared, max_bytes](Request request, const Peer& peer, std::shared_ptr<Responder> responder) {
        Responder& reading = *responder;
        auto done = [shared, peer, request = std::move(request),
                     responder = std::move(responder)](Result<std::string> body) mutable {
          if (body) {
            request.body = *std::move(body);
            (*shared)(std::move(request), peer, std::move(responder));
          } else if (!body.error().Is(StatusReason::kCancelled)) {
            const int code = CodeFor(body.error());
            responder->Send(PlainResponse(code, ReasonPhrase(code)));
          }
        };
        reading.ReadBody({.max_bytes = max_bytes, .reserve = {}, .done = std::move(done)});
      };
}

}  // namespace herald::http
