#include "server/daemon/metrics.h"

#include <gtest/gtest.h>

namespace herald::server {
namespace {

using namespace std::chrono_literals;

RequestInfo Create(std::string resource) {
  RequestInfo info;
  info.verb = "create";
  info.is_resource = true;
  info.api_version = "v1";
  info.namespace_ = "default";
  info.resource = std::move(resource);
  return info;
}

TEST(Metrics, CountsRequestsWithTheMetricNamesOfKubeApiserver) {
  Metrics metrics;
  metrics.CountRequest(Create("events"), false, 201, 2ms, 600);
  metrics.CountRequest(Create("events"), false, 201, 2ms, 600);
  metrics.CountRequest(Create("events"), true, 422, 2ms, 100);
  const std::string text = metrics.Text({}, {});
  EXPECT_NE(text.find("apiserver_request_total{code=\"201\",component=\"apiserver\",dry_run=\"\","
                      "group=\"\",resource=\"events\",scope=\"namespace\",subresource=\"\","
                      "verb=\"POST\",version=\"v1\"} 2"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("dry_run=\"All\""), std::string::npos);
  EXPECT_NE(text.find("apiserver_request_duration_seconds_count"), std::string::npos);
  EXPECT_NE(text.find("herald_response_bytes_total{resource=\"events\",verb=\"POST\"} 1300"),
            std::string::npos)
      << text;
}

TEST(Metrics, ClientsCannotCreateLabelValues) {
  Metrics metrics;
  for (int i = 0; i < 1000; ++i) {
    RequestInfo info = Create("resource-" + std::to_string(i));
    info.api_group = "group-" + std::to_string(i);
    info.api_version = "v" + std::to_string(i);
    info.name = "name-" + std::to_string(i);
    info.verb = "verb-" + std::to_string(i);
    metrics.CountRequest(info, false, 404, 1ms, 0);
  }
  const std::string text = metrics.Text({}, {});
  EXPECT_EQ(text.find("-999"), std::string::npos);
  EXPECT_NE(text.find("resource=\"other\""), std::string::npos);
  EXPECT_LT(text.size(), 10'000U);
}

TEST(Metrics, CountsWatchesWhileTheyAreOpen) {
  Metrics metrics;
  RequestInfo watch = Create("events");
  watch.verb = "watch";
  metrics.CountLongRunning(watch, 1);
  metrics.CountLongRunning(watch, 1);
  metrics.CountLongRunning(watch, -1);
  const std::string text = metrics.Text({}, {});
  const std::size_t at = text.find("apiserver_longrunning_requests{");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(text.substr(text.find("} ", at), 4), "} 1\n");
}

TEST(Metrics, ReportsTheCurrentFiguresOfTheStore) {
  store::StoreStats stats;
  stats.entries = 123'456'789;
  EXPECT_NE(Metrics().Text(stats, {}).find("\nherald_store_objects 123456789\n"),
            std::string::npos);
}

}  // namespace
}  // namespace herald::server
