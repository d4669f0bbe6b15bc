#include "api/patch/json_patch.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>

#include "api/json/reader.h"
#include "api/json/strict_errors.h"
#include "api/json/type_names.h"
#include "api/quote.h"
#include "herald/api/patch.h"

namespace herald {
namespace {

Status Invalid(std::string message) { return Status(StatusReason::kInvalid, std::move(message)); }

Status Crash() {
  return Status(StatusReason::kInternalError,
                "Internal error occurred: this JSON patch crashes the Kubernetes API server");
}

// Limits for work that is not proportional to the size of a patch: elements of a list that move
// when others are inserted before them or removed, and white space that is read again with each
// copy. A body of 3 MiB can cause ten billion units; a real server then reaches its time limit and
// sends the same response. A unit takes about 5 ns. An operation has at least 30 bytes, so that no
// patch of a list of up to 100 elements reaches the limit, nor one that inserts 800 elements at its
// front.
constexpr std::uint64_t kFreeWork = 256 * 1024;
constexpr std::uint64_t kWorkPerByte = 4;  // byte of the patch and of the document
// Reading a byte is cheaper than moving an element.
constexpr std::uint64_t kReadBytesPerUnit = 4;

Status OutOfTime() {
  return Status(StatusReason::kTimeout,
                "Timeout: request did not complete within requested timeout - context deadline "
                "exceeded");
}

// Unescapes one part of a path: ~1 is a slash and ~0 a tilde.
std::string DecodeKey(std::string_view part) {
  std::string key;
  key.reserve(part.size());
  for (std::size_t i = 0; i < part.size(); ++i) {
    const char next = part[i] == '~' && i + 1 < part.size() ? part[i + 1] : '\0';
    if (next == '0' || next == '1') {
      key.push_back(next == '0' ? '~' : '/');
      ++i;
    } else {
      key.push_back(part[i]);
    }
  }
  return key;
}

// A decimal integer with an optional sign, as in Go's strconv.Atoi.
struct Index {
  std::int64_t value = 0;
  std::string error;  // empty if it is valid
};

Index ParseIndex(std::string_view key) {
  Index index;
  std::string_view digits = key;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const bool two_signs = digits.size() != key.size() && digits.starts_with('-');
  const char* const end = digits.data() + digits.size();
  const auto [p, error] = std::from_chars(digits.data(), end, index.value);
  if (digits.empty() || two_signs || p != end || error == std::errc::invalid_argument) {
    index.error = "strconv.Atoi: parsing \"" + std::string(key) + "\": invalid syntax";
  } else if (error != std::errc()) {
    index.error = "strconv.Atoi: parsing \"" + std::string(key) + "\": value out of range";
  }
  return index;
}

std::string InvalidIndex(std::int64_t index) {
  return "Unable to access invalid index: " + std::to_string(index) + ": invalid index referenced";
}

// The target of an operation: a container and the last key of the path.
struct Place {
  Json* container = nullptr;  // null: the path does not exist
  std::string key;
};

// The value at a place. A missing member of an object is found as null.
struct Found {
  Json* value = nullptr;  // null: an error, or (with an empty `error`) a missing member
  std::string error;
};

// The library distinguishes a null that an operation added from one of the document. Here the first
// has a text and the second has none.
Json NewNull() { return Json::Scalar("null"); }
bool IsNewNull(const Json& json) { return json.is_null() && !json.text().empty(); }

class JsonPatcher {
 public:
  JsonPatcher(Json* document, std::size_t patch_bytes, std::deque<std::string>* storage)
      : document_(*document),
        storage_(*storage),
        max_work_(kFreeWork + kWorkPerByte * (patch_bytes + document->text().size())) {}

  Status Apply(const Json& operation) {
    static constexpr std::pair<std::string_view, Operation> kOperations[] = {
        {"add", &JsonPatcher::Add},   {"remove", &JsonPatcher::Remove},
        {"move", &JsonPatcher::Move}, {"replace", &JsonPatcher::Replace},
        {"copy", &JsonPatcher::Copy}, {"test", &JsonPatcher::Test},
    };
    const std::string op = Text(operation, "op").value_or("unknown");
    for (const auto& [name, apply] : kOperations) {
      if (op != name) continue;
      Status status = (this->*apply)(operation);
      return work_ > max_work_ ? OutOfTime() : status;
    }
    return Invalid("Unexpected kind: " + op);
  }

 private:
  using Operation = Status (JsonPatcher::*)(const Json& operation);

  // The member; nullopt unless it is a string.
  static std::optional<std::string> Text(const Json& operation, std::string_view name) {
    const Json* const member = operation.Find(name);
    if (member == nullptr || member->type() != Json::Type::kString) return std::nullopt;
    return member->AsString();
  }

  // The library's error for a missing string.
  static std::string MissingString(const Json& operation, std::string_view name) {
    const Json* const member = operation.Find(name);
    if (member == nullptr || member->is_null()) {
      return (name == "path" ? "operation missing path field" : "operation, missing from field") +
             std::string(": missing value");
    }
    return "json: cannot unmarshal " + std::string(JsonTypeName(member->type())) +
           " into Go value of type string";
  }

  static Json Value(const Json& operation) {
    const Json* const value = operation.Find("value");
    if (value == nullptr) return Json();
    return value->is_null() ? NewNull() : value->Clone();
  }

  // Finds the container of the last part of the path.
  Place Find(std::string_view path) {
    const std::size_t slash = path.find('/');
    if (slash == std::string_view::npos) return {};
    path.remove_prefix(slash + 1);
    Json* container = &document_;
    for (std::size_t end; (end = path.find('/')) != std::string_view::npos;) {
      Json* const next = Get(container, DecodeKey(path.substr(0, end))).value;
      if (next == nullptr || !next->is_container()) return {};
      container = next;
      MarkDecoded(container);
      path.remove_prefix(end + 1);
    }
    return {container, DecodeKey(path)};
  }

  // The library decodes the containers on the path and later encodes them again, in normal form.
  static void MarkDecoded(Json* container) {
    if (container->is_object()) {
      container->mutable_object();
    } else {
      container->mutable_array();
    }
  }

  static Found Get(Json* container, const std::string& key) {
    if (container->is_object()) {
      Json::Object& members = container->mutable_object();
      const auto it = members.find(key);
      return {it == members.end() ? nullptr : &it->second, {}};
    }
    Json::Array& elements = container->mutable_array();
    const Index index = ParseIndex(key);
    if (!index.error.empty()) return {nullptr, index.error};
    const auto size = static_cast<std::int64_t>(elements.size());
    if (index.value < -size || index.value >= size) return {nullptr, InvalidIndex(index.value)};
    return {&elements[static_cast<std::size_t>(index.value + (index.value < 0 ? size : 0))], {}};
  }

  // Returns an error, or an empty string.
  std::string Insert(const Place& place, Json value) {
    if (place.container->is_object()) {
      place.container->mutable_object()[place.key] = std::move(value);
      return {};
    }
    Json::Array& elements = place.container->mutable_array();
    if (place.key == "-") {
      elements.push_back(std::move(value));
      return {};
    }
    const Index index = ParseIndex(place.key);
    if (!index.error.empty()) {
      return "value was not a proper array index: '" + place.key + "': " + index.error;
    }
    const auto size = static_cast<std::int64_t>(elements.size()) + 1;
    if (index.value < -size || index.value >= size) return InvalidIndex(index.value);
    const std::int64_t position = index.value + (index.value < 0 ? size : 0);
    work_ += static_cast<std::uint64_t>(size - position);
    elements.insert(elements.begin() + position, std::move(value));
    return {};
  }

  std::string Erase(const Place& place) {
    if (place.container->is_object()) {
      if (place.container->mutable_object().erase(place.key) != 0) return {};
      return "Unable to remove nonexistent key: " + place.key + ": missing value";
    }
    const Found found = Get(place.container, place.key);
    if (found.value == nullptr) return found.error;
    Json::Array& elements = place.container->mutable_array();
    const std::ptrdiff_t position = found.value - elements.data();
    work_ += elements.size() - static_cast<std::size_t>(position);
    elements.erase(elements.begin() + position);
    return {};
  }

  Status Add(const Json& operation) {
    const std::optional<std::string> path = Text(operation, "path");
    if (!path) return Invalid("add operation failed to decode path: missing value");
    const Place place = Find(*path);
    if (place.container == nullptr) {
      return Invalid("add operation does not apply: doc is missing path: \"" + *path +
                     "\": missing value");
    }
    if (std::string why = Insert(place, Value(operation)); !why.empty()) {
      return Invalid("error in add for path: '" + *path + "': " + why);
    }
    return Status();
  }

  Status Remove(const Json& operation) {
    const std::optional<std::string> path = Text(operation, "path");
    if (!path) return Invalid("remove operation failed to decode path: missing value");
    const Place place = Find(*path);
    if (place.container == nullptr) {
      return Invalid("remove operation does not apply: doc is missing path: \"" + *path +
                     "\": missing value");
    }
    if (std::string why = Erase(place); !why.empty()) {
      return Invalid("error in remove for path: '" + *path + "': " + why);
    }
    return Status();
  }

  Status Replace(const Json& operation) {
    const std::optional<std::string> path = Text(operation, "path");
    if (!path) {
      return Invalid("replace operation failed to decode path: " +
                     MissingString(operation, "path"));
    }
    if (path->empty()) return ReplaceDocument(operation);
    const Place place = Find(*path);
    if (place.container == nullptr) {
      return Invalid("replace operation does not apply: doc is missing path: " + *path +
                     ": missing value");
    }
    const Found found = Get(place.container, place.key);
    if (!found.error.empty()) {
      return Invalid("replace operation does not apply: doc is missing key: " + *path +
                     ": missing value");
    }
    if (found.value != nullptr) {
      *found.value = Value(operation);
    } else {
      place.container->mutable_object()[place.key] = Value(operation);
    }
    return Status();
  }

  Status ReplaceDocument(const Json& operation) {
    if (operation.Find("value") == nullptr) return Crash();
    Json value = Value(operation);
    if (!value.is_container()) {
      return Invalid("replace operation value must be object or array: %!w(<nil>)");
    }
    MarkDecoded(&value);
    document_ = std::move(value);
    return Status();
  }

  Status Move(const Json& operation) {
    const std::optional<std::string> from = Text(operation, "from");
    if (!from) {
      return Invalid("move operation failed to decode from: " + MissingString(operation, "from"));
    }
    const Place source = Find(*from);
    if (source.container == nullptr) {
      return Invalid("move operation does not apply: doc is missing from path: " + *from +
                     ": missing value");
    }
    const Found found = Get(source.container, source.key);
    if (!found.error.empty()) {
      return Invalid("error in move for path: '" + source.key + "': " + found.error);
    }
    Json value;
    if (found.value != nullptr) value = std::move(*found.value);
    if (std::string why = Erase(source); !why.empty()) {
      return Invalid("error in move for path: '" + source.key + "': " + why);
    }
    const std::optional<std::string> path = Text(operation, "path");
    if (!path) {
      return Invalid("move operation failed to decode path: " + MissingString(operation, "path"));
    }
    const Place target = Find(*path);
    if (target.container == nullptr) {
      return Invalid("move operation does not apply: doc is missing destination path: " + *path +
                     ": missing value");
    }
    if (std::string why = Insert(target, std::move(value)); !why.empty()) {
      return Invalid("error in move for path: '" + *path + "': " + why);
    }
    return Status();
  }

  Status Copy(const Json& operation) {
    const std::optional<std::string> from = Text(operation, "from");
    if (!from) {
      return Invalid("copy operation failed to decode from: " + MissingString(operation, "from"));
    }
    const Place source = Find(*from);
    if (source.container == nullptr) {
      return Invalid("copy operation does not apply: doc is missing from path: " + *from +
                     ": missing value");
    }
    const Found found = Get(source.container, source.key);
    if (!found.error.empty()) {
      return Invalid("error in copy for from: '" + *from + "': " + found.error);
    }
    const std::optional<std::string> path = Text(operation, "path");
    if (!path) return Invalid("copy operation failed to decode path: missing value");
    const Place target = Find(*path);
    if (target.container == nullptr) {
      return Invalid("copy operation does not apply: doc is missing destination path: " + *path +
                     ": missing value");
    }
    Json value;
    if (Status status = Duplicate(found.value, &value); !status.ok()) return status;
    if (std::string why = Insert(target, std::move(value)); !why.empty()) {
      return Invalid("error while adding value during copy: " + why);
    }
    return Status();
  }

  // Limits the bytes that copies add: each copy may double the document, so that 30 copies would
  // turn a kilobyte into a terabyte.
  Status Duplicate(const Json* value, Json* duplicate) {
    if (value == nullptr || (value->is_null() && !IsNewNull(*value))) return Status();
    std::string& text = storage_.emplace_back();
    const std::size_t read = AppendAsWritten(*value, &text);
    copied_bytes_ += text.size();
    if (read > text.size()) work_ += (read - text.size()) / kReadBytesPerUnit;
    if (copied_bytes_ > kMaxJsonPatchCopyBytes) {
      return Invalid("Unable to complete the copy, the accumulated size increase of copy is " +
                     std::to_string(copied_bytes_) + ", exceeding the limit " +
                     std::to_string(kMaxJsonPatchCopyBytes));
    }
    Result<Json> parsed = ParseJson(text);
    if (!parsed) return Invalid("error while performing deep copy: " + parsed.error().message());
    *duplicate = value->is_null() ? NewNull() : *std::move(parsed);
    return Status();
  }

  Status Test(const Json& operation) {
    const std::optional<std::string> path = Text(operation, "path");
    if (!path) {
      return Invalid("test operation failed to decode path: " + MissingString(operation, "path"));
    }
    const Json* const value = operation.Find("value");
    Found found = {&document_, {}};
    if (!path->empty()) {
      const Place place = Find(*path);
      if (place.container == nullptr) {
        return Invalid("test operation does not apply: is missing path: " + *path +
                       ": missing value");
      }
      found = Get(place.container, place.key);
      if (!found.error.empty()) {
        return Invalid("error in test for path: '" + *path + "': " + found.error);
      }
    } else if (value == nullptr) {
      return Crash();
    }
    std::optional<bool> equal;
    if (found.value == nullptr || (found.value->is_null() && !IsNewNull(*found.value))) {
      equal = value == nullptr || value->is_null();
    } else {
      equal =
          value != nullptr && found.value->is_null() ? value->is_null() : Equal(found.value, value);
    }
    if (!equal) return Crash();
    if (!*equal) return Invalid("testing value " + *path + " failed: test failed");
    return Status();
  }

  // Compares as the library does; nullopt where it panics: lists in which either side has a null.
  static std::optional<bool> Equal(Json* document, const Json* value) {
    if (value == nullptr) return false;
    std::vector<std::pair<Json*, const Json*>> pending = {{document, value}};
    while (!pending.empty()) {
      const auto [a, b] = pending.back();
      pending.pop_back();
      if (a->type() != b->type() || IsNewNull(*a) != IsNewNull(*b)) return false;
      if (!a->is_container()) {
        if (a->text() != b->text()) return false;
      } else if (a->is_array()) {
        Json::Array& elements = a->mutable_array();
        if (elements.size() != b->array().size()) return false;
        for (std::size_t i = elements.size(); i-- > 0;) {
          if (elements[i].is_null() || b->array()[i].is_null()) return std::nullopt;
          pending.emplace_back(&elements[i], &b->array()[i]);
        }
      } else {
        Json::Object& members = a->mutable_object();
        if (members.size() != b->object().size()) return false;
        for (auto& [key, member] : members) {
          const Json* const other = b->Find(key);
          if (other == nullptr) return false;
          pending.emplace_back(&member, other);
        }
      }
    }
    return true;
  }

  Json& document_;
  std::deque<std::string>& storage_;
  std::size_t copied_bytes_ = 0;
  const std::uint64_t max_work_;
  std::uint64_t work_ = 0;
};

Status NotAPatch(Json::Type type, std::string_view go_type) {
  return Status(StatusReason::kBadRequest, "json: cannot unmarshal " +
                                               std::string(JsonTypeName(type)) +
                                               " into Go value of type " + std::string(go_type));
}

}  // namespace

Status ApplyJsonPatch(const Json& patch, Json* document, std::deque<std::string>* storage) {
  if (patch.is_null()) return Status();
  if (!patch.is_array()) return NotAPatch(patch.type(), "jsonpatch.Patch");
  for (const Json& operation : patch.array()) {
    if (!operation.is_object() && !operation.is_null()) {
      return NotAPatch(operation.type(), "jsonpatch.Operation");
    }
  }
  if (patch.array().size() > kMaxJsonPatchOperations) {
    return Status(StatusReason::kRequestEntityTooLarge,
                  "Request entity too large: The allowed maximum operations in a JSON patch is " +
                      std::to_string(kMaxJsonPatchOperations) + ", got " +
                      std::to_string(patch.array().size()));
  }
  JsonPatcher patcher(document, patch.text().size(), storage);
  for (const Json& operation : patch.array()) {
    if (Status status = patcher.Apply(operation); !status.ok()) return status;
  }
  return Status();
}

namespace {

// Decodes a patch as kube-apiserver does to validate it, into a type with op, path, from and value.
// Thread-confined, used once.
class OperationChecker {
 public:
  OperationChecker(std::string_view patch, std::vector<std::string>* field_errors)
      : reader_(patch), field_errors_(field_errors) {}

  Status Check() {
    const JsonReader::Type type = reader_.Peek();
    if (type == JsonReader::Type::kArray) {
      std::size_t index = 0;
      for (bool more = reader_.BeginArray(); more; more = reader_.NextElement()) {
        CheckOperation(index++);
      }
    } else {
      Skip("Go value of type []handlers.jsonPatchOp", type);
    }
    if (!reader_.Finish()) return Status(StatusReason::kBadRequest, reader_.error());
    if (!error_.empty()) return Status(StatusReason::kBadRequest, error_);
    return Status();
  }

 private:
  void CheckOperation(std::size_t index) {
    if (const JsonReader::Type type = reader_.Peek(); type != JsonReader::Type::kObject) {
      return Skip("Go value of type handlers.jsonPatchOp", type);
    }
    const std::string path = '[' + std::to_string(index) + "].";
    std::vector<std::string> seen;
    for (bool more = reader_.BeginObject(); more; more = reader_.NextMember()) {
      const std::string key(reader_.ReadKey());
      const bool is_value = key == "value";
      if (!is_value && key != "op" && key != "path" && key != "from") {
        if (!field_errors_.ignored()) {
          field_errors_.Add("json patch unknown field " + Quoted(path + key));
        }
        reader_.SkipValue();
        continue;
      }
      if (std::find(seen.begin(), seen.end(), key) == seen.end()) {
        seen.push_back(key);
      } else {
        field_errors_.Add("json patch duplicate field " + Quoted(path + key));
      }
      const std::string place = "struct field jsonPatchOp." + key;
      if (is_value) {
        CheckValue(path + key, place);
      } else if (const JsonReader::Type type = reader_.Peek(); type == JsonReader::Type::kString) {
        reader_.SkipValue();
      } else {
        Skip("Go " + place + " of type string", type);
      }
    }
  }

  void CheckValue(const std::string& path, const std::string& place) {
    const std::string_view text = reader_.SkipValue();
    if (!reader_.ok()) return;
    std::vector<std::string> errors;
    const Result<Json> value = ParseJson(
        text, {.field_errors = &errors, .check_numbers = true, .path = path, .go_place = place});
    if (!value && error_.empty()) error_ = value.error().message();
    for (const std::string& error : errors) field_errors_.Add("json patch " + error);
  }

  // Skips a value of a wrong type; only null is valid.
  void Skip(std::string_view into, JsonReader::Type type) {
    reader_.SkipValue();
    if (!reader_.ok() || type == JsonReader::Type::kNull || !error_.empty()) return;
    error_.append("json: cannot unmarshal ")
        .append(JsonTypeName(type))
        .append(" into ")
        .append(into);
  }

  JsonReader reader_;
  StrictErrors field_errors_;
  std::string error_;  // the first
};

}  // namespace

Status CheckJsonPatch(std::string_view patch, std::vector<std::string>* field_errors) {
  return OperationChecker(patch, field_errors).Check();
}

}  // namespace herald
