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

// What an answer is made into. An ordinary value.
enum class Shape : std::uint8_t {
  kPlain,
  kTable,            // as=Table
  kPartialMetadata,  // as=PartialObjectMetadata, or as=PartialObjectMetadataList
};
struct ResponseFormat {
  MediaType media = MediaType::kJson;
  Shape shape = Shape::kPlain;
  bool list_named = false;  // kPartialMetadata was asked for under the name of the list
  MetaVersion meta_version = MetaVersion::kV1;
  bool pretty = false;

  bool operator==(const ResponseFormat&) const = default;
};

// What an endpoint can answer with.
struct Offer {
  bool shapes = false;  // tables and metadata alone; else clauses that ask for them are skipped
  bool yaml = true;
  bool protobuf = true;
};

// Reads the Accept header as kube-apiserver does: clauses by their q, the specific ones
// before wildcards, each against JSON, YAML and protobuf in that order; a clause that asks
// for a conversion that is not on offer is passed over. Nothing where no clause is left.
std::optional<ResponseFormat> Negotiate(const http::Headers& headers, const http::Query& query,
                                        const Offer& offer);

// A coarser look that comes first, as upstream's router does it: whether any of the offered
// types is named at all, or */*. Nothing else counts, not even application/*.
bool Accepts(const http::Headers& headers, const Offer& offer);

// The media types on offer, as a refusal lists them.
std::string OfferedTypes(const Offer& offer);

// What a body is written in. JSON where the header is missing; nothing where it is not known.
std::optional<MediaType> BodyMediaType(const http::Headers& headers);
std::optional<PatchType> BodyPatchType(const http::Headers& headers);

// Which document of aggregated discovery the client prefers to the plain one, if any.
bool PrefersAggregatedDiscovery(const http::Headers& headers);

}  // namespace herald::server
