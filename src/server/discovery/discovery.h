#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace herald::server {

// The documents that tell clients what there is. Unless it says otherwise, each is compact JSON and
// ends with a newline.

// The plain document at a path without its trailing slash: /api, /apis, /api/v1,
// /apis/<group>, /apis/<group>/<version>. `address` is what the client calls this server.
std::optional<std::string> DiscoveryDocument(std::string_view path, std::string_view address);

// One document for all of /api or all of /apis, for clients that prefer it. REQUIRES:
// path is one of the two
const std::string& AggregatedDiscovery(std::string_view path);
inline constexpr std::string_view kAggregatedDiscoveryType =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

// The document at /: {"paths":[...]}, all paths that can be asked without knowing more, sorted. It
// is indented and does not end with a newline, as that of kube-apiserver.
std::string RootPathsJson();

// There are no services here, and clients may ask for them: in one namespace or in all.
bool IsServiceList(std::string_view path);
std::string EmptyServiceListJson(std::int64_t revision);

// Whether the path lies below /api or a group that is listed: what is not found there gets a
// Status, other paths plain text.
bool IsBelowListedGroup(std::string_view path);

// "A0B1...", the SHA-512 of a document in upper-case hex, as upstream names them.
std::string DocumentHash(std::string_view document);

}  // namespace herald::server
