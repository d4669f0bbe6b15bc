// Replaces cluster_sink.cc if the client is not built (HERALD_CLIENT=OFF), so that the library has
// the same symbols in every build.
#include "capi/cluster_sink.h"

namespace herald {

Result<ClusterSink> OpenClusterSink(const ClusterSinkOptions& /*options*/) {
  return Status(StatusReason::kMethodNotAllowed,
                "this library was built without the Kubernetes client");
}

}  // namespace herald
