#include "api/validation/object_meta.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <set>
#include <utility>

#include "api/json/writer.h"
#include "api/quote.h"

namespace herald {
namespace {

constexpr std::size_t kMaxDnsLabelBytes = 63;
constexpr std::size_t kMaxQualifiedNameBytes = 63;  // of the part after the slash
constexpr std::size_t kMaxLabelValueBytes = 63;
constexpr std::size_t kMaxAnnotationsBytes = 256 << 10;  // all keys and values together
constexpr std::size_t kMaxFieldManagerBytes = 128;
constexpr std::size_t kMaxSubresourceBytes = 256;

// Kubernetes' messages. They quote its regular expressions.
constexpr std::string_view kNotADnsLabel =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
constexpr std::string_view kNotADnsSubdomain =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
constexpr std::string_view kNotAName =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
constexpr std::string_view kNotALabelValue =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

constexpr std::string_view kOrphanFinalizer = "orphan";
constexpr std::string_view kForegroundFinalizer = "foregroundDeletion";
constexpr std::string_view kStandardFinalizers[] = {"kubernetes", kOrphanFinalizer,
                                                    kForegroundFinalizer};

constexpr bool IsLower(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool IsAlphanumeric(char c) { return IsLower(c) || (c >= 'A' && c <= 'Z'); }

// Whether `text` begins and ends with a character for which `end` is true, and has only such
// characters and those of `inner` in between.
bool IsWord(std::string_view text, bool (*end)(char), std::string_view inner) {
  if (text.empty() || !end(text.front()) || !end(text.back())) return false;
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return end(c) || inner.find(c) != std::string_view::npos; });
}

bool LooksLikeDnsLabel(std::string_view text) { return IsWord(text, IsLower, "-"); }

bool LooksLikeName(std::string_view text) { return IsWord(text, IsAlphanumeric, "-_."); }

// Kubernetes' older messages say "characters" and its newer ones "bytes". Both mean bytes.
std::string NoMoreThan(std::size_t limit, std::string_view unit) {
  return std::string("must be no more than ")
      .append(std::to_string(limit))
      .append(" ")
      .append(unit);
}

std::vector<std::string> SubdomainFaults(std::string_view value, std::string_view unit) {
  std::vector<std::string> faults;
  if (value.size() > kMaxDnsSubdomainBytes) {
    faults.push_back(NoMoreThan(kMaxDnsSubdomainBytes, unit));
  }
  if (!LooksLikeDnsSubdomain(value)) faults.emplace_back(kNotADnsSubdomain);
  return faults;
}

std::vector<std::string> PathSegmentFaults(std::string_view value, bool is_prefix) {
  if (!is_prefix && (value == "." || value == "..")) {
    return {std::string("may not be '").append(value).append("'")};
  }
  std::vector<std::string> faults;
  if (value.find('/') != std::string_view::npos) faults.emplace_back("may not contain '/'");
  if (value.find('%') != std::string_view::npos) faults.emplace_back("may not contain '%'");
  return faults;
}

// A prefix may end with a dash. Kubernetes replaces the dash and the character before it when it
// validates the prefix, so that this character is not checked ("a_-" is valid).
std::vector<std::string> SubdomainNameFaults(std::string_view value, bool is_prefix) {
  if (!is_prefix || value.size() < 2 || !value.ends_with('-')) return IsDns1123Subdomain(value);
  return IsDns1123Subdomain(std::string(value.substr(0, value.size() - 2)).append("a"));
}

// Lower case as far as it affects the validity of a name: besides A to Z, Unicode has only two
// letters whose lower case is ASCII.
std::string LowerCase(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  while (!text.empty()) {
    const std::string_view before = text;
    const char32_t c = TakeCodePoint(&text);
    if (c >= 'A' && c <= 'Z') {
      lower.push_back(static_cast<char>(c - 'A' + 'a'));
    } else if (c == 0x130) {  // I with a dot
      lower.push_back('i');
    } else if (c == 0x212a) {  // the Kelvin sign
      lower.push_back('k');
    } else {
      lower.append(before.substr(0, before.size() - text.size()));
    }
  }
  return lower;
}

void CheckLabels(const StringMap& labels, FieldErrors* errors) {
  constexpr std::string_view kField = "metadata.labels";
  for (const auto& [key, value] : labels) {
    if (errors->full()) return;
    errors->InvalidName(kField, key, IsQualifiedName(key));
    errors->InvalidName(kField, value, IsValidLabelValue(value));
  }
}

void CheckAnnotations(const StringMap& annotations, FieldErrors* errors) {
  constexpr std::string_view kField = "metadata.annotations";
  std::size_t bytes = 0;
  for (const auto& [key, value] : annotations) {
    if (errors->full()) return;
    errors->InvalidName(kField, key, IsQualifiedName(LowerCase(key)));
    bytes += key.size() + value.size();
  }
  if (bytes > kMaxAnnotationsBytes) errors->TooLong(kField, kMaxAnnotationsBytes);
}

void AppendJson(const OwnerReference& owner, std::string* out) {
  const auto text = [&](std::string_view key, std::string_view value) {
    out->append(key);
    AppendJsonString(value, out);
  };
  const auto flag = [&](std::string_view key, std::optional<bool> value) {
    if (value) out->append(key).append(*value ? "true" : "false");
  };
  text(R"({"apiVersion":)", owner.api_version);
  text(R"(,"kind":)", owner.kind);
  text(R"(,"name":)", owner.name);
  text(R"(,"uid":)", owner.uid);
  flag(R"(,"controller":)", owner.controller);
  flag(R"(,"blockOwnerDeletion":)", owner.block_owner_deletion);
  out->push_back('}');
}

void AppendJson(std::string_view text, std::string* out) { AppendJsonString(text, out); }

template <typename T>
std::string ListAsJson(const std::vector<T>& list) {
  std::string json;
  for (const T& item : list) {
    json.push_back(json.empty() ? '[' : ',');
    AppendJson(item, &json);
  }
  return json.append("]");
}

void CheckOwnerReference(const OwnerReference& owner, FieldErrors* errors) {
  // The version follows the slash, or is the whole string if there is no slash. With two slashes
  // there is no version.
  const std::string_view api_version = owner.api_version;
  const std::size_t slash = api_version.find('/');
  std::string_view version =
      slash == std::string_view::npos ? api_version : api_version.substr(slash + 1);
  if (version.find('/') != std::string_view::npos) version = {};

  constexpr std::string_view kEmpty = "must not be empty";
  if (version.empty()) {
    errors->Invalid("metadata.ownerReferences.apiVersion", Shown(api_version),
                    "version must not be empty");
  }
  if (owner.kind.empty()) errors->Invalid("metadata.ownerReferences.kind", Shown(""), kEmpty);
  if (owner.name.empty()) errors->Invalid("metadata.ownerReferences.name", Shown(""), kEmpty);
  if (owner.uid.empty()) errors->Invalid("metadata.ownerReferences.uid", Shown(""), kEmpty);
  if (owner.kind == "Event" && (api_version == "v1" || api_version == "/v1")) {
    std::string json;
    AppendJson(owner, &json);
    errors->Invalid("metadata.ownerReferences", json,
                    "/v1, Kind=Event is disallowed from being an owner");
  }
}

void CheckOwnerReferences(const std::vector<OwnerReference>& owners, FieldErrors* errors) {
  const OwnerReference* controller = nullptr;
  std::string json;
  for (const OwnerReference& owner : owners) {
    if (errors->full()) return;
    CheckOwnerReference(owner, errors);
    if (!owner.controller.value_or(false)) continue;
    if (controller == nullptr) {
      controller = &owner;
      continue;
    }
    if (json.empty()) json = ListAsJson(owners);
    errors->Invalid("metadata.ownerReferences", json,
                    "Only one reference can have Controller set to true. Found \"true\" in "
                    "references for " +
                        controller->kind + "/" + controller->name + " and " + owner.kind + "/" +
                        owner.name);
  }
}

void CheckFinalizers(const std::vector<std::string>& finalizers, FieldErrors* errors) {
  constexpr std::string_view kField = "metadata.finalizers";
  bool orphan = false;
  bool foreground = false;
  for (const std::string& finalizer : finalizers) {
    if (errors->full()) return;
    errors->InvalidName(kField, finalizer, IsQualifiedName(finalizer));
    orphan = orphan || finalizer == kOrphanFinalizer;
    foreground = foreground || finalizer == kForegroundFinalizer;
  }
  if (orphan && foreground) {
    errors->Invalid(kField, ListAsJson(finalizers),
                    "finalizer orphan and foregroundDeletion cannot be both set");
  }
}

void CheckFieldManager(const std::string& field, std::string_view manager, FieldErrors* errors) {
  if (manager.size() > kMaxFieldManagerBytes) errors->TooLong(field, kMaxFieldManagerBytes);
  std::string shown;
  std::string_view rest = manager;
  while (!rest.empty() && !errors->full()) {
    const std::size_t position = manager.size() - rest.size();
    const char32_t c = TakeCodePoint(&rest);
    if (IsPrintable(c)) continue;
    if (shown.empty()) shown = Shown(manager);
    char why[64];
    std::snprintf(why, sizeof why, "invalid character U+%04X (at position %zu)",
                  static_cast<unsigned>(c), position);
    errors->Invalid(field, shown, why);
  }
}

void CheckManagedFields(const std::vector<ManagedFieldsEntry>& entries, FieldErrors* errors) {
  for (std::size_t i = 0; i < entries.size() && !errors->full(); ++i) {
    const ManagedFieldsEntry& entry = entries[i];
    const std::string field = "metadata.managedFields[" + std::to_string(i) + "]";
    if (entry.operation != "Apply" && entry.operation != "Update") {
      errors->Invalid(field + ".operation", ShownAsJson(entry.operation),
                      "must be `Apply` or `Update`");
    }
    if (!entry.fields_type.empty() && entry.fields_type != "FieldsV1") {
      errors->Invalid(field + ".fieldsType", Shown(entry.fields_type), "must be `FieldsV1`");
    }
    CheckFieldManager(field + ".manager", entry.manager, errors);
    if (entry.subresource.size() > kMaxSubresourceBytes) {
      errors->TooLong(field + ".subresource", kMaxSubresourceBytes);
    }
  }
}

void CheckNoNewFinalizers(const ObjectMeta& meta, const ObjectMeta& old, FieldErrors* errors) {
  std::set<std::string_view> added(meta.finalizers.begin(), meta.finalizers.end());
  for (const std::string& finalizer : old.finalizers) added.erase(finalizer);
  if (added.empty()) return;
  std::string list;
  for (std::string_view finalizer : added) {
    list.append(list.empty() ? "{" : ", ");
    AppendQuoted(finalizer, &list);
  }
  errors->Forbidden("metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, found new "
                    "finalizers []string" +
                        list + "}");
}

template <typename T>
std::string TimeAsJson(const T& time) {
  return time.is_zero() ? "null" : '"' + time.ToString() + '"';
}

}  // namespace

std::vector<std::string> IsDns1123Label(std::string_view value) {
  std::vector<std::string> faults;
  if (value.size() > kMaxDnsLabelBytes) {
    faults.push_back(NoMoreThan(kMaxDnsLabelBytes, "characters"));
  }
  if (!LooksLikeDnsLabel(value)) {
    faults.emplace_back(LooksLikeDnsSubdomain(value) ? "must not contain dots" : kNotADnsLabel);
  }
  return faults;
}

// Uses tables, because it is called for each recorded event.
bool LooksLikeDnsSubdomain(std::string_view text) {
  enum Kind : std::uint8_t { kOther, kLower, kDash, kDot };
  static constexpr std::array<Kind, 256> kKinds = [] {
    std::array<Kind, 256> kinds{};
    for (int c = 0; c < 256; ++c) kinds[c] = IsLower(static_cast<char>(c)) ? kLower : kOther;
    kinds['-'] = kDash;
    kinds['.'] = kDot;
    return kinds;
  }();
  // The kinds that may follow each kind, as bits. The beginning counts as after a dot.
  constexpr std::array<std::uint8_t, 4> kFollowers = {0, 1 << kLower | 1 << kDash | 1 << kDot,
                                                      1 << kLower | 1 << kDash, 1 << kLower};
  Kind before = kDot;
  for (const char c : text) {
    const Kind kind = kKinds[static_cast<unsigned char>(c)];
    if ((kFollowers[before] >> kind & 1) == 0) return false;
    before = kind;
  }
  return before == kLower;
}

std::vector<std::string> IsDns1123Subdomain(std::string_view value) {
  return SubdomainFaults(value, "characters");
}

std::vector<std::string> IsQualifiedName(std::string_view value) {
  std::vector<std::string> faults;
  const std::size_t slash = value.find('/');
  std::string_view name = value;
  if (slash != std::string_view::npos) {
    const std::string_view prefix = value.substr(0, slash);
    name.remove_prefix(slash + 1);
    if (name.find('/') != std::string_view::npos) {
      return {std::string("a valid label key ")
                  .append(kNotAName)
                  .append(" with an optional DNS subdomain prefix and '/' (e.g. "
                          "'example.com/MyName')")};
    }
    if (prefix.empty()) {
      faults.emplace_back("prefix part must be non-empty");
    } else {
      faults = SubdomainFaults(prefix, "bytes");
      for (std::string& fault : faults) fault.insert(0, "prefix part ");
    }
  }
  if (name.empty()) {
    faults.emplace_back("name part must be non-empty");
  } else if (name.size() > kMaxQualifiedNameBytes) {
    faults.push_back("name part " + NoMoreThan(kMaxQualifiedNameBytes, "bytes"));
  }
  if (!LooksLikeName(name)) faults.push_back(std::string("name part ").append(kNotAName));
  return faults;
}

std::vector<std::string> IsValidLabelValue(std::string_view value) {
  std::vector<std::string> faults;
  if (value.size() > kMaxLabelValueBytes) {
    faults.push_back(NoMoreThan(kMaxLabelValueBytes, "bytes"));
  }
  if (!value.empty() && !LooksLikeName(value)) faults.emplace_back(kNotALabelValue);
  return faults;
}

std::string Shown(std::string_view text) { return Quoted(text); }
std::string Shown(std::int64_t number) { return std::to_string(number); }
std::string Shown(const Time& time) { return TimeAsJson(time); }
std::string Shown(const MicroTime& time) { return TimeAsJson(time); }

std::string ShownAsJson(std::string_view text) {
  std::string json;
  AppendJsonString(text, &json);
  return json;
}

void FieldErrors::Required(std::string_view field, std::string_view detail) {
  std::string message = "Required value";
  if (!detail.empty()) message.append(": ").append(detail);
  Add("FieldValueRequired", field, std::move(message));
}

void FieldErrors::Invalid(std::string_view field, std::string_view shown, std::string_view why) {
  if (full()) return;
  Add("FieldValueInvalid", field,
      std::string("Invalid value: ").append(shown).append(": ").append(why));
}

void FieldErrors::Forbidden(std::string_view field, std::string_view why) {
  Add("FieldValueForbidden", field, std::string("Forbidden: ").append(why));
}

void FieldErrors::TooLong(std::string_view field, std::size_t max_bytes) {
  Add("FieldValueTooLong", field,
      "Too long: may not be more than " + std::to_string(max_bytes) + " bytes");
}

void FieldErrors::InvalidName(std::string_view field, std::string_view value,
                              const std::vector<std::string>& faults) {
  if (faults.empty() || full()) return;
  const std::string shown = Shown(value);
  for (const std::string& fault : faults) Invalid(field, shown, fault);
}

void FieldErrors::Add(std::string_view reason, std::string_view field, std::string message) {
  if (full()) return;
  bytes_ += field.size() + message.size();
  causes_.push_back({std::string(reason), std::move(message), std::string(field)});
}

Status FieldErrors::ToStatus(std::string_view name) && {
  if (causes_.empty()) return Status();
  // The message has each error once. The causes have an error twice if two layers found it.
  std::vector<std::string> texts;
  texts.reserve(causes_.size());  // `seen` points into them
  // Not hashed: a client chooses the values in the errors and could make their hashes collide.
  std::set<std::string_view> seen;
  for (const StatusCause& cause : causes_) {
    texts.push_back(cause.field + ": " + cause.message);
    if (!seen.insert(texts.back()).second) texts.pop_back();
  }
  std::string message = "Event " + Quoted(name) + " is invalid: ";
  if (texts.size() > 1) message.push_back('[');
  for (std::size_t i = 0; i < texts.size(); ++i)
    message.append(i == 0 ? "" : ", ").append(texts[i]);
  if (texts.size() > 1) message.push_back(']');

  Status::Parts parts;
  parts.reason = StatusReason::kInvalid;
  parts.message = std::move(message);
  StatusDetails& details = parts.details.emplace();
  details.name = name;
  details.kind = "Event";
  details.causes = std::move(causes_);
  return Status(std::move(parts));
}

void CheckObjectMeta(const ObjectMeta& meta, NameRule name_rule, FieldErrors* errors) {
  const auto name_faults =
      name_rule == NameRule::kPathSegment ? PathSegmentFaults : SubdomainNameFaults;
  if (!meta.generate_name.empty()) {
    errors->InvalidName("metadata.generateName", meta.generate_name,
                        name_faults(meta.generate_name, true));
  }
  if (meta.name.empty()) {
    errors->Required("metadata.name", "name or generateName is required");
  } else {
    errors->InvalidName("metadata.name", meta.name, name_faults(meta.name, false));
  }
  if (meta.namespace_.empty()) {
    errors->Required("metadata.namespace");
  } else {
    errors->InvalidName("metadata.namespace", meta.namespace_, IsDns1123Label(meta.namespace_));
  }
  if (meta.generation < 0) {
    errors->Invalid("metadata.generation", Shown(meta.generation),
                    "must be greater than or equal to 0");
  }
  CheckLabels(meta.labels, errors);
  CheckAnnotations(meta.annotations, errors);
  CheckOwnerReferences(meta.owner_references, errors);
  CheckFinalizers(meta.finalizers, errors);
  CheckManagedFields(meta.managed_fields, errors);
}

void CheckObjectMetaUpdate(const ObjectMeta& meta, const ObjectMeta& old, FieldErrors* errors) {
  if (old.deletion_timestamp) CheckNoNewFinalizers(meta, old, errors);
  if (meta.resource_version.empty()) {
    errors->Invalid("metadata.resourceVersion", Shown(""), "must be specified for an update");
  }
  if (meta.generation < old.generation) {
    errors->Invalid("metadata.generation", Shown(meta.generation), "must not be decremented");
  }
  errors->Unchanged("metadata.name", meta.name, old.name);
  errors->Unchanged("metadata.namespace", meta.namespace_, old.namespace_);
  if (meta.uid != old.uid) {
    errors->Invalid("metadata.uid", ShownAsJson(meta.uid), FieldErrors::kImmutable);
  }
  errors->Unchanged("metadata.creationTimestamp", meta.creation_timestamp, old.creation_timestamp);
  errors->Unchanged("metadata.deletionTimestamp", meta.deletion_timestamp, old.deletion_timestamp);
  errors->Unchanged("metadata.deletionGracePeriodSeconds", meta.deletion_grace_period_seconds,
                    old.deletion_grace_period_seconds);
  CheckLabels(meta.labels, errors);
  CheckAnnotations(meta.annotations, errors);
  CheckOwnerReferences(meta.owner_references, errors);
  CheckManagedFields(meta.managed_fields, errors);
}

void CheckFinalizersAreStandard(const ObjectMeta& meta, FieldErrors* errors) {
  for (std::size_t i = 0; i < meta.finalizers.size() && !errors->full(); ++i) {
    const std::string& name = meta.finalizers[i];
    const bool known =
        name.find('/') != std::string::npos ||
        std::ranges::find(kStandardFinalizers, name) != std::end(kStandardFinalizers);
    if (known) continue;
    errors->Invalid("metadata.finalizers[" + std::to_string(i) + "]", Shown(name),
                    "name is neither a standard finalizer name nor is it fully qualified");
  }
}

}  // namespace herald
