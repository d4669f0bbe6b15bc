#include "server/request/request_info.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <span>
#include <vector>

#include "herald/api/selector.h"
#include "http/url.h"
#include "server/request/request_options.h"

namespace herald::server {
namespace {

std::string LowerCase(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// The segments of a path, without the slashes at its ends.
std::vector<std::string_view> Split(std::string_view path) {
  while (path.starts_with('/')) path.remove_prefix(1);
  while (path.ends_with('/')) path.remove_suffix(1);
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    parts.push_back(part);
    path.remove_prefix(std::min(part.size() + 1, path.size()));
  }
  return parts;
}

bool IsMalformed(std::string_view path, const std::vector<std::string_view>& parts) {
  if (!path.starts_with('/') || path.find("//") != std::string_view::npos) return true;
  return std::ranges::any_of(parts, [](std::string_view p) { return p == "." || p == ".."; });
}

std::string_view VerbOf(std::string_view method) {
  if (method == "GET" || method == "HEAD") return "get";
  if (method == "POST") return "create";
  if (method == "PUT") return "update";
  if (method == "PATCH") return "patch";
  if (method == "DELETE") return "delete";
  return "";
}

// Only a valid segment of a path can be a name.
bool IsPathSegment(std::string_view name) {
  return name != "." && name != ".." && name.find_first_of("/%") == std::string_view::npos;
}

// A list may select one name, and may be a watch.
void RefineList(RequestInfo* info) {
  info->verb = IsSet(info->query, "watch") ? "watch" : "list";
  const std::string* const selector = FindParameter(info->query, "fieldSelector");
  if (selector == nullptr) return;
  // Both spellings have metadata.name, but each rejects the other's fields.
  const Result<FieldSelector> fields = FieldSelector::Parse(*selector, EventApi::kCoreV1);
  const Result<FieldSelector> other = FieldSelector::Parse(*selector, EventApi::kEventsV1);
  const std::string* name = nullptr;
  if (fields) name = fields->RequiredValue(EventField::kMetadataName);
  if (name == nullptr && other) name = other->RequiredValue(EventField::kMetadataName);
  if (name != nullptr && IsPathSegment(*name)) info->name = *name;
}

}  // namespace

RequestInfo ParseRequestInfo(std::string_view method, std::string_view target) {
  const auto [raw_path, query] = http::SplitTarget(target);
  RequestInfo info;
  info.method = method;
  info.verb = LowerCase(method);
  info.query = http::ParseQuery(query);
  std::optional<std::string> path = http::PercentDecode(raw_path);
  info.path = path ? *std::move(path) : std::string(raw_path);

  const std::vector<std::string_view> all = Split(info.path);
  info.is_malformed = IsMalformed(info.path, all);
  std::span<const std::string_view> parts(all);
  if (parts.size() < 3) return info;
  if (parts[0] == "apis") {
    if (parts.size() < 4) return info;
    info.api_group = parts[1];
    parts = parts.subspan(2);
  } else if (parts[0] == "api") {
    parts = parts.subspan(1);
  } else {
    return info;
  }
  const std::string_view version = parts[0];
  parts = parts.subspan(1);

  // The old form of ?watch=true.
  std::string verb(VerbOf(method));
  if (parts[0] == "watch" || parts[0] == "proxy") {
    if (parts.size() < 2) {
      info.api_group.clear();
      return info;
    }
    verb = parts[0];
    info.watch_in_path = verb == "watch";
    parts = parts.subspan(1);
  }
  info.is_resource = true;
  info.api_version = version;
  info.verb = verb;

  if (parts[0] == "namespaces" && parts.size() > 1) {
    info.namespace_ = parts[1];
    // A namespace is an object, too, and these are its subresources.
    if (parts.size() > 2 && parts[2] != "status" && parts[2] != "finalize") {
      parts = parts.subspan(2);
    }
  }
  info.resource = parts[0];
  if (parts.size() > 1) {
    info.name = parts[1];
    info.name_in_path = true;
  }
  if (parts.size() > 2 && verb != "proxy") info.subresource = parts[2];
  info.has_trailing_segments = parts.size() > 3;

  if (info.name.empty() && info.verb == "get") RefineList(&info);
  if (info.name.empty() && info.verb == "delete") info.verb = "deletecollection";
  return info;
}

}  // namespace herald::server
