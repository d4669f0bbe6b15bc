#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "base/thread/mutex.h"
#include "herald/client/config.h"
#include "herald/client/dynamic.h"
#include "herald/client/rest.h"

// For tests with a real kube-apiserver. `test/interop/cluster run` starts one and runs them;
// without it they are skipped with a message.
namespace herald::testing {

// Longer than a restart of the server takes on a busy machine.
inline constexpr std::chrono::seconds kPatience{180};

inline std::string Env(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value != nullptr ? value : "";
}

// A condition that one thread waits for and another one sets. Thread-safe.
class Changing {
 public:
  void Change(const std::function<void()>& change) {
    const MutexLock lock(mu_);
    change();
    changed_.NotifyAll();
  }
  bool WaitUntil(const std::function<bool()>& condition,
                 std::chrono::nanoseconds patience = kPatience) {
    MutexLock lock(mu_);
    return changed_.WaitFor(lock, patience, condition);
  }

 private:
  Mutex mu_;
  CondVar changed_;
};

class ClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Env("INTEROP_SERVER").empty()) {
      GTEST_SKIP() << "no cluster: run this through test/interop/cluster run";
    }
    admin_ = Open(AdminConfig());
    // A namespace of the test's own, so that runs do not see each other.
    JsonValue ns;
    ns.Member("metadata").Member("generateName") = "client-";
    const auto created = DynamicClient(admin_, {"", "v1", "namespaces"}).Create("", ns);
    ASSERT_TRUE(created) << created.error().ToString();
    namespace_ = created->name();
  }
  void TearDown() override {
    if (!namespace_.empty()) {
      (void)DynamicClient(admin_, {"", "v1", "namespaces"}).Delete("", namespace_);
    }
  }

  static ClientConfig ConfigOf(const std::string& context) {
    const auto config = LoadKubeconfig({.context = context});
    EXPECT_TRUE(config) << (config ? "" : config.error().ToString());
    return config.value_or(ClientConfig());
  }
  static ClientConfig AdminConfig() { return ConfigOf("admin"); }
  static std::shared_ptr<RestClient> Open(const ClientConfig& config) {
    auto rest = RestClient::Open(config);
    EXPECT_TRUE(rest) << (rest ? "" : rest.error().ToString());
    return rest ? *rest : nullptr;
  }
  // Runs the script that started the cluster with a verb, such as restart.
  static void Cluster(const std::string& verb) {
    const std::string command =
        "'" + Env("INTEROP_CLUSTER") + "' " + verb + " --dir '" + Env("INTEROP_DIR") + "'";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;  // NOLINT(cert-env33-c)
  }

  std::shared_ptr<RestClient> admin_;
  std::string namespace_;
};

}  // namespace herald::testing
