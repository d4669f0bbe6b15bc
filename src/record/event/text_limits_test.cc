#include "record/event/text_limits.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "api/validation/object_meta.h"

namespace herald {
namespace {

TEST(CutTextTest, CutsBetweenCharacters) {
  struct Case {
    std::string text;
    std::size_t limit;
    std::string expected;
  };
  for (const Case& c : {
           Case{"short", 5, "short"}, Case{"longer", 5, "lo..."},
           Case{"a\u00e9\u00e9\u00e9", 6, "a\u00e9..."},      // two bytes each
           Case{"\u20ac\u20ac\u20ac", 8, "\u20ac..."},        // three
           Case{"\U0001f600\U0001f600", 7, "\U0001f600..."},  // four
           Case{"\U0001f600\U0001f600", 6, "..."},            // none has room
           Case{std::string(9, '\x80'), 5, "\x80\x80..."},    // no UTF-8 at all
       }) {
    std::string text = c.text;
    CutText(c.limit, &text);
    EXPECT_EQ(text, c.expected);
  }
}

TEST(QualifiedNameTest, ChangesAsLittleAsPossible) {
  struct Case {
    std::string text;
    std::string expected;
  };
  for (const Case& c : {
           Case{"kubelet", "kubelet"},
           Case{"example.com/My_Controller.v2", "example.com/My_Controller.v2"},
           Case{"my controller", "my-controller"},
           Case{"-x-", "x"},
           Case{"Example.COM/name", "example.com/name"},
           Case{"a b..c_/name", "a-b.c/name"},
           Case{"a/b/c", "a/b-c"},
           Case{"/name", "name"},
           Case{"example.com/", "example.com"},
           Case{"***/name", "name"},
           Case{"", "unknown"},
           Case{"///", "unknown"},
           Case{"na\u00efve", "na-ve"},
           Case{std::string(70, 'x'), std::string(63, 'x')},
           Case{std::string(62, 'x') + "-y", std::string(62, 'x')},
           Case{std::string(300, 'p') + "/n", std::string(253, 'p') + "/n"},
       }) {
    EXPECT_EQ(QualifiedName(c.text), c.expected) << c.text;
  }
}

TEST(QualifiedNameTest, TheServerAcceptsEveryResult) {
  std::mt19937 random(1);
  const std::string letters = "aZ9-_./ \xc3\xa9\xff";
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (std::size_t length = random() % (i % 100 == 0 ? 400 : 12); length > 0; --length) {
      text.push_back(letters[random() % letters.size()]);
    }
    const std::string name = QualifiedName(text);
    EXPECT_TRUE(IsQualifiedName(name).empty()) << text << " became " << name;
    EXPECT_EQ(QualifiedName(name), name);
  }
}

}  // namespace
}  // namespace herald
