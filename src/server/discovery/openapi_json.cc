#include "server/discovery/openapi_json.h"

#include <fmt/core.h>

#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "api/json/writer.h"
#include "server/discovery/openapi_paths.h"
#include "server/discovery/openapi_schema.h"

namespace herald::server {
namespace {

using Type = OpenApiMember::Type;

// Both JSON versions of OpenAPI. They differ in where they put things.
class JsonDocument {
 public:
  explicit JsonDocument(bool v3) : v3_(v3) {}

  std::string Write(std::span<const ApiGroup* const> groups) {
    w_.Raw(v3_ ? R"({"openapi":"3.0.0")" : R"({"swagger":"2.0")");
    w_.Raw(fmt::format(R"(,"info":{{"title":"{}","version":"{}"}},"paths":{{)", kOpenApiTitle,
                       kOpenApiVersion));
    std::set<std::string_view> schemas;
    bool first = true;
    for (const ApiGroup* const group : groups) {
      for (const OpenApiPath& path : PathsOf(*group)) {
        Comma(&first);
        w_.String(path.path);
        WritePath(path);
      }
      for (const std::string_view name : SchemasOf(*group)) schemas.insert(name);
    }
    w_.Raw(v3_ ? R"(},"components":{"schemas":{)" : R"(},"definitions":{)");
    first = true;
    for (const OpenApiType& type : OpenApiTypes()) {
      if (!schemas.contains(type.name)) continue;
      Comma(&first);
      w_.String(type.name);
      w_.Raw(":");
      WriteType(type);
    }
    w_.Raw(v3_ ? "}}}" : "}}");
    return std::string(w_.text());
  }

 private:
  void Comma(bool* first) {
    if (!std::exchange(*first, false)) w_.Raw(",");
  }

  void WriteRef(std::string_view name) {
    w_.Raw(R"("$ref":)");
    w_.String(std::string(v3_ ? "#/components/schemas/" : "#/definitions/").append(name));
  }

  void WritePath(const OpenApiPath& path) {
    w_.Raw(":{");
    for (const OpenApiOperation& operation : path.operations) {
      w_.String(operation.method);
      w_.Raw(":");
      WriteOperation(path, operation);
      w_.Raw(",");
    }
    w_.Raw(R"("parameters":)");
    WriteParameters(path.parameters, {});
    w_.Raw("}");
  }

  void WriteParameters(Names names, std::string_view v2_body) {
    w_.Raw("[");
    bool first = true;
    for (const std::string_view name : names) {
      const OpenApiParameter& parameter = *FindOpenApiParameter(name);
      Comma(&first);
      w_.Raw(R"({"name":)");
      w_.String(name);
      w_.Raw(IsInPath(name) ? R"(,"in":"path","required":true,"description":)"
                            : R"(,"in":"query","description":)");
      w_.String(parameter.description);
      const std::string type = fmt::format(R"("type":"{}","uniqueItems":true)", parameter.type);
      w_.Raw(v3_ ? fmt::format(R"(,"schema":{{{}}}}})", type) : fmt::format(",{}}}", type));
    }
    if (!v2_body.empty()) {
      Comma(&first);
      w_.Raw(R"({"name":"body","in":"body","required":true,"schema":{)");
      WriteRef(v2_body);
      w_.Raw("}}");
    }
    w_.Raw("]");
  }

  void WriteOperation(const OpenApiPath& path, const OpenApiOperation& operation) {
    const bool patch = operation.method == "patch";
    const std::string& body = operation.body;
    w_.Raw(R"({"description":)");
    w_.String(operation.description);
    w_.Raw(R"(,"operationId":)");
    w_.String(operation.id);
    if (!v3_) {
      w_.Raw(patch ? R"(,"consumes":["application/json-patch+json","application/merge-patch+json",)"
                     R"("application/strategic-merge-patch+json"])"
                   : R"(,"consumes":["*/*"])");
      w_.Raw(R"(,"produces":["application/json","application/yaml",)"
             R"("application/vnd.kubernetes.protobuf"])");
    }
    w_.Raw(R"(,"parameters":)");
    WriteParameters(operation.parameters, v3_ ? std::string_view() : std::string_view(body));
    if (v3_ && !body.empty()) {
      w_.Raw(R"(,"requestBody":{"content":{)");
      constexpr std::array<std::string_view, 1> kAny = {"*/*"};
      WriteContent(patch ? Names(kOpenApiPatchTypes) : Names(kAny), body);
      w_.Raw("}}");
    }
    w_.Raw(R"(,"responses":{)");
    bool first = true;
    for (const std::string_view code : operation.codes) {
      Comma(&first);
      WriteResponse(code, operation.answer);
    }
    w_.Raw(fmt::format(R"(}},"x-kubernetes-action":"{}","x-kubernetes-group-version-kind":)"
                       R"({{"group":"{}","version":"{}","kind":"{}"}}}})",
                       operation.action, path.group, path.version, path.kind));
  }

  void WriteContent(Names media_types, std::string_view schema) {
    bool first = true;
    for (const std::string_view media : media_types) {
      Comma(&first);
      w_.String(media);
      w_.Raw(R"(:{"schema":{)");
      WriteRef(schema);
      w_.Raw("}}");
    }
  }

  void WriteResponse(std::string_view code, std::string_view schema) {
    w_.String(code);
    if (code == "401") return w_.Raw(R"(:{"description":"Unauthorized"})");
    w_.Raw(code == "200"   ? R"(:{"description":"OK")"
           : code == "201" ? R"(:{"description":"Created")"
                           : R"(:{"description":"Accepted")");
    if (v3_) {
      w_.Raw(R"(,"content":{)");
      WriteContent(kOpenApiMediaTypes, schema);
      w_.Raw("}}");
    } else {
      w_.Raw(R"(,"schema":{)");
      WriteRef(schema);
      w_.Raw("}}");
    }
  }

  void WriteType(const OpenApiType& type) {
    w_.Raw(R"({"description":)");
    w_.String(type.description);
    w_.Raw(type.format.empty() ? R"(,"type":"object")"
                               : R"(,"type":"string","format":"date-time")");
    if (!type.members.empty()) {
      w_.Raw(R"(,"properties":{)");
      bool first = true;
      std::string required;
      for (const OpenApiMember& member : type.members) {
        Comma(&first);
        w_.String(member.name);
        w_.Raw(":");
        WriteMember(member);
        if (member.required)
          required += fmt::format("{}\"{}\"", required.empty() ? "" : ",", member.name);
      }
      w_.Raw("}");
      // Upstream lists metadata first, as its own source does.
      if (required == R"("involvedObject","metadata")") required = R"("metadata","involvedObject")";
      if (!required.empty()) w_.Raw(fmt::format(R"(,"required":[{}])", required));
    }
    if (!type.kind.empty()) {
      w_.Raw(fmt::format(R"(,"x-kubernetes-group-version-kind":[{{"group":"{}","kind":"{}",)"
                         R"("version":"v1"}}])",
                         type.group, type.kind));
    }
    w_.Raw("}");
  }

  void WriteMember(const OpenApiMember& member) {
    w_.Raw(R"({"description":)");
    w_.String(member.description);
    switch (member.type) {
      case Type::kString:
        w_.Raw(R"(,"type":"string")");
        break;
      case Type::kInt32:
        w_.Raw(R"(,"type":"integer","format":"int32")");
        break;
      case Type::kInt64:
        w_.Raw(R"(,"type":"integer","format":"int64")");
        break;
      case Type::kBool:
        w_.Raw(R"(,"type":"boolean")");
        break;
      case Type::kRef:
        // In version 3 a reference must be alone in its object.
        w_.Raw(v3_ ? R"(,"allOf":[{)" : ",");
        WriteRef(member.of);
        if (v3_) w_.Raw("}]");
        break;
      case Type::kList:
        w_.Raw(R"(,"type":"array","items":{)");
        if (v3_) w_.Raw(R"("allOf":[{)");
        WriteRef(member.of);
        w_.Raw(v3_ ? "}]}" : "}");
        break;
      case Type::kStrings:
        w_.Raw(R"(,"type":"array","items":{"type":"string"})");
        break;
      case Type::kStringMap:
        w_.Raw(R"(,"type":"object","additionalProperties":{"type":"string"})");
        break;
    }
    if (member.merge_key == "-") {
      w_.Raw(R"(,"x-kubernetes-list-type":"set","x-kubernetes-patch-strategy":"merge")");
    } else if (!member.merge_key.empty()) {
      w_.Raw(fmt::format(R"(,"x-kubernetes-list-map-keys":["{0}"],"x-kubernetes-list-type":"map",)"
                         R"("x-kubernetes-patch-merge-key":"{0}",)"
                         R"("x-kubernetes-patch-strategy":"merge")",
                         member.merge_key));
    }
    w_.Raw("}");
  }

  const bool v3_;
  JsonWriter w_;
};

}  // namespace

std::string WriteOpenApiJson(OpenApiVersion version, std::span<const ApiGroup* const> groups) {
  return JsonDocument(version == OpenApiVersion::kV3).Write(groups);
}

}  // namespace herald::server
