#include "http/server/pending_response.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace herald::http {
namespace {

Chunk MakeChunk(std::string bytes) { return std::make_shared<const std::string>(std::move(bytes)); }

class PendingResponseTest : public testing::Test {
 protected:
  ~PendingResponseTest() override { ready_->Close(); }

  std::string ReadAll(PendingResponse& response) {
    std::string bytes;
    std::array<char, 7> buffer{};
    for (;;) {
      const PendingResponse::Piece piece = response.Read(buffer.data(), buffer.size());
      bytes.append(buffer.data(), piece.bytes);
      if (piece.bytes == 0) return bytes;
    }
  }
  std::size_t TakeReady() {
    std::vector<std::shared_ptr<PendingResponse>> ready;
    ready_->Take(ready);
    return ready.size();
  }

  static constexpr std::size_t kMaxQueued = 100;
  std::atomic<int> wake_ups_{0};
  const std::shared_ptr<ReadyList> ready_ =
      std::make_shared<ReadyList>([this] { wake_ups_.fetch_add(1); });
  const std::shared_ptr<ServerCounters> counters_ = std::make_shared<ServerCounters>();
  const std::shared_ptr<ResponseGroup> group_ =
      std::make_shared<ResponseGroup>(ready_, counters_, 1, kMaxQueued);
  const std::shared_ptr<PendingResponse> response_ = std::make_shared<PendingResponse>(group_, 1);
};

TEST_F(PendingResponseTest, ManyChangesAreOneEntryAndOneWakeUp) {
  const auto other = std::make_shared<PendingResponse>(group_, 2);
  response_->Start({});
  response_->Write(MakeChunk("a"));
  response_->Write(MakeChunk("b"));
  other->Send({});
  EXPECT_EQ(wake_ups_, 1);
  EXPECT_EQ(TakeReady(), 2U);
  response_->Write(MakeChunk("c"));
  EXPECT_EQ(TakeReady(), 0U) << "the codec has not acknowledged it yet";
  response_->Acknowledge();
  response_->Write(MakeChunk("d"));
  EXPECT_EQ(TakeReady(), 1U);
  EXPECT_EQ(wake_ups_, 2);
  EXPECT_EQ(ReadAll(*response_), "abcd");
}

TEST_F(PendingResponseTest, NothingIsAddedAfterTheEnd) {
  response_->Start({});
  response_->Write(MakeChunk("a"));
  response_->End();
  response_->Write(MakeChunk("b"));
  response_->Abort();
  response_->Send({.body = "c"});
  std::array<char, 8> buffer{};
  const PendingResponse::Piece piece = response_->Read(buffer.data(), buffer.size());
  EXPECT_EQ(piece.bytes, 1U);
  EXPECT_TRUE(piece.end);
  EXPECT_FALSE(piece.aborted);
}

TEST_F(PendingResponseTest, CountsTheQueuedBytesOfItsConnection) {
  const auto other = std::make_shared<PendingResponse>(group_, 2);
  response_->Start({});
  other->Start({});
  response_->Write(MakeChunk(std::string(40, 'a')));
  EXPECT_EQ(other->Write(MakeChunk(std::string(30, 'b'))), 30U);
  EXPECT_EQ(group_->streamed_bytes, 70U);
  std::array<char, 10> buffer{};
  response_->Read(buffer.data(), buffer.size());
  EXPECT_EQ(group_->streamed_bytes, 60U);
  response_->Abort();
  EXPECT_EQ(group_->streamed_bytes, 30U);
  other->Release();
  EXPECT_EQ(group_->streamed_bytes, 0U);
  EXPECT_FALSE(group_->overflow);
}

TEST_F(PendingResponseTest, AStreamOverTheLimitIsAbortedAndReported) {
  response_->Start({});
  response_->Write(MakeChunk(std::string(100, 'a')));
  EXPECT_FALSE(group_->overflow);
  response_->Write(MakeChunk("b"));
  EXPECT_TRUE(group_->overflow);
  EXPECT_EQ(group_->streamed_bytes, 0U);
}

TEST_F(PendingResponseTest, OneWholeResponseMayHaveAnySizeButNotManyOfThem) {
  response_->Send({.body = std::string(ResponseGroup::kWholeFactor * kMaxQueued + 1, 'a')});
  EXPECT_FALSE(group_->overflow);
  const auto other = std::make_shared<PendingResponse>(group_, 2);
  other->Send({.body = "b"});
  EXPECT_TRUE(group_->overflow);
}

TEST_F(PendingResponseTest, AFiniteResponseHasTheLimitsOfAWholeOne) {
  response_->Start({.finite = true});
  for (std::size_t i = 0; i <= ResponseGroup::kWholeFactor; ++i)
    response_->Write(MakeChunk(std::string(kMaxQueued, 'a')));
  EXPECT_FALSE(group_->overflow) << "the only one may have any size";
  EXPECT_EQ(group_->whole_bytes, (ResponseGroup::kWholeFactor + 1) * kMaxQueued);
  EXPECT_EQ(group_->streamed_bytes, 0U);
  EXPECT_EQ(group_->streams, 0U) << "it does not reduce the share of streams";

  const auto other = std::make_shared<PendingResponse>(group_, 2);
  other->Start({.finite = true});
  other->Write(MakeChunk("b"));
  EXPECT_TRUE(group_->overflow);
  EXPECT_EQ(other->queued(), 0U);
  response_->Release();
  EXPECT_EQ(group_->whole_bytes, 0U);
}

TEST_F(PendingResponseTest, AServerThatStopsCompletesFiniteResponses) {
  int closed = 0;
  response_->Start({.finite = true});
  response_->Observe(nullptr, [&] { ++closed; });
  response_->Drain();
  response_->Write(MakeChunk("a"));
  response_->End();
  EXPECT_EQ(ReadAll(*response_), "a");
  EXPECT_EQ(closed, 0);
}

TEST_F(PendingResponseTest, ALateObserverIsNotifiedAtOnce) {
  response_->Release();
  int closed = 0;
  response_->Observe(nullptr, [&] { ++closed; });
  EXPECT_EQ(closed, 1);
}

TEST_F(PendingResponseTest, ClosedIsCalledOnceAndNotAfterTheEnd) {
  int closed = 0;
  response_->Start({});
  response_->Observe(nullptr, [&] { ++closed; });
  response_->Drain();
  response_->Drain();
  response_->Release();
  EXPECT_EQ(closed, 1);

  const auto other = std::make_shared<PendingResponse>(group_, 2);
  other->Start({});
  other->Observe(nullptr, [&] { ++closed; });
  other->End();
  other->Release();
  EXPECT_EQ(closed, 1);
}

TEST_F(PendingResponseTest, AbortDoesNotCallClosed) {
  int closed = 0;
  response_->Start({});
  response_->Observe(nullptr, [&] { ++closed; });
  response_->Abort();
  response_->Release();
  EXPECT_EQ(closed, 0);
}

TEST_F(PendingResponseTest, AStreamThatIsAbortedForItsSizeIsNotified) {
  int closed = 0;
  response_->Start({});
  response_->Observe(nullptr, [&] { ++closed; });
  response_->Write(MakeChunk("a"));
  EXPECT_FALSE(group_->overflow);
  response_->Write(MakeChunk(std::string(kMaxQueued, 'a')));
  EXPECT_TRUE(group_->overflow);
  response_->Abandon();
  response_->Release();
  EXPECT_EQ(closed, 1);
}

TEST_F(PendingResponseTest, DrainedIsCalledWhenTheQueueBecomesEmpty) {
  int drained = 0;
  response_->Observe([&] { ++drained; }, nullptr);
  response_->Start({});
  response_->NotifyDrained();
  EXPECT_EQ(drained, 0) << "it was empty from the start";
  response_->Write(MakeChunk("abc"));
  ReadAll(*response_);
  response_->NotifyDrained();
  response_->NotifyDrained();
  EXPECT_EQ(drained, 1);
  // Written again before the notification: then it is not empty.
  response_->Write(MakeChunk("abc"));
  ReadAll(*response_);
  response_->Write(MakeChunk("abc"));
  response_->NotifyDrained();
  EXPECT_EQ(drained, 1);
}

TEST_F(PendingResponseTest, CallbacksThatHoldTheResponderDoNotLeakIt) {
  std::weak_ptr<Responder> weak;
  auto response = std::make_shared<PendingResponse>(group_, 2);
  {
    const std::shared_ptr<Responder> responder = MakeResponder(response);
    weak = responder;
    responder->Start({});
    responder->Observe([responder] { responder->End(); }, [responder] { responder->Abort(); });
  }
  EXPECT_FALSE(weak.expired());
  response->Release();
  EXPECT_TRUE(weak.expired());
}

TEST_F(PendingResponseTest, CountsTheResponsesThatAreIncomplete) {
  EXPECT_EQ(counters_->streams, 1U);
  auto other = std::make_shared<PendingResponse>(group_, 2);
  EXPECT_EQ(counters_->streams, 2U);
  other->Release();
  EXPECT_EQ(counters_->streams, 1U);
  other.reset();
  EXPECT_EQ(counters_->streams, 1U);
}

TEST_F(PendingResponseTest, IsWrittenAndReadByDifferentThreads) {
  constexpr int kChunks = 20'000;
  std::thread writer([&] {
    response_->Start({});
    for (int i = 0; i < kChunks; ++i) {
      while (response_->queued() > kMaxQueued / 2) std::this_thread::yield();
      response_->Write(MakeChunk("0123456789"));
    }
    response_->End();
  });
  std::size_t bytes = 0;
  bool ordered = true;
  for (bool end = false; !end;) {
    if (TakeReady() == 0) std::this_thread::yield();
    response_->Acknowledge();
    std::array<char, 33> buffer{};
    const PendingResponse::Piece piece = response_->Read(buffer.data(), buffer.size());
    for (std::size_t i = 0; i < piece.bytes; ++i)
      ordered = ordered && buffer.at(i) == static_cast<char>('0' + (bytes + i) % 10);
    bytes += piece.bytes;
    end = piece.end;
  }
  writer.join();
  EXPECT_EQ(bytes, std::size_t{10} * kChunks);
  EXPECT_TRUE(ordered);
  EXPECT_FALSE(group_->overflow);
}

TEST_F(PendingResponseTest, AClosedListAcceptsNothing) {
  ready_->Close();
  response_->Send({});
  EXPECT_EQ(TakeReady(), 0U);
  EXPECT_EQ(wake_ups_, 0);
}

}  // namespace
}  // namespace herald::http
