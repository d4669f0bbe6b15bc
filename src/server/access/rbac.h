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

// Who may do what, from ordinary Role, ClusterRole, RoleBinding and ClusterRoleBinding
// manifests (rbac.authorization.k8s.io/v1), with Kubernetes' rules: permissions only add up,
// a RoleBinding grants within its namespace, and "*" in a rule matches everything. A subject is
// matched by its exact name.
//
// As in Kubernetes, some roles exist without a manifest: cluster-admin, bound to the group
// system:masters; system:discovery and system:basic-user, bound to all authenticated users; and
// system:public-info-viewer, bound to everyone. A manifest with the same name replaces any of them,
// but members of system:masters may always do everything.
//
// Immutable, hence thread-safe; reloading makes a new one.
class Rbac final : public Authorizer {
 public:
  // Without manifests: only what is built in.
  Rbac();
  ~Rbac() override;
  Rbac(Rbac&&) noexcept;
  Rbac& operator=(Rbac&&) noexcept;

  // From every .yaml, .yml and .json file in a folder. Of two objects of the same kind and name,
  // the last is used. An error names the file and the member, and nothing is loaded: half a
  // policy is none.
  static Result<Rbac> Load(const std::string& folder);

  bool Allows(const User& user, const RequestInfo& request) const;
  // The same with the reason: the binding that allows the request, or the roles that are bound to
  // the user and do not exist.
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

  void BuiltIn(std::string name, Rules rules, const std::vector<std::string_view>& groups);
  // Calls visit(binding, subject, rules) for each binding that applies to the user, until it
  // returns false; rules is null if the role does not exist.
  template <typename Visit>
  void VisitRules(const User& user, std::string_view namespace_, const Visit& visit) const;

  std::map<std::string, Rules, std::less<>> cluster_roles_;
  std::map<std::string, Rules, std::less<>> roles_;  // by "namespace/name"
  Bindings cluster_bindings_;
  std::map<std::string, Bindings, std::less<>> bindings_;  // by namespace
};

// The refusal, in Kubernetes' words. `reason` is the authorizer's.
Status ForbiddenStatus(const User& user, const RequestInfo& request, std::string_view reason = {});

}  // namespace herald::server
