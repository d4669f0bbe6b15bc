#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "client/rest/requests.h"
#include "client/rest/resource_codec.h"
#include "client/watch/watch_stream.h"
#include "herald/api/patch.h"
#include "herald/client/resource.h"
#include "herald/client/rest.h"

namespace herald {

// A ResourceClient sends the verbs of one resource and decodes the answers. EventsClient and
// DynamicClient are fronts of it, and ResourceWatcher lists and watches through it. T is Event or
// Object.
//
// It borrows the RestClient and the resource for the time of a call; requests that are under way
// do not refer to it. Callbacks run on the RestClient's thread.
//
// Immutable.
template <typename T>
class ResourceClient {
 public:
  using Codec = ResourceCodec<T>;
  using List = typename Codec::List;
  using Frame = typename Codec::Frame;
  using Done = std::function<void(Result<T>)>;
  using ListDone = std::function<void(Result<List>)>;
  using StatusDone = std::function<void(const Status&)>;

  // What a request is about. An empty namespace: a cluster-scoped object.
  struct Target {
    std::string_view namespace_{};
    std::string_view name{};
    std::string_view subresource{};
  };

  ResourceClient(RestClient& rest, const Resource& resource, WireFormat format = WireFormat::kJson)
      : rest_(rest), resource_(resource), codec_(resource, format) {}

  void Get(const Target& target, Done done, const std::stop_token& stop) const {
    SendForObject(MakeRequest("GET", target), std::move(done), stop);
  }

  void Create(std::string_view namespace_, const typename Codec::Input& object,
              const WriteOptions& options, Done done, const std::stop_token& stop) const {
    Write("POST", {.namespace_ = namespace_}, object, options, std::move(done), stop);
  }

  void Update(const Target& target, const typename Codec::Input& object,
              const WriteOptions& options, Done done, const std::stop_token& stop) const {
    Write("PUT", target, object, options, std::move(done), stop);
  }

  // `patch` is JSON.
  void Patch(const Target& target, PatchType type, std::string patch, const WriteOptions& options,
             Done done, const std::stop_token& stop) const {
    RestRequest request = MakeRequest("PATCH", target);
    AddOptions(options, &request);
    request.content_type = PatchMediaType(type);
    request.body = std::move(patch);
    SendForObject(std::move(request), std::move(done), stop);
  }

  void Delete(const Target& target, const DeleteOptions& options, StatusDone done,
              const std::stop_token& stop) const {
    RestRequest request = MakeRequest("DELETE", target);
    AddOptions(options, &request);
    SendForStatus(std::move(request), std::move(done), stop);
  }

  void DeleteCollection(const ListOptions& which, const DeleteOptions& options, StatusDone done,
                        const std::stop_token& stop) const {
    RestRequest request = MakeRequest("DELETE", {.namespace_ = which.namespace_});
    AddOptions(which, &request);
    AddOptions(options, &request);
    SendForStatus(std::move(request), std::move(done), stop);
  }

  void ListPage(const ListOptions& options, ListDone done, const std::stop_token& stop) const {
    RestRequest request = MakeRequest("GET", {.namespace_ = options.namespace_});
    AddOptions(options, &request);
    rest_.Send(
        std::move(request),
        [codec = codec_, done = std::move(done)](Result<RestResponse> response) {
          if (!response) return done(response.error());
          done(codec.ReadList(response->content_type, response->body));
        },
        stop);
  }

  void Watch(const WatchOptions& options, std::function<void(Frame&&)> on_frame,
             std::function<void(const Status&)> on_end, const std::stop_token& stop) const {
    RestRequest request = MakeRequest("GET", {.namespace_ = options.namespace_});
    AddOptions(options, &request);
    StartWatch<T>(rest_, std::move(request), codec_, std::move(on_frame), std::move(on_end), stop);
  }

 private:
  RestRequest MakeRequest(std::string_view method, const Target& target) const {
    RestRequest request =
        ResourceRequest(resource_, method, target.namespace_, target.name, target.subresource);
    request.accept = codec_.accept();
    return request;
  }

  void Write(std::string_view method, const Target& target, const typename Codec::Input& object,
             const WriteOptions& options, Done done, const std::stop_token& stop) const {
    RestRequest request = MakeRequest(method, target);
    AddOptions(options, &request);
    codec_.AddBody(object, &request);
    SendForObject(std::move(request), std::move(done), stop);
  }

  void SendForObject(RestRequest request, Done done, const std::stop_token& stop) const {
    rest_.Send(
        std::move(request),
        [codec = codec_, done = std::move(done)](Result<RestResponse> response) {
          if (!response) return done(response.error());
          done(codec.ReadObject(response->content_type, response->body));
        },
        stop);
  }

  void SendForStatus(RestRequest request, StatusDone done, const std::stop_token& stop) const {
    rest_.Send(
        std::move(request),
        [done = std::move(done)](const Result<RestResponse>& response) {
          done(response ? Status() : response.error());
        },
        stop);
  }

  RestClient& rest_;
  const Resource& resource_;
  const Codec codec_;
};

}  // namespace herald
