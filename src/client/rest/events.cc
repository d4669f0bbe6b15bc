#include "herald/client/events.h"

#include <memory>
#include <utility>

#include "client/rest/blocking_call.h"
#include "client/rest/event_format.h"
#include "client/rest/requests.h"
#include "client/rest/resource_client.h"
#include "herald/client/json_value.h"

namespace herald {
namespace {

Status NoNamespace(const char* verb) {
  return {StatusReason::kBadRequest,
          std::string("can't ") + verb + " an event with empty namespace"};
}

ResourceClient<Event> Client(RestClient& rest, const EventsClientOptions& options) {
  return {rest, EventResource(options.api), options.format};
}

}  // namespace

EventsClient::EventsClient(std::shared_ptr<RestClient> rest, EventsClientOptions options)
    : rest_(std::move(rest)), options_(options) {}

Result<EventApi> EventsClient::Discover(RestClient& rest, const std::stop_token& stop) {
  return ReadDiscovery(rest.Send(DiscoveryRequest(), stop));
}

void EventsClient::Create(const Event& event, const WriteOptions& options, Done done,
                          const std::stop_token& stop) const {
  if (event.metadata.namespace_.empty()) return done(NoNamespace("create"));
  Client(*rest_, options_).Create(event.metadata.namespace_, event, options, std::move(done), stop);
}

void EventsClient::Update(const Event& event, const WriteOptions& options, Done done,
                          const std::stop_token& stop) const {
  if (event.metadata.namespace_.empty()) return done(NoNamespace("update"));
  Client(*rest_, options_)
      .Update({event.metadata.namespace_, event.metadata.name}, event, options, std::move(done),
              stop);
}

void EventsClient::Get(std::string_view namespace_, std::string_view name, Done done,
                       const std::stop_token& stop) const {
  if (namespace_.empty()) return done(NoNamespace("get"));
  Client(*rest_, options_).Get({namespace_, name}, std::move(done), stop);
}

void EventsClient::Patch(std::string_view namespace_, std::string_view name, PatchType type,
                         std::string patch, const WriteOptions& options, Done done,
                         const std::stop_token& stop) const {
  if (namespace_.empty()) return done(NoNamespace("patch"));
  Client(*rest_, options_)
      .Patch({namespace_, name}, type, std::move(patch), options, std::move(done), stop);
}

void EventsClient::Delete(std::string_view namespace_, std::string_view name,
                          const DeleteOptions& options, StatusDone done,
                          const std::stop_token& stop) const {
  if (namespace_.empty()) return done(NoNamespace("delete"));
  Client(*rest_, options_).Delete({namespace_, name}, options, std::move(done), stop);
}

void EventsClient::DeleteCollection(const ListOptions& which, const DeleteOptions& options,
                                    StatusDone done, const std::stop_token& stop) const {
  if (which.namespace_.empty()) return done(NoNamespace("delete"));
  Client(*rest_, options_).DeleteCollection(which, options, std::move(done), stop);
}

void EventsClient::List(const ListOptions& options, ListDone done,
                        const std::stop_token& stop) const {
  Client(*rest_, options_).ListPage(options, std::move(done), stop);
}

void EventsClient::Watch(const WatchOptions& options, WatchCallbacks callbacks,
                         const std::stop_token& stop) const {
  Client(*rest_, options_)
      .Watch(options, std::move(callbacks.event), std::move(callbacks.end), stop);
}

Result<Event> EventsClient::Create(const Event& event, const WriteOptions& options,
                                   const std::stop_token& stop) const {
  return WaitForResult<Event>([&](Done done) { Create(event, options, std::move(done), stop); });
}

Result<Event> EventsClient::Update(const Event& event, const WriteOptions& options,
                                   const std::stop_token& stop) const {
  return WaitForResult<Event>([&](Done done) { Update(event, options, std::move(done), stop); });
}

Result<Event> EventsClient::Get(std::string_view namespace_, std::string_view name,
                                const std::stop_token& stop) const {
  return WaitForResult<Event>([&](Done done) { Get(namespace_, name, std::move(done), stop); });
}

Result<Event> EventsClient::Patch(std::string_view namespace_, std::string_view name,
                                  PatchType type, std::string patch, const WriteOptions& options,
                                  const std::stop_token& stop) const {
  return WaitForResult<Event>([&](Done done) {
    Patch(namespace_, name, type, std::move(patch), options, std::move(done), stop);
  });
}

Status EventsClient::Delete(std::string_view namespace_, std::string_view name,
                            const DeleteOptions& options, const std::stop_token& stop) const {
  return WaitForStatus(
      [&](StatusDone done) { Delete(namespace_, name, options, std::move(done), stop); });
}

Status EventsClient::DeleteCollection(const ListOptions& which, const DeleteOptions& options,
                                      const std::stop_token& stop) const {
  return WaitForStatus(
      [&](StatusDone done) { DeleteCollection(which, options, std::move(done), stop); });
}

Result<EventList> EventsClient::List(const ListOptions& options,
                                     const std::stop_token& stop) const {
  return WaitForResult<EventList>([&](ListDone done) { List(options, std::move(done), stop); });
}

Status EventsClient::Watch(const WatchOptions& options, std::function<void(WatchEvent&&)> on_event,
                           const std::stop_token& stop) const {
  return WaitForStatus([&](StatusDone done) {
    Watch(options, WatchCallbacks{std::move(on_event), std::move(done)}, stop);
  });
}

Result<std::vector<EventAccess>> ReviewEventAccess(RestClient& rest,
                                                   const std::vector<std::string>& namespaces,
                                                   const std::stop_token& stop) {
  const Resource reviews{"authorization.k8s.io", "v1", "selfsubjectaccessreviews"};
  std::vector<EventAccess> out;
  for (const std::string& ns : namespaces) {
    for (const EventApi api : {EventApi::kEventsV1, EventApi::kCoreV1}) {
      EventAccess access{.namespace_ = ns, .api = api};
      for (bool* const may : {&access.may_create, &access.may_patch}) {
        JsonValue review;
        review.Member("apiVersion") = "authorization.k8s.io/v1";
        review.Member("kind") = "SelfSubjectAccessReview";
        JsonValue& attributes = review.Member("spec").Member("resourceAttributes");
        if (!ns.empty()) attributes.Member("namespace") = ns;
        attributes.Member("verb") = may == &access.may_create ? "create" : "patch";
        attributes.Member("group") = ApiGroupName(api);
        attributes.Member("resource") = "events";
        RestRequest request = ResourceRequest(reviews, "POST", "", "");
        request.content_type = "application/json";
        request.body = review.ToString();
        const Result<RestResponse> response = rest.Send(std::move(request), stop);
        if (!response) return response.error();
        const Result<JsonValue> answer = JsonValue::Parse(response->body);
        if (!answer) return answer.error();
        const JsonValue& status = (*answer)["status"];
        *may = status["allowed"].Bool();
        if (!status["reason"].String().empty()) access.reason = status["reason"].String();
      }
      out.push_back(std::move(access));
    }
  }
  return out;
}

}  // namespace herald
