#include "server/access/rbac.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "api/quote.h"
#include "api/validation/object_meta.h"
#include "server/daemon/config_file.h"

namespace herald::server {
namespace {

constexpr std::string_view kRbacGroup = "rbac.authorization.k8s.io";

bool Contains(const std::vector<std::string>& list, std::string_view value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool ContainsOrStar(const std::vector<std::string>& list, std::string_view value) {
  return std::any_of(list.begin(), list.end(),
                     [value](const std::string& x) { return x == "*" || x == value; });
}

std::string ResourceOf(const RequestInfo& request) {
  return request.subresource.empty() ? request.resource
                                     : fmt::format("{}/{}", request.resource, request.subresource);
}

bool MatchesUrl(std::string_view url, std::string_view path) {
  if (url == "*" || url == path) return true;
  if (!url.ends_with('*')) return false;
  while (url.ends_with('*')) url.remove_suffix(1);
  return path.starts_with(url);
}

// Upstream: pkg/apis/rbac/v1/evaluation_helpers.go.
bool Covers(const PolicyRule& rule, const RequestInfo& request) {
  if (!ContainsOrStar(rule.verbs, request.verb)) return false;
  if (!request.is_resource)
    return std::any_of(rule.non_resource_urls.begin(), rule.non_resource_urls.end(),
                       [&](std::string_view url) { return MatchesUrl(url, request.path); });
  if (!ContainsOrStar(rule.api_groups, request.api_group)) return false;
  const std::string resource = ResourceOf(request);
  const bool resource_fits =
      std::any_of(rule.resources.begin(), rule.resources.end(), [&](std::string_view x) {
        return x == "*" || x == resource ||
               (!request.subresource.empty() && x.starts_with("*/") &&
                x.substr(2) == request.subresource);
      });
  if (!resource_fits) return false;
  return rule.resource_names.empty() || Contains(rule.resource_names, request.name);
}

// Escapes the characters that HTML uses, as kube-apiserver does.
std::string Sanitized(std::string_view message) {
  std::string out;
  for (const char c : message) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// Joins errors as Kubernetes' NewAggregate() does.
std::string Joined(std::vector<std::string> errors) {
  if (errors.size() < 2) return errors.empty() ? "" : std::move(errors.front());
  std::string out = "[";
  std::vector<std::string_view> seen;
  for (const std::string& error : errors) {
    if (std::find(seen.begin(), seen.end(), error) != seen.end()) continue;
    if (!seen.empty()) out += ", ";
    seen.emplace_back(error);
    out += error;
  }
  return out += ']';
}

}  // namespace

struct Rbac::Subject {
  enum class Kind { kUser, kGroup, kServiceAccount };
  Kind kind = Kind::kUser;
  std::string name;
  std::string namespace_;  // of a service account
  std::string reason{};    // Decision::reason if the binding allows a request of this subject

  bool AppliesTo(const User& user) const {
    switch (kind) {
      case Kind::kUser:
        return name == user.name;
      case Kind::kGroup:
        return Contains(user.groups, name);
      case Kind::kServiceAccount:
        break;
    }
    constexpr std::string_view kPrefix = "system:serviceaccount:";
    std::string_view rest = user.name;
    if (!rest.starts_with(kPrefix)) return false;
    rest.remove_prefix(kPrefix.size());
    if (!rest.starts_with(namespace_)) return false;
    rest.remove_prefix(namespace_.size());
    return rest.starts_with(':') && rest.substr(1) == name;
  }

  std::string Description() const {
    switch (kind) {
      case Kind::kUser:
        return fmt::format("User {}", Quoted(name));
      case Kind::kGroup:
        return fmt::format("Group {}", Quoted(name));
      case Kind::kServiceAccount:
        break;
    }
    return fmt::format("ServiceAccount {}", Quoted(fmt::format("{}/{}", name, namespace_)));
  }
};

struct Rbac::Binding {
  std::string name;
  std::string namespace_;  // empty: a ClusterRoleBinding
  std::vector<Subject> subjects;
  bool to_cluster_role = false;
  std::string role;

  // Formats the reasons once, so that requests need not do it.
  void SetReasons() {
    for (Subject& subject : subjects) subject.reason = ReasonOf(subject);
  }
  std::string ReasonOf(const Subject& subject) const {
    return fmt::format("RBAC: allowed by {} {} of {} {} to {}",
                       namespace_.empty() ? "ClusterRoleBinding" : "RoleBinding",
                       Quoted(namespace_.empty() ? name : fmt::format("{}/{}", name, namespace_)),
                       to_cluster_role ? "ClusterRole" : "Role", Quoted(role),
                       subject.Description());
  }
  std::string RoleNotFound() const {
    return fmt::format("{}.{} {} not found", to_cluster_role ? "clusterrole" : "role", kRbacGroup,
                       Quoted(role));
  }
};

class Rbac::Loader {
 public:
  explicit Loader(Rbac* rbac) : rbac_(rbac) {}

  Status LoadFile(const std::string& file) {
    Result<std::vector<ConfigNode>> documents = ConfigNode::Load(file);
    if (!documents) return documents.error();
    for (ConfigNode& document : *documents)
      if (Status status = LoadObject(document); !status.ok()) return status;
    return {};
  }

 private:
  Status LoadObject(ConfigNode& object) {
    const std::string kind = object.String("kind");
    const std::string api_version = object.String("apiVersion");
    if (kind == "List" && api_version == "v1") {
      object.Ignore("metadata");
      for (ConfigNode& item : object.Children("items"))
        if (Status status = LoadObject(item); !status.ok()) return status;
      return object.Finish();
    }
    if (api_version != fmt::format("{}/v1", kRbacGroup)) {
      object.RejectValue("apiVersion", fmt::format("must be {}/v1", kRbacGroup));
      return object.Finish();
    }
    if (kind != "Role" && kind != "ClusterRole" && kind != "RoleBinding" &&
        kind != "ClusterRoleBinding") {
      object.RejectValue("kind", "must be Role, ClusterRole, RoleBinding or ClusterRoleBinding");
      return object.Finish();
    }
    // The rest of the metadata (labels, annotations, ...) is ignored.
    ConfigNode metadata = object.Child("metadata");
    const std::string name = metadata.String("name");
    const std::string namespace_ = metadata.String("namespace");
    if (name.empty()) metadata.Reject("name", "is missing");

    if (kind == "Role" || kind == "ClusterRole") {
      if (object.Has("aggregationRule"))
        object.Reject("aggregationRule",
                      "is not supported: list the rules in this ClusterRole instead");
      Rules rules = ReadRules(object, kind == "Role");
      if (kind == "ClusterRole") {
        rbac_->cluster_roles_[name] = std::move(rules);
      } else {
        if (namespace_.empty()) metadata.Reject("namespace", "is missing: a Role must have one");
        rbac_->roles_[fmt::format("{}/{}", namespace_, name)] = std::move(rules);
      }
    } else {
      const bool cluster_wide = kind == "ClusterRoleBinding";
      if (!cluster_wide && namespace_.empty())
        metadata.Reject("namespace", "is missing: a RoleBinding must have one");
      Binding binding = ReadBinding(object, name, cluster_wide ? "" : namespace_);
      if (cluster_wide && !binding.to_cluster_role)
        object.Reject("roleRef", "must be a ClusterRole in a ClusterRoleBinding");
      binding.SetReasons();
      Bindings& bindings = cluster_wide ? rbac_->cluster_bindings_ : rbac_->bindings_[namespace_];
      bindings.insert_or_assign(name, std::move(binding));
    }
    return object.Finish();
  }

  // Rejects the same rules as Kubernetes (pkg/apis/rbac/validation), with the same messages.
  static Rules ReadRules(ConfigNode& object, bool namespaced) {
    Rules rules;
    for (ConfigNode& node : object.Children("rules")) {
      PolicyRule rule;
      rule.verbs = node.Strings("verbs");
      rule.api_groups = node.Strings("apiGroups");
      rule.resources = node.Strings("resources");
      rule.resource_names = node.Strings("resourceNames");
      rule.non_resource_urls = node.Strings("nonResourceURLs");
      if (rule.verbs.empty()) node.Reject("verbs", "is missing");
      // Reports a misspelled member before the member that is missing because of it. The document
      // keeps the error; the caller returns it.
      (void)node.Finish();
      if (!rule.non_resource_urls.empty()) {
        if (namespaced)
          node.Reject("nonResourceURLs", "namespaced rules cannot apply to non-resource URLs");
        if (!rule.api_groups.empty() || !rule.resources.empty() || !rule.resource_names.empty())
          node.Reject("nonResourceURLs",
                      "rules cannot apply to both regular resources and non-resource URLs");
      } else {
        if (rule.api_groups.empty())
          node.Reject("apiGroups", "resource rules must supply at least one api group");
        if (rule.resources.empty())
          node.Reject("resources", "resource rules must supply at least one resource");
      }
      rules.push_back(std::move(rule));
    }
    return rules;
  }

  static Binding ReadBinding(ConfigNode& object, std::string name, std::string namespace_) {
    Binding binding;
    binding.name = std::move(name);
    binding.namespace_ = std::move(namespace_);
    ConfigNode role = object.Child("roleRef");
    CheckApiGroup(role, kRbacGroup);
    binding.role = role.String("name");
    const std::string kind = role.String("kind");
    binding.to_cluster_role = kind == "ClusterRole";
    if (kind != "ClusterRole" && kind != "Role")
      role.RejectValue("kind", "must be Role or ClusterRole");
    if (binding.role.empty()) role.Reject("name", "is missing");
    (void)role.Finish();
    for (ConfigNode& node : object.Children("subjects")) {
      binding.subjects.push_back(ReadSubject(node, binding.namespace_));
      (void)node.Finish();
    }
    return binding;
  }

  static Subject ReadSubject(ConfigNode& node, const std::string& binding_namespace) {
    Subject subject;
    const std::string kind = node.String("kind");
    subject.name = node.String("name");
    const std::string namespace_ = node.String("namespace");
    if (subject.name.empty()) node.Reject("name", "is missing");
    if (kind == "ServiceAccount") {
      subject.kind = Subject::Kind::kServiceAccount;
      // The default is the namespace of the binding.
      subject.namespace_ = namespace_.empty() ? binding_namespace : namespace_;
      if (subject.namespace_.empty())
        node.Reject("namespace",
                    "is missing: a ServiceAccount in a ClusterRoleBinding must have one");
      if (const std::vector<std::string> errors = IsDns1123Subdomain(subject.name);
          !subject.name.empty() && !errors.empty())
        node.RejectValue("name", errors.front());
      CheckApiGroup(node, "");
    } else if (kind == "User" || kind == "Group") {
      subject.kind = kind == "User" ? Subject::Kind::kUser : Subject::Kind::kGroup;
      CheckApiGroup(node, kRbacGroup);
    } else {
      node.Ignore("apiGroup");
      node.RejectValue("kind", "must be User, Group or ServiceAccount");
    }
    return subject;
  }

  // A missing group defaults to the expected one.
  static void CheckApiGroup(ConfigNode& node, std::string_view expected) {
    const std::string group = node.String("apiGroup");
    if (!group.empty() && group != expected)
      node.RejectValue("apiGroup", fmt::format("must be {}", Quoted(expected)));
  }

  Rbac* const rbac_;
};

Rbac::Rbac() {
  // The roles and bindings that kube-apiserver creates
  // (plugin/pkg/auth/authorizer/rbac/bootstrappolicy).
  const auto urls = [](std::vector<std::string> list) {
    return PolicyRule{.verbs = {"get"}, .non_resource_urls = std::move(list)};
  };
  const auto create = [](std::string group, std::vector<std::string> resources) {
    return PolicyRule{
        .verbs = {"create"}, .api_groups = {std::move(group)}, .resources = std::move(resources)};
  };
  AddBuiltIn("cluster-admin",
             {PolicyRule{.verbs = {"*"}, .api_groups = {"*"}, .resources = {"*"}},
              PolicyRule{.verbs = {"*"}, .non_resource_urls = {"*"}}},
             {kMastersGroup});
  AddBuiltIn("system:discovery",
             {urls({"/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi",
                    "/openapi/*", "/readyz", "/version", "/version/"})},
             {kAuthenticatedGroup});
  AddBuiltIn(
      "system:basic-user",
      {create("authorization.k8s.io", {"selfsubjectaccessreviews", "selfsubjectrulesreviews"}),
       create("authentication.k8s.io", {"selfsubjectreviews"})},
      {kAuthenticatedGroup});
  AddBuiltIn("system:public-info-viewer",
             {urls({"/healthz", "/livez", "/readyz", "/version", "/version/"})},
             {kAuthenticatedGroup, kUnauthenticatedGroup});
}

Rbac::~Rbac() = default;
Rbac::Rbac(Rbac&&) noexcept = default;
Rbac& Rbac::operator=(Rbac&&) noexcept = default;

void Rbac::AddBuiltIn(std::string name, Rules rules, const std::vector<std::string_view>& groups) {
  Binding binding{
      .name = name, .namespace_ = {}, .subjects = {}, .to_cluster_role = true, .role = name};
  for (const std::string_view group : groups)
    binding.subjects.push_back({Subject::Kind::kGroup, std::string(group), {}});
  binding.SetReasons();
  cluster_bindings_.emplace(name, std::move(binding));
  cluster_roles_.emplace(std::move(name), std::move(rules));
}

Result<Rbac> Rbac::Load(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> files;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    const std::string extension = it->path().extension();
    if (extension == ".yaml" || extension == ".yml" || extension == ".json")
      files.push_back(it->path());
  }
  if (error)
    return Status(StatusReason::kBadRequest,
                  fmt::format("cannot read directory {}: {}", directory, error.message()));
  std::sort(files.begin(), files.end());

  Rbac rbac;
  Loader loader(&rbac);
  for (const std::string& file : files)
    if (Status status = loader.LoadFile(file); !status.ok()) return status;
  return rbac;
}

template <typename Visit>
void Rbac::VisitRules(const User& user, std::string_view namespace_, const Visit& visit) const {
  const auto visit_all = [&](const Bindings& bindings) {
    for (const auto& [name, binding] : bindings) {
      const auto subject =
          std::find_if(binding.subjects.begin(), binding.subjects.end(),
                       [&](const Subject& candidate) { return candidate.AppliesTo(user); });
      if (subject == binding.subjects.end()) continue;
      const auto& roles = binding.to_cluster_role ? cluster_roles_ : roles_;
      const auto role = roles.find(binding.to_cluster_role
                                       ? binding.role
                                       : fmt::format("{}/{}", binding.namespace_, binding.role));
      if (!visit(binding, *subject, role == roles.end() ? nullptr : &role->second)) return false;
    }
    return true;
  };
  if (!visit_all(cluster_bindings_)) return;
  if (namespace_.empty()) return;
  if (const auto bindings = bindings_.find(namespace_); bindings != bindings_.end())
    visit_all(bindings->second);
}

bool Rbac::Allows(const User& user, const RequestInfo& request) const {
  return Decide(user, request).allowed;
}

Decision Rbac::Decide(const User& user, const RequestInfo& request) const {
  if (Contains(user.groups, kMastersGroup)) return {.allowed = true, .reason = {}};
  Decision decision;
  std::vector<std::string> errors;
  VisitRules(user, request.is_resource ? request.namespace_ : std::string_view(),
             [&](const Binding& binding, const Subject& subject, const Rules* rules) {
               // A binding to a role that does not exist grants nothing, as in Kubernetes.
               if (rules == nullptr) {
                 errors.push_back(binding.RoleNotFound());
                 return true;
               }
               decision.allowed =
                   std::any_of(rules->begin(), rules->end(),
                               [&](const PolicyRule& rule) { return Covers(rule, request); });
               if (decision.allowed) decision.reason = subject.reason;
               return !decision.allowed;
             });
  if (!decision.allowed && !errors.empty())
    decision.reason = fmt::format("RBAC: {}", Joined(std::move(errors)));
  return decision;
}

void Rbac::Authorize(const User& user, const RequestInfo& request, Done done) const {
  done(Decide(user, request));
}

RuleList Rbac::RulesFor(const User& user, std::string_view namespace_) const {
  RuleList list;
  std::vector<std::string> errors;
  VisitRules(user, namespace_, [&](const Binding& binding, const Subject&, const Rules* rules) {
    if (rules == nullptr) {
      errors.push_back(binding.RoleNotFound());
    } else {
      list.rules.insert(list.rules.end(), rules->begin(), rules->end());
    }
    return true;
  });
  list.error = Joined(std::move(errors));
  return list;
}

Status ForbiddenStatus(const User& user, const RequestInfo& request, std::string_view reason) {
  Status::Parts parts{.reason = StatusReason::kForbidden};
  std::string why;
  if (!request.is_resource) {
    parts.message = "forbidden";
    parts.details = StatusDetails{};
    why = fmt::format("User {} cannot {} path {}", Quoted(user.name), request.verb,
                      Quoted(request.path));
  } else {
    parts.message = request.resource;
    if (!request.api_group.empty()) parts.message += fmt::format(".{}", request.api_group);
    if (!request.name.empty()) parts.message += fmt::format(" {}", Quoted(request.name));
    parts.message += " is forbidden";
    parts.details = StatusDetails{.name = request.name,
                                  .group = request.api_group,
                                  .kind = request.resource,
                                  .uid = {},
                                  .causes = {}};
    const std::string where = request.namespace_.empty()
                                  ? "at the cluster scope"
                                  : fmt::format("in the namespace {}", Quoted(request.namespace_));
    why = fmt::format("User {} cannot {} resource {} in API group {} {}", Quoted(user.name),
                      request.verb, Quoted(ResourceOf(request)), Quoted(request.api_group), where);
  }
  parts.message += fmt::format(": {}", Sanitized(why));
  if (!reason.empty()) parts.message += fmt::format(": {}", reason);
  return Status(std::move(parts));
}

}  // namespace herald::server
