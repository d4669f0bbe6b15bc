#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "herald/api/patch.h"
#include "herald/api/table.h"
#include "http/message.h"
#include "http/url.h"

namespace herald::server {

enum class MediaType : std::uint8_t { kJson, kYaml, kProtobuf };

// "application/json"
std::string_view MediaTypeName(MediaType media);

// How the object of a response is transformed.
enum class Shape : std::uint8_t {
  kPlain,
  kTable,            // as=Table
  kPartialMetadata,  // as=PartialObjectMetadata, or as=PartialObjectMetadataList
};
// How a response is encoded. An ordinary value.
struct ResponseFormat {
  MediaType media = MediaType::kJson;
  Shape shape = Shape::kPlain;
  bool list_named = false;  // kPartialMetadata was requested as PartialObjectMetadataList
  MetaVersion meta_version = MetaVersion::kV1;
  bool pretty = false;

  bool operator==(const ResponseFormat&) const = default;
};

// The formats that a handler can respond with.
struct Offer {
  bool shapes = false;  // tables and partial metadata; if false, clauses with them are skipped
  bool yaml = true;
  bool protobuf = true;
};

// Reads the Accept header as kube-apiserver does: clauses are sorted by q, specific ones before
// wildcards, and each is compared with JSON, YAML and protobuf in that order. A clause with a shape
// that is not offered is skipped. Nothing if no clause matches.
std::optional<ResponseFormat> Negotiate(const http::Headers& headers, const http::Query& query,
                                        const Offer& offer);

// The check of upstream's router, which comes first: whether the header has one of the offered
// types or */*. Nothing else counts, not even application/*.
bool Accepts(const http::Headers& headers, const Offer& offer);

// The offered media types, for error messages.
std::string OfferedTypes(const Offer& offer);

// The media type of a body: JSON if the header is missing, nothing if it is unknown.
std::optional<MediaType> BodyMediaType(const http::Headers& headers);
std::optional<PatchType> BodyPatchType(const http::Headers& headers);

// Whether the client prefers aggregated discovery to the plain documents.
bool PrefersAggregatedDiscovery(const http::Headers& headers);

}  // namespace herald::server
