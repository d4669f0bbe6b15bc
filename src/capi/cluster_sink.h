#pragma once

#include <functional>
#include <memory>
#include <string>

#include "herald/base/status.h"
#include "herald/record/api_choice.h"
#include "herald/record/sink.h"

namespace herald {

// As herald_cluster_options.
struct ClusterSinkOptions {
  std::string kubeconfig{};
  std::string context{};
  std::string user_agent{};
  bool in_cluster = false;
  bool protobuf = false;
  std::shared_ptr<ApiChoice> api_choice{};
};

// A sink that can be closed while broadcasters still use it: later requests are rejected.
struct ClusterSink {
  std::shared_ptr<Sink> sink{};
  std::function<void()> close{};
};

// kNotFound if there is no configuration, kInvalid if it is invalid, kMethodNotAllowed if the
// library was built without the client.
Result<ClusterSink> OpenClusterSink(const ClusterSinkOptions& options);

}  // namespace herald
