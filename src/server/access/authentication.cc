#include "server/access/authentication.h"

#include <fmt/core.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "base/bytes/base64.h"
#include "base/bytes/trimmed.h"
#include "http/tls/openssl.h"

namespace herald::server {
namespace {

Status Unauthorized() { return Status(StatusReason::kUnauthorized, "Unauthorized"); }

// The fields of one CSV line. Quoted fields may contain commas, and "" for a quote. Returns nothing
// if a quote is not closed.
std::optional<std::vector<std::string>> SplitCsvLine(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      if (c != '"') {
        fields.back().push_back(c);
      } else if (i + 1 < line.size() && line[i + 1] == '"') {
        fields.back().push_back('"');
        ++i;
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      fields.emplace_back();
    } else {
      fields.back().push_back(c);
    }
  }
  if (quoted) return std::nullopt;
  return fields;
}

std::vector<std::string> SplitGroups(std::string_view text) {
  std::vector<std::string> groups;
  while (!text.empty()) {
    const std::string_view group = text.substr(0, text.find(','));
    text.remove_prefix(std::min(group.size() + 1, text.size()));
    if (!Trimmed(group).empty()) groups.emplace_back(Trimmed(group));
  }
  return groups;
}

// Subprotocols with this prefix are tokens (upstream:
// apiserver/pkg/authentication/request/websocket/protocol.go).
constexpr std::string_view kTokenProtocol = "base64url.bearer.authorization.k8s.io.";

std::vector<std::string_view> SplitProtocols(const http::Request& request) {
  std::vector<std::string_view> names;
  for (const http::Headers::Field& field : request.headers) {
    if (field.name != "sec-websocket-protocol") continue;
    for (std::string_view rest = field.value; !rest.empty();) {
      const std::string_view name = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(name.size() + 1, rest.size()));
      if (!Trimmed(name).empty()) names.push_back(Trimmed(name));
    }
  }
  return names;
}

// Tokens are looked up by their digest, so that the time to reject a wrong token reveals nothing
// about the valid ones.
using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

Digest DigestOf(std::string_view text) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

class TokenAuthenticator final : public Authenticator {
 public:
  explicit TokenAuthenticator(std::map<Digest, User> users) : users_(std::move(users)) {}

  void Authenticate(const http::Request& request, const http::Peer&, Done done) const override {
    done(UserOf(request));
  }

 private:
  Result<std::optional<User>> UserOf(const http::Request& request) const {
    std::string_view header = Trimmed(request.headers.Get("authorization"));
    constexpr std::string_view kScheme = "bearer ";
    if (header.size() < kScheme.size() ||
        !std::equal(kScheme.begin(), kScheme.end(), header.begin(),
                    [](char a, char b) { return a == (b | 0x20); }))
      return request.websocket ? OfWebSocket(request) : std::optional<User>();
    return Find(Trimmed(header.substr(kScheme.size())));
  }

  Result<std::optional<User>> Find(std::string_view token) const {
    const auto user = users_.find(DigestOf(token));
    if (user == users_.end()) return Unauthorized();
    return std::optional<User>(user->second);
  }

  // A browser cannot set the headers of a WebSocket request, but it can set subprotocols, and one
  // of them may be a token. There must be another one, which the server can select.
  Result<std::optional<User>> OfWebSocket(const http::Request& request) const {
    std::optional<std::string_view> encoded;
    for (std::string_view name : SplitProtocols(request)) {
      if (!name.starts_with(kTokenProtocol)) continue;
      if (encoded) return Unauthorized();
      encoded = name.substr(kTokenProtocol.size());
    }
    if (!encoded) return std::optional<User>();
    const std::optional<std::string> token = Base64UrlDecode(*encoded);
    if (!token || token->empty() || WebSocketProtocols(request).empty()) return Unauthorized();
    return Find(*token);
  }

  const std::map<Digest, User> users_;
};

// The SHA-256 fingerprints of PEM certificates.
Result<std::set<std::string>> Fingerprints(std::string_view pem) {
  std::set<std::string> out;
  for (const http::X509Ptr& certificate : http::ReadCertificates(pem))
    out.insert(http::Fingerprint(certificate.get()));
  if (out.empty())
    return Status(
        StatusReason::kBadRequest,
        fmt::format("must contain CA certificates in PEM form: {}", http::TakeOpensslError()));
  return out;
}

// Trusted CAs. Immutable.
class Anchors {
 public:
  // The clock is borrowed.
  Anchors(std::set<std::string> fingerprints, const Clock& clock)
      : fingerprints_(std::move(fingerprints)), clock_(clock) {}

  // The peer's certificate if it is valid now and signed by one of the CAs; otherwise null.
  const http::Peer::Certificate* Trusted(const http::Peer& peer) const {
    if (!peer.certificate) return nullptr;
    const http::Peer::Certificate& certificate = *peer.certificate;
    if (!fingerprints_.contains(certificate.anchor_sha256)) return nullptr;
    const WallTime now = clock_.Now();
    if (std::chrono::floor<std::chrono::seconds>(now) < certificate.not_before ||
        std::chrono::ceil<std::chrono::seconds>(now) > certificate.not_after)
      return nullptr;
    return &certificate;
  }

 private:
  const std::set<std::string> fingerprints_;
  const Clock& clock_;
};

class CertificateAuthenticator final : public Authenticator {
 public:
  explicit CertificateAuthenticator(Anchors anchors) : anchors_(std::move(anchors)) {}

  void Authenticate(const http::Request&, const http::Peer& peer, Done done) const override {
    const http::Peer::Certificate* const certificate = anchors_.Trusted(peer);
    if (certificate == nullptr || certificate->common_name.empty())
      return done(std::optional<User>());
    done(std::optional<User>(
        User{.name = certificate->common_name,
             .uid = "",
             .groups = certificate->organizations,
             .extra = {{std::string(kCredentialIdKey),
                        {fmt::format("X509SHA256={}", certificate->sha256)}}}}));
  }

 private:
  // apiserver/pkg/authentication/user: what identifies the credential, for audit and reviews.
  static constexpr std::string_view kCredentialIdKey = "authentication.kubernetes.io/credential-id";

  const Anchors anchors_;
};

class RequestHeaderAuthenticator final : public Authenticator {
 public:
  RequestHeaderAuthenticator(RequestHeaderOptions options, Anchors anchors)
      : options_(std::move(options)), anchors_(std::move(anchors)) {}

  void Authenticate(const http::Request& request, const http::Peer& peer,
                    Done done) const override {
    done(UserOf(request, peer));
  }

 private:
  Result<std::optional<User>> UserOf(const http::Request& request, const http::Peer& peer) const {
    const http::Peer::Certificate* const certificate = anchors_.Trusted(peer);
    if (certificate == nullptr) return std::optional<User>();
    const std::vector<std::string>& allowed = options_.allowed_names;
    if (!allowed.empty() &&
        std::find(allowed.begin(), allowed.end(), certificate->common_name) == allowed.end())
      return std::optional<User>();
    User user;
    for (const std::string& header : options_.username_headers) {
      user.name = Trimmed(request.headers.Get(header));
      if (!user.name.empty()) break;
    }
    if (user.name.empty()) return std::optional<User>();
    for (const std::string& header : options_.group_headers)
      for (const http::Headers::Field& field : request.headers)
        if (field.name == header) user.groups.push_back(field.value);
    return std::optional<User>(std::move(user));
  }

  const RequestHeaderOptions options_;
  const Anchors anchors_;
};

}  // namespace

Result<std::unique_ptr<Authenticator>> MakeTokenAuthenticator(std::string_view csv,
                                                              const std::string& file) {
  std::map<Digest, User> users;
  int number = 0;
  while (!csv.empty()) {
    std::string_view line = csv.substr(0, csv.find('\n'));
    csv.remove_prefix(std::min(line.size() + 1, csv.size()));
    ++number;
    line = Trimmed(line);
    if (line.empty() || line.starts_with('#')) continue;
    const auto invalid = [&](std::string_view why) {
      return Status(StatusReason::kBadRequest, fmt::format("{}: line {}: {}", file, number, why));
    };
    std::optional<std::vector<std::string>> fields = SplitCsvLine(line);
    if (!fields) return invalid("a quote is not closed");
    if (fields->size() < 3)
      return invalid("must be token,user,uid and optionally \"group1,group2\"");
    std::vector<std::string>& field = *fields;
    if (Trimmed(field[0]).empty()) return invalid("the token is empty");
    if (Trimmed(field[1]).empty()) return invalid("the user is empty");
    User user{.name = std::string(Trimmed(field[1])),
              .uid = std::string(Trimmed(field[2])),
              .groups = field.size() > 3 ? SplitGroups(field[3]) : std::vector<std::string>()};
    if (!users.emplace(DigestOf(Trimmed(field[0])), std::move(user)).second)
      return invalid("the token is also in an earlier line");
  }
  return std::unique_ptr<Authenticator>(std::make_unique<TokenAuthenticator>(std::move(users)));
}

Result<std::unique_ptr<Authenticator>> MakeCertificateAuthenticator(std::string_view ca,
                                                                    const Clock& clock) {
  Result<std::set<std::string>> fingerprints = Fingerprints(ca);
  if (!fingerprints) return fingerprints.error();
  return std::unique_ptr<Authenticator>(
      std::make_unique<CertificateAuthenticator>(Anchors(*std::move(fingerprints), clock)));
}

Result<std::unique_ptr<Authenticator>> MakeRequestHeaderAuthenticator(
    RequestHeaderOptions options) {
  Result<std::set<std::string>> fingerprints = Fingerprints(options.ca);
  if (!fingerprints) return fingerprints.error();
  Anchors anchors(*std::move(fingerprints),
                  options.clock != nullptr ? *options.clock : SystemClock());
  return std::unique_ptr<Authenticator>(
      std::make_unique<RequestHeaderAuthenticator>(std::move(options), std::move(anchors)));
}

std::vector<std::string> WebSocketProtocols(const http::Request& request) {
  std::vector<std::string> names;
  for (const std::string_view name : SplitProtocols(request))
    if (!name.starts_with(kTokenProtocol)) names.emplace_back(name);
  return names;
}

namespace {

// Except for the anonymous user, and if a proxy has already set one of the two groups.
void AddAuthenticatedGroup(User* user) {
  const auto is_in = [user](std::string_view group) {
    return std::find(user->groups.begin(), user->groups.end(), group) != user->groups.end();
  };
  if (user->name != kAnonymousUser && !is_in(kAuthenticatedGroup) && !is_in(kUnauthenticatedGroup))
    user->groups.emplace_back(kAuthenticatedGroup);
}

// Calls the authenticators from index `next` on.
void AuthenticateFrom(std::shared_ptr<const Authenticators> authenticators, std::size_t next,
                      const http::Request& request, const http::Peer& peer,
                      std::function<void(Result<User>)> done) {
  if (next == authenticators->size()) return done(Unauthorized());
  const Authenticator& authenticator = *(*authenticators)[next];
  authenticator.Authenticate(request, peer,
                             [authenticators = std::move(authenticators), next, &request, &peer,
                              done = std::move(done)](Result<std::optional<User>> result) mutable {
                               if (!result) return done(result.error());
                               if (!*result)
                                 return AuthenticateFrom(std::move(authenticators), next + 1,
                                                         request, peer, std::move(done));
                               User user = **std::move(result);
                               AddAuthenticatedGroup(&user);
                               done(std::move(user));
                             });
}

}  // namespace

void Authenticate(std::shared_ptr<const Authenticators> authenticators,
                  const http::Request& request, const http::Peer& peer,
                  std::function<void(Result<User>)> done) {
  AuthenticateFrom(std::move(authenticators), 0, request, peer, std::move(done));
}

}  // namespace herald::server
