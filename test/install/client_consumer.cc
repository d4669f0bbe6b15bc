// A program that uses the Kubernetes client as a library. It needs symbols of client and of all
// modules below it, so that a missing export or library fails the link.
#include <cstdio>
#include <memory>
#include <string>

#include "herald/client/config.h"
#include "herald/client/dynamic.h"
#include "herald/client/events.h"
#include "herald/client/informer.h"
#include "herald/client/leader_election.h"
#include "herald/client/resource_watcher.h"
#include "herald/client/rest.h"
#include "herald/client/rest_sink.h"
#include "herald/client/work_queue.h"
#include "herald/record/broadcaster.h"

int main() {
  const auto config = herald::ParseKubeconfig(
      "clusters: [{name: c, cluster: {server: \"http://127.0.0.1:1\"}}]\n"
      "contexts: [{name: k, context: {cluster: c, user: u}}]\ncurrent-context: k\n");
  if (!config) {
    std::fprintf(stderr, "%s\n", config.error().message().c_str());
    return 1;
  }
  const auto rest = herald::RestClient::Open(*config);
  if (!rest) return 1;
  const herald::EventsClient events(*rest);
  const herald::DynamicClient pods(*rest, {"", "v1", "pods"});
  herald::Informer<herald::Object> informer(*rest, {"", "v1", "pods"});
  const auto elector =
      herald::LeaderElector::Open(*rest, {.name = "consumer", .identity = "consumer-1"});
  if (!elector || (*elector)->IsLeader()) return 1;
  herald::WorkQueue queue;
  queue.Add("default/web");
  // There is no server on port 1, so the requests must fail.
  const auto listed = events.List();
  const auto pod = pods.Get("default", "web");
  if (listed || !listed.error().Is(herald::StatusReason::kUnreachable) || pod) {
    std::fprintf(stderr, "expected the requests to fail\n");
    return 1;
  }
  herald::Broadcaster broadcaster;
  return broadcaster.StartRecordingToSink(std::make_shared<herald::RestSink>(*rest)).ok() &&
                 queue.TryGet() == "default/web"
             ? 0
             : 1;
}
