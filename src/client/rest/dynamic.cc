#include "herald/client/dynamic.h"

#include <utility>

#include "client/rest/blocking_call.h"
#include "client/rest/resource_client.h"

namespace herald {

namespace {

using Client = ResourceClient<Object>;

}  // namespace

DynamicClient::DynamicClient(std::shared_ptr<RestClient> rest, Resource resource)
    : rest_(std::move(rest)), resource_(std::move(resource)) {}

Result<bool> DynamicClient::Exists(const std::stop_token& stop) const {
  RestRequest request;
  request.path = (resource_.group.empty() ? "/api/" : "/apis/") + resource_.api_version();
  request.group = resource_.group;
  request.resource = resource_.resource;
  const Result<RestResponse> response = rest_->Send(std::move(request), stop);
  if (!response) {
    if (response.error().code() == 404) return false;
    return response.error();
  }
  const Result<JsonValue> list = JsonValue::Parse(response->body);
  if (!list) return list.error();
  for (const JsonValue& resource : (*list)["resources"].array()) {
    if (resource["name"].String() != resource_.resource) continue;
    // Some servers, such as heraldd, list resources that other servers have, without verbs.
    return !resource.Has("verbs") || !resource["verbs"].array().empty();
  }
  return false;
}

void DynamicClient::Create(std::string_view namespace_, const JsonValue& object,
                           const WriteOptions& options, Done done,
                           const std::stop_token& stop) const {
  Client(*rest_, resource_).Create(namespace_, object, options, std::move(done), stop);
}

void DynamicClient::Get(std::string_view namespace_, std::string_view name, Done done,
                        const std::stop_token& stop) const {
  Client(*rest_, resource_).Get({namespace_, name}, std::move(done), stop);
}

void DynamicClient::Update(std::string_view namespace_, std::string_view name,
                           const JsonValue& object, std::string_view subresource,
                           const WriteOptions& options, Done done,
                           const std::stop_token& stop) const {
  Client(*rest_, resource_)
      .Update({namespace_, name, subresource}, object, options, std::move(done), stop);
}

void DynamicClient::Patch(std::string_view namespace_, std::string_view name, PatchType type,
                          const JsonValue& patch, std::string_view subresource,
                          const WriteOptions& options, Done done,
                          const std::stop_token& stop) const {
  Client(*rest_, resource_)
      .Patch({namespace_, name, subresource}, type, patch.ToString(), options, std::move(done),
             stop);
}

void DynamicClient::Delete(std::string_view namespace_, std::string_view name,
                           const DeleteOptions& options, StatusDone done,
                           const std::stop_token& stop) const {
  Client(*rest_, resource_).Delete({namespace_, name}, options, std::move(done), stop);
}

void DynamicClient::DeleteCollection(const ListOptions& which, const DeleteOptions& options,
                                     StatusDone done, const std::stop_token& stop) const {
  Client(*rest_, resource_).DeleteCollection(which, options, std::move(done), stop);
}

void DynamicClient::List(const ListOptions& options, ListDone done,
                         const std::stop_token& stop) const {
  Client(*rest_, resource_).ListPage(options, std::move(done), stop);
}

void DynamicClient::Watch(const WatchOptions& options, WatchCallbacks callbacks,
                          const std::stop_token& stop) const {
  Client(*rest_, resource_)
      .Watch(options, std::move(callbacks.event), std::move(callbacks.end), stop);
}

Result<Object> DynamicClient::Create(std::string_view namespace_, const JsonValue& object,
                                     const WriteOptions& options,
                                     const std::stop_token& stop) const {
  return WaitForResult<Object>(
      [&](Done done) { Create(namespace_, object, options, std::move(done), stop); });
}

Result<Object> DynamicClient::Get(std::string_view namespace_, std::string_view name,
                                  const std::stop_token& stop) const {
  return WaitForResult<Object>([&](Done done) { Get(namespace_, name, std::move(done), stop); });
}

Result<Object> DynamicClient::Update(std::string_view namespace_, std::string_view name,
                                     const JsonValue& object, std::string_view subresource,
                                     const WriteOptions& options,
                                     const std::stop_token& stop) const {
  return WaitForResult<Object>([&](Done done) {
    Update(namespace_, name, object, subresource, options, std::move(done), stop);
  });
}

Result<Object> DynamicClient::Patch(std::string_view namespace_, std::string_view name,
                                    PatchType type, const JsonValue& patch,
                                    std::string_view subresource, const WriteOptions& options,
                                    const std::stop_token& stop) const {
  return WaitForResult<Object>([&](Done done) {
    Patch(namespace_, name, type, patch, subresource, options, std::move(done), stop);
  });
}

Status DynamicClient::Delete(std::string_view namespace_, std::string_view name,
                             const DeleteOptions& options, const std::stop_token& stop) const {
  return WaitForStatus(
      [&](StatusDone done) { Delete(namespace_, name, options, std::move(done), stop); });
}

Status DynamicClient::DeleteCollection(const ListOptions& which, const DeleteOptions& options,
                                       const std::stop_token& stop) const {
  return WaitForStatus(
      [&](StatusDone done) { DeleteCollection(which, options, std::move(done), stop); });
}

Result<ObjectList> DynamicClient::List(const ListOptions& options,
                                       const std::stop_token& stop) const {
  return WaitForResult<ObjectList>([&](ListDone done) { List(options, std::move(done), stop); });
}

Status DynamicClient::Watch(const WatchOptions& options,
                            std::function<void(ObjectWatchEvent&&)> on_event,
                            const std::stop_token& stop) const {
  return WaitForStatus([&](StatusDone done) {
    Watch(options, WatchCallbacks{std::move(on_event), std::move(done)}, stop);
  });
}

}  // namespace herald
