#include "server/access_review.h"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "api/json.h"
#include "api/json_writer.h"
#include "api/protobuf_reader.h"
#include "herald/base/status.h"
#include "server/api.h"
#include "server/exchange.h"

namespace herald::server {
namespace {

Status Unreadable(std::string_view why) {
  return Status(StatusReason::kBadRequest,
                fmt::format("SelfSubjectAccessReview cannot be read: {}", why));
}

// One member of the review: its name in JSON, its number in protobuf, where it goes.
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

template <typename Members>
void ReadJson(const Json& attributes, const Members& members, RequestInfo* info) {
  for (const Member& member : members) {
    const Json* const value = attributes.Find(member.name);
    if (value != nullptr && value->type() == Json::Type::kString)
      info->*member.field = value->AsString();
  }
}

Result<RequestInfo> FromJson(std::string_view body) {
  const Result<Json> review = ParseJson(body);
  if (!review) return Unreadable(review.error().message());
  const Json* const spec = review->Find("spec");
  const Json* const resource = spec != nullptr ? spec->Find("resourceAttributes") : nullptr;
  const Json* const path = spec != nullptr ? spec->Find("nonResourceAttributes") : nullptr;
  RequestInfo info;
  if (resource != nullptr && resource->is_object()) {
    info.is_resource = true;
    ReadJson(*resource, kResourceAttributes, &info);
  } else if (path != nullptr && path->is_object()) {
    ReadJson(*path, kNonResourceAttributes, &info);
  } else {
    return Unreadable("spec has neither resourceAttributes nor nonResourceAttributes");
  }
  return info;
}

// The bytes of field `number` of a message, the last where it is given twice.
std::string_view FieldOf(std::string_view message, int number) {
  ProtobufReader reader(message);
  std::string_view found;
  while (reader.NextField("SelfSubjectAccessReview")) {
    if (reader.field() == number && reader.wire_type() == WireType::kBytes) {
      found = reader.Bytes();
    } else {
      reader.SkipField();
    }
  }
  return reader.ok() ? found : std::string_view();
}

Result<RequestInfo> FromProtobuf(std::string_view body) {
  constexpr std::string_view kMagic("k8s\0", 4);
  constexpr int kRawOfEnvelope = 2;
  constexpr int kSpecOfReview = 2;
  if (!body.starts_with(kMagic)) return Unreadable("it does not begin as Kubernetes protobuf does");
  const std::string_view review = FieldOf(body.substr(kMagic.size()), kRawOfEnvelope);
  const std::string_view spec = FieldOf(review, kSpecOfReview);
  const std::string_view resource = FieldOf(spec, 1);
  const std::string_view path = FieldOf(spec, 2);
  RequestInfo info;
  if (!resource.empty()) {
    info.is_resource = true;
    for (const Member& member : kResourceAttributes)
      info.*member.field = FieldOf(resource, member.number);
  } else if (!path.empty()) {
    for (const Member& member : kNonResourceAttributes)
      info.*member.field = FieldOf(path, member.number);
  } else {
    return Unreadable("spec has neither resourceAttributes nor nonResourceAttributes");
  }
  return info;
}

template <typename Members>
std::string WriteJson(const RequestInfo& info, const Members& members) {
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

}  // namespace

bool IsAccessReview(const RequestInfo& request) {
  return request.is_resource && request.verb == "create" &&
         request.api_group == "authorization.k8s.io" &&
         request.resource == "selfsubjectaccessreviews";
}

void AnswerAccessReview(const http::Request& request,
                        const std::function<bool(const RequestInfo&)>& allows,
                        http::Responder& responder) {
  const bool protobuf =
      request.headers.Get("content-type").starts_with("application/vnd.kubernetes");
  const Result<RequestInfo> asked = protobuf ? FromProtobuf(request.body) : FromJson(request.body);
  if (!asked) return SendStatus(request, asked.error(), responder);
  const std::string spec =
      asked->is_resource
          ? fmt::format("\"resourceAttributes\":{}", WriteJson(*asked, kResourceAttributes))
          : fmt::format("\"nonResourceAttributes\":{}", WriteJson(*asked, kNonResourceAttributes));
  http::Response response{
      .status = 201,
      .headers = {},
      .body = fmt::format("{{\"kind\":\"SelfSubjectAccessReview\",\"apiVersion\":"
                          "\"authorization.k8s.io/v1\",\"metadata\":{{}},\"spec\":{{{}}},"
                          "\"status\":{{\"allowed\":{}}}}}\n",
                          spec, allows(*asked))};
  AddCommonHeaders(request, "application/json", &response.headers);
  responder.Send(std::move(response));
}

}  // namespace herald::server
