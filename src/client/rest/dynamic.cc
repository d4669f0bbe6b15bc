#include "herald/client/dynamic.h"

#include <utility>

#include "client/rest/blocking_call.h"
#include "client/rest/requests.h"
#include "client/rest/resource_codec.h"
#include "client/watch/watch_stream.h"

namespace herald {
namespace {

RestClient::Done ReadingObject(DynamicClient::Done done) {
  return [done = std::move(done)](Result<RestResponse> response) {
    if (!response) return done(response.error());
    Result<JsonValue> json = JsonValue::Parse(response->body);
    if (!json) return done(json.error());
    done(Object{std::move(*json)});
  };
}

RestClient::Done ReadingStatus(DynamicClient::StatusDone done) {
  return [done = std::move(done)](const Result<RestResponse>& response) {
    done(response ? Status() : response.error());
  };
}

void AddBody(const JsonValue& object, std::string_view content_type, RestRequest* request) {
  request->content_type = content_type;
  object.AppendTo(&request->body);
}

Time TimeOf(const JsonValue& value) { return Time::Parse(value.String()).value_or(Time()); }

StringMap StringsOf(const JsonValue& value) {
  StringMap out;
  for (const auto& [key, text] : value.object()) out.emplace(key, text.String());
  return out;
}

}  // namespace

std::string Object::Key() const {
  return namespace_().empty() ? name() : namespace_() + "/" + name();
}

ObjectMeta Object::metadata() const {
  const JsonValue& meta = json["metadata"];
  ObjectMeta out;
  out.name = meta["name"].String();
  out.generate_name = meta["generateName"].String();
  out.namespace_ = meta["namespace"].String();
  out.uid = meta["uid"].String();
  out.resource_version = meta["resourceVersion"].String();
  out.generation = meta["generation"].Int();
  out.creation_timestamp = TimeOf(meta["creationTimestamp"]);
  if (meta.Has("deletionTimestamp")) out.deletion_timestamp = TimeOf(meta["deletionTimestamp"]);
  if (meta.Has("deletionGracePeriodSeconds")) {
    out.deletion_grace_period_seconds = meta["deletionGracePeriodSeconds"].Int();
  }
  out.labels = StringsOf(meta["labels"]);
  out.annotations = StringsOf(meta["annotations"]);
  for (const JsonValue& owner : meta["ownerReferences"].array()) {
    OwnerReference& reference = out.owner_references.emplace_back();
    reference.api_version = owner["apiVersion"].String();
    reference.kind = owner["kind"].String();
    reference.name = owner["name"].String();
    reference.uid = owner["uid"].String();
    if (owner.Has("controller")) reference.controller = owner["controller"].Bool();
    if (owner.Has("blockOwnerDeletion")) {
      reference.block_owner_deletion = owner["blockOwnerDeletion"].Bool();
    }
  }
  for (const JsonValue& finalizer : meta["finalizers"].array()) {
    out.finalizers.push_back(finalizer.String());
  }
  return out;
}

ObjectReference Object::Reference() const {
  return {.kind = kind(),
          .namespace_ = namespace_(),
          .name = name(),
          .uid = uid(),
          .api_version = api_version(),
          .resource_version = resource_version()};
}

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
    // Some servers, heraldd among them, name kinds that others serve, without verbs.
    return !resource.Has("verbs") || !resource["verbs"].array().empty();
  }
  return false;
}

void DynamicClient::Create(std::string_view namespace_, const JsonValue& object,
                           const WriteOptions& options, Done done,
                           const std::stop_token& stop) const {
  RestRequest request = ResourceRequest(resource_, "POST", namespace_, "");
  AddOptions(options, &request);
  AddBody(object, "application/json", &request);
  rest_->Send(std::move(request), ReadingObject(std::move(done)), stop);
}

void DynamicClient::Get(std::string_view namespace_, std::string_view name, Done done,
                        const std::stop_token& stop) const {
  rest_->Send(ResourceRequest(resource_, "GET", namespace_, name), ReadingObject(std::move(done)),
              stop);
}

void DynamicClient::Update(std::string_view namespace_, std::string_view name,
                           const JsonValue& object, std::string_view subresource,
                           const WriteOptions& options, Done done,
                           const std::stop_token& stop) const {
  RestRequest request = ResourceRequest(resource_, "PUT", namespace_, name, subresource);
  AddOptions(options, &request);
  AddBody(object, "application/json", &request);
  rest_->Send(std::move(request), ReadingObject(std::move(done)), stop);
}

void DynamicClient::Patch(std::string_view namespace_, std::string_view name, PatchType type,
                          const JsonValue& patch, std::string_view subresource,
                          const WriteOptions& options, Done done,
                          const std::stop_token& stop) const {
  RestRequest request = ResourceRequest(resource_, "PATCH", namespace_, name, subresource);
  AddOptions(options, &request);
  AddBody(patch, PatchMediaType(type), &request);
  rest_->Send(std::move(request), ReadingObject(std::move(done)), stop);
}

void DynamicClient::Delete(std::string_view namespace_, std::string_view name,
                           const DeleteOptions& options, StatusDone done,
                           const std::stop_token& stop) const {
  RestRequest request = ResourceRequest(resource_, "DELETE", namespace_, name);
  AddOptions(options, &request);
  rest_->Send(std::move(request), ReadingStatus(std::move(done)), stop);
}

void DynamicClient::DeleteCollection(const ListOptions& which, const DeleteOptions& options,
                                     StatusDone done, const std::stop_token& stop) const {
  RestRequest request = ResourceRequest(resource_, "DELETE", which.namespace_, "");
  AddOptions(which, &request);
  AddOptions(options, &request);
  rest_->Send(std::move(request), ReadingStatus(std::move(done)), stop);
}

void DynamicClient::List(const ListOptions& options, ListDone done,
                         const std::stop_token& stop) const {
  RestRequest request = ResourceRequest(resource_, "GET", options.namespace_, "");
  AddOptions(options, &request);
  rest_->Send(
      std::move(request),
      [resource_codec = ResourceCodec<Object>(resource_),
       done = std::move(done)](Result<RestResponse> response) {
        if (!response) return done(response.error());
        done(resource_codec.ReadList(response->content_type, response->body));
      },
      stop);
}

void DynamicClient::Watch(const WatchOptions& options, WatchCallbacks callbacks,
                          const std::stop_token& stop) const {
  RestRequest request = ResourceRequest(resource_, "GET", options.namespace_, "");
  AddOptions(options, &request);
  StartWatch<Object>(*rest_, std::move(request), ResourceCodec<Object>(resource_),
                     std::move(callbacks.event), std::move(callbacks.end), stop);
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
