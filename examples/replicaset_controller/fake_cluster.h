#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "herald/client/config.h"
#include "herald/client/json_value.h"
#include "http/server/server.h"

namespace replicaset_controller {

// The part of an API server that a ReplicaSet controller needs, over HTTP on loopback. It lists,
// watches, creates, reads and deletes pods and replicasets, patches the owner of pods, and updates
// the status of replicasets. Tests can change objects directly, make requests fail, and hold back
// changes from watches.
//
// Thread-safe.
class FakeCluster {
 public:
  using JsonValue = herald::JsonValue;
  using Objects = std::map<std::string, JsonValue>;  // by "namespace/name"
  // Returns another answer, or nothing for the normal one. `verb` is "POST pods" or "PUT
  // replicasets/status".
  using Fault = std::function<std::optional<herald::http::Response>(const std::string& verb)>;

  // Longer than any test takes, even on a busy machine.
  static constexpr std::chrono::seconds kPatience{60};

  FakeCluster() {
    auto server = herald::http::Server::Start(
        {}, herald::http::WithBodies(
                [this](const herald::http::Request& request, const herald::http::Peer&,
                       const std::shared_ptr<herald::http::Responder>& responder) {
                  Handle(request, responder);
                }));
    EXPECT_TRUE(server) << (server ? "" : server.error().ToString());
    server_ = std::move(*server);
  }
  ~FakeCluster() {
    server_->Stop();
    const std::lock_guard lock(mu_);
    watches_.clear();
  }
  FakeCluster(const FakeCluster&) = delete;
  FakeCluster& operator=(const FakeCluster&) = delete;

  herald::ClientConfig config() const {
    return {.server = "http://127.0.0.1:" + std::to_string(server_->port())};
  }

  void SetFault(Fault fault) {
    const std::lock_guard lock(mu_);
    fault_ = std::move(fault);
  }
  // Holds back changes from watches of pods until they are released.
  void HoldPodWatches(bool held) {
    const std::lock_guard lock(mu_);
    held_ = held;
    if (!held) Broadcast();
  }
  void LoseReplicaSets() {
    const std::lock_guard lock(mu_);
    has_replica_sets_ = false;
  }

  // Creates or changes an object, as another client would.
  void Put(const std::string& resource, JsonValue object) {
    const std::lock_guard lock(mu_);
    Store(resource, std::move(object));
  }
  void Change(const std::string& resource, const std::string& key,
              const std::function<void(JsonValue&)>& change) {
    const std::lock_guard lock(mu_);
    JsonValue object = objects_[resource].at(key);
    change(object);
    Store(resource, std::move(object));
  }
  void Remove(const std::string& resource, const std::string& key) {
    const std::lock_guard lock(mu_);
    Erase(resource, key);
  }

  Objects All(const std::string& resource) const {
    const std::lock_guard lock(mu_);
    const auto it = objects_.find(resource);
    return it != objects_.end() ? it->second : Objects();
  }
  int Asked(const std::string& verb) const {
    const std::lock_guard lock(mu_);
    const auto it = asked_.find(verb);
    return it != asked_.end() ? it->second : 0;
  }
  // `condition` is called after each request and each change, without the lock.
  bool WaitUntil(const std::function<bool()>& condition) {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      std::uint64_t seen = 0;
      {
        const std::lock_guard lock(mu_);
        seen = steps_;
      }
      if (condition()) return true;
      std::unique_lock lock(mu_);
      if (!stepped_.wait_until(lock, give_up, [&] { return steps_ != seen; })) return condition();
    }
  }

  static herald::http::Response Answer(int code, const JsonValue& body) {
    return {code, {{"content-type", "application/json"}}, body.ToString()};
  }
  static herald::http::Response Refusal(int code, const std::string& reason,
                                        const std::string& message, const std::string& cause = {}) {
    JsonValue status;
    status.Member("kind") = "Status";
    status.Member("apiVersion") = "v1";
    status.Member("status") = "Failure";
    status.Member("code") = code;
    status.Member("reason") = reason;
    status.Member("message") = message;
    if (!cause.empty()) {
      JsonValue one;
      one.Member("reason") = cause;
      status.Member("details").Member("causes") = JsonValue::Array{one};
    }
    return Answer(code, status);
  }

 private:
  struct Watch {
    std::string resource;
    std::size_t next = 0;  // of log_
    std::shared_ptr<herald::http::Responder> responder;
  };
  struct LoggedChange {
    std::string resource;
    std::string frame;
  };
  // The parts of "/api/v1/namespaces/shop/pods/web-1".
  struct Target {
    std::string resource;
    std::string namespace_;
    std::string name;
    std::string subresource;
    bool watch = false;
    std::size_t version = 0;
  };

  static Target Parse(std::string_view target) {
    Target out;
    const std::string_view query =
        target.find('?') == std::string_view::npos ? "" : target.substr(target.find('?'));
    out.watch = query.find("watch=true") != std::string_view::npos;
    if (const auto at = query.find("resourceVersion="); at != std::string_view::npos) {
      out.version = std::stoul(std::string(query.substr(at + 16)));
    }
    std::vector<std::string> parts;
    std::string_view path = target.substr(0, target.find('?'));
    while (!path.empty()) {
      path.remove_prefix(1);
      parts.emplace_back(path.substr(0, path.find('/')));
      path.remove_prefix(std::min(path.size(), parts.back().size()));
    }
    std::size_t i = parts.at(0) == "api" ? 2 : 3;  // api/v1, apis/apps/v1
    if (i + 1 < parts.size() && parts[i] == "namespaces") {
      out.namespace_ = parts[i + 1];
      i += 2;
    }
    if (i < parts.size()) out.resource = parts[i];
    if (i + 1 < parts.size()) out.name = parts[i + 1];
    if (i + 2 < parts.size()) out.subresource = parts[i + 2];
    return out;
  }

  void Handle(const herald::http::Request& request,
              const std::shared_ptr<herald::http::Responder>& responder) {
    const Target target = Parse(request.target);
    std::string verb = request.method + " " + target.resource;
    if (!target.subresource.empty()) verb += "/" + target.subresource;
    Fault fault;
    {
      const std::lock_guard lock(mu_);
      fault = fault_;
    }
    std::optional<herald::http::Response> answer;
    if (fault) answer = fault(verb);
    const std::lock_guard lock(mu_);
    ++asked_[verb];
    if (!answer && target.watch) {
      responder->Start({200, {{"content-type", "application/json"}}});
      watches_.push_back({target.resource, target.version, responder});
      Broadcast();
      return;
    }
    responder->Send(answer ? *answer : Serve(request, target));
    Step();
  }

  // REQUIRES for all below: mu_ is held
  herald::http::Response Serve(const herald::http::Request& request, const Target& target) {
    if (target.resource.empty()) {
      JsonValue list;
      list.Member("kind") = "APIResourceList";
      JsonValue sets;
      sets.Member("name") = "replicasets";
      if (has_replica_sets_) list.Member("resources").MutableArray().push_back(sets);
      return Answer(200, list);
    }
    Objects& objects = objects_[target.resource];
    const std::string key = target.namespace_ + "/" + target.name;
    if (target.name.empty()) {
      if (request.method == "POST") {
        JsonValue object = *JsonValue::Parse(request.body);
        JsonValue& metadata = object.Member("metadata");
        metadata.Member("namespace") = target.namespace_;
        metadata.Member("name") =
            metadata["generateName"].String() + std::to_string(log_.size() + 1);
        return Answer(201, Store(target.resource, std::move(object)));
      }
      JsonValue list;
      list.Member("kind") = target.resource == "pods" ? "PodList" : "ReplicaSetList";
      list.Member("apiVersion") = target.resource == "pods" ? "v1" : "apps/v1";
      list.Member("metadata").Member("resourceVersion") = std::to_string(log_.size());
      list.Member("items").MutableArray();
      for (const auto& [name, object] : objects)
        list.Member("items").MutableArray().push_back(object);
      return Answer(200, list);
    }
    const auto it = objects.find(key);
    if (it == objects.end()) return Refusal(404, "NotFound", "not found");
    if (request.method == "GET") return Answer(200, it->second);
    if (request.method == "DELETE") {
      // As with a kubelet: first the deletionTimestamp, then the deletion.
      JsonValue object = it->second;
      object.Member("metadata").Member("deletionTimestamp") = "2023-11-14T22:13:20Z";
      Store(target.resource, std::move(object));
      Erase(target.resource, key);
      return Answer(200, JsonValue(JsonValue::Object()));
    }
    const JsonValue body = *JsonValue::Parse(request.body);
    JsonValue object = it->second;
    if (request.method == "PUT") {
      if (body["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"]) {
        return Refusal(409, "Conflict", "the object has been modified");
      }
      object.Member("status") = body["status"];
    } else {
      JsonValue::Array& owners = object.Member("metadata").Member("ownerReferences").MutableArray();
      for (const JsonValue& patch : body["metadata"]["ownerReferences"].array()) {
        std::erase_if(owners, [&](const JsonValue& owner) { return owner["uid"] == patch["uid"]; });
        if (patch["$patch"].String() != "delete") owners.push_back(patch);
      }
    }
    return Answer(200, Store(target.resource, std::move(object)));
  }

  JsonValue Store(const std::string& resource, JsonValue object) {
    JsonValue& metadata = object.Member("metadata");
    const std::string key = metadata["namespace"].String() + "/" + metadata["name"].String();
    const bool is_new = !objects_[resource].contains(key);
    const std::string revision = std::to_string(log_.size() + 1);
    if (is_new && !metadata.Has("uid")) metadata.Member("uid") = "uid-" + revision;
    metadata.Member("resourceVersion") = revision;
    objects_[resource][key] = object;
    Tell(resource, is_new ? "ADDED" : "MODIFIED", object);
    return object;
  }
  void Erase(const std::string& resource, const std::string& key) {
    JsonValue object = objects_[resource].at(key);
    objects_[resource].erase(key);
    object.Member("metadata").Member("resourceVersion") = std::to_string(log_.size() + 1);
    Tell(resource, "DELETED", object);
  }
  void Tell(const std::string& resource, const char* type, const JsonValue& object) {
    JsonValue frame;
    frame.Member("type") = type;
    frame.Member("object") = object;
    log_.push_back({resource, frame.ToString() + "\n"});
    Broadcast();
    Step();
  }
  void Broadcast() {
    for (Watch& watch : watches_) {
      if (held_ && watch.resource == "pods") continue;
      for (; watch.next < log_.size(); ++watch.next) {
        if (log_[watch.next].resource != watch.resource) continue;
        watch.responder->Write(std::make_shared<const std::string>(log_[watch.next].frame));
      }
    }
  }
  void Step() {
    ++steps_;
    stepped_.notify_all();
  }

  mutable std::mutex mu_;
  std::condition_variable stepped_;
  std::uint64_t steps_ = 0;
  Fault fault_;
  bool held_ = false;
  bool has_replica_sets_ = true;
  std::map<std::string, Objects> objects_;
  std::vector<LoggedChange> log_;  // a revision is the number of changes up to and including it
  std::vector<Watch> watches_;
  std::map<std::string, int> asked_;
  std::unique_ptr<herald::http::Server> server_;  // last, because its threads use the others
};

}  // namespace replicaset_controller
