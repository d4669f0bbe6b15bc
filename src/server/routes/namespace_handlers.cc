#include "server/routes/namespace_handlers.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/routes/api_state.h"
#include "server/routes/handler_steps.h"

namespace herald::server {
namespace {

constexpr Offer kNamespaceOffer{.shapes = true, .yaml = true, .protobuf = false};
constexpr Offer kNamespaceWatchOffer{.shapes = true, .yaml = false, .protobuf = false};

// Sends the namespaces as a list, or as one object. `selected`: only the namespace of this name.
void ReadNamespaces(const std::shared_ptr<ApiState>& api, const ExchangePtr& exchange,
                    std::optional<std::string> selected, bool as_object) {
  api->namespaces().Read([api, exchange, as_object,
                          selected = std::move(selected)](Result<NamespaceList> list) {
    if (!list) return exchange->SendStatus(list.error());
    if (selected) {
      std::erase_if(list->items, [&](const NamespaceInfo& info) { return info.name != *selected; });
      if (as_object && list->items.empty())
        return exchange->SendStatus(NamespaceNotFound(*selected));
    }
    const Result<Form> form = FormOf(*exchange, EventApi::kCoreV1);
    if (!form) return exchange->SendStatus(form.error());
    if (form->shape == Shape::kTable) {
      return exchange->SendJson(
          200, NamespaceTableJson(*list, form->table_object, form->meta_version, true,
                                  api->clock().Now()));
    }
    exchange->SendJson(200, as_object ? NamespaceJson(list->items.front(), list->revision) + "\n"
                                      : NamespaceListJson(*list));
  });
}

}  // namespace

void ListNamespaces(const std::shared_ptr<ApiState>& api, const ExchangePtr& exchange) {
  if (!NegotiateOrReject(exchange.get(), kNamespaceOffer, true)) return;
  const Result<ListOptions> options =
      ParseListOptions(exchange->query(), EventApi::kCoreV1, false, api->clock().Now());
  if (!options) return exchange->SendStatus(options.error());
  ReadNamespaces(api, exchange, SelectedName(*options), false);
}

void GetNamespace(const std::shared_ptr<ApiState>& api, const ExchangePtr& exchange) {
  if (!NegotiateOrReject(exchange.get(), kNamespaceOffer, false)) return;
  ReadNamespaces(api, exchange, exchange->info().name, true);
}

void WatchNamespaces(const std::shared_ptr<ApiState>& api, const ExchangePtr& exchange) {
  if (!NegotiateOrReject(exchange.get(), kNamespaceWatchOffer, false)) return;
  const RequestInfo& info = exchange->info();
  const Result<ListOptions> options =
      ParseListOptions(exchange->query(), EventApi::kCoreV1, true, api->clock().Now());
  if (!options) return exchange->SendStatus(options.error());
  const Result<Form> form = FormOf(*exchange, EventApi::kCoreV1);
  if (!form) return exchange->SendStatus(form.error());
  if (Status bad = CheckSelectedName(*options, info); !bad.ok()) return exchange->SendStatus(bad);
  NamespaceWatches::Request request;
  request.name = info.name_in_path ? std::optional(info.name) : SelectedName(*options);
  request.form = *form;
  request.timeout = WatchTimeout(*options, api->options().min_request_timeout);
  // A client with a resource version has listed the namespaces and needs only later changes.
  request.initial_events = options->send_initial_events.value_or(
      options->resource_version.empty() || options->resource_version == "0");
  const Result<std::function<void()>> start =
      WatchStarter(exchange, api->options().cors, &request.form);
  if (!start) return exchange->SendStatus(start.error());
  const Status rejected =
      api->namespace_watches().Open(std::move(request), exchange->responder(), *start);
  if (!rejected.ok()) exchange->SendStatus(rejected);
}

}  // namespace herald::server
