#include "server/api.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "api/patch_text.h"
#include "api/quote.h"
#include "api/type_meta.h"
#include "api/yaml/yaml.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/trimmed.h"
#include "herald/api/codec.h"
#include "herald/api/patch.h"
#include "herald/base/executor.h"
#include "server/async_loop.h"
#include "server/discovery.h"
#include "server/encoding.h"
#include "server/event_list.h"
#include "server/exchange.h"
#include "server/namespace_watch.h"
#include "server/namespaces.h"
#include "server/openapi.h"
#include "server/rbac.h"
#include "server/registry.h"
#include "server/request_options.h"
#include "server/stored_event.h"
#include "server/watch_stream.h"

namespace herald::server {
namespace {

using ExchangePtr = std::shared_ptr<Exchange>;

// Larger lists are encoded on a thread of our own: ten thousand events take some 20 ms,
// in which a connection's thread could have answered hundreds of others.
constexpr std::size_t kMaxEventsInline = 200;
// One for such a list and one for whatever else there is to do meanwhile.
constexpr int kThreads = 2;

// Larger bodies in YAML are read on a thread of their own, one after the other: the parser
// takes a second for what it just takes. Nobody else waits for them.
constexpr std::size_t kMaxYamlInline = 64 * 1024;

// How many lists of everything, not in pages, are read and encoded at once. Each may take
// tens of megabytes, and whoever asks for more of them can come back.
constexpr int kMaxWholeLists = 64;
constexpr std::int64_t kMaxPageEvents = 1000;  // what still counts as a page

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

Status BodyTooLarge() {
  return Status(StatusReason::kRequestEntityTooLarge,
                fmt::format("Request entity too large: limit is {}", kMaxRequestBytes));
}

// Where a request goes, by its path.
struct Route {
  enum class Kind : std::uint8_t { kNone, kEvents, kEvent, kNamespaces, kNamespace };
  Kind kind = Kind::kNone;
  EventApi api = EventApi::kCoreV1;
  std::string namespace_{};
  std::string name{};
  bool forced_watch = false;  // below .../watch/
};

std::vector<std::string_view> Split(std::string_view path) {
  std::vector<std::string_view> parts;
  if (path.starts_with('/')) path.remove_prefix(1);
  while (true) {
    const std::size_t end = std::min(path.find('/'), path.size());
    parts.push_back(path.substr(0, end));
    if (end == path.size()) return parts;
    path.remove_prefix(end + 1);
  }
}

Route FindRoute(std::string_view path) {
  if (path.ends_with('/')) path.remove_suffix(1);
  const std::vector<std::string_view> all = Split(path);
  std::span<const std::string_view> parts(all);
  if (std::ranges::find(parts, std::string_view()) != parts.end()) return {};
  Route route;
  if (parts.size() >= 2 && parts[0] == "api" && parts[1] == "v1") {
    parts = parts.subspan(2);
  } else if (parts.size() >= 3 && parts[0] == "apis" && parts[1] == "events.k8s.io" &&
             parts[2] == "v1") {
    route.api = EventApi::kEventsV1;
    parts = parts.subspan(3);
  } else {
    return route;
  }
  if (!parts.empty() && parts[0] == "watch") {
    route.forced_watch = true;
    parts = parts.subspan(1);
  }
  if (parts.size() == 1 && parts[0] == "events") {
    route.kind = Route::Kind::kEvents;
  } else if (!parts.empty() && parts[0] == "namespaces") {
    if (parts.size() > 1) route.namespace_ = parts[1];
    if (parts.size() >= 3 && parts.size() <= 4 && parts[2] == "events") {
      route.kind = parts.size() == 3 ? Route::Kind::kEvents : Route::Kind::kEvent;
      if (parts.size() == 4) route.name = parts[3];
    } else if (parts.size() <= 2 && route.api == EventApi::kCoreV1) {
      route.kind = parts.size() == 1 ? Route::Kind::kNamespaces : Route::Kind::kNamespace;
    }
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
  std::string body = exchange->TakeBody();
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

Result<DeleteOptions> ReadDeleteOptions(Exchange* exchange) {
  Result<DeleteOptions> options = DeleteOptions();
  std::string body = exchange->TakeBody();
  if (body.empty()) {
    options = ParseDeleteOptions(exchange->query());
  } else {
    if (body.size() > kMaxRequestBytes) return BodyTooLarge();
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

// A DELETE of a whole collection: what was listed goes, a few at a time.
class CollectionDeletion : public std::enable_shared_from_this<CollectionDeletion> {
 public:
  CollectionDeletion(Registry* registry, EventApi api, DeleteOptions options, EventPage page,
                     std::function<void(Result<EventPage>)> done)
      : registry_(registry),
        api_(api),
        options_(std::move(options)),
        page_(std::move(page)),
        done_(std::move(done)) {}

  // One batch after the other; within a batch all at once, so that they share a commit.
  void Run() {
    loop_.Run([this] {
      const std::size_t end = std::min(next_ + kDeletionsAtOnce, page_.entries.size());
      // One more for this loop itself, so that no batch ends before all of it has begun.
      open_.store(end - next_ + 1);
      for (; next_ < end; ++next_) DeleteOne(page_.entries[next_].key);
      OneIsDone();
    });
  }

 private:
  void DeleteOne(std::string_view key) {
    Registry::Target target;
    target.api = api_;
    target.namespace_ = NamespaceOfKey(key);
    target.name = key.substr(EventKeyPrefix(target.namespace_).size());
    target.dry_run = !options_.dry_run.empty();
    registry_->Delete(std::move(target), options_,
                      [self = shared_from_this()](const Result<Registry::Outcome>& outcome) {
                        // Whoever was faster has done our work.
                        if (!outcome && !outcome.error().Is(StatusReason::kNotFound)) {
                          MutexLock lock(self->mu_);
                          self->error_ = outcome.error();
                        }
                        self->OneIsDone();
                      });
  }

  void OneIsDone() {
    if (open_.fetch_sub(1) != 1) return;
    {
      MutexLock lock(mu_);
      if (!error_.ok()) {
        const Status error = error_;
        lock.Unlock();
        done_(error);
        lock.Lock();
        return;
      }
    }
    if (next_ == page_.entries.size()) return done_(std::move(page_));
    if (loop_.Again()) Run();
  }

  Registry* const registry_;
  const EventApi api_;
  const DeleteOptions options_;
  EventPage page_;
  const std::function<void(Result<EventPage>)> done_;
  AsyncLoop loop_;
  std::size_t next_ = 0;
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
        slow_executor_({.threads = 1, .clock = clock_}),
        registry_(store, clock_),
        streams_(store, &executor_,
                 {.max_watches = options_.max_watches,
                  .max_watches_per_user = options_.max_watches_per_user}),
        namespaces_(store, &executor_) {}

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
    const http::Request& request = exchange->request();
    if (request.body.size() > kMaxYamlInline &&
        BodyMediaType(request.headers) == MediaType::kYaml) {
      return slow_executor_.Post([self = shared_from_this(), exchange] { self->Answer(exchange); });
    }
    Answer(exchange);
  }

  void Stop() {
    streams_.Stop();
    namespaces_.Stop();
  }
  void StopThreads() {
    slow_executor_.Stop();
    executor_.Stop();
  }

 private:
  void Answer(const ExchangePtr& exchange) {
    const Route route = FindRoute(exchange->call().info.path);
    const std::string& method = exchange->request().method;
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

  Registry::Target TargetOf(const Exchange& exchange, const Route& route, bool dry_run) const {
    Registry::Target target;
    target.api = route.api;
    target.namespace_ = route.namespace_;
    target.name = route.name;
    target.dry_run = dry_run;
    if (options_.admit) {
      target.admit = [this, user = exchange.call().user](const Event& event) {
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

  // The end of a write.
  Registry::Done SendOutcome(ExchangePtr exchange, const Route& route) {
    return [self = shared_from_this(), exchange = std::move(exchange),
            route](Result<Registry::Outcome> outcome) {
      if (!outcome) return exchange->SendStatus(outcome.error());
      for (std::string& warning : outcome->warnings) exchange->Warn(std::move(warning));
      self->SendEvent(exchange.get(), route, outcome->created ? 201 : 200, outcome->event);
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
    registry_.Get(target, SendOutcome(exchange, route));
  }

  void Create(const ExchangePtr& exchange, const Route& route) {
    if (!Begin(exchange.get(), kObjectOffer, false)) return;
    Result<std::pair<WriteOptions, Event>> body = ReadWrite(exchange.get(), route, "CreateOptions");
    if (!body) return exchange->SendStatus(body.error());
    Registry::Target target = TargetOf(*exchange, route, body->first.dry_run);
    registry_.Create(std::move(target), std::move(body->second), SendOutcome(exchange, route));
  }

  // What POST and PUT have in common.
  static Result<std::pair<WriteOptions, Event>> ReadWrite(Exchange* exchange, const Route& route,
                                                          std::string_view kind) {
    const std::optional<MediaType> media = BodyMediaType(exchange->request().headers);
    if (!media) return UnknownBody(OfferedTypes(kObjectOffer));
    if (exchange->request().body.size() > kMaxRequestBytes) return BodyTooLarge();
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
    Registry::Target target = TargetOf(*exchange, route, body->first.dry_run);
    if (options_.authorize) {
      target.admit_create = [this, exchange = exchange.get()] {
        return AuthorizeCreate(exchange->call());
      };
    }
    registry_.Update(std::move(target), std::move(body->second), SendOutcome(exchange, route));
  }

  // Whether whoever may replace may also create.
  Status AuthorizeCreate(const Call& call) const {
    RequestInfo info = call.info;
    info.verb = "create";
    if (options_.authorize(call.user, info)) return Status();
    return ForbiddenStatus(call.user, info);
  }

  void Patch(const ExchangePtr& exchange, const Route& route) {
    const std::optional<PatchType> type = BodyPatchType(exchange->request().headers);
    if (!type) {
      // Server-side apply needs managedFields, which events here do not have.
      const bool apply = exchange->request().headers.Get("content-type") == kApplyPatch;
      return exchange->SendStatus(apply ? UnknownBody(kPatchTypes) : UnsupportedMediaType());
    }
    if (!Begin(exchange.get(), kObjectOffer, false)) return;
    if (exchange->request().body.size() > kMaxRequestBytes) {
      return exchange->SendStatus(BodyTooLarge());
    }
    const Result<WriteOptions> options = ParseWriteOptions(exchange->query(), "PatchOptions");
    if (!options) return exchange->SendStatus(options.error());
    Registry::Target target = TargetOf(*exchange, route, options->dry_run);
    registry_.Patch(
        std::move(target),
        [exchange, route, type = *type, body = exchange->TakeBody(),
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
    Registry::Target target = TargetOf(*exchange, route, !options->dry_run.empty());
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
    if (!route.name.empty()) {
      const std::string* const name = options->fields.RequiredValue(EventField::kMetadataName);
      if (name != nullptr && *name != route.name) {
        return exchange->SendStatus(
            BadRequest("fieldSelector metadata.name doesn't match requested name"));
      }
    }
    const Result<Form> form = FormOf(*exchange, route.api);
    if (!form) return exchange->SendStatus(form.error());
    const EventFilter filter(route.namespace_, route.name, *options);
    if (watch) return Watch(exchange, filter, *options, *form);
    const bool whole =
        filter.matches_all() && (options->limit == 0 || options->limit > kMaxPageEvents);
    const std::shared_ptr<void> slot = whole ? TakeWholeListSlot() : nullptr;
    if (whole && slot == nullptr) return exchange->SendStatus(TooManyWholeLists());
    TellRetention(*options, exchange.get());
    ReadEventPage(
        store_, filter, *options,
        [self = shared_from_this(), exchange, form = *form, slot](Result<EventPage> page) {
          if (!page) return exchange->SendStatus(page.error());
          self->SendPage(exchange, *std::move(page), form, slot);
        });
  }

  // Free again when the last copy goes; null where none is left.
  std::shared_ptr<void> TakeWholeListSlot() {
    const bool taken = whole_lists_.fetch_add(1) < kMaxWholeLists;
    std::shared_ptr<void> slot(
        nullptr, [self = shared_from_this()](void*) { self->whole_lists_.fetch_sub(1); });
    return taken ? std::shared_ptr<void>(slot, this) : nullptr;
  }

  static Status TooManyWholeLists() {
    Status::Parts parts;
    parts.reason = StatusReason::kTooManyRequests;
    parts.message = "too many lists of all events are being read, please use limit or try again";
    parts.retry_after = std::chrono::seconds(1);
    return Status(std::move(parts));
  }

  void SendPage(ExchangePtr exchange, EventPage page, const Form& form,
                std::shared_ptr<void> slot = nullptr) {
    if (page.entries.size() <= kMaxEventsInline) {
      return EncodeAndSend(exchange.get(), page, form);
    }
    executor_.Post([self = shared_from_this(), exchange = std::move(exchange),
                    page = std::make_shared<EventPage>(std::move(page)), form,
                    slot = std::move(slot)] { self->EncodeAndSend(exchange.get(), *page, form); });
  }

  void EncodeAndSend(Exchange* exchange, const EventPage& page, const Form& form) const {
    Status status;
    if (form.shape == Shape::kPlain && form.media == MediaType::kJson &&
        !exchange->representation().pretty) {
      status = EncodeEventPage(
          page, form, Exchange::kPieceBytes, [exchange](std::string piece, bool last) {
            exchange->SendPiece(MediaTypeName(MediaType::kJson), std::move(piece), last);
          });
      if (status.ok()) return;
    } else {
      Result<std::string> body = EncodeEventPage(page, form, clock_->Now());
      if (body) return SendEncoded(exchange, 200, *std::move(body));
      status = body.error();
    }
    if (options_.log) {
      options_.log({.level = LogLevel::kError,
                    .message = "a list cannot be completed",
                    .fields = {{"why", status.message()}}});
    }
    exchange->SendStatus(status);
  }

  void Watch(const ExchangePtr& exchange, const EventFilter& filter, const ListOptions& options,
             const Form& form) {
    WatchRequest request;
    request.filter = filter;
    request.form = form;
    request.user = exchange->call().user.name;
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
  static Result<std::function<void()>> BeginsWatch(const ExchangePtr& exchange, Form* form) {
    if (exchange->request().websocket) {
      Result<http::Headers> accepted = AcceptWebSocket(exchange->request());
      if (!accepted) {
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
    ReadEventPage(store_, EventFilter(route.namespace_, route.name, *options), *options,
                  [self = shared_from_this(), exchange, form = *form, api = route.api,
                   deletion = *std::move(deletion)](Result<EventPage> page) {
                    if (!page) return exchange->SendStatus(page.error());
                    std::make_shared<CollectionDeletion>(
                        &self->registry_, api, deletion, *std::move(page),
                        [self, exchange, form](Result<EventPage> deleted) {
                          if (!deleted) return exchange->SendStatus(deleted.error());
                          self->SendPage(exchange, *std::move(deleted), form);
                        })
                        ->Run();
                  });
  }

  void ReadNamespace(const ExchangePtr& exchange, const Route& route) {
    const bool one = route.kind == Route::Kind::kNamespace;
    if (route.forced_watch || (!one && IsSet(exchange->query(), "watch"))) {
      return WatchNamespaces(exchange, route);
    }
    if (!Begin(exchange.get(), kNamespaceOffer, !one)) return;
    ReadNamespaces(store_, [exchange, route, one](Result<NamespaceList> list) {
      if (!list) return exchange->SendStatus(list.error());
      if (one) {
        const auto found = std::ranges::find(list->names, route.namespace_);
        if (found == list->names.end()) {
          return exchange->SendStatus(NamespaceNotFound(route.namespace_));
        }
        list->names = {route.namespace_};
      }
      const Result<Form> form = FormOf(*exchange, EventApi::kCoreV1);
      if (!form) return exchange->SendStatus(form.error());
      if (form->shape == Shape::kTable) {
        return exchange->SendJson(
            200, NamespaceTableJson(*list, form->table_object, form->meta_version, true));
      }
      exchange->SendJson(200, one ? NamespaceJson(route.namespace_, list->revision) + "\n"
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
    NamespaceWatches::Request request;
    request.name = route.namespace_;
    if (const std::string* name = options->fields.RequiredValue(EventField::kMetadataName)) {
      request.name = *name;
    }
    request.form = *form;
    request.timeout = WatchTimeout(*options, options_.min_request_timeout);
    // Whoever has seen a list knows what was there, and is told what is new since now.
    request.initial_events = options->send_initial_events.value_or(
        options->resource_version.empty() || options->resource_version == "0");
    const Result<std::function<void()>> start = BeginsWatch(exchange, &request.form);
    if (!start) return exchange->SendStatus(start.error());
    const Status refused = namespaces_.Open(std::move(request), exchange->responder(), *start);
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
    std::string_view path = exchange.call().info.path;
    while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
    const std::optional<std::string> discovery =
        DiscoveryDocument(path, exchange.request().authority);
    const bool is_get = exchange.request().method == "GET";
    if (discovery || path == "/version" || path.starts_with("/openapi/") ||
        path == "/herald/retention") {
      if (!is_get) return exchange.SendStatus(NoSuchMethod());
    }
    if (discovery) return SendDiscovery(path, *discovery, exchange);
    if (path == "/version") return SendVersion(exchange);
    if (path == "/herald/retention") return SendRetention(exchange);
    if (path.starts_with("/openapi/") && SendOpenApi(path, exchange)) return;
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
  Executor slow_executor_;
  Registry registry_;
  WatchStreams streams_;
  NamespaceWatches namespaces_;
  std::atomic<int> whole_lists_{0};
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
