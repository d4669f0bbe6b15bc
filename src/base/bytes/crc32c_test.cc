#include "base/bytes/crc32c.h"

#include <gtest/gtest.h>

#include <string>

#include "base/bytes/random.h"

namespace herald {
namespace {

// RFC 3720, B.4.
TEST(Crc32cTest, HasTheKnownValues) {
  std::string ascending;
  for (int i = 0; i < 32; ++i) ascending += static_cast<char>(i);
  for (const auto& crc : {&Crc32c, &Crc32cPortable}) {
    EXPECT_EQ(crc("", 0), 0u);
    EXPECT_EQ(crc("123456789", 0), 0xe3069283u);
    EXPECT_EQ(crc(std::string(32, '\0'), 0), 0x8a9136aau);
    EXPECT_EQ(crc(std::string(32, '\xff'), 0), 0x62a8ab43u);
    EXPECT_EQ(crc(ascending, 0), 0x46dd794eu);
  }
}

TEST(Crc32cTest, ContinuesFromAnEarlierChecksum) {
  Random random(1);
  for (std::size_t size = 0; size < 100; ++size) {
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(random.Next());
    for (std::size_t cut = 0; cut <= size; ++cut) {
      const std::string_view view = bytes;
      EXPECT_EQ(Crc32c(view.substr(cut), Crc32c(view.substr(0, cut))), Crc32c(view));
    }
    EXPECT_EQ(Crc32c(bytes), Crc32cPortable(bytes));
  }
}

}  // namespace
}  // namespace herald
