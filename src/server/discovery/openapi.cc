#include "server/discovery/openapi.h"

#include <fmt/core.h>

#include <cstddef>
#include <vector>

#include "server/discovery/discovery.h"
#include "server/discovery/openapi_gnostic.h"
#include "server/discovery/openapi_json.h"
#include "server/discovery/openapi_paths.h"

namespace herald::server {
namespace {

// All documents, made when the first is requested.
struct Documents {
  Documents() : groups(DescribedGroups()) {
    v2_json = WriteOpenApiJson(OpenApiVersion::kV2, groups);
    v2_protobuf = WriteOpenApiGnostic();
    for (const ApiGroup* const& group : groups) {
      v3.push_back(WriteOpenApiJson(OpenApiVersion::kV3, {&group, 1}));
      hashes.push_back(DocumentHash(v3.back()));
    }
  }

  std::string Url(std::size_t i) const {
    return fmt::format("/openapi/v3{}?hash={}", groups[i]->path, hashes[i]);
  }

  std::vector<const ApiGroup*> groups;
  std::string v2_json;
  std::string v2_protobuf;
  std::vector<std::string> v3;      // of each group
  std::vector<std::string> hashes;  // of v3
};

const Documents& AllDocuments() {
  static const Documents& documents = *new Documents();
  return documents;
}

constexpr std::string_view kGnosticAccept =
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
constexpr std::string_view kGnosticType =
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

}  // namespace

Result<OpenApiAnswer> FindOpenApi(std::string_view path, const http::Headers& headers,
                                  const std::string* hash) {
  const Documents& documents = AllDocuments();
  OpenApiAnswer answer;
  answer.content_type = "application/json";
  if (path == "/openapi/v2") {
    const std::string_view accept = headers.Get("accept");
    const bool protobuf = accept.find(kGnosticAccept) != std::string_view::npos;
    if (protobuf) answer.content_type = kGnosticType;
    answer.body = protobuf ? documents.v2_protobuf : documents.v2_json;
    answer.tagged = true;
    return answer;
  }
  if (path == "/openapi/v3") {
    answer.content_type = "text/plain; charset=utf-8";  // as in upstream
    answer.body = R"({"paths":{)";
    for (std::size_t i = 0; i < documents.groups.size(); ++i) {
      answer.body += fmt::format(R"({}"{}":{{"serverRelativeURL":"{}"}})", i > 0 ? "," : "",
                                 documents.groups[i]->path.substr(1), documents.Url(i));
    }
    answer.body += "}}";
    return answer;
  }
  constexpr std::string_view kPrefix = "/openapi/v3";
  for (std::size_t i = 0; i < documents.groups.size(); ++i) {
    if (!path.starts_with(kPrefix) || path.substr(kPrefix.size()) != documents.groups[i]->path)
      continue;
    answer.body = documents.v3[i];
    answer.tagged = true;
    if (hash != nullptr && !hash->empty()) {
      if (*hash == documents.hashes[i]) {
        answer.immutable = true;
      } else {
        answer.location = documents.Url(i);
      }
    }
    return answer;
  }
  return Status(StatusReason::kNotFound, std::string(path));
}

}  // namespace herald::server
