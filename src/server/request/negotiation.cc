#include "server/request/negotiation.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>
#include <vector>

#include "server/request/request_options.h"

namespace herald::server {
namespace {

constexpr std::array kMediaTypes = {MediaType::kJson, MediaType::kYaml, MediaType::kProtobuf};

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// Removes and returns the part before the separator; also removes the separator.
std::string_view TakeUpTo(char separator, std::string_view* text) {
  const std::size_t end = std::min(text->find(separator), text->size());
  const std::string_view part = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return part;
}

// One clause of an Accept header. Views into it.
struct Clause {
  std::string_view type;
  std::string_view subtype;
  double q = 1;
  std::size_t position = 0;  // in the header
  std::vector<std::pair<std::string_view, std::string_view>> parameters;

  std::string_view parameter(std::string_view name) const {
    for (const auto& [key, value] : parameters) {
      if (key == name) return value;
    }
    return {};
  }
  bool Matches(std::string_view media) const {
    std::string_view rest = media;
    const std::string_view media_type = TakeUpTo('/', &rest);
    if (type == "*" && subtype == "*") return true;
    return type == media_type && (subtype == rest || subtype == "*");
  }
  int wildcards() const { return (type == "*" ? 2 : 0) + (subtype == "*" ? 1 : 0); }
};

// A limit on the work for a long header. No client needs more clauses.
constexpr std::size_t kMaxClauses = 64;

std::vector<Clause> ParseAccept(std::string_view header) {
  std::vector<Clause> clauses;
  while (!header.empty() && clauses.size() < kMaxClauses) {
    std::string_view rest = TakeUpTo(',', &header);
    std::string_view media = Trim(TakeUpTo(';', &rest));
    Clause clause;
    clause.position = clauses.size();
    const bool has_slash = media.find('/') != std::string_view::npos;
    clause.type = Trim(TakeUpTo('/', &media));
    clause.subtype = Trim(media);
    if (!has_slash) {
      if (clause.type != "*") continue;
      clause.subtype = "*";
    }
    if (clause.subtype.find('/') != std::string_view::npos) continue;
    while (!rest.empty()) {
      std::string_view value = TakeUpTo(';', &rest);
      const std::string_view key = Trim(TakeUpTo('=', &value));
      value = Trim(value);
      if (key == "q") {
        if (std::from_chars(value.data(), value.data() + value.size(), clause.q).ec !=
            std::errc()) {
          clause.q = 0;
        }
      } else if (!value.empty()) {
        clause.parameters.emplace_back(key, value);
      }
    }
    clauses.push_back(std::move(clause));
  }
  std::ranges::sort(clauses, [](const Clause& a, const Clause& b) {
    if (a.q != b.q) return a.q > b.q;
    return a.wildcards() != b.wildcards() ? a.wildcards() < b.wildcards() : a.position < b.position;
  });
  return clauses;
}

// Reads the shape that a clause asks for. False if it is not offered.
bool ReadShape(const Clause& clause, MediaType media, const Offer& offer, ResponseFormat* out) {
  const std::string_view as = clause.parameter("as");
  const std::string_view group = clause.parameter("g");
  const std::string_view version = clause.parameter("v");
  if (as.empty() && group.empty() && version.empty()) return true;
  if (!offer.shapes || group != "meta.k8s.io") return false;
  if (version == "v1beta1") {
    out->meta_version = MetaVersion::kV1Beta1;
  } else if (version != "v1") {
    return false;
  }
  if (as == "Table" && media != MediaType::kProtobuf) {
    out->shape = Shape::kTable;
  } else if (as == "PartialObjectMetadata" || as == "PartialObjectMetadataList") {
    out->shape = Shape::kPartialMetadata;
    out->list_named = as == "PartialObjectMetadataList";
  } else {
    return false;
  }
  return true;
}

bool IsOffered(MediaType media, const Offer& offer) {
  return media == MediaType::kJson || (media == MediaType::kYaml && offer.yaml) ||
         (media == MediaType::kProtobuf && offer.protobuf);
}

// The user agents for which upstream indents JSON.
bool IsReadByPeople(std::string_view user_agent) {
  return user_agent.starts_with("curl") || user_agent.starts_with("Wget") ||
         user_agent.starts_with("Mozilla/5.0");
}

// As Go's strconv.ParseBool; unknown strings are false.
bool IsGoTrue(std::string_view text) {
  constexpr std::array<std::string_view, 6> kTrue = {"1", "t", "T", "true", "TRUE", "True"};
  return std::ranges::find(kTrue, text) != kTrue.end();
}

bool WantsPretty(const http::Headers& headers, const http::Query& query) {
  const std::string* const pretty = FindParameter(query, "pretty");
  if (pretty != nullptr && !pretty->empty()) return IsGoTrue(*pretty);
  return IsReadByPeople(headers.Get("user-agent"));
}

// The Content-Type without its parameters, in lower case.
std::string BareContentType(const http::Headers& headers) {
  std::string_view rest = headers.Get("content-type");
  std::string type(Trim(TakeUpTo(';', &rest)));
  for (char& c : type) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return type;
}

}  // namespace

std::string_view MediaTypeName(MediaType media) {
  switch (media) {
    case MediaType::kJson:
      return "application/json";
    case MediaType::kYaml:
      return "application/yaml";
    case MediaType::kProtobuf:
      return "application/vnd.kubernetes.protobuf";
  }
  return {};
}

std::optional<ResponseFormat> Negotiate(const http::Headers& headers, const http::Query& query,
                                        const Offer& offer) {
  const bool pretty = WantsPretty(headers, query);
  const std::string_view accept = headers.Get("accept");
  if (accept.empty()) return ResponseFormat{.pretty = pretty};
  // The most common header, without the cost of parsing.
  if (accept == "application/json") return ResponseFormat{.pretty = pretty};
  for (const Clause& clause : ParseAccept(accept)) {
    for (const MediaType media : kMediaTypes) {
      if (!IsOffered(media, offer) || !clause.Matches(MediaTypeName(media))) continue;
      const std::string_view stream = clause.parameter("stream");
      if (!stream.empty() && stream != "watch") continue;
      ResponseFormat found{.media = media};
      if (!ReadShape(clause, media, offer, &found)) continue;
      found.pretty = pretty || clause.parameter("pretty") == "1";
      return found;
    }
  }
  return std::nullopt;
}

std::string OfferedTypes(const Offer& offer) {
  std::string types;
  for (const MediaType media : kMediaTypes) {
    if (!IsOffered(media, offer)) continue;
    if (!types.empty()) types += ", ";
    types += MediaTypeName(media);
  }
  return types;
}

bool Accepts(const http::Headers& headers, const Offer& offer) {
  const std::string_view accept = headers.Get("accept");
  if (accept.empty()) return true;
  for (std::string_view rest = accept; !rest.empty();) {
    std::string_view clause = TakeUpTo(',', &rest);
    const std::string_view media = Trim(TakeUpTo(';', &clause));
    if (media == "*/*") return true;
    for (const MediaType offered : kMediaTypes) {
      if (IsOffered(offered, offer) && media == MediaTypeName(offered)) return true;
    }
  }
  return false;
}

std::optional<MediaType> BodyMediaType(const http::Headers& headers) {
  const std::string type = BareContentType(headers);
  if (type.empty()) return MediaType::kJson;
  for (const MediaType media : kMediaTypes) {
    if (type == MediaTypeName(media)) return media;
  }
  return std::nullopt;
}

std::optional<PatchType> BodyPatchType(const http::Headers& headers) {
  const std::string type = BareContentType(headers);
  for (const PatchType patch : {PatchType::kStrategicMerge, PatchType::kMerge, PatchType::kJson}) {
    if (type == PatchMediaType(patch)) return patch;
  }
  return std::nullopt;
}

bool PrefersAggregatedDiscovery(const http::Headers& headers) {
  for (const Clause& clause : ParseAccept(headers.Get("accept"))) {
    const bool json = clause.Matches(MediaTypeName(MediaType::kJson));
    const std::string_view as = clause.parameter("as");
    if (json && as == "APIGroupDiscoveryList" && clause.parameter("g") == "apidiscovery.k8s.io" &&
        clause.parameter("v") == "v2") {
      return true;
    }
    const bool plain = as.empty();
    if (plain && (json || clause.Matches(MediaTypeName(MediaType::kYaml)) ||
                  clause.Matches(MediaTypeName(MediaType::kProtobuf)))) {
      return false;
    }
  }
  return false;
}

}  // namespace herald::server
