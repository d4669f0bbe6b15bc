#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/status.h"
#include "server/access/identity.h"
#include "server/request/request_info.h"

namespace herald::server {

// Authorizes requests with ordinary Role, ClusterRole, RoleBinding and ClusterRoleBinding
// manifests (rbac.authorization.k8s.io/v1) and Kubernetes' rules: permissions are additive, there
// are no deny rules; a RoleBinding grants permissions within its namespace; "*" in a rule matches
// everything. Subjects are compared by their exact names.
//
// As in Kubernetes, some roles exist without a manifest: cluster-admin, bound to the group
// system:masters; system:discovery and system:basic-user, bound to all authenticated users; and
// system:public-info-viewer, bound to everyone. A manifest with the same name replaces any of them,
// but members of system:masters may always do everything.
//
// Immutable, hence thread-safe. A reload creates a new object.
class Rbac final : public Authorizer {
 public:
  // Has only the built-in roles and bindings.
  Rbac();
  ~Rbac() override;
  Rbac(Rbac&&) noexcept;
  Rbac& operator=(Rbac&&) noexcept;

  // Reads every .yaml, .yml and .json file in a directory, in the order of their names. Of two
  // objects of the same kind and name, the last is used. If one file is invalid, nothing is loaded:
  // a partial policy is not safe. The error names the file and the member.
  static Result<Rbac> Load(const std::string& directory);

  bool Allows(const User& user, const RequestInfo& request) const;
  // The reason is the binding that allows the request, or the roles that are bound to the user but
  // do not exist.
  Decision Decide(const User& user, const RequestInfo& request) const;
  void Authorize(const User& user, const RequestInfo& request, Done done) const override;

  // All rules that apply to the user in a namespace; with an empty namespace, only those of
  // ClusterRoleBindings.
  RuleList RulesFor(const User& user, std::string_view namespace_) const override;

 private:
  struct Subject;
  struct Binding;
  class Loader;

  using Rules = std::vector<PolicyRule>;
  using Bindings = std::map<std::string, Binding, std::less<>>;  // by name

  void AddBuiltIn(std::string name, Rules rules, const std::vector<std::string_view>& groups);
  // Calls visit(binding, subject, rules) for each binding that applies to the user, until it
  // returns false; rules is null if the role does not exist.
  template <typename Visit>
  void VisitRules(const User& user, std::string_view namespace_, const Visit& visit) const;

  std::map<std::string, Rules, std::less<>> cluster_roles_;
  std::map<std::string, Rules, std::less<>> roles_;  // by "namespace/name"
  Bindings cluster_bindings_;
  std::map<std::string, Bindings, std::less<>> bindings_;  // by namespace
};

// The 403 Forbidden error, with Kubernetes' message. `reason` is the authorizer's.
Status ForbiddenStatus(const User& user, const RequestInfo& request, std::string_view reason = {});

}  // namespace herald::server
