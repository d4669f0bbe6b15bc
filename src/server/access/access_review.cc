#include "server/access/access_review.h"

#include <fmt/core.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/json/document.h"
#include "api/json/type_names.h"
#include "api/json/writer.h"
#include "api/protobuf/magic.h"
#include "api/protobuf/reader.h"
#include "api/quote.h"
#include "api/type_meta.h"
#include "api/yaml/yaml.h"
#include "herald/api/time.h"
#include "herald/base/status.h"
#include "server/request/negotiation.h"

namespace herald::server {
namespace {

constexpr Offer kReviewOffer{.shapes = false, .yaml = true, .protobuf = false};

struct ReviewKind {
  std::string_view name;
  std::string_view api_group;
  std::string_view resource;
};
constexpr ReviewKind kAccessReview{"SelfSubjectAccessReview", "authorization.k8s.io",
                                   "selfsubjectaccessreviews"};
constexpr ReviewKind kRulesReview{"SelfSubjectRulesReview", "authorization.k8s.io",
                                  "selfsubjectrulesreviews"};
constexpr ReviewKind kSelfReview{"SelfSubjectReview", "authentication.k8s.io",
                                 "selfsubjectreviews"};

const ReviewKind* KindOf(const RequestInfo& request) {
  if (!request.is_resource || request.api_version != "v1" || !request.namespace_.empty() ||
      !request.name.empty())
    return nullptr;
  for (const ReviewKind* kind : {&kAccessReview, &kRulesReview, &kSelfReview})
    if (request.api_group == kind->api_group && request.resource == kind->resource) return kind;
  return nullptr;
}

// A string field of a review: its name in JSON, its number in protobuf, and its target.
struct Member {
  std::string_view name;
  int number;
  std::string RequestInfo::* field;
};
constexpr Member kResourceAttributes[] = {
    {"namespace", 1, &RequestInfo::namespace_},
    {"verb", 2, &RequestInfo::verb},
    {"group", 3, &RequestInfo::api_group},
    {"version", 4, &RequestInfo::api_version},
    {"resource", 5, &RequestInfo::resource},
    {"subresource", 6, &RequestInfo::subresource},
    {"name", 7, &RequestInfo::name},
};
constexpr Member kNonResourceAttributes[] = {
    {"path", 1, &RequestInfo::path},
    {"verb", 2, &RequestInfo::verb},
};
// The spec of a SelfSubjectRulesReview.
constexpr Member kRulesSpec[] = {{"namespace", 1, &RequestInfo::namespace_}};

// The spec of a review.
struct ReviewSpec {
  std::optional<RequestInfo> resource{};      // spec.resourceAttributes
  std::optional<RequestInfo> non_resource{};  // spec.nonResourceAttributes
  std::string namespace_{};                   // spec.namespace
};

// The error for an invalid field of a SelfSubjectAccessReview, with Kubernetes' message.
Status Invalid(std::string_view field, std::string_view shown, std::string_view why) {
  std::string message = fmt::format("Invalid value: {}: {}", shown, why);
  Status::Parts parts{.reason = StatusReason::kInvalid};
  parts.message =
      fmt::format(".{} \"\" is invalid: {}: {}", kAccessReview.api_group, field, message);
  parts.details = StatusDetails{.name = "",
                                .group = std::string(kAccessReview.api_group),
                                .kind = "",
                                .uid = "",
                                .causes = {{.reason = "FieldValueInvalid",
                                            .message = std::move(message),
                                            .field = std::string(field)}}};
  return Status(std::move(parts));
}

// Reads the members of one object of a review. A member of the wrong type is an error that names
// its path in the review.
class ObjectReader {
 public:
  ObjectReader(const ReviewKind& kind, const Json& object, std::string path)
      : kind_(kind), object_(object), path_(std::move(path)) {}

  // Null if the member is missing or null.
  Result<const Json*> Object(std::string_view name) const {
    return Find(name, Json::Type::kObject, "object");
  }
  Result<std::string> String(std::string_view name) const {
    const Result<const Json*> value = Find(name, Json::Type::kString, "string");
    if (!value) return value.error();
    return *value != nullptr ? (*value)->AsString() : std::string();
  }
  Result<RequestInfo> Strings(std::span<const Member> members) const {
    RequestInfo info;
    for (const Member& member : members) {
      Result<std::string> value = String(member.name);
      if (!value) return value.error();
      info.*member.field = *std::move(value);
    }
    return info;
  }

 private:
  Result<const Json*> Find(std::string_view name, Json::Type type, std::string_view wanted) const {
    const Json* const value = object_.Find(name);
    if (value == nullptr || value->is_null()) return static_cast<const Json*>(nullptr);
    if (value->type() == type) return value;
    return CannotBeHandled(kind_.name, fmt::format("{}{}: must be of type {}, not {}", path_, name,
                                                   wanted, JsonTypeName(value->type())));
  }

  const ReviewKind& kind_;
  const Json& object_;
  const std::string path_;  // "spec."
};

// Fails if the body has a kind or apiVersion that does not match the URL.
Status CheckType(const ReviewKind& kind, const ObjectReader& review) {
  const Result<std::string> name = review.String("kind");
  if (!name) return name.error();
  const Result<std::string> version = review.String("apiVersion");
  if (!version) return version.error();
  const std::string expected = fmt::format("{}/v1", kind.api_group);
  const std::string& actual = version->empty() ? expected : *version;
  if ((name->empty() || *name == kind.name) && actual == expected) return {};
  const std::string actual_kind = name->empty() ? std::string(kind.name) : *name;
  return Status(
      StatusReason::kBadRequest,
      fmt::format("{} in version {} cannot be handled as a {}: no kind {} is registered for "
                  "version {}",
                  actual_kind, Quoted(actual.substr(actual.find('/') + 1)), kind.name,
                  Quoted(actual_kind), Quoted(actual)));
}

Result<ReviewSpec> FromJson(const ReviewKind& kind, std::string_view text) {
  constexpr std::string_view kNoKind = "couldn't get version/kind; json parse error: ";
  const Result<Json> json = ParseJson(text);
  if (!json)
    return Unrecognized(fmt::format("{}{}", kNoKind, json.error().message()), kind.name, text);
  if (!json->is_object())
    return Unrecognized(
        fmt::format("{}json: cannot unmarshal {} into Go value of type struct {{ APIVersion string "
                    "\"json:\\\"apiVersion,omitempty\\\"\"; Kind string "
                    "\"json:\\\"kind,omitempty\\\"\" }}",
                    kNoKind, JsonTypeName(json->type())),
        kind.name, text);
  const ObjectReader review(kind, *json, "");
  if (Status wrong = CheckType(kind, review); !wrong.ok()) return wrong;
  ReviewSpec body;
  if (&kind == &kSelfReview) return body;  // a SelfSubjectReview has no spec
  const Result<const Json*> spec_json = review.Object("spec");
  if (!spec_json) return spec_json.error();
  if (*spec_json == nullptr) return body;
  const ObjectReader spec(kind, **spec_json, "spec.");
  if (&kind == &kRulesReview) {
    Result<std::string> namespace_ = spec.String("namespace");
    if (!namespace_) return namespace_.error();
    body.namespace_ = *std::move(namespace_);
    return body;
  }
  const auto read = [&](std::string_view name, std::span<const Member> members,
                        std::optional<RequestInfo>* to) -> Status {
    const Result<const Json*> object = spec.Object(name);
    if (!object) return object.error();
    if (*object == nullptr) return {};
    Result<RequestInfo> info =
        ObjectReader(kind, **object, fmt::format("spec.{}.", name)).Strings(members);
    if (!info) return info.error();
    *to = *std::move(info);
    return {};
  };
  if (Status bad = read("resourceAttributes", kResourceAttributes, &body.resource); !bad.ok())
    return bad;
  if (Status bad = read("nonResourceAttributes", kNonResourceAttributes, &body.non_resource);
      !bad.ok())
    return bad;
  return body;
}

// The bytes of field `number` of a message; of the last one if it is repeated. Nothing if it is
// missing. Fails if the message is not valid protobuf.
Result<std::optional<std::string_view>> FieldOf(std::string_view message, int number) {
  ProtobufReader reader(message);
  std::optional<std::string_view> found;
  while (reader.NextField("review")) {
    if (reader.field() == number && reader.wire_type() == WireType::kBytes) {
      found = reader.Bytes();
    } else {
      reader.SkipField();
    }
  }
  if (!reader.ok()) return Status(StatusReason::kBadRequest, "the protobuf is malformed");
  return found;
}

Result<RequestInfo> StringsOf(std::string_view message, std::span<const Member> members) {
  RequestInfo info;
  for (const Member& member : members) {
    const Result<std::optional<std::string_view>> value = FieldOf(message, member.number);
    if (!value) return value.error();
    info.*member.field = value->value_or("");
  }
  return info;
}

Result<ReviewSpec> FromProtobuf(const ReviewKind& kind, std::string_view text) {
  constexpr int kRawOfEnvelope = 2;
  constexpr int kSpecOfReview = 2;
  constexpr int kResourceOfSpec = 1;
  constexpr int kNonResourceOfSpec = 2;
  if (!text.starts_with(kProtobufMagic))
    return Unrecognized("the body does not begin as Kubernetes protobuf does", kind.name, text);
  ReviewSpec body;
  std::string_view message = text.substr(kProtobufMagic.size());
  for (const int number : {kRawOfEnvelope, kSpecOfReview}) {
    const auto found = FieldOf(message, number);
    if (!found) return CannotBeHandled(kind.name, found.error().message());
    const auto& field = *found;
    if (!field || &kind == &kSelfReview) return body;  // a SelfSubjectReview has no spec
    message = *field;
  }
  if (&kind == &kRulesReview) {
    const Result<RequestInfo> spec = StringsOf(message, kRulesSpec);
    if (!spec) return CannotBeHandled(kind.name, spec.error().message());
    body.namespace_ = spec->namespace_;
    return body;
  }
  const auto read = [&](int number, std::span<const Member> members,
                        std::optional<RequestInfo>* to) -> Status {
    const auto field = FieldOf(message, number);
    if (!field) return CannotBeHandled(kind.name, field.error().message());
    if (!*field) return {};
    Result<RequestInfo> info = StringsOf(**field, members);
    if (!info) return CannotBeHandled(kind.name, info.error().message());
    *to = *std::move(info);
    return {};
  };
  if (Status bad = read(kResourceOfSpec, kResourceAttributes, &body.resource); !bad.ok())
    return bad;
  if (Status bad = read(kNonResourceOfSpec, kNonResourceAttributes, &body.non_resource); !bad.ok())
    return bad;
  return body;
}

Result<ReviewSpec> ReadBody(const ReviewKind& kind, const http::Headers& headers,
                            std::string_view text) {
  const std::optional<MediaType> media = BodyMediaType(headers);
  if (!media)
    return Status(StatusReason::kUnsupportedMediaType,
                  fmt::format("the body of the request was in an unknown format - accepted media "
                              "types include: {}",
                              OfferedTypes(Offer())));
  if (*media == MediaType::kProtobuf) return FromProtobuf(kind, text);
  if (*media == MediaType::kJson) return FromJson(kind, text);
  const Result<std::string> json = YamlToJson(text);
  return json ? FromJson(kind, *json) : Unrecognized(json.error().message(), kind.name, text);
}

// The request to authorize.
Result<RequestInfo> RequestOf(const ReviewSpec& body) {
  if (body.resource && body.non_resource) {
    std::string shown = R"({"Path":)";
    AppendJsonString(body.non_resource->path, &shown);
    shown += R"(,"Verb":)";
    AppendJsonString(body.non_resource->verb, &shown);
    return Invalid("spec.nonResourceAttributes", shown + "}",
                   "cannot be specified in combination with resourceAttributes");
  }
  if (body.non_resource) return *body.non_resource;
  if (!body.resource)
    return Invalid("spec.resourceAttributes", "null",
                   "exactly one of nonResourceAttributes or resourceAttributes must be specified");
  RequestInfo info = *body.resource;
  info.is_resource = true;
  return info;
}

std::string Head(const ReviewKind& kind, std::string_view metadata) {
  return fmt::format(R"({{"kind":"{}","apiVersion":"{}/v1","metadata":{})", kind.name,
                     kind.api_group, metadata);
}

std::string Attributes(const RequestInfo& info, std::span<const Member> members) {
  std::string out;
  for (const Member& member : members) {
    if ((info.*member.field).empty()) continue;
    out += out.empty() ? "{" : ",";
    AppendJsonString(member.name, &out);
    out += ':';
    AppendJsonString(info.*member.field, &out);
  }
  return out.empty() ? "{}" : out + "}";
}

void AppendStrings(const std::vector<std::string>& strings, std::string* out) {
  *out += '[';
  for (const std::string& string : strings) {
    if (&string != &strings.front()) *out += ',';
    AppendJsonString(string, out);
  }
  *out += ']';
}

// `,"name":["a","b"]`, or nothing for an empty list.
void AppendMember(std::string_view name, const std::vector<std::string>& strings,
                  std::string* out) {
  if (strings.empty()) return;
  *out += fmt::format(R"(,"{}":)", name);
  AppendStrings(strings, out);
}

void SendAccessReview(Exchange& exchange, const RequestInfo& asked, const Decision& decision) {
  std::string json = Head(kAccessReview, "{}");
  json += asked.is_resource ? fmt::format(R"(,"spec":{{"resourceAttributes":{}}})",
                                          Attributes(asked, kResourceAttributes))
                            : fmt::format(R"(,"spec":{{"nonResourceAttributes":{}}})",
                                          Attributes(asked, kNonResourceAttributes));
  json += fmt::format(R"(,"status":{{"allowed":{})", decision.allowed);
  if (!decision.reason.empty()) {
    json += R"(,"reason":)";
    AppendJsonString(decision.reason, &json);
  }
  exchange.SendJson(201, json + "}}\n");
}

void SendRulesReview(Exchange& exchange, const RuleList& list) {
  std::string resource_rules;
  std::string non_resource_rules;
  for (const PolicyRule& rule : list.rules) {
    if (!rule.resources.empty()) {
      std::string& out = resource_rules;
      out += out.empty() ? R"({"verbs":)" : R"(,{"verbs":)";
      AppendStrings(rule.verbs, &out);
      AppendMember("apiGroups", rule.api_groups, &out);
      AppendMember("resources", rule.resources, &out);
      AppendMember("resourceNames", rule.resource_names, &out);
      out += '}';
    }
    if (!rule.non_resource_urls.empty()) {
      std::string& out = non_resource_rules;
      out += out.empty() ? R"({"verbs":)" : R"(,{"verbs":)";
      AppendStrings(rule.verbs, &out);
      AppendMember("nonResourceURLs", rule.non_resource_urls, &out);
      out += '}';
    }
  }
  std::string json = Head(kRulesReview, "{}");
  json += fmt::format(
      R"(,"spec":{{}},"status":{{"resourceRules":[{}],"nonResourceRules":[{}],"incomplete":{})",
      resource_rules, non_resource_rules, list.incomplete);
  if (!list.error.empty()) {
    json += R"(,"evaluationError":)";
    AppendJsonString(list.error, &json);
  }
  exchange.SendJson(201, json + "}}\n");
}

void SendSelfReview(Exchange& exchange, WallTime now) {
  const User& user = exchange.admitted().user;
  std::string json =
      Head(kSelfReview, fmt::format(R"({{"creationTimestamp":"{}"}})", Time(now).ToString()));
  json += R"(,"status":{"userInfo":{"username":)";
  AppendJsonString(user.name, &json);
  if (!user.uid.empty()) {
    json += R"(,"uid":)";
    AppendJsonString(user.uid, &json);
  }
  AppendMember("groups", user.groups, &json);
  if (!user.extra.empty()) {
    json += R"(,"extra":{)";
    for (const auto& [key, values] : user.extra) {
      if (!json.ends_with('{')) json += ',';
      AppendJsonString(key, &json);
      json += ':';
      AppendStrings(values, &json);
    }
    json += '}';
  }
  exchange.SendJson(201, json + "}}}\n");
}

}  // namespace

bool IsReview(const RequestInfo& request) { return KindOf(request) != nullptr; }

void AnswerReview(const std::shared_ptr<Exchange>& exchange,
                  const std::shared_ptr<const Authorizer>& authorizer, WallTime now) {
  const ReviewKind& kind = *KindOf(exchange->info());
  if (exchange->info().verb != "create")
    return exchange->SendStatus(Status(
        Status::Parts{.reason = StatusReason::kMethodNotAllowed,
                      .message = "the server does not allow this method on the requested resource",
                      .details = StatusDetails{}}));
  if (Status bad = exchange->Accept(kReviewOffer); !bad.ok()) return exchange->SendStatus(bad);
  const Result<std::string> text = exchange->TakeBody();
  if (!text) return exchange->SendStatus(text.error());
  const Result<ReviewSpec> body = ReadBody(kind, exchange->request().headers, *text);
  if (!body) return exchange->SendStatus(body.error());
  const User& user = exchange->admitted().user;
  if (&kind == &kSelfReview) return SendSelfReview(*exchange, now);
  if (&kind == &kRulesReview) {
    if (body->namespace_.empty())
      return exchange->SendStatus(Status(StatusReason::kBadRequest, "no namespace on request"));
    return SendRulesReview(*exchange, authorizer->RulesFor(user, body->namespace_));
  }
  Result<RequestInfo> asked = RequestOf(*body);
  if (!asked) return exchange->SendStatus(asked.error());
  // The callback keeps all three alive until the decision is made.
  const auto request = std::make_shared<const RequestInfo>(*std::move(asked));
  authorizer->Authorize(user, *request, [exchange, authorizer, request](const Decision& decision) {
    SendAccessReview(*exchange, *request, decision);
  });
}

}  // namespace herald::server
