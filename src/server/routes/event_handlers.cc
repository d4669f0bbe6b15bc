#include "server/routes/event_handlers.h"

#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/patch/patch_text.h"
#include "api/quote.h"
#include "base/limit/too_many_requests.h"
#include "herald/api/patch.h"
#include "server/access/rbac.h"
#include "server/events/encoding.h"
#include "server/events/event_list.h"
#include "server/events/list_stream.h"
#include "server/routes/api_state.h"
#include "server/routes/collection_deletion.h"
#include "server/routes/errors.h"
#include "server/routes/event_body.h"
#include "server/routes/handler_steps.h"

namespace herald::server {
namespace {

using ApiPtr = std::shared_ptr<ApiState>;

constexpr std::string_view kApplyPatch = "application/apply-patch+yaml";
constexpr std::string_view kPatchTypes =
    "application/json-patch+json, application/merge-patch+json, "
    "application/strategic-merge-patch+json";

// The spelling that the path asks for.
EventApi ApiOf(const Exchange& exchange) {
  return exchange.info().api_group == ApiGroupName(EventApi::kEventsV1) ? EventApi::kEventsV1
                                                                        : EventApi::kCoreV1;
}

Registry::Target ReadTarget(ApiState& api, const ExchangePtr& exchange) {
  Registry::Target target;
  target.api = ApiOf(*exchange);
  target.namespace_ = exchange->info().namespace_;
  target.name = exchange->info().name;
  target.post = api.LongWorkOf(exchange);
  return target;
}

Registry::Target WriteTarget(ApiState& api, const ExchangePtr& exchange, bool dry_run) {
  Registry::Target target = ReadTarget(api, exchange);
  target.dry_run = dry_run;
  target.is_long_work = exchange->is_long_work();
  if (api.options().admit) {
    // target.post keeps the ApiState alive.
    target.admit = [&api, user = exchange->admitted().user](const Event& event) {
      return api.options().admit(user, event);
    };
  }
  return target;
}

void SendEvent(const ApiState& api, Exchange* exchange, int code, const Event& event) {
  const Result<Form> form = FormOf(*exchange, ApiOf(*exchange));
  if (!form) return exchange->SendStatus(form.error());
  std::string body = EncodeEvent(event, *form, api.clock().Now());
  if (form->media == MediaType::kProtobuf) {
    exchange->Send(code, MediaTypeName(MediaType::kProtobuf), std::move(body));
  } else {
    exchange->SendJson(code, std::move(body));
  }
}

// The callback that sends the event after a read or a write.
Registry::Done EventSender(const ApiPtr& api, const ExchangePtr& exchange) {
  return [api, exchange](Result<Registry::EventResult> result) {
    if (!result) return exchange->SendStatus(result.error());
    for (std::string& warning : result->warnings) exchange->Warn(std::move(warning));
    const int code = result->created ? 201 : 200;
    if (!exchange->is_long_work() && !result->is_large) {
      return SendEvent(*api, exchange.get(), code, result->event);
    }
    api->PostLongWork(exchange, [api, exchange, code, event = std::move(result->event)] {
      SendEvent(*api, exchange.get(), code, event);
    });
  };
}

// The response to a DELETE.
Status Deleted(EventApi api, const Event& event) {
  Status::Parts parts;
  parts.reason = StatusReason::kOk;
  parts.details = StatusDetails{.name = event.metadata.name,
                                .group = std::string(ApiGroupName(api)),
                                .kind = "events",
                                .uid = event.metadata.uid};
  return Status(std::move(parts));
}

// Adds headers that say how far back the list can reach, if the client selects by time.
void AddRetentionHeaders(ApiState& api, const ListOptions& options, Exchange* exchange) {
  if (!options.selects_by_time() && !options.by_last_occurrence) return;
  exchange->SetHeader("herald-event-ttl", std::to_string(api.options().event_ttl.count()));
  const store::StoreStats stats = api.store()->Stats();
  if (stats.complete_since > WallTime()) {
    exchange->SetHeader("herald-complete-since", Time(stats.complete_since).ToString());
  }
}

// A list that can be read; kTooManyRequests if the memory for lists is used up.
Result<ListAnswer> BeginList(const ApiPtr& api, const ExchangePtr& exchange, const Form& form,
                             const ListOptions& options) {
  ListAnswer answer;
  answer.charge = api->list_budget().Begin(exchange->admitted().user.name);
  if (answer.charge == nullptr) return TooManyRequests();
  answer.exchange = exchange;
  answer.form = form;
  answer.now = api->clock().Now();
  answer.cancelled = std::make_shared<std::atomic<bool>>(false);
  answer.log = api->options().log;
  answer.owner = api;
  answer.long_work = &api->long_work();
  answer.flow = FlowOf(*exchange);
  ReadContext context;
  context.flow = answer.flow;
  context.cancelled = answer.cancelled;
  context.reserve = [charge = answer.charge](std::size_t bytes) { return charge->Grow(bytes); };
  const RequestInfo& info = exchange->info();
  Result<std::shared_ptr<EventListReader>> reader = EventListReader::Make(
      api->store(), EventFilter(info.namespace_, info.name, options), options, std::move(context));
  if (!reader) return reader.error();
  answer.reader = *std::move(reader);
  return answer;
}

Status NegotiateWatch(Exchange* exchange) {
  if (!Accepts(exchange->request().headers, kObjectOffer)) return NotAcceptable(true);
  if (Status bad = exchange->Accept(kObjectOffer); !bad.ok()) return bad;
  if (exchange->response_format().media == MediaType::kYaml) {
    return Status(StatusReason::kNotAcceptable,
                  "only the following media types are accepted: application/json;stream=watch, "
                  "application/vnd.kubernetes.protobuf;stream=watch");
  }
  return CheckShapeName(exchange->response_format(), false);
}

}  // namespace

void ListEvents(const ApiPtr& api, const ExchangePtr& exchange) {
  if (!NegotiateOrReject(exchange.get(), kObjectOffer, true)) return;
  const EventApi spelling = ApiOf(*exchange);
  const Result<ListOptions> options =
      ParseListOptions(exchange->query(), spelling, false, api->clock().Now());
  if (!options) return exchange->SendStatus(options.error());
  if (Status bad = CheckSelectedName(*options, exchange->info()); !bad.ok()) {
    return exchange->SendStatus(bad);
  }
  const Result<Form> form = FormOf(*exchange, spelling);
  if (!form) return exchange->SendStatus(form.error());
  AddRetentionHeaders(*api, *options, exchange.get());
  Result<ListAnswer> answer = BeginList(api, exchange, *form, *options);
  if (!answer) return exchange->SendStatus(answer.error());
  SendList(*std::move(answer));
}

void WatchEvents(const ApiPtr& api, const ExchangePtr& exchange) {
  if (Status bad = NegotiateWatch(exchange.get()); !bad.ok()) return exchange->SendStatus(bad);
  const RequestInfo& info = exchange->info();
  const EventApi spelling = ApiOf(*exchange);
  const Result<ListOptions> options =
      ParseListOptions(exchange->query(), spelling, info.watch_in_path, api->clock().Now());
  if (!options) return exchange->SendStatus(options.error());
  if (Status bad = CheckSelectedName(*options, info); !bad.ok()) return exchange->SendStatus(bad);
  const Result<Form> form = FormOf(*exchange, spelling);
  if (!form) return exchange->SendStatus(form.error());

  WatchRequest request;
  request.filter = EventFilter(info.namespace_, info.name, *options);
  request.form = *form;
  request.user = exchange->admitted().user.name;
  request.flow = FlowOf(*exchange);
  request.bookmarks = options->allow_watch_bookmarks;
  const std::string& resource_version = options->resource_version;
  const bool from_start = resource_version.empty() || resource_version == "0";
  request.initial_events = options->send_initial_events.value_or(from_start);
  if (!from_start) {
    const Result<std::uint64_t> version = ParseResourceVersion(resource_version);
    if (!version || *version > static_cast<std::uint64_t>(INT64_MAX)) {
      return exchange->SendStatus(BadRequest(
          fmt::format("resourceVersion: Invalid value: {}: {}", Quoted(resource_version),
                      version ? std::string("it is too large") : version.error().message())));
    }
    request.after = static_cast<store::Revision>(*version);
    request.not_older_than = *version;
  }
  request.timeout = WatchTimeout(*options, api->options().min_request_timeout);
  const Result<std::function<void()>> start =
      WatchStarter(exchange, api->options().cors, &request.form);
  if (!start) return exchange->SendStatus(start.error());
  const Status rejected = api->streams().Open(std::move(request), exchange->responder(), *start);
  if (!rejected.ok()) exchange->SendStatus(rejected);
}

void CreateEvent(const ApiPtr& api, const ExchangePtr& exchange) {
  if (!NegotiateOrReject(exchange.get(), kObjectOffer, false)) return;
  Result<EventWrite> write = ReadEventWrite(exchange.get(), ApiOf(*exchange), "CreateOptions");
  if (!write) return exchange->SendStatus(write.error());
  api->registry().Create(WriteTarget(*api, exchange, write->options.dry_run),
                         std::move(write->event), EventSender(api, exchange));
}

void DeleteEvents(const ApiPtr& api, const ExchangePtr& exchange) {
  if (!NegotiateOrReject(exchange.get(), kObjectOffer, true)) return;
  const EventApi spelling = ApiOf(*exchange);
  const Result<ListOptions> options =
      ParseListOptions(exchange->query(), spelling, false, api->clock().Now());
  if (!options) return exchange->SendStatus(options.error());
  Result<DeleteOptions> deletion = ReadDeleteOptions(exchange.get());
  if (!deletion) return exchange->SendStatus(deletion.error());
  const Result<Form> form = FormOf(*exchange, spelling);
  if (!form) return exchange->SendStatus(form.error());
  Result<ListAnswer> answer = BeginList(api, exchange, *form, *options);
  if (!answer) return exchange->SendStatus(answer.error());
  const std::shared_ptr<EventListReader> reader = answer->reader;
  std::make_shared<CollectionDeletion>(&api->registry(), spelling, *std::move(deletion), reader,
                                       [answer = *std::move(answer)](const Status& status) {
                                         if (!status.ok())
                                           return answer.exchange->SendStatus(status);
                                         // The response is the list as it was, which the store
                                         // still has.
                                         answer.reader->Rewind();
                                         SendList(answer);
                                       })
      ->Run();
}

void GetEvent(const ApiPtr& api, const ExchangePtr& exchange) {
  if (!NegotiateOrReject(exchange.get(), kObjectOffer, false)) return;
  if (IsSet(exchange->query(), "export")) {
    return exchange->SendStatus(
        BadRequest("the export parameter, deprecated since v1.14, is no longer supported"));
  }
  std::uint64_t not_older_than = 0;
  if (const std::string* string = FindParameter(exchange->query(), "resourceVersion");
      string != nullptr && !string->empty()) {
    const Result<std::uint64_t> version = ParseResourceVersion(*string);
    if (!version) return exchange->SendStatus(InvalidResourceVersion(*string));
    not_older_than = *version;
  }
  const auto get = [api, exchange] {
    api->registry().Get(ReadTarget(*api, exchange), EventSender(api, exchange));
  };
  if (not_older_than == 0) return get();
  api->store()->CurrentRevision([exchange, get, not_older_than](Result<store::Revision> current) {
    if (!current) return exchange->SendStatus(current.error());
    if (not_older_than > static_cast<std::uint64_t>(*current)) {
      return exchange->SendStatus(TooLargeResourceVersion(not_older_than, *current));
    }
    get();
  });
}

void UpdateEvent(const ApiPtr& api, const ExchangePtr& exchange) {
  if (!NegotiateOrReject(exchange.get(), kObjectOffer, false)) return;
  Result<EventWrite> write = ReadEventWrite(exchange.get(), ApiOf(*exchange), "UpdateOptions");
  if (!write) return exchange->SendStatus(write.error());
  if (Status bad = CheckName(write->event.metadata, exchange->info().name); !bad.ok()) {
    return exchange->SendStatus(bad);
  }
  auto update = [api, exchange, dry_run = write->options.dry_run,
                 event = std::move(write->event)](Status may_create) mutable {
    Registry::Target target = WriteTarget(*api, exchange, dry_run);
    target.may_create = std::move(may_create);
    api->registry().Update(std::move(target), std::move(event), EventSender(api, exchange));
  };
  // A PUT of an event that does not exist creates it, which needs another permission. The callback
  // keeps alive what the authorizer refers to.
  const auto create = std::make_shared<RequestInfo>(exchange->info());
  create->verb = "create";
  const std::shared_ptr<const Authorizer> authorizer = api->authorizer();
  authorizer->Authorize(
      exchange->admitted().user, *create,
      [exchange, create, authorizer, update = std::move(update)](const Decision& decision) mutable {
        update(decision.allowed
                   ? Status()
                   : ForbiddenStatus(exchange->admitted().user, *create, decision.reason));
      });
}

void PatchEvent(const ApiPtr& api, const ExchangePtr& exchange) {
  const std::optional<PatchType> type = BodyPatchType(exchange->request().headers);
  if (!type) {
    // Server-side apply needs managedFields, which events here do not have.
    const bool apply = exchange->request().headers.Get("content-type") == kApplyPatch;
    return exchange->SendStatus(apply ? UnknownBody(kPatchTypes) : UnsupportedMediaType());
  }
  if (!NegotiateOrReject(exchange.get(), kObjectOffer, false)) return;
  Result<std::string> body = exchange->TakeBody();
  if (!body) return exchange->SendStatus(body.error());
  const Result<WriteOptions> options = ParseWriteOptions(exchange->query(), "PatchOptions");
  if (!options) return exchange->SendStatus(options.error());
  api->registry().Patch(
      WriteTarget(*api, exchange, options->dry_run),
      [exchange, spelling = ApiOf(*exchange), type = *type, body = *std::move(body),
       validation = options->field_validation](const Event& current) -> Result<Event> {
        std::vector<std::string> errors;
        Result<Event> event =
            ApplyPatch(current, spelling, type, body,
                       validation == FieldValidation::kIgnore ? nullptr : &errors);
        if (!event) return event;
        if (Status bad = CheckName(event->metadata, exchange->info().name); !bad.ok()) return bad;
        if (Status bad = CheckFieldErrors(validation, errors, exchange.get()); !bad.ok()) {
          return StrictPatchError(bad, ShownPatch(current, spelling, type, body));
        }
        return event;
      },
      EventSender(api, exchange));
}

void DeleteEvent(const ApiPtr& api, const ExchangePtr& exchange) {
  if (!NegotiateOrReject(exchange.get(), kObjectOffer, false)) return;
  Result<DeleteOptions> options = ReadDeleteOptions(exchange.get());
  if (!options) return exchange->SendStatus(options.error());
  Registry::Target target = WriteTarget(*api, exchange, !options->dry_run.empty());
  api->registry().Delete(std::move(target), *std::move(options),
                         [api, exchange](const Result<Registry::EventResult>& result) {
                           if (!result) return exchange->SendStatus(result.error());
                           if (result->deleted) {
                             return exchange->SendStatus(Deleted(ApiOf(*exchange), result->event));
                           }
                           SendEvent(*api, exchange.get(), 200, result->event);
                         });
}

}  // namespace herald::server
