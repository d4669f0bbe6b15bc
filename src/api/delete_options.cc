#include "api/delete_options.h"

#include <utility>
#include <variant>

#include "api/json/document.h"
#include "api/protobuf/reader.h"
#include "api/quote.h"
#include "api/type_meta.h"

namespace herald {
namespace {

constexpr std::string_view kKind = "DeleteOptions";
constexpr std::string_view kMagic("k8s\0", 4);

// Accepts the version of any group: older clients name the group of the object that they delete.
Status CheckKind(std::string_view kind) {
  if (kind.empty() || kind == kKind) return Status();
  return Status(StatusReason::kBadRequest,
                "no kind " + Quoted(kind) + " is registered for this version");
}

Status WrongType(std::string_view member) {
  return CannotBeHandled(kKind,
                         "json: cannot unmarshal a value of another type into Go struct field "
                         "DeleteOptions." +
                             std::string(member));
}

// Reads a member if it exists and is not null. Returns false if its type is wrong.
bool ReadMember(const Json& object, std::string_view name, std::optional<std::string>* out) {
  const Json* const value = object.Find(name);
  if (value == nullptr || value->is_null()) return true;
  if (value->type() != Json::Type::kString) return false;
  *out = value->AsString();
  return true;
}
bool ReadMember(const Json& object, std::string_view name, std::optional<bool>* out) {
  const Json* const value = object.Find(name);
  if (value == nullptr || value->is_null()) return true;
  if (value->type() != Json::Type::kBool) return false;
  *out = value->AsBool();
  return true;
}
bool ReadMember(const Json& object, std::string_view name, std::optional<std::int64_t>* out) {
  const Json* const value = object.Find(name);
  if (value == nullptr || value->is_null()) return true;
  if (value->type() != Json::Type::kNumber) return false;
  const Json::Number number = value->AsNumber();
  const auto* const integer = std::get_if<std::int64_t>(&number);
  if (integer == nullptr) return false;
  *out = *integer;
  return true;
}
bool ReadMember(const Json& object, std::string_view name, std::vector<std::string>* out) {
  const Json* const value = object.Find(name);
  if (value == nullptr || value->is_null()) return true;
  if (!value->is_array()) return false;
  for (const Json& element : value->array()) {
    if (element.type() != Json::Type::kString) return false;
    out->push_back(element.AsString());
  }
  return true;
}

void ReadPreconditions(std::string_view bytes, DeleteOptions* options, ProtobufReader* outer) {
  ProtobufReader reader(bytes);
  while (reader.NextField("Preconditions")) {
    if (reader.field() == 1) {
      if (reader.Expect(WireType::kBytes, "UID")) options->precondition_uid = reader.Bytes();
    } else if (reader.field() == 2) {
      if (reader.Expect(WireType::kBytes, "ResourceVersion")) {
        options->precondition_resource_version = reader.Bytes();
      }
    } else {
      reader.SkipField();
    }
  }
  if (!reader.ok()) outer->Fail(reader.error());
}

Result<DeleteOptions> ReadMessage(std::string_view bytes) {
  DeleteOptions options;
  ProtobufReader reader(bytes);
  while (reader.NextField(kKind)) {
    switch (reader.field()) {
      case 1:
        if (reader.Expect(WireType::kVarint, "GracePeriodSeconds")) {
          options.grace_period_seconds = static_cast<std::int64_t>(reader.Varint());
        }
        break;
      case 2:
        if (reader.Expect(WireType::kBytes, "Preconditions")) {
          ReadPreconditions(reader.Bytes(), &options, &reader);
        }
        break;
      case 3:
        if (reader.Expect(WireType::kVarint, "OrphanDependents")) {
          options.orphan_dependents = reader.Varint() != 0;
        }
        break;
      case 4:
        if (reader.Expect(WireType::kBytes, "PropagationPolicy")) {
          options.propagation_policy = reader.Bytes();
        }
        break;
      case 5:
        if (reader.Expect(WireType::kBytes, "DryRun")) options.dry_run.emplace_back(reader.Bytes());
        break;
      default:
        reader.SkipField();
    }
  }
  if (!reader.ok()) return CannotBeHandled(kKind, reader.error());
  return options;
}

}  // namespace

Result<DeleteOptions> DecodeDeleteOptionsJson(std::string_view json) {
  const Result<Json> document = ParseJson(json);
  if (!document) {
    return Status(StatusReason::kBadRequest,
                  "couldn't get version/kind; json parse error: " + document.error().message());
  }
  if (!document->is_object()) {
    return Status(
        StatusReason::kBadRequest,
        "couldn't get version/kind; json parse error: json: cannot unmarshal into Go value "
        "of type struct");
  }
  const Json* const kind = document->Find("kind");
  if (kind != nullptr && kind->type() == Json::Type::kString) {
    if (Status wrong = CheckKind(kind->AsString()); !wrong.ok()) return wrong;
  }
  DeleteOptions options;
  if (!ReadMember(*document, "gracePeriodSeconds", &options.grace_period_seconds)) {
    return WrongType("gracePeriodSeconds");
  }
  if (!ReadMember(*document, "orphanDependents", &options.orphan_dependents)) {
    return WrongType("orphanDependents");
  }
  if (!ReadMember(*document, "propagationPolicy", &options.propagation_policy)) {
    return WrongType("propagationPolicy");
  }
  if (!ReadMember(*document, "dryRun", &options.dry_run)) return WrongType("dryRun");
  if (const Json* preconditions = document->Find("preconditions");
      preconditions != nullptr && !preconditions->is_null()) {
    if (!preconditions->is_object() ||
        !ReadMember(*preconditions, "uid", &options.precondition_uid) ||
        !ReadMember(*preconditions, "resourceVersion", &options.precondition_resource_version)) {
      return WrongType("preconditions");
    }
  }
  return options;
}

Result<DeleteOptions> DecodeDeleteOptionsProtobuf(std::string_view data) {
  if (!data.starts_with(kMagic)) {
    return Status(
        StatusReason::kBadRequest,
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]");
  }
  std::string_view object;
  std::string_view kind;
  ProtobufReader reader(data.substr(kMagic.size()));
  while (reader.NextField("Unknown")) {
    if (reader.field() == 1 && reader.wire_type() == WireType::kBytes) {
      ProtobufReader type(reader.Bytes());
      while (type.NextField("TypeMeta")) {
        if (type.field() == 2 && type.wire_type() == WireType::kBytes) {
          kind = type.Bytes();
        } else {
          type.SkipField();
        }
      }
    } else if (reader.field() == 2 && reader.wire_type() == WireType::kBytes) {
      object = reader.Bytes();
    } else {
      reader.SkipField();
    }
  }
  if (!reader.ok()) return Status(StatusReason::kBadRequest, reader.error());
  if (Status wrong = CheckKind(kind); !wrong.ok()) return wrong;
  return ReadMessage(object);
}

}  // namespace herald
