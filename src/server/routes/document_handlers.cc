#include "server/routes/document_handlers.h"

#include <fmt/core.h>

#include <optional>
#include <string>
#include <string_view>

#include "api/json/indent.h"
#include "server/discovery/discovery.h"
#include "server/discovery/openapi.h"
#include "server/routes/api_state.h"
#include "server/routes/errors.h"
#include "server/routes/handler_steps.h"

namespace herald::server {
namespace {

std::string_view PathOf(const Exchange& exchange) {
  std::string_view path = exchange.info().path;
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

std::string EntityTag(std::string_view body) { return fmt::format("\"{}\"", DocumentHash(body)); }

// A document that clients may cache: they get it again only when it has changed.
void SendTagged(Exchange& exchange, std::string_view content_type, std::string_view body) {
  const std::string tag = EntityTag(body);
  exchange.SetHeader("etag", tag);
  exchange.SetHeader("vary", "Accept");
  if (exchange.request().headers.Get("if-none-match") == tag) return exchange.Send(304, {}, {});
  exchange.Send(200, content_type, std::string(body));
}

}  // namespace

void SendRootPaths(const std::shared_ptr<ApiState>& /*api*/, const ExchangePtr& exchange) {
  exchange->Send(200, "application/json", RootPathsJson());
}

void SendDiscovery(const std::shared_ptr<ApiState>& api, const ExchangePtr& exchange) {
  const std::string_view path = PathOf(*exchange);
  if ((path == "/api" || path == "/apis") &&
      PrefersAggregatedDiscovery(exchange->request().headers)) {
    exchange->SetHeader("cache-control", "public");
    return SendTagged(*exchange, kAggregatedDiscoveryType, AggregatedDiscovery(path));
  }
  const std::optional<std::string> document =
      DiscoveryDocument(path, exchange->request().authority);
  if (!document) return SendPathNotFound(api, exchange);
  Status bad;
  if (!Accepts(exchange->request().headers, Offer())) bad = NotAcceptable(false);
  if (bad.ok() && !exchange->Accept(kDocumentOffer).ok()) {
    bad = Status(StatusReason::kNotAcceptable,
                 "only the following media types are accepted: " + OfferedTypes(Offer()));
  }
  if (!bad.ok()) return exchange->SendStatus(bad);
  exchange->SendJson(200, *document);
}

void SendOpenApi(const std::shared_ptr<ApiState>& api, const ExchangePtr& exchange) {
  const Result<OpenApiAnswer> answer = FindOpenApi(PathOf(*exchange), exchange->request().headers,
                                                   FindParameter(exchange->query(), "hash"));
  if (!answer) return SendPathNotFound(api, exchange);
  if (answer->immutable) exchange->SetHeader("cache-control", "public, immutable");
  if (!answer->location.empty()) exchange->SetHeader("location", answer->location);
  if (!answer->tagged) {
    exchange->Send(200, answer->content_type, answer->body);
  } else if (answer->location.empty()) {
    SendTagged(*exchange, answer->content_type, answer->body);
  } else {
    exchange->SetHeader("etag", EntityTag(answer->body));
    exchange->SetHeader("vary", "Accept");
    exchange->Send(301, answer->content_type, {});
  }
}

void SendVersion(const std::shared_ptr<ApiState>& /*api*/, const ExchangePtr& exchange) {
  // The version of Kubernetes whose API this is, so that clients know what to expect; and
  // ours, for people.
  exchange->Send(
      200, "application/json",
      IndentJson(fmt::format(
          R"({{"major":"1","minor":"36","emulationMajor":"1","emulationMinor":"36",)"
          R"("minCompatibilityMajor":"1","minCompatibilityMinor":"35","gitVersion":"v1.36.3+herald-{}",)"
          R"("gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"",)"
          R"("compiler":"","platform":"linux/amd64"}})",
          HERALD_VERSION)));
}

void SendRetention(const std::shared_ptr<ApiState>& api, const ExchangePtr& exchange) {
  if (Status bad = exchange->Accept(kDocumentOffer); !bad.ok()) return exchange->SendStatus(bad);
  const store::StoreStats stats = api->store()->Stats();
  std::string since = "null";
  if (stats.complete_since > WallTime()) {
    since = fmt::format("\"{}\"", Time(stats.complete_since).ToString());
  }
  exchange->SendJson(
      200,
      fmt::format(
          R"({{"eventTTLSeconds":{},"completeSince":{},"events":{},"expired":{},"evicted":{}}})"
          "\n",
          api->options().event_ttl.count(), since, stats.entries, stats.expired, stats.evicted));
}

}  // namespace herald::server
