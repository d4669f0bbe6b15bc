#include "server/rbac.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "server/config_file.h"

namespace herald::server {
namespace {

constexpr std::string_view kRbacGroup = "rbac.authorization.k8s.io";
constexpr std::string_view kMasters = "system:masters";
constexpr std::string_view kAuthenticated = "system:authenticated";

bool HasOrStar(const std::vector<std::string>& list, std::string_view value) {
  return std::any_of(list.begin(), list.end(),
                     [value](const std::string& x) { return x == "*" || x == value; });
}

}  // namespace

struct Rbac::Rule {
  std::vector<std::string> verbs;
  std::vector<std::string> api_groups;
  std::vector<std::string> resources;
  std::vector<std::string> resource_names;
  std::vector<std::string> non_resource_urls;
};

struct Rbac::Subject {
  enum class Kind { kUser, kGroup };
  Kind kind = Kind::kUser;
  std::string name;
};

struct Rbac::Binding {
  std::string namespace_;  // empty: everywhere
  std::vector<Subject> subjects;
  bool to_cluster_role = false;
  std::string role;
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
      object.Refuse("apiVersion", fmt::format("must be {}/v1", kRbacGroup));
      return object.Finish();
    }
    if (kind != "Role" && kind != "ClusterRole" && kind != "RoleBinding" &&
        kind != "ClusterRoleBinding") {
      object.Refuse("kind", "must be Role, ClusterRole, RoleBinding or ClusterRoleBinding");
      return object.Finish();
    }
    // The rest of the metadata (labels, annotations, ...) means nothing here.
    ConfigNode metadata = object.Child("metadata");
    const std::string name = metadata.String("name");
    const std::string namespace_ = metadata.String("namespace");
    if (name.empty()) metadata.Refuse("name", "is missing");

    if (kind == "Role" || kind == "ClusterRole") {
      if (object.Has("aggregationRule"))
        object.Refuse("aggregationRule", "is not supported: list the rules themselves");
      Rules rules = ReadRules(object);
      if (kind == "ClusterRole") {
        rbac_->cluster_roles_[name] = std::move(rules);
      } else {
        if (namespace_.empty()) metadata.Refuse("namespace", "is missing: a Role has one");
        rbac_->roles_[fmt::format("{}/{}", namespace_, name)] = std::move(rules);
      }
    } else {
      const bool everywhere = kind == "ClusterRoleBinding";
      if (!everywhere && namespace_.empty())
        metadata.Refuse("namespace", "is missing: a RoleBinding has one");
      Binding binding = ReadBinding(object, everywhere ? "" : namespace_);
      if (everywhere && !binding.to_cluster_role)
        object.Refuse("roleRef", "a ClusterRoleBinding needs a ClusterRole");
      rbac_->bindings_.push_back(std::move(binding));
    }
    return object.Finish();
  }

  static Rules ReadRules(ConfigNode& object) {
    Rules rules;
    for (ConfigNode& node : object.Children("rules")) {
      Rule rule;
      rule.verbs = node.Strings("verbs");
      rule.api_groups = node.Strings("apiGroups");
      rule.resources = node.Strings("resources");
      rule.resource_names = node.Strings("resourceNames");
      rule.non_resource_urls = node.Strings("nonResourceURLs");
      if (rule.verbs.empty()) node.Refuse("verbs", "is missing");
      // Remembered for the whole document, which is asked in the end.
      (void)node.Finish();
      rules.push_back(std::move(rule));
    }
    return rules;
  }

  static Binding ReadBinding(ConfigNode& object, std::string namespace_) {
    Binding binding;
    binding.namespace_ = std::move(namespace_);
    ConfigNode role = object.Child("roleRef");
    role.Ignore("apiGroup");
    binding.role = role.String("name");
    const std::string kind = role.String("kind");
    binding.to_cluster_role = kind == "ClusterRole";
    if (kind != "ClusterRole" && kind != "Role") role.Refuse("kind", "must be Role or ClusterRole");
    if (binding.role.empty()) role.Refuse("name", "is missing");
    (void)role.Finish();
    for (ConfigNode& node : object.Children("subjects")) {
      node.Ignore("apiGroup");
      const std::string subject_kind = node.String("kind");
      const std::string name = node.String("name");
      const std::string subject_namespace = node.String("namespace");
      if (subject_kind == "ServiceAccount") {
        if (subject_namespace.empty())
          node.Refuse("namespace", "is missing: a ServiceAccount has one");
        binding.subjects.push_back({Subject::Kind::kUser, fmt::format("system:serviceaccount:{}:{}",
                                                                      subject_namespace, name)});
      } else if (subject_kind == "User" || subject_kind == "Group") {
        binding.subjects.push_back(
            {subject_kind == "User" ? Subject::Kind::kUser : Subject::Kind::kGroup, name});
      } else {
        node.Refuse("kind", "must be User, Group or ServiceAccount");
      }
      (void)node.Finish();
    }
    return binding;
  }

  Rbac* const rbac_;
};

Rbac::Rbac() {
  // What kube-apiserver makes for itself as system:discovery and
  // system:public-info-viewer (plugin/pkg/auth/authorizer/rbac/bootstrappolicy).
  cluster_roles_["system:discovery"] = {
      Rule{.verbs = {"get"},
           .api_groups = {},
           .resources = {},
           .resource_names = {},
           .non_resource_urls = {"/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez",
                                 "/readyz", "/openapi", "/openapi/*", "/version", "/version/"}}};
  bindings_.push_back(
      {"", {{Subject::Kind::kGroup, std::string(kAuthenticated)}}, true, "system:discovery"});
}

Rbac::~Rbac() = default;
Rbac::Rbac(Rbac&&) noexcept = default;
Rbac& Rbac::operator=(Rbac&&) noexcept = default;

Result<Rbac> Rbac::Load(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> files;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string extension = it->path().extension();
    if (extension == ".yaml" || extension == ".yml" || extension == ".json")
      files.push_back(it->path());
  }
  if (error)
    return Status(StatusReason::kBadRequest,
                  fmt::format("cannot read the folder {}: {}", folder, error.message()));
  std::sort(files.begin(), files.end());

  Rbac rbac;
  Loader loader(&rbac);
  for (const std::string& file : files)
    if (Status status = loader.LoadFile(file); !status.ok()) return status;
  return rbac;
}

bool Rbac::Covers(const Rule& rule, const RequestInfo& request) {
  if (!HasOrStar(rule.verbs, request.verb)) return false;
  if (!request.is_resource) {
    return std::any_of(rule.non_resource_urls.begin(), rule.non_resource_urls.end(),
                       [&](std::string_view url) {
                         if (url == "*" || url == request.path) return true;
                         if (!url.ends_with('*')) return false;
                         url.remove_suffix(1);
                         return request.path.starts_with(url);
                       });
  }
  if (!HasOrStar(rule.api_groups, request.api_group)) return false;
  const std::string resource = request.subresource.empty()
                                   ? request.resource
                                   : fmt::format("{}/{}", request.resource, request.subresource);
  const bool resource_fits =
      std::any_of(rule.resources.begin(), rule.resources.end(), [&](std::string_view x) {
        return x == "*" || x == resource ||
               (!request.subresource.empty() && x == fmt::format("*/{}", request.subresource));
      });
  if (!resource_fits) return false;
  return rule.resource_names.empty() ||
         std::find(rule.resource_names.begin(), rule.resource_names.end(), request.name) !=
             rule.resource_names.end();
}

bool Rbac::IsAbout(const Subject& subject, const User& user) {
  if (subject.kind == Subject::Kind::kUser) return subject.name == "*" || subject.name == user.name;
  return std::find(user.groups.begin(), user.groups.end(), subject.name) != user.groups.end();
}

bool Rbac::Allows(const User& user, const RequestInfo& request) const {
  if (std::find(user.groups.begin(), user.groups.end(), kMasters) != user.groups.end()) return true;
  for (const Binding& binding : bindings_) {
    if (!binding.namespace_.empty() &&
        (!request.is_resource || binding.namespace_ != request.namespace_))
      continue;
    if (std::none_of(binding.subjects.begin(), binding.subjects.end(),
                     [&](const Subject& subject) { return IsAbout(subject, user); }))
      continue;
    const auto& roles = binding.to_cluster_role ? cluster_roles_ : roles_;
    const auto role = roles.find(binding.to_cluster_role
                                     ? binding.role
                                     : fmt::format("{}/{}", binding.namespace_, binding.role));
    // A binding to a role that does not exist grants nothing, as in Kubernetes.
    if (role == roles.end()) continue;
    if (std::any_of(role->second.begin(), role->second.end(),
                    [&](const Rule& rule) { return Covers(rule, request); }))
      return true;
  }
  return false;
}

Status ForbiddenStatus(const User& user, const RequestInfo& request) {
  Status::Parts parts{.reason = StatusReason::kForbidden};
  if (!request.is_resource) {
    parts.message = fmt::format("forbidden: User \"{}\" cannot {} path \"{}\"", user.name,
                                request.verb, request.path);
    parts.details = StatusDetails{};
    return Status(std::move(parts));
  }
  const std::string resource = request.subresource.empty()
                                   ? request.resource
                                   : fmt::format("{}/{}", request.resource, request.subresource);
  std::string what = request.api_group.empty()
                         ? request.resource
                         : fmt::format("{}.{}", request.resource, request.api_group);
  if (!request.name.empty()) what += fmt::format(" \"{}\"", request.name);
  const std::string where = request.namespace_.empty()
                                ? "at the cluster scope"
                                : fmt::format("in the namespace \"{}\"", request.namespace_);
  parts.message =
      fmt::format("{} is forbidden: User \"{}\" cannot {} resource \"{}\" in API group \"{}\" {}",
                  what, user.name, request.verb, resource, request.api_group, where);
  parts.details = StatusDetails{.name = request.name,
                                .group = request.api_group,
                                .kind = request.resource,
                                .uid = {},
                                .causes = {}};
  return Status(std::move(parts));
}

}  // namespace herald::server
