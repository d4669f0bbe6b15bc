#include "server/discovery/openapi.h"

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "api/json/writer.h"
#include "server/discovery/discovery.h"
#include "server/discovery/openapi_schema.h"

namespace herald::server {
namespace {

using Type = SchemaMember::Type;

constexpr std::string_view kTitle = "Kubernetes";
constexpr std::string_view kVersion = "v1.36.3";

constexpr std::array<std::string_view, 3> kMediaTypes = {
    "application/json", "application/vnd.kubernetes.protobuf", "application/yaml"};
constexpr std::array<std::string_view, 3> kPatchTypes = {"application/json-patch+json",
                                                         "application/merge-patch+json",
                                                         "application/strategic-merge-patch+json"};

// The group-versions whose events are described.
struct Api {
  std::string_view group;
  std::string_view prefix;        // "/api/v1"
  std::string_view schemas;       // what the names of its schemas begin with
  bool SchemaType::* has_schema;  // which schemas its document holds
};
constexpr std::array<Api, 2> kApis = {{
    {"", "/api/v1", "io.k8s.api.core.v1.", &SchemaType::in_core},
    {"events.k8s.io", "/apis/events.k8s.io/v1", "io.k8s.api.events.v1.", &SchemaType::in_events},
}};

using Names = std::span<const std::string_view>;

// A request that can be made.
struct Operation {
  std::string_view method;  // "get"
  std::string_view action;  // as Kubernetes calls it
  std::string_view id;      // the beginning of the operation's id
  std::string_view description;
  Names parameters{};
  std::string_view body{};    // the schema of the body, if there is one
  std::string_view answer{};  // and of the answer; without a dot it belongs to the API
  Names codes{};
};

constexpr auto kListParameters = std::to_array<std::string_view>(
    {"allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit",
     "resourceVersion", "resourceVersionMatch", "sendInitialEvents", "since", "sortBy",
     "timeoutSeconds", "until", "watch"});
constexpr auto kWriteParameters =
    std::to_array<std::string_view>({"dryRun", "fieldManager", "fieldValidation"});
constexpr auto kPatchParameters =
    std::to_array<std::string_view>({"dryRun", "fieldManager", "fieldValidation", "force"});
constexpr auto kDeleteParameters = std::to_array<std::string_view>(
    {"dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"});
constexpr auto kCollectionParameters = std::to_array<std::string_view>(
    {"continue", "dryRun", "fieldSelector", "gracePeriodSeconds", "labelSelector", "limit",
     "orphanDependents", "propagationPolicy", "resourceVersion", "resourceVersionMatch",
     "sendInitialEvents", "timeoutSeconds"});

constexpr auto kRead = std::to_array<std::string_view>({"200", "401"});
constexpr auto kCreated = std::to_array<std::string_view>({"200", "201", "202", "401"});
constexpr auto kChanged = std::to_array<std::string_view>({"200", "201", "401"});
constexpr auto kGone = std::to_array<std::string_view>({"200", "202", "401"});

constexpr std::string_view kDeleteOptions = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
constexpr std::string_view kPatch = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
constexpr std::string_view kStatus = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

constexpr auto kListAll = std::to_array<Operation>({{.method = "get",
                                                     .action = "list",
                                                     .id = "listEventForAllNamespaces",
                                                     .description = "Lists or watches events.",
                                                     .answer = "EventList",
                                                     .codes = kRead}});
constexpr auto kCollection = std::to_array<Operation>({
    {.method = "get",
     .action = "list",
     .id = "listNamespacedEvent",
     .description = "Lists or watches the events of a namespace.",
     .parameters = kListParameters,
     .answer = "EventList",
     .codes = kRead},
    {.method = "post",
     .action = "post",
     .id = "createNamespacedEvent",
     .description = "Creates an event.",
     .parameters = kWriteParameters,
     .body = "Event",
     .answer = "Event",
     .codes = kCreated},
    {.method = "delete",
     .action = "deletecollection",
     .id = "deleteCollectionNamespacedEvent",
     .description = "Deletes events of a namespace.",
     .parameters = kCollectionParameters,
     .body = kDeleteOptions,
     .answer = kStatus,
     .codes = kRead},
});
constexpr auto kObject = std::to_array<Operation>({
    {.method = "get",
     .action = "get",
     .id = "readNamespacedEvent",
     .description = "Reads an event.",
     .answer = "Event",
     .codes = kRead},
    {.method = "put",
     .action = "put",
     .id = "replaceNamespacedEvent",
     .description = "Replaces an event, or creates it.",
     .parameters = kWriteParameters,
     .body = "Event",
     .answer = "Event",
     .codes = kChanged},
    {.method = "delete",
     .action = "delete",
     .id = "deleteNamespacedEvent",
     .description = "Deletes an event.",
     .parameters = kDeleteParameters,
     .body = kDeleteOptions,
     .answer = kStatus,
     .codes = kGone},
    {.method = "patch",
     .action = "patch",
     .id = "patchNamespacedEvent",
     .description = "Changes an event.",
     .parameters = kPatchParameters,
     .body = kPatch,
     .answer = "Event",
     .codes = kChanged},
});

struct Path {
  std::string_view path;  // after the prefix
  std::span<const Operation> operations;
  Names parameters{};  // of all operations
};
constexpr auto kOfAll = std::to_array<std::string_view>(
    {"allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "pretty",
     "resourceVersion", "resourceVersionMatch", "sendInitialEvents", "since", "sortBy",
     "timeoutSeconds", "until", "watch"});
constexpr auto kOfNamespace = std::to_array<std::string_view>({"namespace", "pretty"});
constexpr auto kOfObject = std::to_array<std::string_view>({"name", "namespace", "pretty"});
// The old URLs of watches are served but not described: nobody should begin to use them.
constexpr auto kPaths = std::to_array<Path>({
    {"/events", kListAll, kOfAll},
    {"/namespaces/{namespace}/events", kCollection, kOfNamespace},
    {"/namespaces/{namespace}/events/{name}", kObject, kOfObject},
});

std::string FullName(const Api& api, std::string_view schema) {
  if (schema.find('.') != std::string_view::npos) return std::string(schema);
  return std::string(api.schemas).append(schema);
}

bool IsInPath(std::string_view parameter) {
  return parameter == "name" || parameter == "namespace";
}

std::string OperationId(const Api& api, const Operation& operation) {
  return std::string(operation.id).append(api.group.empty() ? "CoreV1" : "EventsV1");
}

// Both JSON forms of OpenAPI, which differ in where they put things.
class JsonDocument {
 public:
  // Version 2 describes everything in one document, version 3 one API in each.
  explicit JsonDocument(bool v3) : v3_(v3) {}

  std::string Write(std::span<const Api> apis) {
    w_.Raw(v3_ ? R"({"openapi":"3.0.0")" : R"({"swagger":"2.0")");
    w_.Raw(fmt::format(R"(,"info":{{"title":"{}","version":"{}"}},"paths":{{)", kTitle, kVersion));
    bool first = true;
    for (const Api& api : apis) {
      for (const Path& path : kPaths) {
        Comma(&first);
        w_.String(std::string(api.prefix).append(path.path));
        WritePath(api, path);
      }
    }
    w_.Raw(v3_ ? R"(},"components":{"schemas":{)" : R"(},"definitions":{)");
    first = true;
    for (const SchemaType& type : SchemaTypes()) {
      bool wanted = false;
      for (const Api& api : apis) wanted = wanted || type.*api.has_schema;
      if (!wanted) continue;
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

  void WritePath(const Api& api, const Path& path) {
    w_.Raw(":{");
    for (const Operation& operation : path.operations) {
      w_.String(operation.method);
      w_.Raw(":");
      WriteOperation(api, operation);
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
      const SchemaParameter& parameter = *FindSchemaParameter(name);
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

  void WriteOperation(const Api& api, const Operation& operation) {
    const bool patch = operation.method == "patch";
    const std::string body = operation.body.empty() ? "" : FullName(api, operation.body);
    w_.Raw(R"({"description":)");
    w_.String(operation.description);
    w_.Raw(R"(,"operationId":)");
    w_.String(OperationId(api, operation));
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
      WriteContent(patch ? Names(kPatchTypes) : Names(kAny), body);
      w_.Raw("}}");
    }
    w_.Raw(R"(,"responses":{)");
    bool first = true;
    for (const std::string_view code : operation.codes) {
      Comma(&first);
      WriteResponse(code, FullName(api, operation.answer));
    }
    w_.Raw(fmt::format(R"(}},"x-kubernetes-action":"{}","x-kubernetes-group-version-kind":)"
                       R"({{"group":"{}","version":"v1","kind":"Event"}}}})",
                       operation.action, api.group));
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
      WriteContent(kMediaTypes, schema);
      w_.Raw("}}");
    } else {
      w_.Raw(R"(,"schema":{)");
      WriteRef(schema);
      w_.Raw("}}");
    }
  }

  void WriteType(const SchemaType& type) {
    w_.Raw(R"({"description":)");
    w_.String(type.description);
    w_.Raw(type.format.empty() ? R"(,"type":"object")"
                               : R"(,"type":"string","format":"date-time")");
    if (!type.members.empty()) {
      w_.Raw(R"(,"properties":{)");
      bool first = true;
      std::string required;
      for (const SchemaMember& member : type.members) {
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

  void WriteMember(const SchemaMember& member) {
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
        // In version 3 nothing may stand beside a reference.
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
      case Type::kTexts:
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

// A message of protobuf, written from front to back.
class Message {
 public:
  Message& Text(int number, std::string_view text) {
    if (!text.empty()) Bytes(number, text);
    return *this;
  }
  Message& Nested(int number, const Message& message) {
    Bytes(number, message.bytes_);
    return *this;
  }
  Message& True(int number) {
    Varint(static_cast<std::uint64_t>(number) << 3);
    Varint(1);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  void Bytes(int number, std::string_view bytes) {
    Varint(static_cast<std::uint64_t>(number) << 3 | 2);
    Varint(bytes.size());
    bytes_.append(bytes);
  }

  std::string bytes_;
};

// OpenAPI 2 as gnostic's protobuf (openapiv2/OpenAPIv2.proto), which kubectl up to 1.28
// asks for. The numbers are those of that file.
class GnosticDocument {
 public:
  static std::string Write() {
    Message paths;
    for (const Api& api : kApis) {
      for (const Path& path : kPaths) {
        paths.Nested(2, Named(std::string(api.prefix).append(path.path), PathItem(api, path)));
      }
    }
    Message definitions;
    for (const SchemaType& type : SchemaTypes()) {
      definitions.Nested(1, Named(type.name, TypeSchema(type)));
    }
    return Message()
        .Text(1, "2.0")
        .Nested(2, Message().Text(1, kTitle).Text(2, kVersion))
        .Nested(8, paths)
        .Nested(9, definitions)
        .bytes();
  }

 private:
  static Message Named(std::string_view name, const Message& value) {
    return Message().Text(1, name).Nested(2, value);
  }
  // Extensions are YAML, of which JSON is a part.
  static Message Extension(std::string_view name, std::string_view json) {
    return Named(name, Message().Text(2, json));
  }
  static Message Ref(std::string_view name) {
    return Message().Text(1, std::string("#/definitions/").append(name));
  }
  static Message TypeItem(std::string_view type) { return Message().Text(1, type); }

  static Message PathItem(const Api& api, const Path& path) {
    Message item;
    for (const Operation& operation : path.operations) {
      const int number = operation.method == "get"      ? 2
                         : operation.method == "put"    ? 3
                         : operation.method == "post"   ? 4
                         : operation.method == "delete" ? 5
                                                        : 8;
      item.Nested(number, OperationOf(api, operation));
    }
    for (const std::string_view name : path.parameters) item.Nested(9, Parameter(name));
    return item;
  }

  static Message OperationOf(const Api& api, const Operation& operation) {
    Message out;
    out.Text(3, operation.description).Text(5, OperationId(api, operation));
    for (const std::string_view media : kMediaTypes) out.Text(6, media);
    if (operation.method == "patch") {
      for (const std::string_view media : kPatchTypes) out.Text(7, media);
    } else {
      out.Text(7, "*/*");
    }
    for (const std::string_view name : operation.parameters) out.Nested(8, Parameter(name));
    if (!operation.body.empty()) {
      const Message body = Message().Text(2, "body").Text(3, "body").True(4).Nested(
          5, Ref(FullName(api, operation.body)));
      out.Nested(8, Message().Nested(1, Message().Nested(1, body)));
    }
    Message responses;
    for (const std::string_view code : operation.codes) {
      Message response;
      response.Text(1, code == "401" ? "Unauthorized" : "OK");
      if (code != "401") {
        response.Nested(2, Message().Nested(1, Ref(FullName(api, operation.answer))));
      }
      responses.Nested(1, Named(code, Message().Nested(1, response)));
    }
    out.Nested(9, responses);
    out.Nested(13, Extension("x-kubernetes-action", operation.action));
    out.Nested(
        13, Extension("x-kubernetes-group-version-kind",
                      fmt::format(R"({{"group":"{}","kind":"Event","version":"v1"}})", api.group)));
    return out;
  }

  static Message Parameter(std::string_view name) {
    const SchemaParameter& parameter = *FindSchemaParameter(name);
    Message schema;
    if (IsInPath(name)) {
      schema.True(1).Text(2, "path").Text(3, parameter.description).Text(4, name);
      schema.Text(5, parameter.type);
      schema = Message().Nested(4, schema);
    } else {
      schema.Text(2, "query").Text(3, parameter.description).Text(4, name);
      schema.Text(6, parameter.type);
      schema = Message().Nested(3, schema);
    }
    return Message().Nested(1, Message().Nested(2, schema));
  }

  static Message TypeSchema(const SchemaType& type) {
    Message schema;
    schema.Text(2, type.format).Text(4, type.description);
    for (const SchemaMember& member : type.members) {
      if (member.required) schema.Text(19, member.name);
    }
    schema.Nested(22, TypeItem(type.format.empty() ? "object" : "string"));
    if (!type.members.empty()) {
      Message properties;
      for (const SchemaMember& member : type.members) {
        properties.Nested(1, Named(member.name, MemberSchema(member)));
      }
      schema.Nested(25, properties);
    }
    if (!type.kind.empty()) {
      schema.Nested(31, Extension("x-kubernetes-group-version-kind",
                                  fmt::format(R"([{{"group":"{}","kind":"{}","version":"v1"}}])",
                                              type.group, type.kind)));
    }
    return schema;
  }

  static Message MemberSchema(const SchemaMember& member) {
    Message schema;
    const auto plain = [&](std::string_view type, std::string_view format = {}) {
      schema.Text(2, format).Text(4, member.description).Nested(22, TypeItem(type));
    };
    switch (member.type) {
      case Type::kString:
        plain("string");
        break;
      case Type::kInt32:
        plain("integer", "int32");
        break;
      case Type::kInt64:
        plain("integer", "int64");
        break;
      case Type::kBool:
        plain("boolean");
        break;
      case Type::kRef:
        schema = Ref(member.of);
        schema.Text(4, member.description);
        break;
      case Type::kList:
        plain("array");
        schema.Nested(23, Message().Nested(1, Ref(member.of)));
        break;
      case Type::kTexts:
        plain("array");
        schema.Nested(23, Message().Nested(1, Message().Nested(22, TypeItem("string"))));
        break;
      case Type::kStringMap:
        schema.Text(4, member.description);
        schema.Nested(21, Message().Nested(1, Message().Nested(22, TypeItem("string"))));
        schema.Nested(22, TypeItem("object"));
        break;
    }
    if (!member.merge_key.empty()) {
      schema.Nested(31, Extension("x-kubernetes-patch-strategy", "merge"));
      if (member.merge_key != "-") {
        schema.Nested(31, Extension("x-kubernetes-patch-merge-key", member.merge_key));
      }
    }
    return schema;
  }
};

// All documents, made once at the first question.
struct Documents {
  std::string v2_json = JsonDocument(false).Write(kApis);
  std::string v2_protobuf = GnosticDocument::Write();
  std::array<std::string, kApis.size()> v3 = {JsonDocument(true).Write({kApis.data(), 1}),
                                              JsonDocument(true).Write({kApis.data() + 1, 1})};
  std::array<std::string, kApis.size()> hashes = {DocumentHash(v3[0]), DocumentHash(v3[1])};

  std::string Url(std::size_t i) const {
    return fmt::format("/openapi/v3{}?hash={}", kApis[i].prefix, hashes[i]);
  }
};

const Documents& AllDocuments() {
  static const Documents& documents = *new Documents();
  return documents;
}

constexpr std::string_view kGnosticAccept =
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
constexpr std::string_view kGnosticType =
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

}  // namespace

Result<OpenApiAnswer> FindOpenApi(std::string_view path, const http::Headers& headers,
                                  const std::string* hash) {
  const Documents& documents = AllDocuments();
  OpenApiAnswer answer;
  answer.content_type = "application/json";
  if (path == "/openapi/v2") {
    const std::string_view accept = headers.Get("accept");
    const bool protobuf = accept.find(kGnosticAccept) != std::string_view::npos;
    if (protobuf) answer.content_type = kGnosticType;
    answer.body = protobuf ? documents.v2_protobuf : documents.v2_json;
    answer.tagged = true;
    return answer;
  }
  if (path == "/openapi/v3") {
    answer.content_type = "text/plain; charset=utf-8";  // as upstream has it
    answer.body = R"({"paths":{)";
    for (std::size_t i = 0; i < kApis.size(); ++i) {
      answer.body += fmt::format(R"({}"{}":{{"serverRelativeURL":"{}"}})", i > 0 ? "," : "",
                                 kApis[i].prefix.substr(1), documents.Url(i));
    }
    answer.body += "}}";
    return answer;
  }
  constexpr std::string_view kPrefix = "/openapi/v3";
  for (std::size_t i = 0; i < kApis.size(); ++i) {
    if (!path.starts_with(kPrefix) || path.substr(kPrefix.size()) != kApis[i].prefix) continue;
    answer.body = documents.v3[i];
    answer.tagged = true;
    if (hash != nullptr && !hash->empty()) {
      if (*hash == documents.hashes[i]) {
        answer.immutable = true;
      } else {
        answer.location = documents.Url(i);
      }
    }
    return answer;
  }
  return Status(StatusReason::kNotFound, std::string(path));
}

}  // namespace herald::server
