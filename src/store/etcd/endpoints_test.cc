#include "store/etcd/endpoints.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace herald::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Indexes = std::vector<EtcdEndpoints::Index>;

constexpr std::uint64_t kSeed = 7;
constexpr seconds kSilence{1};
const SteadyTime kStart{std::chrono::hours(1)};

TEST(EtcdUrl, IsASchemeAHostAndAPort) {
  struct Scenario {
    const char* url;
    bool tls;
    const char* host_and_port;
  };
  for (const Scenario& s : {
           Scenario{"http://127.0.0.1:2379", false, "127.0.0.1:2379"},
           Scenario{"https://etcd-0.etcd.kube-system.svc:12379", true,
                    "etcd-0.etcd.kube-system.svc:12379"},
           Scenario{"https://a", true, "a:2379"},
           Scenario{"https://a:1/", true, "a:1"},
           Scenario{"http://[::1]:2379", false, "[::1]:2379"},
           Scenario{"http://[fe80::1]", false, "[fe80::1]:2379"},
       }) {
    const Result<EtcdAddress> address = ParseEtcdUrl(s.url);
    ASSERT_TRUE(address) << s.url;
    EXPECT_EQ(*address, (EtcdAddress{s.tls, s.host_and_port}));
  }
}

TEST(EtcdUrl, IsQuotedInTheErrorIfInvalid) {
  for (const char* url :
       {"", "a:2379", "unix:///x", "https://", "https://:2379", "https://a:0", "https://a:65536",
        "https://a:x", "https://a:", "https://a/b", "https://u@a:1", "https://a b:1",
        "https://[::1", "https://::1]:2", "https://[::1]x:2", "https://[]:2", "HTTPS://a"}) {
    const Result<EtcdAddress> address = ParseEtcdUrl(url);
    ASSERT_FALSE(address) << url;
    EXPECT_TRUE(address.error().Is(StatusReason::kBadRequest));
    EXPECT_NE(address.error().message().find(url), std::string::npos);
  }
}

TEST(EtcdVersion, ProgressIsSoundInVersionsWithBothFixes) {
  for (const char* version :
       {"3.4.31", "3.4.40", "3.5.13", "3.5.100", "3.6.0", "3.6.0-rc.1", "3.7.3", "4.0.0"}) {
    EXPECT_TRUE(ProgressIsSound(version)) << version;
  }
  for (const char* version : {"3.4.23", "3.4.30", "3.5.0", "3.5.12", "3.3.27", "3.2.0", "2.3.8", "",
                              "3", "3.5", "3.5.x", "x.5.13", "not_decided"}) {
    EXPECT_FALSE(ProgressIsSound(version)) << version;
  }
}

class EndpointsTest : public testing::Test {
 protected:
  // Picks an endpoint and starts a call, like the client.
  EtcdEndpoints::Index Call() {
    const auto picked = endpoints_.Pick(0);
    EXPECT_TRUE(picked);
    endpoints_.CallBegan(picked.value_or(0));
    return picked.value_or(0);
  }
  void Answer(EtcdEndpoints::Index i) {
    endpoints_.CallEnded(i);
    endpoints_.Answered(i, now_, now_);
  }
  // All endpoints answer their first probe.
  void AllWork() {
    for (const auto i : endpoints_.DueProbes(now_, kSilence)) {
      endpoints_.SetVersion(i, "3.7.3");
      endpoints_.Answered(i, now_, now_);
      endpoints_.ProbeEnded(i, now_);
    }
  }

  SteadyTime now_ = kStart;
  EtcdEndpoints endpoints_{3, kSeed};
};

TEST_F(EndpointsTest, SpreadsCallsEvenly) {
  AllWork();
  std::vector<int> calls(3);
  for (int i = 0; i < 300; ++i) ++calls[Call()];
  EXPECT_EQ(calls, (std::vector<int>{100, 100, 100}));
}

TEST_F(EndpointsTest, GivesFewerCallsToASlowEndpoint) {
  AllWork();
  const auto slow = Call();
  for (int i = 0; i < 10; ++i) {
    const auto other = Call();
    EXPECT_NE(other, slow);
    Answer(other);
  }
}

TEST_F(EndpointsTest, UsesUntriedEndpointsUntilOneAnswers) {
  EXPECT_TRUE(endpoints_.Pick(0));
  for (EtcdEndpoints::Index i = 0; i < 3; ++i) EXPECT_FALSE(endpoints_.known_to_work(i));
  endpoints_.Answered(1, now_, now_);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(endpoints_.Pick(0), 1u);
}

TEST_F(EndpointsTest, AvoidsEndpointsThatWereTried) {
  AllWork();
  EXPECT_EQ(endpoints_.Pick(0b101), 1u);
  EXPECT_EQ(endpoints_.Pick(0b111), std::nullopt);
}

TEST_F(EndpointsTest, ProbesALostEndpointAfterADelayThatGrowsTo30s) {
  AllWork();
  EXPECT_TRUE(endpoints_.Failed(0, now_));
  std::vector<std::chrono::nanoseconds> waits;
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(endpoints_.Pick(0b110), std::nullopt);
    const SteadyTime lost = now_;
    for (bool due = false; !due;) {
      now_ += milliseconds(10);
      for (const auto probed : endpoints_.DueProbes(now_, kSilence)) {
        due = due || probed == 0;
        if (probed == 0) continue;
        endpoints_.Answered(probed, now_, now_);
        endpoints_.ProbeEnded(probed, now_);
      }
    }
    waits.push_back(now_ - lost);
    EXPECT_FALSE(endpoints_.Failed(0, now_));  // already reported
  }
  EXPECT_GE(waits.front(), milliseconds(100));
  EXPECT_LE(waits.front(), milliseconds(160));
  EXPECT_GT(waits[3], waits[0] * 3);
  EXPECT_GE(waits.back(), seconds(20));
  EXPECT_LE(waits.back(), seconds(30) + milliseconds(10));
}

TEST_F(EndpointsTest, CallsThatFailTogetherCountAsOneFailure) {
  AllWork();
  EXPECT_TRUE(endpoints_.Failed(0, now_));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(endpoints_.Failed(0, now_));
  now_ += milliseconds(160);
  EXPECT_EQ(endpoints_.DueProbes(now_, kSilence), Indexes{0});
}

TEST_F(EndpointsTest, ReportsALossOnceAndARecoveryOnce) {
  AllWork();
  EXPECT_TRUE(endpoints_.Failed(0, now_));
  EXPECT_TRUE(endpoints_.Answered(0, now_, now_));
  EXPECT_FALSE(endpoints_.Answered(0, now_, now_));
  EXPECT_TRUE(endpoints_.Failed(0, now_));
}

TEST_F(EndpointsTest, ProbesASuspectAtOnceAndSendsItNoCallsMeanwhile) {
  AllWork();
  endpoints_.Suspected(0, now_);
  EXPECT_EQ(endpoints_.Pick(0b110), std::nullopt);
  EXPECT_EQ(endpoints_.DueProbes(now_, kSilence), Indexes{0});
  EXPECT_EQ(endpoints_.DueProbes(now_, kSilence), Indexes{});  // it is being probed
  endpoints_.Answered(0, now_, now_);
  endpoints_.ProbeEnded(0, now_);
  EXPECT_EQ(endpoints_.Pick(0b110), 0u);
  EXPECT_EQ(endpoints_.DueProbes(now_, kSilence), Indexes{});
}

TEST_F(EndpointsTest, ProbesASuspectAgainIfTheProbeWasSentEarlier) {
  AllWork();
  now_ += kSilence;
  ASSERT_EQ(endpoints_.DueProbes(now_, kSilence), (Indexes{0, 1, 2}));
  const SteadyTime sent_at = now_;
  now_ += milliseconds(1);
  endpoints_.Suspected(0, now_);
  now_ += milliseconds(1);
  EXPECT_FALSE(endpoints_.Answered(0, sent_at, now_));
  endpoints_.ProbeEnded(0, now_);
  EXPECT_FALSE(endpoints_.works(0)) << "the answer is older than the suspicion";
  EXPECT_EQ(endpoints_.DueProbes(now_, kSilence), Indexes{0});
  endpoints_.Answered(0, now_, now_);
  endpoints_.ProbeEnded(0, now_);
  EXPECT_TRUE(endpoints_.works(0));
}

TEST_F(EndpointsTest, ProbesAnEndpointThatHasBeenSilent) {
  AllWork();
  const auto i = Call();
  now_ += kSilence - milliseconds(1);
  EXPECT_EQ(endpoints_.DueProbes(now_, kSilence), Indexes{});
  for (EtcdEndpoints::Index other = 0; other < 3; ++other) {
    if (other != i) endpoints_.Answered(other, now_, now_);
  }
  now_ += milliseconds(1);
  EXPECT_EQ(endpoints_.DueProbes(now_, kSilence), Indexes{i});
  endpoints_.Answered(i, now_, now_);
  endpoints_.ProbeEnded(i, now_);
  EXPECT_TRUE(endpoints_.works(i));  // slow is not lost
}

TEST_F(EndpointsTest, ProbesEndpointsWithoutCallsToKeepTheirStateCurrent) {
  AllWork();
  now_ += kSilence;
  EXPECT_EQ(endpoints_.DueProbes(now_, kSilence), (Indexes{0, 1, 2}));
  for (EtcdEndpoints::Index i = 0; i < 3; ++i) {
    EXPECT_TRUE(endpoints_.known_to_work(i));
    endpoints_.Failed(i, now_);
    EXPECT_FALSE(endpoints_.known_to_work(i));
  }
}

TEST_F(EndpointsTest, UsesADisconnectedEndpointButDoesNotRelyOnItUntilItAnswers) {
  AllWork();
  const SteadyTime sent_at = now_;
  now_ += milliseconds(1);
  endpoints_.Disconnected(0, now_);
  EXPECT_EQ(endpoints_.Pick(0b110), 0u);
  EXPECT_FALSE(endpoints_.known_to_work(0));
  EXPECT_EQ(endpoints_.DueProbes(now_, kSilence), Indexes{0});
  const SteadyTime probed = now_;
  now_ += milliseconds(1);
  endpoints_.Disconnected(0, now_);  // the same disconnect again
  endpoints_.Answered(0, sent_at, now_);
  EXPECT_FALSE(endpoints_.known_to_work(0)) << "the answer came over the closed connection";
  endpoints_.Answered(0, probed, now_);
  endpoints_.ProbeEnded(0, now_);
  EXPECT_TRUE(endpoints_.known_to_work(0));
  EXPECT_TRUE(endpoints_.known_to_work(1));
}

TEST_F(EndpointsTest, ALateAnswerDoesNotRestoreALostEndpoint) {
  AllWork();
  const SteadyTime sent_at = now_;
  now_ += milliseconds(1);
  endpoints_.Failed(0, now_);
  now_ += milliseconds(1);
  // The request was sent before the endpoint was lost.
  EXPECT_FALSE(endpoints_.Answered(0, sent_at, now_));
  EXPECT_FALSE(endpoints_.works(0));
  now_ += milliseconds(160);
  ASSERT_EQ(endpoints_.DueProbes(now_, kSilence), Indexes{0});
  EXPECT_TRUE(endpoints_.Answered(0, now_, now_));
  EXPECT_TRUE(endpoints_.works(0));
}

TEST_F(EndpointsTest, TrustsProgressWhenAllVersionsAreKnownAndSound) {
  EXPECT_FALSE(endpoints_.progress_is_sound());
  endpoints_.SetVersion(0, "3.7.3");
  endpoints_.SetVersion(1, "3.5.13");
  EXPECT_FALSE(endpoints_.progress_is_sound());
  endpoints_.SetVersion(2, "3.4.31");
  EXPECT_TRUE(endpoints_.progress_is_sound());
  endpoints_.SetVersion(1, "3.5.12");
  EXPECT_FALSE(endpoints_.progress_is_sound());
}

TEST_F(EndpointsTest, GetsTheVersionOfAnEndpointThatIsBack) {
  AllWork();
  endpoints_.Failed(2, now_);
  endpoints_.Answered(2, now_, now_);
  EXPECT_EQ(endpoints_.DueProbes(now_, kSilence), Indexes{2});
}

TEST_F(EndpointsTest, RetriesToGetAnUnknownVersion) {
  for (const auto i : endpoints_.DueProbes(now_, kSilence)) {
    endpoints_.Answered(i, now_, now_);  // without a version, because it needs a token
    endpoints_.ProbeEnded(i, now_);
  }
  EXPECT_EQ(endpoints_.DueProbes(now_, kSilence), Indexes{});
  EXPECT_EQ(endpoints_.DueProbes(now_ + seconds(1), kSilence), (Indexes{0, 1, 2}));
}

}  // namespace
}  // namespace herald::store
