#include "server/discovery/openapi_gnostic.h"

#include <fmt/core.h>

#include <cstdint>
#include <string_view>

#include "server/discovery/openapi_paths.h"
#include "server/discovery/openapi_schema.h"

namespace herald::server {
namespace {

using Type = OpenApiMember::Type;

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

// The numbers are those of openapiv2/OpenAPIv2.proto.
class GnosticDocument {
 public:
  static std::string Write() {
    Message paths;
    for (const ApiGroup* const group : DescribedGroups()) {
      for (const OpenApiPath& path : PathsOf(*group)) {
        paths.Nested(2, Named(path.path, PathItem(path)));
      }
    }
    Message definitions;
    for (const OpenApiType& type : OpenApiTypes()) {
      definitions.Nested(1, Named(type.name, TypeSchema(type)));
    }
    return Message()
        .Text(1, "2.0")
        .Nested(2, Message().Text(1, kOpenApiTitle).Text(2, kOpenApiVersion))
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

  static Message PathItem(const OpenApiPath& path) {
    Message item;
    for (const OpenApiOperation& operation : path.operations) {
      const int number = operation.method == "get"      ? 2
                         : operation.method == "put"    ? 3
                         : operation.method == "post"   ? 4
                         : operation.method == "delete" ? 5
                                                        : 8;
      item.Nested(number, OperationOf(path, operation));
    }
    for (const std::string_view name : path.parameters) item.Nested(9, Parameter(name));
    return item;
  }

  static Message OperationOf(const OpenApiPath& path, const OpenApiOperation& operation) {
    Message out;
    out.Text(3, operation.description).Text(5, operation.id);
    for (const std::string_view media : kOpenApiMediaTypes) out.Text(6, media);
    if (operation.method == "patch") {
      for (const std::string_view media : kOpenApiPatchTypes) out.Text(7, media);
    } else {
      out.Text(7, "*/*");
    }
    for (const std::string_view name : operation.parameters) out.Nested(8, Parameter(name));
    if (!operation.body.empty()) {
      const Message body =
          Message().Text(2, "body").Text(3, "body").True(4).Nested(5, Ref(operation.body));
      out.Nested(8, Message().Nested(1, Message().Nested(1, body)));
    }
    Message responses;
    for (const std::string_view code : operation.codes) {
      Message response;
      response.Text(1, code == "401" ? "Unauthorized" : "OK");
      if (code != "401") {
        response.Nested(2, Message().Nested(1, Ref(operation.answer)));
      }
      responses.Nested(1, Named(code, Message().Nested(1, response)));
    }
    out.Nested(9, responses);
    out.Nested(13, Extension("x-kubernetes-action", operation.action));
    out.Nested(13, Extension("x-kubernetes-group-version-kind",
                             fmt::format(R"({{"group":"{}","kind":"{}","version":"{}"}})",
                                         path.group, path.kind, path.version)));
    return out;
  }

  static Message Parameter(std::string_view name) {
    const OpenApiParameter& parameter = *FindOpenApiParameter(name);
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

  static Message TypeSchema(const OpenApiType& type) {
    Message schema;
    schema.Text(2, type.format).Text(4, type.description);
    for (const OpenApiMember& member : type.members) {
      if (member.required) schema.Text(19, member.name);
    }
    schema.Nested(22, TypeItem(type.format.empty() ? "object" : "string"));
    if (!type.members.empty()) {
      Message properties;
      for (const OpenApiMember& member : type.members) {
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

  static Message MemberSchema(const OpenApiMember& member) {
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
      case Type::kStrings:
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

}  // namespace

std::string WriteOpenApiGnostic() { return GnosticDocument::Write(); }

}  // namespace herald::server
