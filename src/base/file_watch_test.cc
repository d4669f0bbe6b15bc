#include "base/file_watch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/testing/temporary_directory.h"

namespace herald {
namespace {

class FileWatchTest : public testing::Test {
 protected:
  void Write(const std::string& name, std::string_view text) {
    std::ofstream(folder_ + "/" + name) << text;
  }
  int ChangesSeen() {
    const int before = changes_;
    watch_.Check();
    return changes_ - before;
  }

  const TemporaryDirectory directory_;
  const std::string folder_ = directory_.path();
  FileWatch watch_;
  int changes_ = 0;
};

TEST_F(FileWatchTest, DetectsFilesThatChangeAppearAndDisappear) {
  Write("a", "1");
  watch_.Add({folder_ + "/a", folder_ + "/later", ""}, [this] { ++changes_; });
  EXPECT_EQ(ChangesSeen(), 0);
  Write("a", "22");
  EXPECT_EQ(ChangesSeen(), 1);
  EXPECT_EQ(ChangesSeen(), 0);
  Write("later", "x");
  EXPECT_EQ(ChangesSeen(), 1);
  std::filesystem::remove(folder_ + "/a");
  EXPECT_EQ(ChangesSeen(), 1);
}

TEST_F(FileWatchTest, DetectsChangesInADirectory) {
  watch_.Add({folder_}, [this] { ++changes_; });
  Write("new", "1");
  EXPECT_EQ(ChangesSeen(), 1);
  Write("new", "22");
  EXPECT_EQ(ChangesSeen(), 1);
  Write("elsewhere.tmp", "");
  std::filesystem::rename(folder_ + "/elsewhere.tmp", folder_ + "/new");
  EXPECT_EQ(ChangesSeen(), 1);
}

TEST_F(FileWatchTest, DetectsANewTargetOfASymbolicLink) {
  Write("one", "1");
  Write("two", "1");
  std::filesystem::create_symlink(folder_ + "/one", folder_ + "/link");
  watch_.Add({folder_ + "/link"}, [this] { ++changes_; });
  std::filesystem::remove(folder_ + "/link");
  std::filesystem::create_symlink(folder_ + "/two", folder_ + "/link");
  EXPECT_EQ(ChangesSeen(), 1);
}

TEST_F(FileWatchTest, CallsOnlyTheCallbacksOfChangedFiles) {
  int others = 0;
  watch_.Add({folder_ + "/a"}, [this] { ++changes_; });
  watch_.Add({folder_ + "/b"}, [&] { ++others; });
  Write("a", "x");
  EXPECT_EQ(ChangesSeen(), 1);
  EXPECT_EQ(others, 0);
}

}  // namespace
}  // namespace herald
