#include "http/server/answer.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace herald::http {
namespace {

Chunk MakeChunk(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

class AnswerTest : public testing::Test {
 protected:
  ~AnswerTest() override { ready_->Close(); }

  std::string ReadAll(Answer& answer) {
    std::string text;
    std::array<char, 7> buffer{};
    for (;;) {
      const Answer::Piece piece = answer.Read(buffer.data(), buffer.size());
      text.append(buffer.data(), piece.bytes);
      if (piece.bytes == 0) return text;
    }
  }
  std::size_t TakeReady() {
    std::vector<std::shared_ptr<Answer>> ready;
    ready_->Take(ready);
    return ready.size();
  }

  static constexpr std::size_t kMaxQueued = 100;
  std::atomic<int> wake_ups_{0};
  const std::shared_ptr<ReadyList> ready_ =
      std::make_shared<ReadyList>([this] { wake_ups_.fetch_add(1); });
  const std::shared_ptr<ServerCounters> counters_ = std::make_shared<ServerCounters>();
  const std::shared_ptr<AnswerGroup> group_ =
      std::make_shared<AnswerGroup>(ready_, counters_, 1, kMaxQueued);
  const std::shared_ptr<Answer> answer_ = std::make_shared<Answer>(group_, 1);
};

TEST_F(AnswerTest, ManyChangesAreOneEntryAndOneWakeUp) {
  const auto other = std::make_shared<Answer>(group_, 2);
  answer_->Start({});
  answer_->Write(MakeChunk("a"));
  answer_->Write(MakeChunk("b"));
  other->Send({});
  EXPECT_EQ(wake_ups_, 1);
  EXPECT_EQ(TakeReady(), 2U);
  answer_->Write(MakeChunk("c"));
  EXPECT_EQ(TakeReady(), 0U) << "nobody has looked at it yet";
  answer_->Acknowledge();
  answer_->Write(MakeChunk("d"));
  EXPECT_EQ(TakeReady(), 1U);
  EXPECT_EQ(wake_ups_, 2);
  EXPECT_EQ(ReadAll(*answer_), "abcd");
}

TEST_F(AnswerTest, NothingIsAddedAfterTheEnd) {
  answer_->Start({});
  answer_->Write(MakeChunk("a"));
  answer_->End();
  answer_->Write(MakeChunk("b"));
  answer_->Abort();
  answer_->Send({.body = "c"});
  std::array<char, 8> buffer{};
  const Answer::Piece piece = answer_->Read(buffer.data(), buffer.size());
  EXPECT_EQ(piece.bytes, 1U);
  EXPECT_TRUE(piece.end);
  EXPECT_FALSE(piece.aborted);
}

TEST_F(AnswerTest, CountsWhatItsConnectionHasQueued) {
  const auto other = std::make_shared<Answer>(group_, 2);
  answer_->Start({});
  other->Start({});
  answer_->Write(MakeChunk(std::string(40, 'a')));
  EXPECT_EQ(other->Write(MakeChunk(std::string(30, 'b'))), 30U);
  EXPECT_EQ(group_->streamed_bytes, 70U);
  std::array<char, 10> buffer{};
  answer_->Read(buffer.data(), buffer.size());
  EXPECT_EQ(group_->streamed_bytes, 60U);
  answer_->Abort();
  EXPECT_EQ(group_->streamed_bytes, 30U);
  other->Release();
  EXPECT_EQ(group_->streamed_bytes, 0U);
  EXPECT_FALSE(group_->overflow);
}

TEST_F(AnswerTest, AStreamOverTheBoundIsRefusedAndReported) {
  answer_->Start({});
  answer_->Write(MakeChunk(std::string(100, 'a')));
  EXPECT_FALSE(group_->overflow);
  answer_->Write(MakeChunk("b"));
  EXPECT_TRUE(group_->overflow);
  EXPECT_EQ(group_->streamed_bytes, 0U);
}

TEST_F(AnswerTest, OneWholeAnswerMayHaveAnySizeButNotManyOfThem) {
  answer_->Send({.body = std::string(AnswerGroup::kWholeFactor * kMaxQueued + 1, 'a')});
  EXPECT_FALSE(group_->overflow);
  const auto other = std::make_shared<Answer>(group_, 2);
  other->Send({.body = "b"});
  EXPECT_TRUE(group_->overflow);
}

TEST_F(AnswerTest, AFiniteAnswerIsBoundedAsAWholeOneIs) {
  answer_->Start({.finite = true});
  for (std::size_t i = 0; i <= AnswerGroup::kWholeFactor; ++i)
    answer_->Write(MakeChunk(std::string(kMaxQueued, 'a')));
  EXPECT_FALSE(group_->overflow) << "the only one may have any size";
  EXPECT_EQ(group_->whole_bytes, (AnswerGroup::kWholeFactor + 1) * kMaxQueued);
  EXPECT_EQ(group_->streamed_bytes, 0U);
  EXPECT_EQ(group_->streams, 0U) << "it takes no stream's share";

  const auto other = std::make_shared<Answer>(group_, 2);
  other->Start({.finite = true});
  other->Write(MakeChunk("b"));
  EXPECT_TRUE(group_->overflow);
  EXPECT_EQ(other->queued(), 0U);
  answer_->Release();
  EXPECT_EQ(group_->whole_bytes, 0U);
}

TEST_F(AnswerTest, AServerThatStopsLetsFiniteAnswersEnd) {
  int closed = 0;
  answer_->Start({.finite = true});
  answer_->Observe(nullptr, [&] { ++closed; });
  answer_->Drain();
  answer_->Write(MakeChunk("a"));
  answer_->End();
  EXPECT_EQ(ReadAll(*answer_), "a");
  EXPECT_EQ(closed, 0);
}

TEST_F(AnswerTest, WhoObservesTooLateIsToldAtOnce) {
  answer_->Release();
  int closed = 0;
  answer_->Observe(nullptr, [&] { ++closed; });
  EXPECT_EQ(closed, 1);
}

TEST_F(AnswerTest, ClosedIsToldOnceAndNotAfterTheEnd) {
  int closed = 0;
  answer_->Start({});
  answer_->Observe(nullptr, [&] { ++closed; });
  answer_->Drain();
  answer_->Drain();
  answer_->Release();
  EXPECT_EQ(closed, 1);

  const auto other = std::make_shared<Answer>(group_, 2);
  other->Start({});
  other->Observe(nullptr, [&] { ++closed; });
  other->End();
  other->Release();
  EXPECT_EQ(closed, 1);
}

TEST_F(AnswerTest, WhoGivesUpIsNotTold) {
  int closed = 0;
  answer_->Start({});
  answer_->Observe(nullptr, [&] { ++closed; });
  answer_->Abort();
  answer_->Release();
  EXPECT_EQ(closed, 0);
}

TEST_F(AnswerTest, WhoIsCutOffIsTold) {
  int closed = 0;
  answer_->Start({});
  answer_->Observe(nullptr, [&] { ++closed; });
  answer_->Write(MakeChunk("a"));
  EXPECT_FALSE(group_->overflow);
  answer_->Write(MakeChunk(std::string(kMaxQueued, 'a')));
  EXPECT_TRUE(group_->overflow);
  answer_->Abandon();
  answer_->Release();
  EXPECT_EQ(closed, 1);
}

TEST_F(AnswerTest, DrainedIsToldWhenTheQueueHasBecomeEmpty) {
  int drained = 0;
  answer_->Observe([&] { ++drained; }, nullptr);
  answer_->Start({});
  answer_->TellDrained();
  EXPECT_EQ(drained, 0) << "it was never anything else";
  answer_->Write(MakeChunk("abc"));
  ReadAll(*answer_);
  answer_->TellDrained();
  answer_->TellDrained();
  EXPECT_EQ(drained, 1);
  // Written again before it could be told: then it is not empty.
  answer_->Write(MakeChunk("abc"));
  ReadAll(*answer_);
  answer_->Write(MakeChunk("abc"));
  answer_->TellDrained();
  EXPECT_EQ(drained, 1);
}

TEST_F(AnswerTest, CallbacksThatHoldTheResponderDoNotKeepItForEver) {
  std::weak_ptr<Responder> weak;
  auto answer = std::make_shared<Answer>(group_, 2);
  {
    const std::shared_ptr<Responder> responder = MakeResponder(answer);
    weak = responder;
    responder->Start({});
    responder->Observe([responder] { responder->End(); }, [responder] { responder->Abort(); });
  }
  EXPECT_FALSE(weak.expired());
  answer->Release();
  EXPECT_TRUE(weak.expired());
}

TEST_F(AnswerTest, CountsTheRequestsThatAreBeingAnswered) {
  EXPECT_EQ(counters_->streams, 1U);
  auto other = std::make_shared<Answer>(group_, 2);
  EXPECT_EQ(counters_->streams, 2U);
  other->Release();
  EXPECT_EQ(counters_->streams, 1U);
  other.reset();
  EXPECT_EQ(counters_->streams, 1U);
}

TEST_F(AnswerTest, IsGivenAndTakenByDifferentThreads) {
  constexpr int kChunks = 20'000;
  std::thread writer([&] {
    answer_->Start({});
    for (int i = 0; i < kChunks; ++i) {
      while (answer_->queued() > kMaxQueued / 2) std::this_thread::yield();
      answer_->Write(MakeChunk("0123456789"));
    }
    answer_->End();
  });
  std::size_t bytes = 0;
  bool ordered = true;
  for (bool end = false; !end;) {
    if (TakeReady() == 0) std::this_thread::yield();
    answer_->Acknowledge();
    std::array<char, 33> buffer{};
    const Answer::Piece piece = answer_->Read(buffer.data(), buffer.size());
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

TEST_F(AnswerTest, AClosedListTakesNothing) {
  ready_->Close();
  answer_->Send({});
  EXPECT_EQ(TakeReady(), 0U);
  EXPECT_EQ(wake_ups_, 0);
}

}  // namespace
}  // namespace herald::http
