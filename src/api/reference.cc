#include "herald/api/reference.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>

#include "api/json/decoder.h"
#include "api/json/reader.h"
#include "api/json/type_names.h"
#include "api/validation/object_meta.h"
#include "base/bytes/random.h"
#include "base/bytes/uuid.h"

namespace herald {
namespace {

// A DNS label has at most 63 bytes, of which the suffix takes five.
constexpr std::size_t kSuffixBytes = 5;
constexpr std::size_t kMaxPrefixBytes = 63 - kSuffixBytes;

// No vowels, and no digits that look like one.
constexpr std::string_view kSuffixAlphabet = "bcdfghjklmnpqrstvwxz2456789";

// The fields that objects of every kind have.
struct AnyObject {
  std::string kind;
  std::string api_version;
  ObjectMeta metadata;
  bool is_list = false;
};

// A value of another type counts as missing, as in Kubernetes for objects of an unknown type.
void ReadString(JsonReader* reader, std::string* out) {
  out->clear();
  if (reader->Peek() == JsonReader::Type::kString) {
    reader->ReadString(out);
  } else {
    reader->SkipValue();
  }
}

void ReadMetadata(JsonReader* reader, ObjectMeta* metadata) {
  *metadata = {};
  if (reader->Peek() != JsonReader::Type::kObject) {
    reader->SkipValue();
    return;
  }
  const struct {
    std::string_view key;
    std::string* value;
  } wanted[] = {
      {"name", &metadata->name},
      {"namespace", &metadata->namespace_},
      {"uid", &metadata->uid},
      {"resourceVersion", &metadata->resource_version},
  };
  for (bool more = reader->BeginObject(); more; more = reader->NextMember()) {
    const std::string_view key = reader->ReadKey();
    const auto* member = std::ranges::find(wanted, key, [](const auto& w) { return w.key; });
    if (member != std::end(wanted)) {
      ReadString(reader, member->value);
    } else {
      reader->SkipValue();
    }
  }
}

AnyObject ReadObject(JsonReader* reader) {
  AnyObject object;
  for (bool more = reader->BeginObject(); more; more = reader->NextMember()) {
    const std::string_view key = reader->ReadKey();
    if (key == "kind") {
      ReadString(reader, &object.kind);
    } else if (key == "apiVersion") {
      ReadString(reader, &object.api_version);
    } else if (key == "metadata") {
      ReadMetadata(reader, &object.metadata);
    } else {
      object.is_list = object.is_list || key == "items";
      reader->SkipValue();
    }
  }
  return object;
}

}  // namespace

ObjectReference MakeReference(std::string_view api_version, std::string_view kind,
                              const ObjectMeta& metadata) {
  ObjectReference reference;
  reference.kind = kind;
  reference.namespace_ = metadata.namespace_;
  reference.name = metadata.name;
  reference.uid = metadata.uid;
  reference.api_version = api_version;
  reference.resource_version = metadata.resource_version;
  return reference;
}

Result<ObjectReference> ReferenceFromJson(std::string_view object) {
  JsonReader reader(object);
  const JsonReader::Type type = reader.Peek();
  if (reader.ok() && type != JsonReader::Type::kObject) {
    return Status(StatusReason::kBadRequest,
                  std::string("must be a JSON object, not ").append(JsonTypeName(type)));
  }
  const AnyObject any = ReadObject(&reader);
  if (!reader.Finish()) return Status(StatusReason::kBadRequest, reader.error());

  // A version with two slashes is invalid, and then the kind is ignored, too. A version that is or
  // begins with a slash is one of the core group.
  std::string_view api_version = any.api_version;
  const bool is_version = std::ranges::count(api_version, '/') <= 1;
  if (api_version.starts_with('/')) api_version.remove_prefix(1);
  if (!is_version || (any.kind.empty() && api_version.empty())) {
    return Status(StatusReason::kBadRequest,
                  "Object 'Kind' is missing in 'unstructured object has no kind'");
  }
  ObjectMeta metadata;
  if (any.is_list) {
    metadata.resource_version = any.metadata.resource_version;
  } else {
    metadata = any.metadata;
  }
  return MakeReference(api_version, any.kind, metadata);
}

std::string MakeEventName(std::string_view object_name, WallTime time) {
  std::string name;
  MakeEventName(object_name, time, &name);
  return name;
}

void MakeEventName(std::string_view object_name, WallTime time, std::string* out) {
  std::array<char, 18> suffix;  // a dot, a sign and 64 bits in hexadecimal
  suffix[0] = '.';
  const std::int64_t nanos = time.time_since_epoch().count();
  char* const end = std::to_chars(suffix.data() + 1, suffix.data() + suffix.size(), nanos, 16).ptr;
  const std::string_view hex(suffix.data(), static_cast<std::size_t>(end - suffix.data()));
  // A time since 1970 has no sign, so that only the object's name can be invalid.
  const bool is_valid = nanos >= 0 && object_name.size() + hex.size() <= kMaxDnsSubdomainBytes &&
                        LooksLikeDnsSubdomain(object_name);
  if (is_valid) {
    out->assign(object_name).append(hex);
  } else {
    *out = RandomUuid();
  }
}

std::string MakeGeneratedName(std::string_view prefix) {
  std::string name(prefix.substr(0, kMaxPrefixBytes));
  Random random(RandomSeed());
  for (std::size_t i = 0; i < kSuffixBytes; ++i) {
    name.push_back(kSuffixAlphabet[random.Next() % kSuffixAlphabet.size()]);
  }
  return name;
}

}  // namespace herald
