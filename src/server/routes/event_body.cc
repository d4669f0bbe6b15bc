#include "server/routes/event_body.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "api/quote.h"
#include "api/type_meta.h"
#include "api/yaml/yaml.h"
#include "base/bytes/trimmed.h"
#include "herald/api/codec.h"
#include "server/routes/errors.h"
#include "server/routes/handler_steps.h"

namespace herald::server {
namespace {

// The YAML reader reports duplicate keys in one string: a title and a line for each. As warnings,
// each line is sent on its own, as upstream does (apiserver/pkg/endpoints/handlers/rest.go).
void AddWarnings(std::string_view error, Exchange* exchange) {
  constexpr std::string_view kTitle = "yaml: unmarshal errors:\n";
  if (!error.starts_with(kTitle)) return exchange->Warn(std::string(error));
  error.remove_prefix(kTitle.size());
  while (!error.empty()) {
    const std::string_view line = error.substr(0, error.find('\n'));
    error.remove_prefix(std::min(line.size() + 1, error.size()));
    exchange->Warn(std::string(Trimmed(line)));
  }
}

// An error quotes the beginning of the body, which is the client's YAML and not our JSON.
Status QuoteYaml(const Status& error, std::string_view yaml) {
  constexpr std::string_view kPrefix =
      "the object provided is unrecognized (must be of type Event): ";
  std::string_view why = error.message();
  if (!why.starts_with(kPrefix)) return error;
  why.remove_prefix(kPrefix.size());
  return Unrecognized(why.substr(0, why.rfind(" (")), "Event", yaml);
}

Result<Event> DecodeBody(EventApi api, MediaType media, FieldValidation validation,
                         Exchange* exchange) {
  Result<std::string> taken = exchange->TakeBody();
  if (!taken) return taken.error();
  std::string body = *std::move(taken);
  const bool lenient = validation == FieldValidation::kIgnore;
  std::string yaml;
  std::string duplicates;
  if (media == MediaType::kYaml) {
    Result<std::string> json = YamlToJson(body, lenient ? nullptr : &duplicates);
    if (!json) return Unrecognized(json.error().message(), "Event", body);
    yaml = std::exchange(body, *std::move(json));
  }
  std::vector<std::string> errors;
  const Codec& codec = media == MediaType::kProtobuf ? ProtobufCodec() : JsonCodec();
  Result<Event> event = codec.DecodeEvent(body, api, lenient ? nullptr : &errors);
  if (!event && media == MediaType::kYaml) {
    event = QuoteYaml(event.error(), yaml);
  } else if (event) {
    if (!duplicates.empty()) errors.insert(errors.begin(), std::move(duplicates));
    if (Status bad = CheckFieldErrors(validation, errors, exchange); !bad.ok()) event = bad;
  }
  return event;
}

}  // namespace

Result<EventWrite> ReadEventWrite(Exchange* exchange, EventApi api, std::string_view options_kind) {
  const std::optional<MediaType> media = BodyMediaType(exchange->request().headers);
  if (!media) return UnknownBody(OfferedTypes(kObjectOffer));
  if (Status missing = exchange->admitted().body_error; !missing.ok()) return missing;
  const Result<WriteOptions> options = ParseWriteOptions(exchange->query(), options_kind);
  if (!options) return options.error();
  Result<Event> event = DecodeBody(api, *media, options->field_validation, exchange);
  if (!event) return event.error();
  return EventWrite{*options, *std::move(event)};
}

Result<DeleteOptions> ReadDeleteOptions(Exchange* exchange) {
  Result<DeleteOptions> options = DeleteOptions();
  Result<std::string> taken = exchange->TakeBody();
  if (!taken) return taken.error();
  std::string body = *std::move(taken);
  if (body.empty()) {
    options = ParseDeleteOptions(exchange->query());
  } else {
    const std::optional<MediaType> media = BodyMediaType(exchange->request().headers);
    if (!media) return UnknownBody(OfferedTypes(kObjectOffer));
    if (*media == MediaType::kYaml) {
      Result<std::string> json = YamlToJson(body);
      if (!json) return json.error();
      body = *std::move(json);
    }
    options = *media == MediaType::kProtobuf ? DecodeDeleteOptionsProtobuf(body)
                                             : DecodeDeleteOptionsJson(body);
  }
  if (!options) return options;
  if (Status invalid = CheckDeleteOptions(*options); !invalid.ok()) return invalid;
  return options;
}

Status CheckFieldErrors(FieldValidation validation, const std::vector<std::string>& errors,
                        Exchange* exchange) {
  if (errors.empty()) return Status();
  if (validation == FieldValidation::kWarn) {
    for (const std::string& error : errors) AddWarnings(error, exchange);
    return Status();
  }
  std::string joined;
  for (const std::string& error : errors) {
    if (!joined.empty()) joined += ", ";
    joined += error;
  }
  return BadRequest(fmt::format(
      "Event in version \"v1\" cannot be handled as a Event: strict decoding error: {}", joined));
}

Status StrictPatchError(const Status& error, std::string_view shown) {
  std::string_view why = error.message();
  why.remove_prefix(why.find("strict decoding error"));
  std::string body = fmt::format("Invalid value: {}: {}", Quoted(shown), why);
  Status::Parts parts;
  parts.reason = StatusReason::kInvalid;
  parts.message = " \"\" is invalid: patch: " + body;
  parts.details.emplace().causes.push_back({"FieldValueInvalid", std::move(body), "patch"});
  return Status(std::move(parts));
}

Status CheckName(const ObjectMeta& metadata, std::string_view name_in_path) {
  if (metadata.name.empty()) {
    return BadRequest(fmt::format(
        "the name of the object ({} based on URL) was undeterminable: name must be provided",
        name_in_path));
  }
  if (metadata.name != name_in_path) {
    return BadRequest(
        fmt::format("the name of the object ({}) does not match the name on the URL ({})",
                    metadata.name, name_in_path));
  }
  return Status();
}

}  // namespace herald::server
