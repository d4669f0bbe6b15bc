#include "herald/api/patch.h"

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "api/json/codec.h"
#include "api/json/document.h"
#include "api/json/event_from_json.h"
#include "api/json/reader.h"
#include "api/json/strict_errors.h"
#include "api/json/type_names.h"
#include "api/patch/internal.h"
#include "api/patch/json_patch.h"
#include "api/patch/merge_patch.h"
#include "api/patch/strategic_merge.h"
#include "api/quote.h"

namespace herald {
namespace {

Status BadRequest(std::string message) {
  return Status(StatusReason::kBadRequest, std::move(message));
}

// In these cases a bug in kube-apiserver's response loses the reason. The message is
// kube-apiserver's; we add the reason as a cause.
Status Rejected(std::string why) {
  Status::Parts parts;
  parts.reason = StatusReason::kInvalid;
  parts.message = "the server rejected our request due to an error in our request";
  parts.details.emplace().causes.push_back({"FieldValueInvalid", std::move(why), "patch"});
  return Status(std::move(parts));
}

// The patch was applied, but the result is not an event.
Status NotAnEvent(std::string_view shown, std::string_view why) {
  std::string body = "Invalid value: " + Quoted(shown);
  body.append(": ").append(why);
  Status::Parts parts;
  parts.reason = StatusReason::kInvalid;
  parts.message = " \"\" is invalid: patch: " + body;
  parts.details.emplace().causes.push_back({"FieldValueInvalid", std::move(body), "patch"});
  return Status(std::move(parts));
}

// Go's error if this is not a merge patch; nullopt if it is one. Null is an empty patch.
std::optional<std::string> NotAMap(const Json& json) {
  if (json.is_object() || json.is_null()) return std::nullopt;
  return "json: cannot unmarshal " + std::string(JsonTypeName(json.type())) +
         " into Go value of type map[string]interface {}";
}

// The spelling of a document, from its apiVersion. A patch may change it, and then the result is
// decoded in the other spelling.
struct Spelling {
  std::optional<EventApi> api;  // nullopt: an error, or, if `error` is empty, no spelling
  std::string error;
};

Spelling SpellingOf(const Json& document) {
  const auto text = [&document](std::string_view member) {
    const Json* const value = document.Find(member);
    const bool is_text = value != nullptr && value->type() == Json::Type::kString;
    return is_text ? value->AsString() : std::string();
  };
  const std::string version = text("apiVersion");
  std::string kind = text("kind");
  if (kind.empty()) kind = "Event";
  if (version.find('/') != version.rfind('/')) {
    return {std::nullopt, "unexpected GroupVersion string: " + version};
  }
  if (kind == "Event") {
    if (version.empty() || version == "/") return {};
    if (version == ApiVersionName(EventApi::kCoreV1)) return {EventApi::kCoreV1, {}};
    // The API no longer has the beta version, but the decoder does.
    if (version == ApiVersionName(EventApi::kEventsV1) || version == "events.k8s.io/v1beta1") {
      return {EventApi::kEventsV1, {}};
    }
  }
  const std::string place = version.empty() || version == "/" ? "the internal version of group \"\""
                                                              : "version " + Quoted(version);
  return {std::nullopt, "no kind " + Quoted(kind) + " is registered for " + place +
                            " in scheme \"pkg/api/legacyscheme/scheme.go:30\""};
}

// Decodes the result of a merge patch or a JSON patch like the body of a request.
Result<Event> ReadPatched(const Json& document, std::vector<std::string>* field_errors) {
  std::string text;
  AppendAsWritten(document, &text);
  const Spelling spelling = SpellingOf(document);
  std::vector<std::string> errors;
  Event event;
  const Status status = ReadEventJson(text, spelling.api.value_or(EventApi::kCoreV1), &event,
                                      field_errors != nullptr ? &errors : nullptr);
  // The kind is invalid. This error takes precedence.
  const bool unreadable = status.message().starts_with("couldn't get version/kind");
  if (unreadable) return NotAnEvent(text, status.message());
  if (!spelling.error.empty()) return NotAnEvent(text, spelling.error);
  if (!spelling.api) {
    // Without apiVersion Kubernetes decodes it into its internal type, whose members have no JSON
    // names: the event is empty.
    StrictErrors unknown(field_errors);
    for (const auto& [key, value] : document.object()) {
      if (unknown.ignored()) break;
      if (key == "kind" || key == "apiVersion") continue;
      unknown.Add("unknown field " + Quoted(key));
    }
    return Event();
  }
  if (!status.ok()) return NotAnEvent(text, status.message());
  if (field_errors != nullptr) {
    field_errors->insert(field_errors->end(), errors.begin(), errors.end());
  }
  return event;
}

Result<Event> ApplyStrategic(Json document, EventApi api, std::string_view text,
                             std::vector<std::string>* field_errors) {
  Result<Json> patch = ParseJson(text, {.field_errors = field_errors, .check_numbers = true});
  if (!patch) return patch.error();
  if (const std::optional<std::string> why = NotAMap(*patch)) return BadRequest(*why);
  if (patch->is_null()) *patch = Json(Json::Object());
  if (const Status status = ApplyStrategicMergePatch(api, &*patch, &document); !status.ok()) {
    return status.Is(StatusReason::kInvalid) ? Rejected(status.message()) : status;
  }
  std::vector<std::string> unknown;
  Result<Event> event = EventFromJson(document, api, field_errors != nullptr ? &unknown : nullptr);
  if (!event) {
    std::string shown;
    AppendGoText(*patch, 'v', &shown);
    return NotAnEvent(shown, event.error().message());
  }
  if (field_errors != nullptr) {
    field_errors->insert(field_errors->end(), unknown.begin(), unknown.end());
  }
  return event;
}

Result<Event> ApplyMerge(Json document, std::string_view text,
                         std::vector<std::string>* field_errors) {
  const bool checked = field_errors != nullptr;
  Result<Json> patch = ParseJson(text, {.field_errors = field_errors, .check_numbers = checked});
  if (!patch) {
    return BadRequest(checked ? "error decoding patch: " + patch.error().message()
                              : "Invalid JSON Patch");
  }
  if (const std::optional<std::string> why = NotAMap(*patch); checked && why) {
    return BadRequest("error decoding patch: " + *why);
  }
  if (Status status = ApplyMergePatch(*std::move(patch), &document); !status.ok()) return status;
  return ReadPatched(document, field_errors);
}

Result<Event> ApplyJson(Json document, std::string_view text,
                        std::vector<std::string>* field_errors) {
  if (field_errors != nullptr) {
    if (const Status status = CheckJsonPatch(text, field_errors); !status.ok()) {
      return BadRequest("error decoding patch: " + status.message());
    }
  }
  const Result<Json> patch = ParseJson(text);
  if (!patch) return patch.error();
  std::deque<std::string> storage;
  if (const Status status = ApplyJsonPatch(*patch, &document, &storage); !status.ok()) {
    return status.Is(StatusReason::kInvalid) ? Rejected(status.message()) : status;
  }
  // Operations can nest values deeper than the parser's limit. Go cannot encode them.
  if (Depth(document) > JsonReader::kMaxDepth + 1) {
    return Rejected("the patched document is nested too deeply");
  }
  return ReadPatched(document, field_errors);
}

// Recorders send merge patches of simple members, thousands per second. Applying these directly to
// the event has the same result as the general path and is many times cheaper.
bool IsPlain(PatchType type, std::string_view patch) {
  const auto has = [patch](char c) { return patch.find(c) != patch.npos; };
  return type != PatchType::kJson && !has('[') && !has('$');
}

}  // namespace

std::string_view PatchMediaType(PatchType type) {
  switch (type) {
    case PatchType::kStrategicMerge:
      return "application/strategic-merge-patch+json";
    case PatchType::kMerge:
      return "application/merge-patch+json";
    case PatchType::kJson:
      return "application/json-patch+json";
  }
  return {};
}

Result<Event> ApplyPatchGenerically(const Event& event, EventApi api, PatchType type,
                                    std::string_view patch,
                                    std::vector<std::string>* field_errors) {
  std::string text;
  AppendEventJson(event, api, &text);
  Result<Json> document = ParseJson(text);
  // Only invalid JSON in managedFields can cause this, because it is kept unchanged.
  if (!document) return Status(StatusReason::kInternalError, document.error().message());
  switch (type) {
    case PatchType::kStrategicMerge:
      return ApplyStrategic(*std::move(document), api, patch, field_errors);
    case PatchType::kMerge:
      return ApplyMerge(*std::move(document), patch, field_errors);
    case PatchType::kJson:
      return ApplyJson(*std::move(document), patch, field_errors);
  }
  return BadRequest("unknown patch type");
}

Result<Event> ApplyPatch(const Event& event, EventApi api, PatchType type, std::string_view patch,
                         std::vector<std::string>* field_errors) {
  Result<Event> patched(std::in_place, event);
  if (!IsPlain(type, patch) || !MergeEventJson(patch, api, &*patched)) {
    patched = ApplyPatchGenerically(event, api, type, patch, field_errors);
  }
  return patched;
}

Status ApplyPatchInPlace(Event* event, EventApi api, PatchType type, std::string_view patch,
                         std::vector<std::string>* field_errors) {
  // A patch without nested objects replaces each member that it names. If the fast path fails in
  // the middle, some of these members have changed, but the general path replaces all of them, so
  // that its result is the same as with the original event.
  const bool nested = patch.find('{', patch.find('{') + 1) != patch.npos;
  const bool direct = !nested && IsPlain(type, patch);
  if (direct && MergeEventJson(patch, api, event)) return Status();
  Result<Event> patched = direct ? ApplyPatchGenerically(*event, api, type, patch, field_errors)
                                 : ApplyPatch(*event, api, type, patch, field_errors);
  if (!patched) return patched.error();
  *event = *std::move(patched);
  return Status();
}

}  // namespace herald
