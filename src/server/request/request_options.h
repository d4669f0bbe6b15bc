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

// The parameters of requests, read from the query as Kubernetes reads them: parameters
// that nobody knows are passed over, of a repeated one the first counts, and what cannot be
// understood is refused in Kubernetes' words (kBadRequest where it cannot be read,
// kInvalid where it makes no sense).

// The first value, or null.
const std::string* FindParameter(const http::Query& query, std::string_view name);
// True where it is there and neither "0" nor "false": `?watch` alone is a yes.
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

  // Herald's own: only events that last occurred at or after `since` and before
  // `until`, and whether the latest comes first instead of the order of the names.
  std::optional<Timestamp> since{};
  std::optional<Timestamp> until{};
  bool by_last_occurrence = false;

  bool selects_by_time() const { return since.has_value() || until.has_value(); }
};

// `force_watch` is for the URLs that mean a watch without saying so in the query. `now` is
// what durations count back from.
Result<ListOptions> ParseListOptions(const http::Query& query, EventApi api, bool force_watch,
                                     WallTime now);

// How members that events do not have are taken (fieldValidation).
enum class FieldValidation : std::uint8_t { kIgnore, kWarn, kStrict };

// For POST, PUT and PATCH; `kind` is "CreateOptions", "UpdateOptions" or "PatchOptions".
struct WriteOptions {
  bool dry_run = false;
  FieldValidation field_validation = FieldValidation::kWarn;
};
Result<WriteOptions> ParseWriteOptions(const http::Query& query, std::string_view kind);

// For DELETE without a body.
Result<DeleteOptions> ParseDeleteOptions(const http::Query& query);
// Whether they make sense, wherever they came from.
Status CheckDeleteOptions(const DeleteOptions& options);

// How long the client is ready to wait (`timeout`); nothing where it does not say.
Result<std::optional<std::chrono::nanoseconds>> ParseTimeout(const http::Query& query);

// A version of the wire as the store's number. An error tells what is wrong with it in Go's
// words, for callers to put their own around.
Result<std::uint64_t> ParseResourceVersion(std::string_view text);

}  // namespace herald::server
