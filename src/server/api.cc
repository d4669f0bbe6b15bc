#include "server/api.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "api/json/indent.h"
#include "api/patch/patch_text.h"
#include "api/quote.h"
#include "api/type_meta.h"
#include "api/yaml/yaml.h"
#include "base/bytes/random.h"
#include "base/bytes/trimmed.h"
#include "base/limit/too_many_requests.h"
#include "base/thread/async_loop.h"
#include "base/thread/mutex.h"
#include "herald/api/codec.h"
#include "herald/api/patch.h"
#include "herald/base/executor.h"
#include "server/access/rbac.h"
#include "server/discovery/discovery.h"
#include "server/discovery/namespaces.h"
#include "server/discovery/openapi.h"
#include "server/events/encoding.h"
#include "server/events/event_list.h"
#include "server/events/list_stream.h"
#include "server/events/registry.h"
#include "server/events/stored_event.h"
#include "server/request/exchange.h"
#include "server/request/request_options.h"
#include "server/watch/namespace_watch.h"
#include "server/watch/stream.h"

namespace herald::server {
namespace {

using ExchangePtr = std::shared_ptr<Exchange>;

// For watches: one for a wake-up of many of them and one for whatever else there is to do.
constexpr int kThreads = 2;

// How many events of a collection are being deleted at once.
constexpr std::size_t kDeletionsAtOnce = 64;

constexpr Offer kObjectOffer{.shapes = true, .yaml = true, .protobuf = true};
// For documents that have no protobuf form here.
constexpr Offer kDocumentOffer{.shapes = false, .yaml = true, .protobuf = false};
constexpr Offer kNamespaceWatchOffer{.shapes = true, .yaml = false, .protobuf = false};
constexpr Offer kNamespaceOffer{.shapes = true, .yaml = true, .protobuf = false};

constexpr std::string_view kApplyPatch = "application/apply-patch+yaml";
constexpr std::string_view kPatchTypes =
    "application/json-patch+json, application/merge-patch+json, "
    "application/strategic-merge-patch+json";

Status BadRequest(std::string message) {
  return Status(StatusReason::kBadRequest, std::move(message));
}

// What the router says, without knowing what the request is about.
Status Unrouted(StatusReason reason, std::string message) {
  Status::Parts parts;
  parts.reason = reason;
  parts.message = std::move(message);
  parts.details.emplace();
  return Status(std::move(parts));
}
Status NoSuchPath() {
  return Unrouted(StatusReason::kNotFound, "the server could not find the requested resource");
}
// The router's refusals, which come before anything is read.
Status NotAcceptable(bool watchable) {
  std::string types = OfferedTypes(Offer());
  if (watchable) {
    types += ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
  }
  return Unrouted(StatusReason::kNotAcceptable,
                  "406: Not Acceptable\n\nAvailable representations: " + types);
}
Status UnsupportedMediaType() {
  return Unrouted(StatusReason::kUnsupportedMediaType, "415: Unsupported Media Type");
}
Status NoSuchMethod() {
  return Unrouted(StatusReason::kMethodNotAllowed,
                  "the server does not allow this method on the requested resource");
}

Status UnknownBody(std::string_view types) {
  return Status(StatusReason::kUnsupportedMediaType,
                fmt::format("the body of the request was in an unknown format - accepted media "
                            "types include: {}",
                            types));
}

// What a request addresses, in the terms of the handlers. It follows from the RequestInfo that was
// authorized and from nothing else.
struct Route {
  enum class Kind : std::uint8_t { kNone, kEvents, kEvent, kNamespaces, kNamespace };
  Kind kind = Kind::kNone;
  EventApi api = EventApi::kCoreV1;
  std::string namespace_{};
  std::string name{};         // in the path or, of a list, in its fieldSelector
  bool forced_watch = false;  // below .../watch/
};

Route RouteOf(const RequestInfo& info) {
  Route route;
  if (!info.is_resource || info.is_malformed || info.api_version != "v1" ||
      !info.subresource.empty())
    return route;
  if (info.api_group == ApiGroupName(EventApi::kEventsV1)) {
    route.api = EventApi::kEventsV1;
  } else if (!info.api_group.empty()) {
    return route;
  }
  route.namespace_ = info.namespace_;
  route.name = info.name;
  route.forced_watch = info.watch_in_path;
  if (info.resource == "events") {
    if (!info.name_in_path) {
      route.kind = Route::Kind::kEvents;
    } else if (!info.namespace_.empty()) {
      route.kind = Route::Kind::kEvent;
    }
  } else if (info.resource == "namespaces" && route.api == EventApi::kCoreV1) {
    route.kind = info.name_in_path ? Route::Kind::kNamespace : Route::Kind::kNamespaces;
  }
  return route;
}

// What a list, a watch or one event is made into for this client.
Result<Form> FormOf(const Exchange& exchange, EventApi api) {
  const Representation& representation = exchange.representation();
  Form form{.api = api,
            .media = representation.media,
            .shape = representation.shape,
            .meta_version = representation.meta_version};
  if (form.shape == Shape::kTable) {
    const std::string* const include = FindParameter(exchange.query(), "includeObject");
    const Result<TableObject> object =
        ParseTableObject(include != nullptr ? std::string_view(*include) : std::string_view());
    if (!object) return object.error();
    form.table_object = *object;
  }
  return form;
}

// PartialObjectMetadata and PartialObjectMetadataList are not interchangeable.
Status CheckShapeName(const Representation& representation, bool is_list) {
  if (representation.shape != Shape::kPartialMetadata || representation.list_named == is_list) {
    return Status();
  }
  return Status(StatusReason::kNotAcceptable,
                is_list ? "you requested PartialObjectMetadata, but the requested object is a list "
                          "(*core.EventList)"
                        : "you requested PartialObjectMetadataList, but the requested object is "
                          "not a list (*core.Event)");
}

void SendEncoded(Exchange* exchange, int code, std::string body) {
  const Representation& representation = exchange->representation();
  if (representation.media == MediaType::kProtobuf) {
    exchange->Send(code, MediaTypeName(MediaType::kProtobuf), std::move(body));
  } else {
    exchange->SendJson(code, std::move(body));
  }
}

// The keys that YAML has twice come in one text, a line each below a title; as warnings each
// stands alone, as upstream has it (apiserver/pkg/endpoints/handlers/rest.go).
void WarnOf(std::string_view error, Exchange* exchange) {
  constexpr std::string_view kTitle = "yaml: unmarshal errors:\n";
  if (!error.starts_with(kTitle)) return exchange->Warn(std::string(error));
  error.remove_prefix(kTitle.size());
  while (!error.empty()) {
    const std::string_view line = error.substr(0, error.find('\n'));
    error.remove_prefix(std::min(line.size() + 1, error.size()));
    exchange->Warn(std::string(Trimmed(line)));
  }
}

// Members that events do not have: refused, told, or passed over.
Status JudgeFieldErrors(FieldValidation validation, const std::vector<std::string>& errors,
                        Exchange* exchange) {
  if (errors.empty()) return Status();
  if (validation == FieldValidation::kWarn) {
    for (const std::string& error : errors) WarnOf(error, exchange);
    return Status();
  }
  std::string joined;
  for (const std::string& error : errors) {
    if (!joined.empty()) joined += ", ";
    joined += error;
  }
  return BadRequest(fmt::format(
      "Event in version \"v1\" cannot be handled as a Event: strict decoding error: {}", joined));
}

// A refusal shows how the body begins, and that is the client's YAML, not our JSON.
Status AboutYaml(const Status& refusal, std::string_view yaml) {
  constexpr std::string_view kPrefix =
      "the object provided is unrecognized (must be of type Event): ";
  std::string_view why = refusal.message();
  if (!why.starts_with(kPrefix)) return refusal;
  why.remove_prefix(kPrefix.size());
  return Unrecognized(why.substr(0, why.rfind(" (")), "Event", yaml);
}

// Reads the event in the body of a POST or PUT.
Result<Event> DecodeBody(EventApi api, MediaType media, FieldValidation validation,
                         Exchange* exchange) {
  Result<std::string> taken = exchange->TakeBody();
  if (!taken) return taken.error();
  std::string body = *std::move(taken);
  const bool lenient = validation == FieldValidation::kIgnore;
  std::string yaml;
  std::string duplicates;
  if (media == MediaType::kYaml) {
    Result<std::string> json = YamlToJson(body, lenient ? nullptr : &duplicates);
    if (!json) return Unrecognized(json.error().message(), "Event", body);
    yaml = std::exchange(body, *std::move(json));
  }
  std::vector<std::string> errors;
  const Codec& codec = media == MediaType::kProtobuf ? ProtobufCodec() : JsonCodec();
  Result<Event> event = codec.DecodeEvent(body, api, lenient ? nullptr : &errors);
  if (!event && media == MediaType::kYaml) {
    event = AboutYaml(event.error(), yaml);
  } else if (event) {
    if (!duplicates.empty()) errors.insert(errors.begin(), std::move(duplicates));
    if (Status bad = JudgeFieldErrors(validation, errors, exchange); !bad.ok()) event = bad;
  }
  return event;
}

// The body's name must be the URL's. (The registry looks at the namespace.)
Status CheckName(const ObjectMeta& metadata, const Route& route) {
  if (metadata.name.empty()) {
    return BadRequest(fmt::format(
        "the name of the object ({} based on URL) was undeterminable: name must be provided",
        route.name));
  }
  if (metadata.name != route.name) {
    return BadRequest(
        fmt::format("the name of the object ({}) does not match the name on the URL ({})",
                    metadata.name, route.name));
  }
  return Status();
}

// The one name that the fieldSelector asks for; it may be empty, which no object has.
std::optional<std::string> SelectedName(const ListOptions& options) {
  const std::string* const name = options.fields.RequiredValue(EventField::kMetadataName);
  return name != nullptr ? std::optional<std::string>(*name) : std::nullopt;
}

// A request that was authorized for one name must not select another.
Status CheckSelectedName(const ListOptions& options, const Route& route) {
  const std::optional<std::string> selected = SelectedName(options);
  if (route.name.empty() || !selected || *selected == route.name) return Status();
  return BadRequest("fieldSelector metadata.name doesn't match requested name");
}

Result<DeleteOptions> ReadDeleteOptions(Exchange* exchange) {
  Result<DeleteOptions> options = DeleteOptions();
  Result<std::string> taken = exchange->TakeBody();
  if (!taken) return taken.error();
  std::string body = *std::move(taken);
  if (body.empty()) {
    options = ParseDeleteOptions(exchange->query());
  } else {
    const std::optional<MediaType> media = BodyMediaType(exchange->request().headers);
    if (!media) return UnknownBody(OfferedTypes(kObjectOffer));
    if (*media == MediaType::kYaml) {
      Result<std::string> json = YamlToJson(body);
      if (!json) return json.error();
      body = *std::move(json);
    }
    options = *media == MediaType::kProtobuf ? DecodeDeleteOptionsProtobuf(body)
                                             : DecodeDeleteOptionsJson(body);
  }
  if (!options) return options;
  if (Status invalid = CheckDeleteOptions(*options); !invalid.ok()) return invalid;
  return options;
}

// What the client asks for; or, where it names nothing, one to two times `min`, so that
// watches that began together do not end together.
std::chrono::seconds WatchTimeout(const ListOptions& options, std::chrono::seconds min) {
  // A year is as good as for ever, and can be added to any clock.
  constexpr std::chrono::seconds kMax{365 * 24 * 3600};
  const std::int64_t asked = options.timeout_seconds.value_or(0);
  if (asked > 0) return std::min(std::chrono::seconds(asked), kMax);
  min = std::clamp(min, std::chrono::seconds(1), kMax);
  Random random(RandomSeed());
  const double more = random.Unit() * static_cast<double>(min.count());
  return min + std::chrono::seconds(static_cast<std::int64_t>(more));
}

// The answer to a DELETE.
Status Deleted(EventApi api, const Event& event) {
  Status::Parts parts;
  parts.reason = StatusReason::kOk;
  parts.details = StatusDetails{.name = event.metadata.name,
                                .group = std::string(ApiGroupName(api)),
                                .kind = "events",
                                .uid = event.metadata.uid};
  return Status(std::move(parts));
}

// A DELETE of a whole collection: what is listed goes, a few at a time, while it is read.
class CollectionDeletion : public std::enable_shared_from_this<CollectionDeletion> {
 public:
  CollectionDeletion(Registry* registry, EventApi api, DeleteOptions options,
                     std::shared_ptr<EventListReader> reader,
                     std::function<void(const Status&)> done)
      : registry_(registry),
        api_(api),
        options_(std::move(options)),
        reader_(std::move(reader)),
        done_(std::move(done)) {}

  // One batch after the other; within a batch all at once, so that they share a commit.
  void Run() {
    loop_.Run([this] {
      if (next_ == chunk_.size()) return ReadChunk();
      const std::size_t end = std::min(next_ + kDeletionsAtOnce, chunk_.size());
      // One more for this loop itself, so that no batch ends before all of it has begun.
      open_.store(end - next_ + 1);
      for (; next_ < end; ++next_) DeleteOne(chunk_[next_].key);
      OneIsDone();
    });
  }

 private:
  void ReadChunk() {
    if (reader_->is_done()) return done_(Status());
    reader_->Next([self = shared_from_this()](Result<std::vector<store::Entry>> chunk) {
      if (!chunk) return self->done_(chunk.error());
      self->chunk_ = *std::move(chunk);
      self->next_ = 0;
      if (self->loop_.Again()) self->Run();
    });
  }

  void DeleteOne(std::string_view key) {
    Registry::Target target;
    target.api = api_;
    target.namespace_ = NamespaceOfKey(key);
    target.name = key.substr(EventKeyPrefix(target.namespace_).size());
    target.dry_run = !options_.dry_run.empty();
    registry_->Delete(std::move(target), options_,
                      [self = shared_from_this()](const Result<Registry::Outcome>& outcome) {
                        // Another client may have deleted it meanwhile.
                        if (!outcome && !outcome.error().Is(StatusReason::kNotFound)) {
                          MutexLock lock(self->mu_);
                          self->error_ = outcome.error();
                        }
                        self->OneIsDone();
                      });
  }

  void OneIsDone() {
    if (open_.fetch_sub(1) != 1) return;
    Status error;
    {
      MutexLock lock(mu_);
      error = error_;
    }
    if (!error.ok()) return done_(error);
    if (loop_.Again()) Run();
  }

  Registry* const registry_;
  const EventApi api_;
  const DeleteOptions options_;
  const std::shared_ptr<EventListReader> reader_;
  const std::function<void(const Status&)> done_;
  AsyncLoop loop_;
  std::vector<store::Entry> chunk_;
  std::size_t next_ = 0;  // in chunk_
  std::atomic<std::size_t> open_{0};
  Mutex mu_;
  Status error_ GUARDED_BY(mu_);
};

}  // namespace

class Api::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(store::Store* store, ApiOptions options)
      : store_(store),
        options_(std::move(options)),
        clock_(options_.clock != nullptr ? options_.clock : &SystemClock()),
        executor_({.threads = kThreads, .clock = clock_}),
        long_executor_({.threads = 1, .clock = clock_}),
        long_work_(&long_executor_, {.concurrency = 1}),
        lists_(std::make_shared<ListBudget>(options_.max_list_bytes)),
        registry_(store, clock_),
        streams_(store, &executor_,
                 {.max_watches = options_.max_watches,
                  .max_watches_per_user = options_.max_watches_per_user}),
        namespaces_(store, clock_->Now()),
        namespace_watches_(store, &namespaces_, &executor_) {}

  // Version 0 means "any" to clients, so a list of an empty store must not be told at 0. A write
  // that is taken back leaves nothing but the revision.
  void LeaveZero() {
    store_->CurrentRevision([self = shared_from_this()](Result<store::Revision> revision) {
      if (!revision || *revision > 0) return;
      const std::string key = "/registry/herald/first";
      self->store_->Commit(
          {.key = key, .value = std::make_shared<const std::string>(), .expected = 0},
          [self, key](const Result<store::Written>& written) {
            if (!written) return;
            self->store_->Commit({.key = key, .value = nullptr},
                                 [](const Result<store::Written>&) {});
          });
    });
  }

  void Handle(Call call, std::shared_ptr<http::Responder> responder) {
    const auto exchange = std::make_shared<Exchange>(std::move(call), std::move(responder));
    if (exchange->is_long_work()) {
      return PostLongWork(exchange,
                          [self = shared_from_this(), exchange] { self->Answer(exchange); });
    }
    Answer(exchange);
  }

  void Stop() {
    streams_.Stop();
    namespace_watches_.Stop();
  }
  void StopThreads() {
    long_executor_.Stop();
    executor_.Stop();
  }

 private:
  void Answer(const ExchangePtr& exchange) {
    const Route route = RouteOf(exchange->info());
    const std::string& method = exchange->info().method;
    switch (route.kind) {
      case Route::Kind::kNone:
        return HandleDocument(*exchange);
      case Route::Kind::kEvents:
        if (method == "GET") return ListOrWatch(exchange, route);
        if (route.namespace_.empty() || route.forced_watch) break;
        if (method == "POST") return Create(exchange, route);
        if (method == "DELETE") return DeleteCollection(exchange, route);
        break;
      case Route::Kind::kEvent:
        if (method == "GET" && route.forced_watch) return ListOrWatch(exchange, route);
        if (route.forced_watch) break;
        if (method == "GET") return Get(exchange, route);
        if (method == "PUT") return Update(exchange, route);
        if (method == "PATCH") return Patch(exchange, route);
        if (method == "DELETE") return Delete(exchange, route);
        break;
      case Route::Kind::kNamespaces:
      case Route::Kind::kNamespace:
        if (method == "GET") return ReadNamespace(exchange, route);
        break;
    }
    exchange->SendStatus(NoSuchMethod());
  }

  // Negotiates the answer and checks what every request is held to; false where the
  // request has been answered with a refusal.
  static bool Begin(Exchange* exchange, const Offer& offer, bool is_list) {
    Status bad;
    if (!Accepts(exchange->request().headers, Offer())) bad = NotAcceptable(is_list);
    if (bad.ok()) bad = exchange->Accept(offer);
    if (bad.ok()) bad = CheckShapeName(exchange->representation(), is_list);
    if (!bad.ok()) exchange->SendStatus(bad);
    return bad.ok();
  }

  Registry::Target TargetOf(const ExchangePtr& exchange, const Route& route, bool dry_run) {
    Registry::Target target;
    target.api = route.api;
    target.namespace_ = route.namespace_;
    target.name = route.name;
    target.dry_run = dry_run;
    target.is_long_work = exchange->is_long_work();
    target.post = LongWorkOf(exchange);
    if (options_.admit) {
      target.admit = [this, user = exchange->call().user](const Event& event) {
        return options_.admit(user, event);
      };
    }
    return target;
  }

  void SendEvent(Exchange* exchange, const Route& route, int code, const Event& event) const {
    const Result<Form> form = FormOf(*exchange, route.api);
    if (!form) return exchange->SendStatus(form.error());
    SendEncoded(exchange, code, EncodeEvent(event, *form, clock_->Now()));
  }

  // Runs work that takes long on a thread of its own, in turns by user.
  void PostLongWork(const ExchangePtr& exchange, std::function<void()> work) {
    const Status rejected =
        long_work_.Add(FlowOf(*exchange), FairQueue::Kind::kShort,
                       [bytes = exchange->body_bytes(), work = std::move(work)] {
                         work();
                         return FairQueue::Step{.cost = bytes};
                       });
    if (!rejected.ok()) exchange->SendStatus(rejected);
  }
  // The same, for the registry.
  std::function<void(std::function<void()>)> LongWorkOf(const ExchangePtr& exchange) {
    return [self = shared_from_this(), exchange](std::function<void()> work) {
      self->PostLongWork(exchange, std::move(work));
    };
  }

  // The end of a write.
  Registry::Done SendOutcome(ExchangePtr exchange, const Route& route) {
    return [self = shared_from_this(), exchange = std::move(exchange),
            route](Result<Registry::Outcome> outcome) {
      if (!outcome) return exchange->SendStatus(outcome.error());
      for (std::string& warning : outcome->warnings) exchange->Warn(std::move(warning));
      const int code = outcome->created ? 201 : 200;
      if (!exchange->is_long_work() && !outcome->is_large) {
        return self->SendEvent(exchange.get(), route, code, outcome->event);
      }
      self->PostLongWork(exchange,
                         [self, exchange, route, code, event = std::move(outcome->event)] {
                           self->SendEvent(exchange.get(), route, code, event);
                         });
    };
  }

  void Get(const ExchangePtr& exchange, const Route& route) {
    if (!Begin(exchange.get(), kObjectOffer, false)) return;
    if (IsSet(exchange->query(), "export")) {
      return exchange->SendStatus(
          BadRequest("the export parameter, deprecated since v1.14, is no longer supported"));
    }
    std::uint64_t not_older_than = 0;
    if (const std::string* text = FindParameter(exchange->query(), "resourceVersion");
        text != nullptr && !text->empty()) {
      const Result<std::uint64_t> version = ParseResourceVersion(*text);
      if (!version) {
        return exchange->SendStatus(InvalidResourceVersion(*text));
      }
      not_older_than = *version;
    }
    if (not_older_than == 0) return GetNow(exchange, route);
    store_->CurrentRevision([self = shared_from_this(), exchange, route,
                             not_older_than](Result<store::Revision> current) {
      if (!current) return exchange->SendStatus(current.error());
      if (not_older_than > static_cast<std::uint64_t>(*current)) {
        return exchange->SendStatus(TooLargeResourceVersion(not_older_than, *current));
      }
      self->GetNow(exchange, route);
    });
  }

  void GetNow(const ExchangePtr& exchange, const Route& route) {
    Registry::Target target;
    target.api = route.api;
    target.namespace_ = route.namespace_;
    target.name = route.name;
    target.post = LongWorkOf(exchange);
    registry_.Get(target, SendOutcome(exchange, route));
  }

  void Create(const ExchangePtr& exchange, const Route& route) {
    if (!Begin(exchange.get(), kObjectOffer, false)) return;
    Result<std::pair<WriteOptions, Event>> body = ReadWrite(exchange.get(), route, "CreateOptions");
    if (!body) return exchange->SendStatus(body.error());
    Registry::Target target = TargetOf(exchange, route, body->first.dry_run);
    registry_.Create(std::move(target), std::move(body->second), SendOutcome(exchange, route));
  }

  // What POST and PUT have in common.
  static Result<std::pair<WriteOptions, Event>> ReadWrite(Exchange* exchange, const Route& route,
                                                          std::string_view kind) {
    const std::optional<MediaType> media = BodyMediaType(exchange->request().headers);
    if (!media) return UnknownBody(OfferedTypes(kObjectOffer));
    if (Status missing = exchange->call().body_error; !missing.ok()) return missing;
    const Result<WriteOptions> options = ParseWriteOptions(exchange->query(), kind);
    if (!options) return options.error();
    Result<Event> event = DecodeBody(route.api, *media, options->field_validation, exchange);
    if (!event) return event.error();
    return std::pair(*options, *std::move(event));
  }

  void Update(const ExchangePtr& exchange, const Route& route) {
    if (!Begin(exchange.get(), kObjectOffer, false)) return;
    Result<std::pair<WriteOptions, Event>> body = ReadWrite(exchange.get(), route, "UpdateOptions");
    if (!body) return exchange->SendStatus(body.error());
    if (Status wrong = CheckName(body->second.metadata, route); !wrong.ok()) {
      return exchange->SendStatus(wrong);
    }
    auto update = [self = shared_from_this(), exchange, route, dry_run = body->first.dry_run,
                   event = std::move(body->second)](Status may_create) mutable {
      Registry::Target target = self->TargetOf(exchange, route, dry_run);
      target.may_create = std::move(may_create);
      self->registry_.Update(std::move(target), std::move(event),
                             self->SendOutcome(exchange, route));
    };
    if (!options_.authorize) return update(Status());
    // A PUT of an event that does not exist creates it, which needs another permission.
    const auto create = std::make_shared<RequestInfo>(exchange->info());
    create->verb = "create";
    options_.authorize(
        exchange->call().user, *create,
        [exchange, create, update = std::move(update)](const Decision& decision) mutable {
          update(decision.allowed
                     ? Status()
                     : ForbiddenStatus(exchange->call().user, *create, decision.reason));
        });
  }

  void Patch(const ExchangePtr& exchange, const Route& route) {
    const std::optional<PatchType> type = BodyPatchType(exchange->request().headers);
    if (!type) {
      // Server-side apply needs managedFields, which events here do not have.
      const bool apply = exchange->request().headers.Get("content-type") == kApplyPatch;
      return exchange->SendStatus(apply ? UnknownBody(kPatchTypes) : UnsupportedMediaType());
    }
    if (!Begin(exchange.get(), kObjectOffer, false)) return;
    Result<std::string> body = exchange->TakeBody();
    if (!body) return exchange->SendStatus(body.error());
    const Result<WriteOptions> options = ParseWriteOptions(exchange->query(), "PatchOptions");
    if (!options) return exchange->SendStatus(options.error());
    Registry::Target target = TargetOf(exchange, route, options->dry_run);
    registry_.Patch(
        std::move(target),
        [exchange, route, type = *type, body = *std::move(body),
         validation = options->field_validation](const Event& current) -> Result<Event> {
          std::vector<std::string> errors;
          Result<Event> event =
              ApplyPatch(current, route.api, type, body,
                         validation == FieldValidation::kIgnore ? nullptr : &errors);
          if (!event) return event;
          if (Status bad = CheckName(event->metadata, route); !bad.ok()) return bad;
          if (Status bad = JudgeFieldErrors(validation, errors, exchange.get()); !bad.ok()) {
            return StrictPatchRefusal(bad, ShownPatch(current, route.api, type, body));
          }
          return event;
        },
        SendOutcome(exchange, route));
  }

  // The same refusal has another form for patches.
  static Status StrictPatchRefusal(const Status& bad, std::string_view shown) {
    std::string_view why = bad.message();
    why.remove_prefix(why.find("strict decoding error"));
    std::string body = fmt::format("Invalid value: {}: {}", Quoted(shown), why);
    Status::Parts parts;
    parts.reason = StatusReason::kInvalid;
    parts.message = " \"\" is invalid: patch: " + body;
    parts.details.emplace().causes.push_back({"FieldValueInvalid", std::move(body), "patch"});
    return Status(std::move(parts));
  }

  void Delete(const ExchangePtr& exchange, const Route& route) {
    if (!Begin(exchange.get(), kObjectOffer, false)) return;
    Result<DeleteOptions> options = ReadDeleteOptions(exchange.get());
    if (!options) return exchange->SendStatus(options.error());
    Registry::Target target = TargetOf(exchange, route, !options->dry_run.empty());
    registry_.Delete(
        std::move(target), *std::move(options),
        [self = shared_from_this(), exchange, route](Result<Registry::Outcome> outcome) {
          if (!outcome) return exchange->SendStatus(outcome.error());
          if (outcome->deleted) {
            return exchange->SendStatus(Deleted(route.api, outcome->event));
          }
          self->SendEvent(exchange.get(), route, 200, outcome->event);
        });
  }

  // A list, negotiated and read.
  void ListOrWatch(const ExchangePtr& exchange, const Route& route) {
    const bool watch = route.forced_watch || IsSet(exchange->query(), "watch");
    if (!watch && !Begin(exchange.get(), kObjectOffer, true)) return;
    if (watch) {
      Status bad;
      if (!Accepts(exchange->request().headers, kObjectOffer)) bad = NotAcceptable(true);
      if (bad.ok()) bad = exchange->Accept(kObjectOffer);
      if (bad.ok() && exchange->representation().media == MediaType::kYaml) {
        bad = Status(StatusReason::kNotAcceptable,
                     "only the following media types are accepted: application/json;stream=watch, "
                     "application/vnd.kubernetes.protobuf;stream=watch");
      }
      if (bad.ok()) bad = CheckShapeName(exchange->representation(), false);
      if (!bad.ok()) return exchange->SendStatus(bad);
    }
    const Result<ListOptions> options =
        ParseListOptions(exchange->query(), route.api, route.forced_watch, clock_->Now());
    if (!options) return exchange->SendStatus(options.error());
    if (Status bad = CheckSelectedName(*options, route); !bad.ok()) {
      return exchange->SendStatus(bad);
    }
    const Result<Form> form = FormOf(*exchange, route.api);
    if (!form) return exchange->SendStatus(form.error());
    const EventFilter filter(route.namespace_, route.name, *options);
    if (watch) return Watch(exchange, filter, *options, *form);
    TellRetention(*options, exchange.get());
    Result<ListAnswer> answer = BeginList(exchange, *form, filter, *options);
    if (!answer) return exchange->SendStatus(answer.error());
    SendList(*std::move(answer));
  }

  // Whose turn it is in queues: users are told apart by their names, as kube-apiserver's flow
  // schemas do by default.
  static std::uint64_t FlowOf(const Exchange& exchange) {
    return std::hash<std::string>()(exchange.call().user.name);
  }

  // A list that can be read; kTooManyRequests where there is no room for one more.
  Result<ListAnswer> BeginList(const ExchangePtr& exchange, const Form& form,
                               const EventFilter& filter, const ListOptions& options) {
    ListAnswer answer;
    answer.charge = lists_->Begin(exchange->call().user.name);
    if (answer.charge == nullptr) return TooManyRequests();
    answer.exchange = exchange;
    answer.form = form;
    answer.now = clock_->Now();
    answer.cancelled = std::make_shared<std::atomic<bool>>(false);
    answer.log = options_.log;
    answer.owner = shared_from_this();
    answer.long_work = &long_work_;
    answer.flow = FlowOf(*exchange);
    ReadContext context;
    context.flow = answer.flow;
    context.cancelled = answer.cancelled;
    context.reserve = [charge = answer.charge](std::size_t bytes) { return charge->Grow(bytes); };
    Result<std::shared_ptr<EventListReader>> reader =
        EventListReader::Make(store_, filter, options, std::move(context));
    if (!reader) return reader.error();
    answer.reader = *std::move(reader);
    return answer;
  }

  void Watch(const ExchangePtr& exchange, const EventFilter& filter, const ListOptions& options,
             const Form& form) {
    WatchRequest request;
    request.filter = filter;
    request.form = form;
    request.user = exchange->call().user.name;
    request.flow = FlowOf(*exchange);
    request.bookmarks = options.allow_watch_bookmarks;
    const bool from_start = options.resource_version.empty() || options.resource_version == "0";
    request.initial_events = options.send_initial_events.value_or(from_start);
    if (!from_start) {
      const Result<std::uint64_t> version = ParseResourceVersion(options.resource_version);
      if (!version || *version > static_cast<std::uint64_t>(INT64_MAX)) {
        return exchange->SendStatus(BadRequest(
            fmt::format("resourceVersion: Invalid value: {}: {}", Quoted(options.resource_version),
                        version ? std::string("it is too large") : version.error().message())));
      }
      request.after = static_cast<store::Revision>(*version);
      request.not_older_than = *version;
    }
    request.timeout = WatchTimeout(options, options_.min_request_timeout);
    const Result<std::function<void()>> start = BeginsWatch(exchange, &request.form);
    if (!start) return exchange->SendStatus(start.error());
    const Status refused = streams_.Open(std::move(request), exchange->responder(), *start);
    if (!refused.ok()) exchange->SendStatus(refused);
  }

  // What sends the head of a watch: the usual one, or that of a WebSocket where the client
  // offers to use one. Its frames are then made for that.
  Result<std::function<void()>> BeginsWatch(const ExchangePtr& exchange, Form* form) const {
    if (exchange->request().websocket) {
      Result<http::Headers> accepted = AcceptWebSocket(exchange->request(), options_.cors);
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

  void DeleteCollection(const ExchangePtr& exchange, const Route& route) {
    if (!Begin(exchange.get(), kObjectOffer, true)) return;
    const Result<ListOptions> options =
        ParseListOptions(exchange->query(), route.api, false, clock_->Now());
    if (!options) return exchange->SendStatus(options.error());
    Result<DeleteOptions> deletion = ReadDeleteOptions(exchange.get());
    if (!deletion) return exchange->SendStatus(deletion.error());
    const Result<Form> form = FormOf(*exchange, route.api);
    if (!form) return exchange->SendStatus(form.error());
    const EventFilter filter(route.namespace_, route.name, *options);
    Result<ListAnswer> answer = BeginList(exchange, *form, filter, *options);
    if (!answer) return exchange->SendStatus(answer.error());
    const std::shared_ptr<EventListReader> reader = answer->reader;
    std::make_shared<CollectionDeletion>(&registry_, route.api, *std::move(deletion), reader,
                                         [answer = *std::move(answer)](const Status& status) {
                                           if (!status.ok())
                                             return answer.exchange->SendStatus(status);
                                           // The answer is what was there before, which the store
                                           // still has.
                                           answer.reader->Rewind();
                                           SendList(answer);
                                         })
        ->Run();
  }

  void ReadNamespace(const ExchangePtr& exchange, const Route& route) {
    const bool one = route.kind == Route::Kind::kNamespace;
    if (route.forced_watch || (!one && IsSet(exchange->query(), "watch"))) {
      return WatchNamespaces(exchange, route);
    }
    if (!Begin(exchange.get(), kNamespaceOffer, !one)) return;
    std::optional<std::string> selected;
    if (one) {
      selected = route.name;
    } else {
      const Result<ListOptions> options =
          ParseListOptions(exchange->query(), EventApi::kCoreV1, false, clock_->Now());
      if (!options) return exchange->SendStatus(options.error());
      selected = SelectedName(*options);
    }
    namespaces_.Read([exchange, one, selected, clock = clock_](Result<NamespaceList> list) {
      if (!list) return exchange->SendStatus(list.error());
      if (selected) {
        std::erase_if(list->items,
                      [&](const NamespaceInfo& info) { return info.name != *selected; });
        if (one && list->items.empty()) return exchange->SendStatus(NamespaceNotFound(*selected));
      }
      const Result<Form> form = FormOf(*exchange, EventApi::kCoreV1);
      if (!form) return exchange->SendStatus(form.error());
      if (form->shape == Shape::kTable) {
        return exchange->SendJson(200, NamespaceTableJson(*list, form->table_object,
                                                          form->meta_version, true, clock->Now()));
      }
      exchange->SendJson(200, one ? NamespaceJson(list->items.front(), list->revision) + "\n"
                                  : NamespaceListJson(*list));
    });
  }

  void WatchNamespaces(const ExchangePtr& exchange, const Route& route) {
    if (!Begin(exchange.get(), kNamespaceWatchOffer, false)) return;
    const Result<ListOptions> options =
        ParseListOptions(exchange->query(), EventApi::kCoreV1, true, clock_->Now());
    if (!options) return exchange->SendStatus(options.error());
    const Result<Form> form = FormOf(*exchange, EventApi::kCoreV1);
    if (!form) return exchange->SendStatus(form.error());
    if (Status bad = CheckSelectedName(*options, route); !bad.ok()) {
      return exchange->SendStatus(bad);
    }
    NamespaceWatches::Request request;
    request.name =
        exchange->info().name_in_path ? std::optional(route.name) : SelectedName(*options);
    request.form = *form;
    request.timeout = WatchTimeout(*options, options_.min_request_timeout);
    // Whoever has seen a list knows what was there, and is told what is new since now.
    request.initial_events = options->send_initial_events.value_or(
        options->resource_version.empty() || options->resource_version == "0");
    const Result<std::function<void()>> start = BeginsWatch(exchange, &request.form);
    if (!start) return exchange->SendStatus(start.error());
    const Status refused =
        namespace_watches_.Open(std::move(request), exchange->responder(), *start);
    if (!refused.ok()) exchange->SendStatus(refused);
  }

  // Whoever asks by time wants to know how far back the answer can reach.
  void TellRetention(const ListOptions& options, Exchange* exchange) const {
    if (!options.selects_by_time() && !options.by_last_occurrence) return;
    exchange->SetHeader("herald-event-ttl", std::to_string(options_.event_ttl.count()));
    const store::StoreStats stats = store_->Stats();
    if (stats.complete_since > WallTime()) {
      exchange->SetHeader("herald-complete-since", Time(stats.complete_since).ToString());
    }
  }

  // Everything that is no event and no namespace.
  void HandleDocument(Exchange& exchange) {
    // Only public documents are served with a slash at the end as well: access to what needs a
    // permission was granted for the path as it is.
    const std::string& exact = exchange.info().path;
    std::string_view path = exact;
    if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
    if (exchange.info().is_malformed) return SendNoSuchPath(path, exchange);
    const std::optional<std::string> discovery =
        DiscoveryDocument(path, exchange.request().authority);
    const bool is_get = exchange.request().method == "GET";
    if (discovery || path == "/version" || path.starts_with("/openapi/") ||
        exact == "/herald/retention") {
      if (!is_get) return exchange.SendStatus(NoSuchMethod());
    }
    if (discovery) return SendDiscovery(path, *discovery, exchange);
    // Whatever the method, as kube-apiserver does.
    if (exact == "/" || exact == "/index.html")
      return exchange.Send(200, "application/json", RootPathsJson());
    if (IsServiceList(exact)) return SendNoServices(exchange);
    if (path == "/version") return SendVersion(exchange);
    if (exact == "/herald/retention") return SendRetention(exchange);
    if (path.starts_with("/openapi/") && SendOpenApi(path, exchange)) return;
    SendNoSuchPath(path, exchange);
  }

  static void SendNoSuchPath(std::string_view path, Exchange& exchange) {
    if (IsBelowListedGroup(path)) return exchange.SendStatus(NoSuchPath());
    if (path.starts_with("/openapi/")) return exchange.Send(404, {}, {});
    exchange.SetHeader("x-content-type-options", "nosniff");
    exchange.Send(404, "text/plain; charset=utf-8", "404 page not found\n");
  }

  static void SendDiscovery(std::string_view path, const std::string& plain, Exchange& exchange) {
    if ((path == "/api" || path == "/apis") &&
        PrefersAggregatedDiscovery(exchange.request().headers)) {
      exchange.SetHeader("cache-control", "public");
      return SendTagged(exchange, kAggregatedDiscoveryType, AggregatedDiscovery(path));
    }
    Status bad;
    if (!Accepts(exchange.request().headers, Offer())) bad = NotAcceptable(false);
    if (bad.ok() && !exchange.Accept(kDocumentOffer).ok()) {
      bad = Status(StatusReason::kNotAcceptable,
                   "only the following media types are accepted: " + OfferedTypes(Offer()));
    }
    if (!bad.ok()) return exchange.SendStatus(bad);
    exchange.SendJson(200, plain);
  }

  void SendNoServices(Exchange& exchange) const {
    if (exchange.info().verb != "list") return exchange.SendStatus(NoSuchMethod());
    if (Status bad = exchange.Accept(kDocumentOffer); !bad.ok()) return exchange.SendStatus(bad);
    exchange.SendJson(200, EmptyServiceListJson(store_->Stats().revision));
  }

  static std::string EntityTag(std::string_view body) {
    return fmt::format("\"{}\"", DocumentHash(body));
  }

  // A document that clients may keep: they get it again only when it has changed.
  static void SendTagged(Exchange& exchange, std::string_view content_type, std::string_view body) {
    const std::string tag = EntityTag(body);
    exchange.SetHeader("etag", tag);
    exchange.SetHeader("vary", "Accept");
    if (exchange.request().headers.Get("if-none-match") == tag) return exchange.Send(304, {}, {});
    exchange.Send(200, content_type, std::string(body));
  }

  static void SendVersion(Exchange& exchange) {
    // The version of Kubernetes whose API this is, so that clients know what to expect; and
    // ours, for people.
    exchange.Send(
        200, "application/json",
        IndentJson(fmt::format(
            R"({{"major":"1","minor":"36","emulationMajor":"1","emulationMinor":"36",)"
            R"("minCompatibilityMajor":"1","minCompatibilityMinor":"35","gitVersion":"v1.36.3+herald-{}",)"
            R"("gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"",)"
            R"("compiler":"","platform":"linux/amd64"}})",
            HERALD_VERSION)));
  }

  void SendRetention(Exchange& exchange) const {
    if (Status bad = exchange.Accept(kDocumentOffer); !bad.ok()) return exchange.SendStatus(bad);
    const store::StoreStats stats = store_->Stats();
    std::string since = "null";
    if (stats.complete_since > WallTime()) {
      since = fmt::format("\"{}\"", Time(stats.complete_since).ToString());
    }
    exchange.SendJson(
        200,
        fmt::format(
            R"({{"eventTTLSeconds":{},"completeSince":{},"events":{},"expired":{},"evicted":{}}})"
            "\n",
            options_.event_ttl.count(), since, stats.entries, stats.expired, stats.evicted));
  }

  static bool SendOpenApi(std::string_view path, Exchange& exchange) {
    const Result<OpenApiAnswer> answer =
        FindOpenApi(path, exchange.request().headers, FindParameter(exchange.query(), "hash"));
    if (!answer) return false;
    if (answer->immutable) exchange.SetHeader("cache-control", "public, immutable");
    if (!answer->location.empty()) exchange.SetHeader("location", answer->location);
    if (!answer->tagged) {
      exchange.Send(200, answer->content_type, answer->body);
    } else if (answer->location.empty()) {
      SendTagged(exchange, answer->content_type, answer->body);
    } else {
      exchange.SetHeader("etag", EntityTag(answer->body));
      exchange.SetHeader("vary", "Accept");
      exchange.Send(301, answer->content_type, {});
    }
    return true;
  }

  store::Store* const store_;
  const ApiOptions options_;
  const Clock* const clock_;
  Executor executor_;
  // For what would hold up others (Exchange::is_long_work(), lists in YAML): up to a second each.
  Executor long_executor_;
  FairQueue long_work_;
  const std::shared_ptr<ListBudget> lists_;
  Registry registry_;
  WatchStreams streams_;
  Namespaces namespaces_;
  NamespaceWatches namespace_watches_;
};

store::Schema Api::MakeSchema(std::function<std::chrono::seconds(const Event&)> lifetime) {
  return MakeEventSchema(std::move(lifetime));
}

Api::Api(store::Store* store, ApiOptions options)
    : impl_(std::make_shared<Impl>(store, std::move(options))) {
  impl_->LeaveZero();
}

Api::~Api() {
  Stop();
  impl_->StopThreads();
}

void Api::Handle(Call call, std::shared_ptr<http::Responder> responder) {
  impl_->Handle(std::move(call), std::move(responder));
}

void Api::Stop() { impl_->Stop(); }

}  // namespace herald::server
