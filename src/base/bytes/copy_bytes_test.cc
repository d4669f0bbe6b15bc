#include "base/bytes/copy_bytes.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace herald {
namespace {

TEST(CopyBytesTest, CopiesExactlyTheGivenBytes) {
  std::string from;
  for (int i = 0; i < 100; ++i) from.push_back(static_cast<char>('A' + i % 50));
  for (std::size_t size = 0; size <= from.size(); ++size) {
    std::string to(from.size() + 2, '.');
    CopyBytes(from.data(), size, to.data() + 1);
    EXPECT_EQ(to, "." + from.substr(0, size) + std::string(to.size() - size - 1, '.')) << size;
  }
}

TEST(CopyBytesTest, AcceptsNullForAnEmptyRange) {
  char to = '.';
  CopyBytes(nullptr, 0, &to);
  EXPECT_EQ(to, '.');
}

}  // namespace
}  // namespace herald
