#include "server/request/negotiation.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

namespace herald::server {
namespace {

constexpr Offer kAll{.shapes = true};

std::optional<ResponseFormat> Accepting(std::string_view accept, const Offer& offer = kAll) {
  return Negotiate({{"accept", std::string(accept)}}, {}, offer);
}

struct Scenario {
  std::string_view accept;
  MediaType media;
  Shape shape = Shape::kPlain;
  MetaVersion version = MetaVersion::kV1;
};

constexpr std::string_view kKubectlGet =
    "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
constexpr std::string_view kMetadataClient =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

TEST(NegotiationTest, ChoosesWhatKubernetesWouldChoose) {
  const Scenario scenarios[] = {
      {"", MediaType::kJson},
      {"*/*", MediaType::kJson},
      {"*", MediaType::kJson},
      {"application/*", MediaType::kJson},
      {"application/json", MediaType::kJson},
      {"application/yaml", MediaType::kYaml},
      {"application/vnd.kubernetes.protobuf,application/json", MediaType::kProtobuf},
      {"application/vnd.kubernetes.protobuf, */*", MediaType::kProtobuf},
      {"text/html, application/yaml;q=0.5, application/json;q=0.9", MediaType::kJson},
      {"*/*;q=1, application/yaml", MediaType::kYaml},
      {kKubectlGet, MediaType::kJson, Shape::kTable},
      {"application/json;as=Table;v=v1beta1;g=meta.k8s.io", MediaType::kJson, Shape::kTable,
       MetaVersion::kV1Beta1},
      {"application/yaml;as=Table;v=v1;g=meta.k8s.io", MediaType::kYaml, Shape::kTable},
      {kMetadataClient, MediaType::kProtobuf, Shape::kPartialMetadata},
      // Not offered, so it is skipped.
      {"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json",
       MediaType::kJson},
      {"application/json;as=Table;v=v2;g=meta.k8s.io,application/yaml", MediaType::kYaml},
      {"application/json;as=Nothing;v=v1;g=meta.k8s.io,application/yaml", MediaType::kYaml},
      {"application/json;stream=watch", MediaType::kJson},
  };
  for (const Scenario& scenario : scenarios) {
    SCOPED_TRACE(scenario.accept);
    const std::optional<ResponseFormat> found = Accepting(scenario.accept);
    if (!found) FAIL();
    EXPECT_EQ(found->media, scenario.media);
    EXPECT_EQ(found->shape, scenario.shape);
    EXPECT_EQ(found->meta_version, scenario.version);
  }
}

TEST(NegotiationTest, ReturnsNothingIfNoMediaTypeIsAcceptable) {
  for (const std::string_view accept :
       {"text/html", "application/cbor", "application/json;as=Table;v=v1;g=example.com", "/", ",,",
        "application/json;stream=other", "Application/JSON"}) {
    EXPECT_FALSE(Accepting(accept)) << accept;
  }
  // Responses that are not objects cannot be sent as tables.
  EXPECT_FALSE(Accepting("application/json;as=Table;v=v1;g=meta.k8s.io", Offer()));
  EXPECT_EQ(Accepting(kKubectlGet, Offer()).value_or(ResponseFormat{.shape = Shape::kTable}).shape,
            Shape::kPlain);
}

TEST(NegotiationTest, IndentsForPeople) {
  const auto pretty = [](std::string agent, const std::string& parameter) {
    http::Query query;
    if (!parameter.empty()) query.emplace_back("pretty", parameter);
    return Negotiate({{"user-agent", std::move(agent)}}, query, kAll)
        .value_or(ResponseFormat())
        .pretty;
  };
  EXPECT_TRUE(pretty("curl/8.0", ""));
  EXPECT_TRUE(pretty("Wget/1.21", ""));
  EXPECT_TRUE(pretty("Mozilla/5.0 (X11)", ""));
  EXPECT_FALSE(pretty("kubectl/v1.32", ""));
  EXPECT_FALSE(pretty("curl/8.0", "false"));
  EXPECT_TRUE(pretty("kubectl/v1.32", "1"));
  EXPECT_TRUE(pretty("kubectl/v1.32", "true"));
  EXPECT_FALSE(pretty("kubectl/v1.32", "yes"));
  EXPECT_TRUE(Accepting("application/json;pretty=1").value_or(ResponseFormat()).pretty);
}

TEST(NegotiationTest, TheRouterComparesCompleteMediaTypesOnly) {
  const auto accepts = [](std::string accept) {
    return Accepts({{"accept", std::move(accept)}}, Offer());
  };
  EXPECT_TRUE(Accepts({}, Offer()));
  EXPECT_TRUE(accepts("*/*"));
  EXPECT_TRUE(accepts("text/html, application/yaml;q=0.1"));
  EXPECT_FALSE(accepts("application/*"));
  EXPECT_FALSE(accepts("text/html"));
}

TEST(NegotiationTest, ReadsTheTypeOfABody) {
  const auto media = [](std::string type) {
    return BodyMediaType({{"content-type", std::move(type)}});
  };
  EXPECT_EQ(BodyMediaType({}), MediaType::kJson);
  EXPECT_EQ(media("application/json; charset=utf-8"), MediaType::kJson);
  EXPECT_EQ(media("Application/JSON"), MediaType::kJson);
  EXPECT_EQ(media("application/vnd.kubernetes.protobuf"), MediaType::kProtobuf);
  EXPECT_EQ(media("text/plain"), std::nullopt);
  EXPECT_EQ(BodyPatchType({{"content-type", "application/merge-patch+json;x=y"}}),
            PatchType::kMerge);
  EXPECT_EQ(BodyPatchType({{"content-type", "application/json"}}), std::nullopt);
}

TEST(NegotiationTest, AggregatedDiscoveryIsSentToClientsThatPreferIt) {
  const auto prefers = [](std::string accept) {
    return PrefersAggregatedDiscovery({{"accept", std::move(accept)}});
  };
  EXPECT_TRUE(
      prefers("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
              "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
              "application/json"));
  EXPECT_TRUE(prefers("application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io"));
  EXPECT_FALSE(
      prefers("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
              "application/json"));
  EXPECT_FALSE(prefers("application/json"));
  EXPECT_FALSE(prefers(""));
}

}  // namespace
}  // namespace herald::server
