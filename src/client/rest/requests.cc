#include "client/rest/requests.h"

#include "herald/client/json_value.h"
#include "http/url.h"

namespace herald {

std::string Resource::Path(std::string_view namespace_, std::string_view name,
                           std::string_view subresource) const {
  std::string path = group.empty() ? "/api/" : "/apis/";
  if (!group.empty()) path.append(group).append("/");
  path += version;
  if (!namespace_.empty()) path.append("/namespaces/").append(http::PercentEncode(namespace_));
  path.append("/").append(resource);
  if (!name.empty()) path.append("/").append(http::PercentEncode(name));
  if (!subresource.empty()) path.append("/").append(subresource);
  return path;
}

std::string Resource::api_version() const {
  return group.empty() ? version : group + "/" + version;
}

RestRequest ResourceRequest(const Resource& resource, std::string_view method,
                            std::string_view namespace_, std::string_view name,
                            std::string_view subresource) {
  RestRequest request;
  request.method = method;
  request.path = resource.Path(namespace_, name, subresource);
  request.group = resource.group;
  request.resource = resource.resource;
  request.name = name;
  return request;
}

namespace {

void Add(const char* name, std::string_view value, RestRequest* request) {
  if (!value.empty()) request->query.emplace_back(name, value);
}

}  // namespace

void AddOptions(const ListOptions& options, RestRequest* request) {
  Add("labelSelector", options.label_selector, request);
  Add("fieldSelector", options.field_selector, request);
  Add("resourceVersion", options.resource_version, request);
  Add("resourceVersionMatch", options.resource_version_match, request);
  if (options.limit > 0) Add("limit", std::to_string(options.limit), request);
  Add("continue", options.continue_, request);
}

void AddOptions(const WatchOptions& options, RestRequest* request) {
  Add("watch", "true", request);
  Add("labelSelector", options.label_selector, request);
  Add("fieldSelector", options.field_selector, request);
  Add("resourceVersion", options.resource_version, request);
  if (options.allow_bookmarks) Add("allowWatchBookmarks", "true", request);
  if (options.send_initial_events) {
    Add("sendInitialEvents", *options.send_initial_events ? "true" : "false", request);
    Add("resourceVersionMatch", "NotOlderThan", request);
  }
  if (options.timeout.count() > 0) {
    Add("timeoutSeconds", std::to_string(options.timeout.count()), request);
  }
  request->timeout = std::chrono::milliseconds(0);
}

void AddOptions(const WriteOptions& options, RestRequest* request) {
  Add("fieldManager", options.field_manager, request);
  Add("fieldValidation", options.field_validation, request);
  if (options.dry_run) Add("dryRun", "All", request);
}

void AddOptions(const DeleteOptions& options, RestRequest* request) {
  JsonValue body;
  body.Member("apiVersion") = "v1";
  body.Member("kind") = "DeleteOptions";
  if (options.grace_period_seconds) {
    body.Member("gracePeriodSeconds") = *options.grace_period_seconds;
  }
  if (!options.propagation_policy.empty()) {
    body.Member("propagationPolicy") = options.propagation_policy;
  }
  if (!options.precondition_uid.empty()) {
    body.Member("preconditions").Member("uid") = options.precondition_uid;
  }
  if (!options.precondition_resource_version.empty()) {
    body.Member("preconditions").Member("resourceVersion") = options.precondition_resource_version;
  }
  if (options.dry_run) body.Member("dryRun").MutableArray().emplace_back("All");
  request->content_type = "application/json";
  request->body = body.ToString();
}

}  // namespace herald
