#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace herald::server {

// The discovery documents, made from the route table. Unless a comment says otherwise, each is
// compact JSON and ends with a newline.

// The plain document at a path without its trailing slash: /api, /apis, /api/v1, /apis/<group>,
// /apis/<group>/<version>. `address` is the server's address as the client knows it.
std::optional<std::string> DiscoveryDocument(std::string_view path, std::string_view address);

// One document for all of /api or all of /apis, for clients that prefer it.
// REQUIRES: path is one of the two
const std::string& AggregatedDiscovery(std::string_view path);
inline constexpr std::string_view kAggregatedDiscoveryType =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

// The document at "/": {"paths":[...]}, sorted: the paths that a client can request without knowing
// more. It is indented and does not end with a newline, as kube-apiserver's.
std::string RootPathsJson();

// "A0B1...", the SHA-512 of a document in upper-case hex, as in upstream's URLs and ETags.
std::string DocumentHash(std::string_view document);

}  // namespace herald::server
