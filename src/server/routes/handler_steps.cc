#include "server/routes/handler_steps.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/bytes/random.h"
#include "server/routes/errors.h"

namespace herald::server {

bool NegotiateOrReject(Exchange* exchange, const Offer& offer, bool is_list) {
  Status bad;
  if (!Accepts(exchange->request().headers, Offer())) bad = NotAcceptable(is_list);
  if (bad.ok()) bad = exchange->Accept(offer);
  if (bad.ok()) bad = CheckShapeName(exchange->response_format(), is_list);
  if (!bad.ok()) exchange->SendStatus(bad);
  return bad.ok();
}

Status CheckShapeName(const ResponseFormat& format, bool is_list) {
  if (format.shape != Shape::kPartialMetadata || format.list_named == is_list) {
    return Status();
  }
  return Status(StatusReason::kNotAcceptable,
                is_list ? "you requested PartialObjectMetadata, but the requested object is a list "
                          "(*core.EventList)"
                        : "you requested PartialObjectMetadataList, but the requested object is "
                          "not a list (*core.Event)");
}

Result<Form> FormOf(const Exchange& exchange, EventApi api) {
  const ResponseFormat& format = exchange.response_format();
  Form form{.api = api,
            .media = format.media,
            .shape = format.shape,
            .meta_version = format.meta_version};
  if (form.shape == Shape::kTable) {
    const std::string* const include = FindParameter(exchange.query(), "includeObject");
    const Result<TableObject> object =
        ParseTableObject(include != nullptr ? std::string_view(*include) : std::string_view());
    if (!object) return object.error();
    form.table_object = *object;
  }
  return form;
}

std::optional<std::string> SelectedName(const ListOptions& options) {
  const std::string* const name = options.fields.RequiredValue(EventField::kMetadataName);
  return name != nullptr ? std::optional<std::string>(*name) : std::nullopt;
}

Status CheckSelectedName(const ListOptions& options, const RequestInfo& info) {
  const std::optional<std::string> selected = SelectedName(options);
  if (info.name.empty() || !selected || *selected == info.name) return Status();
  return BadRequest("fieldSelector metadata.name doesn't match requested name");
}

std::chrono::seconds WatchTimeout(const ListOptions& options, std::chrono::seconds min) {
  // A year is longer than any watch lasts, and can be added to any clock.
  constexpr std::chrono::seconds kMax{365 * 24 * 3600};
  const std::int64_t asked = options.timeout_seconds.value_or(0);
  if (asked > 0) return std::min(std::chrono::seconds(asked), kMax);
  min = std::clamp(min, std::chrono::seconds(1), kMax);
  Random random(RandomSeed());
  const double more = random.Unit() * static_cast<double>(min.count());
  return min + std::chrono::seconds(static_cast<std::int64_t>(more));
}

Result<std::function<void()>> WatchStarter(const ExchangePtr& exchange, const Cors& cors,
                                           Form* form) {
  if (exchange->request().websocket) {
    Result<http::Headers> accepted = AcceptWebSocket(exchange->request(), cors);
    if (!accepted) {
      if (accepted.error().Is(StatusReason::kBadRequest))
        exchange->SetHeader("sec-websocket-version", std::string(kWebSocketVersion));
      return accepted.error();
    }
    form->websocket = true;
    return std::function<void()>(
        [exchange, accepted = *std::move(accepted)] { exchange->StartWebSocket(accepted); });
  }
  const bool protobuf = form->media == MediaType::kProtobuf;
  return std::function<void()>([exchange, protobuf] {
    exchange->StartStream(protobuf
                              ? std::string(MediaTypeName(MediaType::kProtobuf)) + ";stream=watch"
                              : std::string(MediaTypeName(MediaType::kJson)));
  });
}

}  // namespace herald::server
