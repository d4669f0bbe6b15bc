#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/delete_options.h"
#include "herald/api/event.h"
#include "herald/api/selector.h"
#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "http/url.h"

namespace herald::server {

// The parameters of requests, read from the query as Kubernetes reads them: unknown parameters are
// ignored, the first of a repeated parameter counts, and errors have Kubernetes' messages
// (kBadRequest if a value cannot be parsed, kInvalid if it is not allowed).

// The first value, or null.
const std::string* FindParameter(const http::Query& query, std::string_view name);
// True if it is present and neither "0" nor "false": `?watch` alone is true.
bool IsSet(const http::Query& query, std::string_view name);

// For lists, watches and the deletion of collections.
struct ListOptions {
  LabelSelector labels{};
  FieldSelector fields{};
  bool watch = false;
  bool allow_watch_bookmarks = false;
  std::optional<bool> send_initial_events{};
  std::string resource_version{};
  std::string resource_version_match{};
  std::optional<std::int64_t> timeout_seconds{};
  std::int64_t limit = 0;
  std::string continue_{};

  // Herald's own: only events that last occurred at or after `since` and before `until`, and
  // whether the list begins with the latest instead of being sorted by name.
  std::optional<Timestamp> since{};
  std::optional<Timestamp> until{};
  bool by_last_occurrence = false;

  bool selects_by_time() const { return since.has_value() || until.has_value(); }
};

// `force_watch` is for paths that are watches without ?watch. Durations are relative to `now`.
Result<ListOptions> ParseListOptions(const http::Query& query, EventApi api, bool force_watch,
                                     WallTime now);

// How unknown and duplicate members are handled (fieldValidation).
enum class FieldValidation : std::uint8_t { kIgnore, kWarn, kStrict };

// For POST, PUT and PATCH; `kind` is "CreateOptions", "UpdateOptions" or "PatchOptions".
struct WriteOptions {
  bool dry_run = false;
  FieldValidation field_validation = FieldValidation::kWarn;
};
Result<WriteOptions> ParseWriteOptions(const http::Query& query, std::string_view kind);

// For DELETE without a body.
Result<DeleteOptions> ParseDeleteOptions(const http::Query& query);
// Validates options from the query or from a body.
Status CheckDeleteOptions(const DeleteOptions& options);

// How long the client waits at most (`timeout`), if it is given.
Result<std::optional<std::chrono::nanoseconds>> ParseTimeout(const http::Query& query);

// A resource version as the store's revision. The error is that of Go's strconv; callers add their
// own prefix.
Result<std::uint64_t> ParseResourceVersion(std::string_view text);

}  // namespace herald::server
