#pragma once

#include <functional>
#include <memory>
#include <string>

#include "herald/base/status.h"
#include "herald/record/api_choice.h"
#include "herald/record/sink.h"

namespace herald {

// Which API server to write to; see herald_cluster_options.
struct ClusterSinkOptions {
  std::string kubeconfig{};
  std::string context{};
  std::string user_agent{};
  bool in_cluster = false;
  bool protobuf = false;
  std::shared_ptr<ApiChoice> api_choice{};
};

// A sink that can be closed while others hold it: what comes then is refused.
struct ClusterSink {
  std::shared_ptr<Sink> sink{};
  std::function<void()> close{};
};

// kNotFound where there is no configuration, kInvalid where it makes no sense, and
// kMethodNotAllowed where this library was built without the client.
Result<ClusterSink> OpenClusterSink(const ClusterSinkOptions& options);

}  // namespace herald
