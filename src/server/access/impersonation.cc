#include "server/access/impersonation.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "api/quote.h"
#include "api/validation/object_meta.h"
#include "base/check.h"
#include "http/url.h"
#include "server/access/rbac.h"

namespace herald::server {
namespace {

constexpr std::string_view kUserHeader = "impersonate-user";
constexpr std::string_view kUidHeader = "impersonate-uid";
constexpr std::string_view kGroupHeader = "impersonate-group";
constexpr std::string_view kExtraPrefix = "impersonate-extra-";

constexpr std::string_view kAuthenticationGroup = "authentication.k8s.io";
// The extra key under which a service account's token names the node it is used on.
constexpr std::string_view kNodeNameKey = "authentication.kubernetes.io/node-name";

// With at least this many groups or extra values, permission for "*" is checked first.
constexpr std::size_t kManyChecks = 4;

bool IsImpersonationHeader(std::string_view name) {
  return name == kUserHeader || name == kUidHeader || name == kGroupHeader ||
         name.starts_with(kExtraPrefix);
}

std::string GoStrings(const std::vector<std::string>& strings) {
  std::string out = "[]string{";
  for (const std::string& string : strings) {
    if (&string != &strings.front()) out += ", ";
    AppendQuoted(string, &out);
  }
  return out += '}';
}

// The user in the format of Go's %#v, which is part of kube-apiserver's message.
std::string GoUser(const User& user) {
  std::string extra = user.extra.empty() ? "(nil)" : "{";
  for (const auto& [key, values] : user.extra) {
    if (extra.size() > 1) extra += ", ";
    extra += fmt::format("{}:{}", Quoted(key), GoStrings(values));
  }
  if (!user.extra.empty()) extra += '}';
  return fmt::format("&user.DefaultInfo{{Name:{}, UID:{}, Groups:{}, Extra:map[string][]string{}}}",
                     Quoted(user.name), Quoted(user.uid),
                     user.groups.empty() ? "[]string(nil)" : GoStrings(user.groups), extra);
}

// The user that the headers request, unchecked.
User WantedUser(const http::Headers& headers) {
  User user;
  user.name = headers.Get(kUserHeader);
  user.uid = headers.Get(kUidHeader);
  for (const http::Headers::Field& field : headers) {
    if (field.name == kGroupHeader) {
      user.groups.push_back(field.value);
    } else if (field.name.starts_with(kExtraPrefix)) {
      const std::string encoded = field.name.substr(kExtraPrefix.size());
      // A key that cannot be decoded is used as it is.
      user.extra[http::PercentDecode(encoded).value_or(encoded)].push_back(field.value);
    }
  }
  return user;
}

bool IsDnsSubdomain(std::string_view name) {
  return name.size() <= kMaxDnsSubdomainBytes && LooksLikeDnsSubdomain(name);
}

struct ServiceAccount {
  std::string_view namespace_;
  std::string_view name;
};
std::optional<ServiceAccount> ServiceAccountOf(std::string_view user) {
  constexpr std::string_view kPrefix = "system:serviceaccount:";
  if (!user.starts_with(kPrefix)) return std::nullopt;
  user.remove_prefix(kPrefix.size());
  const std::size_t colon = user.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const ServiceAccount account{user.substr(0, colon), user.substr(colon + 1)};
  if (!IsDns1123Label(account.namespace_).empty() || !IsDnsSubdomain(account.name))
    return std::nullopt;
  return account;
}

std::optional<std::string_view> NodeOf(std::string_view user) {
  constexpr std::string_view kPrefix = "system:node:";
  if (!user.starts_with(kPrefix)) return std::nullopt;
  user.remove_prefix(kPrefix.size());
  if (!IsDnsSubdomain(user)) return std::nullopt;
  return user;
}

bool IsAssociatedWith(const User& requestor, std::string_view node) {
  if (!ServiceAccountOf(requestor.name)) return false;
  const auto names = requestor.extra.find(std::string(kNodeNameKey));
  return names != requestor.extra.end() && names->second.size() == 1 &&
         names->second.front() == node;
}

// Validates a key of extra values with Kubernetes' messages (IsDomainPrefixedPath in
// apimachinery/pkg/util/validation). Empty if it is valid.
std::string KeyError(std::string_view key) {
  const auto invalid = [](std::string_view value, std::string_view why) {
    return fmt::format("extra.key: Invalid value: {}: {}", Quoted(value), why);
  };
  const std::size_t slash = key.find('/');
  if (slash == 0 || slash == std::string_view::npos || slash + 1 == key.size())
    return invalid(key, R"(must be a domain-prefixed path (such as "acme.io/foo"))");
  const std::string_view host = key.substr(0, slash);
  const std::string_view path = key.substr(slash + 1);
  std::vector<std::string> errors;
  for (const std::string& why : IsDns1123Subdomain(host)) errors.push_back(invalid(host, why));
  constexpr std::string_view kPathCharacters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/-._~%!$&'()*+,;=:";
  if (path.find_first_not_of(kPathCharacters) != std::string_view::npos)
    errors.push_back(invalid(
        path, R"(Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+'))"));
  if (errors.size() < 2) return errors.empty() ? "" : errors.front();
  std::string all = "[";
  for (const std::string& error : errors) {
    if (all.size() > 1) all += ", ";
    all += error;
  }
  return all += ']';
}

// Validates extra values for a constrained mode. Empty if they are valid.
std::string ExtraError(const std::map<std::string, std::vector<std::string>>& extra) {
  for (const auto& [key, values] : extra) {
    if (key.empty()) return "impersonating the empty string key in extra is not allowed";
    if (const std::string why = KeyError(key); !why.empty())
      return fmt::format("impersonating an invalid key in extra is not allowed: {}", why);
    // Header names are case-insensitive, but an encoded byte (%41) may be upper-case.
    if (std::any_of(key.begin(), key.end(), [](char c) { return c >= 'A' && c <= 'Z'; }))
      return fmt::format("impersonating a non-lowercase key in extra is not allowed: {}",
                         Quoted(key));
    if (std::find(values.begin(), values.end(), "") != values.end())
      return "impersonating the empty string value in extra is not allowed";
  }
  return {};
}

bool Contains(const std::vector<std::string>& list, std::string_view value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

// Creates the steps of one mode.
class Impersonation::Planner {
 public:
  // An empty `mode` is the legacy mode.
  Planner(std::string_view mode, const User& wanted)
      : mode_(mode),
        verb_(mode.empty() ? "impersonate" : fmt::format("impersonate:{}", mode)),
        wanted_(wanted) {}

  Mode Make(const RequestInfo& request) {
    if (constrained()) {
      RequestInfo on = request;
      on.verb = fmt::format("impersonate-on:{}:{}", mode_, request.verb);
      plan_.steps.push_back({.check = std::move(on)});
    }
    plan_.user = wanted_;
    AddName();
    if (!wanted_.uid.empty()) Add(Check("uids", wanted_.uid, kAuthenticationGroup));
    if (!wanted_.groups.empty()) AddGroups();
    if (!wanted_.extra.empty()) AddExtra();

    std::vector<std::string>& groups = plan_.user.groups;
    if (wanted_.name == kAnonymousUser) {
      if (!Contains(groups, kUnauthenticatedGroup)) groups.emplace_back(kUnauthenticatedGroup);
    } else if (!Contains(groups, kUnauthenticatedGroup) && !Contains(groups, kAuthenticatedGroup)) {
      groups.emplace_back(kAuthenticatedGroup);
    }
    return std::move(plan_);
  }

 private:
  bool constrained() const { return !mode_.empty(); }

  RequestInfo Check(std::string_view resource, std::string_view name,
                    std::string_view api_group) const {
    RequestInfo check;
    check.is_resource = true;
    check.verb = verb_;
    check.api_group = api_group;
    check.api_version = "v1";
    check.resource = resource;
    check.name = name;
    return check;
  }
  void Add(RequestInfo check, std::string denial = {}, std::size_t shortcut = 0) {
    plan_.steps.push_back(
        {.check = std::move(check), .denial = std::move(denial), .shortcut = shortcut});
  }

  // Users, groups and service accounts are in the core group only in the legacy mode.
  std::string_view identity_group() const { return constrained() ? kAuthenticationGroup : ""; }

  void AddName() {
    RequestInfo check = Check("users", wanted_.name, identity_group());
    if (const auto node = NodeOf(wanted_.name); node && constrained()) {
      check.resource = "nodes";
      // Permission is granted for all nodes at once, since each account is associated with one.
      check.name = mode_ == "associated-node" ? "*" : *node;
      plan_.user.groups = {"system:nodes"};
    }
    if (const auto account = ServiceAccountOf(wanted_.name)) {
      check.resource = "serviceaccounts";
      check.namespace_ = account->namespace_;
      check.name = account->name;
      if (wanted_.groups.empty())
        plan_.user.groups = {"system:serviceaccounts",
                             fmt::format("system:serviceaccounts:{}", account->namespace_)};
    }
    Add(std::move(check));
  }

  void AddGroups() {
    if (constrained()) {
      if (Contains(wanted_.groups, ""))
        return Add(Check("groups", "", identity_group()),
                   "impersonating the empty string group is not allowed");
      if (Contains(wanted_.groups, kMastersGroup))
        return Add(Check("groups", kMastersGroup, identity_group()),
                   "impersonating the system:masters group is not allowed");
      if (wanted_.groups.size() >= kManyChecks)
        Add(Check("groups", "*", identity_group()), {}, wanted_.groups.size());
    }
    for (const std::string& group : wanted_.groups) Add(Check("groups", group, identity_group()));
  }

  void AddExtra() {
    RequestInfo check = Check("userextras", "", kAuthenticationGroup);
    std::size_t count = 0;
    for (const auto& [key, values] : wanted_.extra) count += values.size();
    if (constrained()) {
      if (std::string why = ExtraError(wanted_.extra); !why.empty())
        return Add(std::move(check), std::move(why));
      if (count >= kManyChecks) {
        check.subresource = check.name = "*";
        Add(check, {}, count);
      }
    }
    for (const auto& [key, values] : wanted_.extra) {
      for (const std::string& value : values) {
        check.subresource = key;
        check.name = value;
        Add(check);
      }
    }
  }

  const std::string_view mode_;
  const std::string verb_;
  const User& wanted_;
  Mode plan_;
};

Result<std::optional<Impersonation>> Impersonation::Take(http::Headers* headers,
                                                         const User& requestor,
                                                         const RequestInfo& request) {
  std::vector<std::string> names;
  for (const http::Headers::Field& field : *headers)
    if (IsImpersonationHeader(field.name)) names.push_back(field.name);
  if (names.empty()) return std::optional<Impersonation>();

  const User wanted = WantedUser(*headers);
  if (wanted.name.empty()) {
    if (wanted.uid.empty() && wanted.groups.empty() && wanted.extra.empty())
      return std::optional<Impersonation>();  // all headers are empty
    return Status(StatusReason::kBadRequest,
                  fmt::format("requested {} without impersonating a user name", GoUser(wanted)));
  }
  for (const std::string& name : names) headers->Remove(name);

  Impersonation result(requestor);
  const auto add = [&](std::string_view mode) {
    result.modes_.push_back(Planner(mode, wanted).Make(request));
  };
  const bool only_name = wanted.uid.empty() && wanted.groups.empty() && wanted.extra.empty();
  const std::optional<std::string_view> node = NodeOf(wanted.name);
  const bool account = ServiceAccountOf(wanted.name).has_value();
  if (only_name && node && IsAssociatedWith(requestor, *node)) add("associated-node");
  if (only_name && node) add("arbitrary-node");
  if (only_name && account) add("serviceaccount");
  if (!node && !account) add("user-info");
  add("");
  result.SkipDeniedModes();
  return std::optional<Impersonation>(std::move(result));
}

const RequestInfo* Impersonation::check() const {
  if (mode_ == modes_.size() || step_ == modes_[mode_].steps.size()) return nullptr;
  return &modes_[mode_].steps[step_].check;
}

void Impersonation::Answer(bool allowed, std::string_view reason) {
  HERALD_CHECK(check() != nullptr, "Answer() called without a pending check");
  const std::size_t shortcut = modes_[mode_].steps[step_].shortcut;
  if (!allowed && shortcut == 0) {
    Deny(reason);
  } else {
    step_ += 1 + (allowed ? shortcut : 0);
  }
  SkipDeniedModes();
}

Result<User> Impersonation::TakeResult() {
  HERALD_CHECK(check() == nullptr, "TakeResult() called with a pending check");
  if (mode_ == modes_.size()) return denial_;
  return std::move(modes_[mode_].user);
}

void Impersonation::Deny(std::string_view reason) {
  if (denial_.ok()) denial_ = ForbiddenStatus(requestor_, *check(), reason);
  ++mode_;
  step_ = 0;
}

void Impersonation::SkipDeniedModes() {
  while (check() != nullptr && !modes_[mode_].steps[step_].denial.empty())
    Deny(modes_[mode_].steps[step_].denial);
}

}  // namespace herald::server
