#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/status.h"
#include "server/identity.h"
#include "server/request_info.h"

namespace herald::server {

// Who may do what, from ordinary Role, ClusterRole, RoleBinding and ClusterRoleBinding
// manifests (rbac.authorization.k8s.io/v1), with Kubernetes' rules: permissions only add up,
// a RoleBinding grants within its namespace, "*" stands for all. Also as there, and
// without a manifest: the group system:masters may do everything, and whoever is
// authenticated may read discovery, OpenAPI and /version.
//
// Immutable, hence thread-safe; reloading makes a new one.
class Rbac {
 public:
  // Without manifests: only what is built in.
  Rbac();
  ~Rbac();
  Rbac(Rbac&&) noexcept;
  Rbac& operator=(Rbac&&) noexcept;

  // From every .yaml, .yml and .json file in a folder. An error names the file and the
  // member, and nothing is loaded: half a policy is none.
  static Result<Rbac> Load(const std::string& folder);

  bool Allows(const User& user, const RequestInfo& request) const;

 private:
  struct Rule;
  struct Subject;
  struct Binding;
  class Loader;

  using Rules = std::vector<Rule>;
  std::map<std::string, Rules, std::less<>> cluster_roles_;
  std::map<std::string, Rules, std::less<>> roles_;  // by "namespace/name"
  std::vector<Binding> bindings_;

  static bool Covers(const Rule& rule, const RequestInfo& request);
  static bool IsAbout(const Subject& subject, const User& user);
};

// The refusal, as Kubernetes words it.
Status ForbiddenStatus(const User& user, const RequestInfo& request);

}  // namespace herald::server
