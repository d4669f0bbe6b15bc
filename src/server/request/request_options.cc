#include "server/request/request_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

#include "api/quote.h"
#include "base/duration.h"

namespace herald::server {
namespace {

Status BadRequest(std::string message) {
  return Status(StatusReason::kBadRequest, std::move(message));
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

bool IsTrue(std::string_view value) { return value != "0" && !EqualsIgnoringCase(value, "false"); }

std::string Parameter(const http::Query& query, std::string_view name) {
  const std::string* const value = FindParameter(query, name);
  return value != nullptr ? *value : std::string();
}

// The error of Go's strconv for an invalid number.
Status NotANumber(std::string_view function, std::string_view text, bool out_of_range) {
  return BadRequest(fmt::format("strconv.{}: parsing {}: {}", function, Quoted(text),
                                out_of_range ? "value out of range" : "invalid syntax"));
}

template <typename T>
Result<T> ParseNumber(std::string_view function, std::string_view text) {
  T value = 0;
  std::string_view digits = text;
  // Go accepts a plus; from_chars does not.
  if (std::is_signed_v<T> && digits.starts_with('+')) digits.remove_prefix(1);
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  const bool whole = stop == end && !digits.empty();
  if (error == std::errc::result_out_of_range && whole) return NotANumber(function, text, true);
  if (error != std::errc() || !whole) return NotANumber(function, text, false);
  return value;
}

// An empty integer counts as missing, as in Kubernetes' converters.
Status ReadInteger(const http::Query& query, std::string_view name,
                   std::optional<std::int64_t>* out) {
  const std::string* const text = FindParameter(query, name);
  if (text == nullptr) return Status();
  const Result<std::int64_t> value = ParseNumber<std::int64_t>("ParseInt", *text);
  if (!value) return value.error();
  *out = *value;
  return Status();
}

std::optional<bool> ReadBool(const http::Query& query, std::string_view name) {
  const std::string* const text = FindParameter(query, name);
  if (text == nullptr) return std::nullopt;
  return IsTrue(*text);
}

// Collects the errors in the options of one request and formats them as one Status.
class OptionErrors {
 public:
  void Forbidden(std::string_view field, std::string_view why) {
    Add("FieldValueForbidden", field, fmt::format("Forbidden: {}", why));
  }
  void Invalid(std::string_view field, std::string_view shown, std::string_view why) {
    Add("FieldValueInvalid", field, fmt::format("Invalid value: {}: {}", shown, why));
  }
  void NotSupported(std::string_view field, std::string_view shown, std::string_view supported) {
    Add("FieldValueNotSupported", field,
        fmt::format("Unsupported value: {}: supported values: {}", shown, supported));
  }
  void TooLong(std::string_view field, std::size_t max_bytes) {
    Add("FieldValueTooLong", field,
        fmt::format("Too long: may not be more than {} bytes", max_bytes));
  }

  // The error for options of this kind; ok if there was none.
  Status ToStatus(std::string_view kind) && {
    if (causes_.empty()) return Status();
    std::string message = fmt::format("{}.meta.k8s.io \"\" is invalid: ", kind);
    if (causes_.size() > 1) message += '[';
    for (std::size_t i = 0; i < causes_.size(); ++i) {
      if (i > 0) message += ", ";
      message += causes_[i].field + ": " + causes_[i].message;
    }
    if (causes_.size() > 1) message += ']';
    Status::Parts parts;
    parts.reason = StatusReason::kInvalid;
    parts.message = std::move(message);
    StatusDetails& details = parts.details.emplace();
    details.group = "meta.k8s.io";
    details.kind = kind;
    details.causes = std::move(causes_);
    return Status(std::move(parts));
  }

 private:
  void Add(std::string_view reason, std::string_view field, std::string message) {
    causes_.push_back({std::string(reason), std::move(message), std::string(field)});
  }

  std::vector<StatusCause> causes_;
};

void CheckList(const ListOptions& options, OptionErrors* errors) {
  constexpr std::string_view kMatch = "resourceVersionMatch";
  const std::string& match = options.resource_version_match;
  if (!match.empty()) {
    if (options.resource_version.empty()) {
      errors->Forbidden(kMatch,
                        "resourceVersionMatch is forbidden unless resourceVersion is provided");
    }
    if (!options.continue_.empty()) {
      errors->Forbidden(kMatch, "resourceVersionMatch is forbidden when continue is provided");
    }
    if (match != "Exact" && match != "NotOlderThan") {
      errors->NotSupported(kMatch, Quoted(match), R"("Exact", "NotOlderThan", "")");
    }
    if (match == "Exact" && options.resource_version == "0") {
      errors->Forbidden(kMatch,
                        R"(resourceVersionMatch "exact" is forbidden for resourceVersion "0")");
    }
  }
  if (options.send_initial_events) {
    errors->Forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
  }
}

void CheckWatch(const ListOptions& options, OptionErrors* errors) {
  constexpr std::string_view kMatch = "resourceVersionMatch";
  const std::string& match = options.resource_version_match;
  if (options.send_initial_events && match != "NotOlderThan") {
    errors->Forbidden(kMatch,
                      "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
  }
  if (match.empty()) return;
  if (!options.send_initial_events) {
    errors->Forbidden(
        kMatch, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
  }
  if (match != "NotOlderThan") errors->NotSupported(kMatch, Quoted(match), R"("NotOlderThan")");
  if (!options.continue_.empty()) {
    errors->Forbidden(kMatch, "resourceVersionMatch is forbidden when continue is provided");
  }
}

void CheckDryRun(const std::vector<std::string>& dry_run, OptionErrors* errors) {
  for (const std::string& value : dry_run) {
    if (value == "All") continue;
    std::string all;
    for (const std::string& one : dry_run) all += (all.empty() ? "" : ",") + Quoted(one);
    return errors->NotSupported("dryRun", '[' + all + ']', R"("All")");
  }
}

// A time, or a duration before now.
Result<std::optional<Timestamp>> ReadMoment(const http::Query& query, std::string_view name,
                                            WallTime now) {
  const std::string* const text = FindParameter(query, name);
  if (text == nullptr || text->empty()) return std::optional<Timestamp>();
  if (const auto ago = ParseDuration(*text)) {
    if (ago->count() < 0) {
      return BadRequest(
          fmt::format("invalid {} {}: must not be in the future", name, Quoted(*text)));
    }
    return std::optional<Timestamp>(Timestamp(now - *ago));
  }
  const Result<Time> time = Time::Parse(*text);
  if (!time) {
    return BadRequest(
        fmt::format("invalid {} {}: must be a duration such as 2h or a time such as "
                    "2006-01-02T15:04:05Z",
                    name, Quoted(*text)));
  }
  return std::optional<Timestamp>(*time);
}

Status ReadOwnOptions(const http::Query& query, WallTime now, ListOptions* options) {
  Result<std::optional<Timestamp>> since = ReadMoment(query, "since", now);
  if (!since) return since.error();
  options->since = *since;
  Result<std::optional<Timestamp>> until = ReadMoment(query, "until", now);
  if (!until) return until.error();
  options->until = *until;
  const std::string sort = Parameter(query, "sortBy");
  if (!sort.empty() && sort != "lastOccurrence") {
    return BadRequest(fmt::format("invalid sortBy {}: must be \"lastOccurrence\"", Quoted(sort)));
  }
  options->by_last_occurrence = !sort.empty();
  return Status();
}

}  // namespace

const std::string* FindParameter(const http::Query& query, std::string_view name) {
  const auto found = std::ranges::find(query, name, &http::Query::value_type::first);
  return found == query.end() ? nullptr : &found->second;
}

bool IsSet(const http::Query& query, std::string_view name) {
  const std::string* const value = FindParameter(query, name);
  return value != nullptr && IsTrue(*value);
}

Result<ListOptions> ParseListOptions(const http::Query& query, EventApi api, bool force_watch,
                                     WallTime now) {
  ListOptions options;
  Result<LabelSelector> labels = LabelSelector::Parse(Parameter(query, "labelSelector"));
  if (!labels) return labels.error();
  options.labels = *std::move(labels);
  options.watch = IsSet(query, "watch") || force_watch;
  options.allow_watch_bookmarks = IsSet(query, "allowWatchBookmarks");
  options.send_initial_events = ReadBool(query, "sendInitialEvents");
  options.resource_version = Parameter(query, "resourceVersion");
  options.resource_version_match = Parameter(query, "resourceVersionMatch");
  options.continue_ = Parameter(query, "continue");
  if (Status bad = ReadInteger(query, "timeoutSeconds", &options.timeout_seconds); !bad.ok()) {
    return bad;
  }
  std::optional<std::int64_t> limit;
  if (Status bad = ReadInteger(query, "limit", &limit); !bad.ok()) return bad;
  options.limit = std::max<std::int64_t>(limit.value_or(0), 0);

  OptionErrors errors;
  if (options.watch) {
    CheckWatch(options, &errors);
  } else {
    CheckList(options, &errors);
  }
  if (Status invalid = std::move(errors).ToStatus("ListOptions"); !invalid.ok()) return invalid;

  Result<FieldSelector> fields = FieldSelector::Parse(Parameter(query, "fieldSelector"), api);
  if (!fields) return fields.error();
  options.fields = *std::move(fields);
  if (Status bad = ReadOwnOptions(query, now, &options); !bad.ok()) return bad;
  return options;
}

Result<WriteOptions> ParseWriteOptions(const http::Query& query, std::string_view kind) {
  // client-go's own limit for the names of field managers.
  constexpr std::size_t kMaxManagerBytes = 128;
  WriteOptions options;
  OptionErrors errors;
  if (kind == "PatchOptions" && FindParameter(query, "force") != nullptr) {
    errors.Forbidden("force", "may not be specified for non-apply patch");
  }
  const std::string manager = Parameter(query, "fieldManager");
  if (manager.size() > kMaxManagerBytes) errors.TooLong("fieldManager", kMaxManagerBytes);
  for (std::string_view rest = manager; !rest.empty();) {
    const std::size_t at = manager.size() - rest.size();
    const char32_t c = TakeCodePoint(&rest);
    if (IsPrintable(c)) continue;
    errors.Invalid("fieldManager", Quoted(manager),
                   fmt::format("invalid character U+{:04X} (at position {})",
                               static_cast<std::uint32_t>(c), at));
    break;
  }
  std::vector<std::string> dry_run;
  for (const auto& [name, value] : query) {
    if (name == "dryRun") dry_run.push_back(value);
  }
  CheckDryRun(dry_run, &errors);
  options.dry_run = !dry_run.empty();

  const std::string validation = Parameter(query, "fieldValidation");
  if (validation == "Ignore") {
    options.field_validation = FieldValidation::kIgnore;
  } else if (validation == "Strict") {
    options.field_validation = FieldValidation::kStrict;
  } else if (!validation.empty() && validation != "Warn") {
    errors.NotSupported("fieldValidation", Quoted(validation), R"("", "Ignore", "Strict", "Warn")");
  }
  if (Status invalid = std::move(errors).ToStatus(kind); !invalid.ok()) return invalid;
  return options;
}

Result<DeleteOptions> ParseDeleteOptions(const http::Query& query) {
  DeleteOptions options;
  if (Status bad = ReadInteger(query, "gracePeriodSeconds", &options.grace_period_seconds);
      !bad.ok()) {
    return bad;
  }
  options.orphan_dependents = ReadBool(query, "orphanDependents");
  if (const std::string* policy = FindParameter(query, "propagationPolicy")) {
    options.propagation_policy = *policy;
  }
  for (const auto& [name, value] : query) {
    if (name == "dryRun") options.dry_run.push_back(value);
  }
  return options;
}

Status CheckDeleteOptions(const DeleteOptions& options) {
  OptionErrors errors;
  if (options.propagation_policy && options.orphan_dependents) {
    errors.Invalid("propagationPolicy", Quoted(*options.propagation_policy),
                   "orphanDependents and deletionPropagation cannot be both set");
  }
  if (options.propagation_policy && *options.propagation_policy != "Foreground" &&
      *options.propagation_policy != "Background" && *options.propagation_policy != "Orphan") {
    errors.NotSupported("propagationPolicy", Quoted(*options.propagation_policy),
                        R"("Foreground", "Background", "Orphan", "nil")");
  }
  CheckDryRun(options.dry_run, &errors);
  return std::move(errors).ToStatus("DeleteOptions");
}

Result<std::optional<std::chrono::nanoseconds>> ParseTimeout(const http::Query& query) {
  const std::string* const text = FindParameter(query, "timeout");
  if (text == nullptr || text->empty()) return std::optional<std::chrono::nanoseconds>();
  if (const auto timeout = ParseGoDuration(*text)) return timeout;
  return BadRequest(fmt::format(
      "invalid timeout specified in the request URL - time: invalid duration {}", Quoted(*text)));
}

Result<std::uint64_t> ParseResourceVersion(std::string_view text) {
  return ParseNumber<std::uint64_t>("ParseUint", text);
}

}  // namespace herald::server
