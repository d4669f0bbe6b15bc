#include "store/rocks/revision_mark.h"

#include <gtest/gtest.h>
#include <rocksdb/env.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>

#include "base/testing/temporary_directory.h"
#include "store/testing/faulty_file_system.h"

namespace herald::store {
namespace {

class RevisionMarkTest : public testing::Test {
 protected:
  std::string Bytes() const {
    std::ifstream file(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void SetBytes(const std::string& bytes) const {
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << bytes;
  }
  std::optional<Revision> Read() {
    const auto mark = ReadRevisionMark(env_.get(), directory_.path());
    EXPECT_TRUE(mark) << mark.error().ToString();
    return mark ? *mark : std::nullopt;
  }

  TemporaryDirectory directory_;
  const std::filesystem::path file_ = directory_.path() / kRevisionMarkFile;
  Faults faults_;
  const std::unique_ptr<rocksdb::Env> env_ = FaultyFileSystem::MakeEnv(&faults_);
};

TEST_F(RevisionMarkTest, ReadsTheLastMark) {
  EXPECT_EQ(Read(), std::nullopt);
  for (const Revision revision :
       {Revision{0}, Revision{1}, Revision{1234567}, std::numeric_limits<Revision>::max()}) {
    ASSERT_TRUE(WriteRevisionMark(env_.get(), directory_.path(), revision).ok());
    EXPECT_EQ(Read(), revision);
  }
}

TEST_F(RevisionMarkTest, HasTheDocumentedFormat) {
  ASSERT_TRUE(WriteRevisionMark(env_.get(), directory_.path(), 1234).ok());
  EXPECT_EQ(Bytes(), "acknowledged revision 1234 crc32c 25a4b668\n");
}

TEST_F(RevisionMarkTest, DetectsEveryDamagedByteAndEveryTruncation) {
  ASSERT_TRUE(WriteRevisionMark(env_.get(), directory_.path(), 1234).ok());
  const std::string whole = Bytes();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    for (const std::string& bytes : {damaged, whole.substr(0, i)}) {
      SetBytes(bytes);
      const auto mark = ReadRevisionMark(env_.get(), directory_.path());
      ASSERT_FALSE(mark) << bytes;
      EXPECT_TRUE(mark.error().Is(StatusReason::kCorruption)) << mark.error().ToString();
    }
  }
  SetBytes(whole + "x");
  EXPECT_FALSE(ReadRevisionMark(env_.get(), directory_.path()));
}

TEST_F(RevisionMarkTest, KeepsTheOldMarkIfTheNewOneCannotBeWritten) {
  ASSERT_TRUE(WriteRevisionMark(env_.get(), directory_.path(), 7).ok());
  for (std::atomic<bool>* fault : {&faults_.disk_full, &faults_.read_only}) {
    *fault = true;
    const Status status = WriteRevisionMark(env_.get(), directory_.path(), 8);
    EXPECT_TRUE(status.Is(StatusReason::kServiceUnavailable)) << status.ToString();
    *fault = false;
    EXPECT_EQ(Read(), 7);
  }
  EXPECT_TRUE(WriteRevisionMark(env_.get(), directory_.path(), 8).ok());
  EXPECT_EQ(Read(), 8);
}

TEST_F(RevisionMarkTest, ComparesTheMarkWithTheRecoveredRevision) {
  EXPECT_TRUE(CheckRevisionMark(env_.get(), directory_.path(), 0).ok()) << "there is no mark";
  ASSERT_TRUE(WriteRevisionMark(env_.get(), directory_.path(), 150).ok());
  EXPECT_TRUE(CheckRevisionMark(env_.get(), directory_.path(), 150).ok());
  EXPECT_TRUE(CheckRevisionMark(env_.get(), directory_.path(), 151).ok());
  const Status lost = CheckRevisionMark(env_.get(), directory_.path(), 120);
  EXPECT_TRUE(lost.Is(StatusReason::kCorruption));
  EXPECT_EQ(
      lost.message(),
      "the data directory " + directory_.path().string() +
          " ends at revision 120, but revision 150 was acknowledged, so a write-ahead log "
          "was deleted or truncated: put it back, restore a backup, or run `heraldd accept-loss` "
          "to continue without the lost events");
}

}  // namespace
}  // namespace herald::store
