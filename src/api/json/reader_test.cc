#include "api/json/reader.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace herald {
namespace {

using Type = JsonReader::Type;

std::string ErrorOf(std::string_view json) {
  JsonReader reader(json);
  reader.SkipValue();
  reader.Finish();
  return reader.error();
}

TEST(JsonReader, ReadsObjectsAndArraysInOrder) {
  JsonReader reader(R"( {"a" : [1, -2.5e3 , "x"], "b":{} , "c" : [ ], "d":true,"e":null} )");
  std::vector<std::string> seen;
  ASSERT_EQ(reader.Peek(), Type::kObject);
  for (bool more = reader.BeginObject(); more; more = reader.NextMember()) {
    seen.emplace_back(reader.ReadKey());
    switch (reader.Peek()) {
      case Type::kArray:
        for (bool element = reader.BeginArray(); element; element = reader.NextElement()) {
          if (reader.Peek() == Type::kString) {
            std::string text;
            reader.ReadString(&text);
            seen.push_back(text);
          } else {
            seen.emplace_back(reader.ReadNumber());
          }
        }
        break;
      case Type::kObject:
        EXPECT_FALSE(reader.BeginObject());
        break;
      case Type::kBool:
        EXPECT_TRUE(reader.ReadBool());
        break;
      default:
        reader.ReadNull();
    }
  }
  EXPECT_TRUE(reader.Finish()) << reader.error();
  EXPECT_EQ(seen, (std::vector<std::string>{"a", "1", "-2.5e3", "x", "b", "c", "d", "e"}));
}

TEST(JsonReader, ReadsStringsAndReplacesInvalidUnicode) {
  const struct {
    std::string_view json;
    std::string_view text;
  } kCases[] = {
      {R"("")", ""},
      {R"("plain text that is longer than a word")", "plain text that is longer than a word"},
      {R"("\"\\\/\b\f\n\r\t")", "\"\\/\b\f\n\r\t"},
      {R"("\u0041\u00e9\u20ac\ud83d\ude00")", "A\u00e9\u20ac\U0001f600"},
      {"\"caf\xc3\xa9 \xf0\x9f\x98\x80\"", "caf\u00e9 \U0001f600"},
      {R"("\ud800")", "\ufffd"},
      {R"("\ud800x")", "\ufffdx"},
      {R"("\ud800\u0041")", "\ufffdA"},
      {R"("\udc00\ud800")", "\ufffd\ufffd"},
      {"\"\xff\xc3\"", "\ufffd\ufffd"},
      {"\"\xed\xa0\x80\"", "\ufffd\ufffd\ufffd"},
      {"\"1234567\xc0\"", "1234567\ufffd"},
      {"\"\x7f\"", "\x7f"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.json);
    JsonReader reader(c.json);
    std::string text;
    ASSERT_EQ(reader.Peek(), Type::kString);
    reader.ReadString(&text);
    EXPECT_TRUE(reader.Finish()) << reader.error();
    EXPECT_EQ(text, c.text);
  }
}

// The fast scan compares several bytes at once and must find a special character at each position.
TEST(JsonReader, FindsSpecialCharactersAtEveryPosition) {
  for (std::size_t before = 0; before < 40; ++before) {
    const std::string padding(before, 'x');
    std::string text;
    const std::string json = "\"" + padding + "\\n" + padding + "\xc3\xa9" + padding + "\"";
    JsonReader reader(json);
    reader.Peek();
    reader.ReadString(&text);
    EXPECT_TRUE(reader.Finish());
    EXPECT_EQ(text, padding + "\n" + padding + "\xc3\xa9" + padding);
    EXPECT_EQ(ErrorOf("\"" + padding + "\x01\""), R"(invalid character '\x01' in string literal)");
  }
}

// Short strings are copied together with the bytes after them, if there are enough.
TEST(JsonReader, ReturnsNoBytesAfterAShortString) {
  for (std::size_t size = 0; size < 40; ++size) {
    for (std::size_t behind = 0; behind < 20; ++behind) {
      for (const std::size_t before : {0, 3, 15, 16, 100}) {
        const std::string text(size, 'x');
        // On the heap with the exact size, so that a sanitizer reports a read past the end.
        const std::string rest = "\"" + std::string(behind, ' ');
        const std::vector<char> json = [&] {
          const std::string whole = "\"" + text + rest;
          return std::vector<char>(whole.begin(), whole.end());
        }();
        std::string out(before, 'y');
        JsonReader reader({json.data(), json.size()});
        ASSERT_EQ(reader.Peek(), JsonReader::Type::kString);
        reader.ReadString(&out);
        EXPECT_EQ(out, text) << size << " " << behind << " " << before;
        EXPECT_EQ(std::string_view(out.c_str()), text) << "NUL at the end";
        EXPECT_TRUE(reader.Finish());
      }
    }
  }
}

TEST(JsonReader, HasTheErrorsOfGo) {
  const struct {
    std::string_view json;
    std::string_view error;
  } kCases[] = {
      {"", "unexpected end of JSON input"},
      {"  ", "unexpected end of JSON input"},
      {"{", "unexpected end of JSON input"},
      {R"({"a)", "unexpected end of JSON input"},
      {R"({"a\)", "invalid character ' ' in string escape code"},
      {R"({"a":"\u00)", "invalid character ' ' in \\u hexadecimal character escape"},
      {R"({"a":)", "unexpected end of JSON input"},
      {R"({"a":1)", "unexpected end of JSON input"},
      {R"({"a":tr)", "invalid character ' ' in literal true (expecting 'u')"},
      {R"({"a":-)", "invalid character ' ' in numeric literal"},
      {R"({"a":12)", "unexpected end of JSON input"},
      {"[1,", "unexpected end of JSON input"},
      {"x", "invalid character 'x' looking for beginning of value"},
      {"'", R"(invalid character '\'' looking for beginning of value)"},
      {"\xff", "invalid character '\u00ff' looking for beginning of value"},
      {"{]", "invalid character ']' looking for beginning of object key string"},
      {R"({"a":1,})", "invalid character '}' looking for beginning of object key string"},
      {R"({"a" 1})", "invalid character '1' after object key"},
      {R"({"a":1 2})", "invalid character '2' after object key:value pair"},
      {"[1 2]", "invalid character '2' after array element"},
      {"[1,]", "invalid character ']' looking for beginning of value"},
      {"{} {}", "invalid character '{' after top-level value"},
      {"01", "invalid character '1' after top-level value"},
      {"-x", "invalid character 'x' in numeric literal"},
      {"1.x", "invalid character 'x' after decimal point in numeric literal"},
      {"1e+x", "invalid character 'x' in exponent of numeric literal"},
      {"trap", "invalid character 'a' in literal true (expecting 'u')"},
      {"nulL", "invalid character 'L' in literal null (expecting 'l')"},
      {"\"\n\"", R"(invalid character '\n' in string literal)"},
      {R"("\x")", "invalid character 'x' in string escape code"},
      {R"("\u00g0")", "invalid character 'g' in \\u hexadecimal character escape"},
      {R"("\ud800\u00g0")", "invalid character 'g' in \\u hexadecimal character escape"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.json);
    EXPECT_EQ(ErrorOf(c.json), c.error);
  }
}

TEST(JsonReader, AllowsTenThousandLevels) {
  const auto nested = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ(ErrorOf(nested(JsonReader::kMaxDepth)), "");
  EXPECT_EQ(ErrorOf(nested(JsonReader::kMaxDepth + 1)), "invalid character '[' exceeded max depth");
}

TEST(JsonReader, SkipsNumbersOfAnySize) {
  EXPECT_EQ(ErrorOf("1e999999"), "");
  EXPECT_EQ(ErrorOf(std::string(5000, '9')), "");
}

TEST(JsonReader, ReturnsTheTextOfASkippedValue) {
  JsonReader reader(R"({"a": {"b" :[1, "}"]} ,"c":2})");
  ASSERT_EQ(reader.Peek(), Type::kObject);
  ASSERT_TRUE(reader.BeginObject());
  EXPECT_EQ(reader.ReadKey(), "a");
  EXPECT_EQ(reader.SkipValue(), R"({"b" :[1, "}"]})");
  ASSERT_TRUE(reader.NextMember());
  EXPECT_FALSE(reader.SkipExpectedKey("cc"));
  EXPECT_TRUE(reader.SkipExpectedKey("c"));
  EXPECT_EQ(reader.SkipValue(), "2");
  EXPECT_FALSE(reader.NextMember());
  EXPECT_TRUE(reader.Finish());
}

TEST(JsonReader, KeepsTheFirstError) {
  JsonReader reader("[1 2]");
  reader.Peek();
  ASSERT_TRUE(reader.BeginArray());
  reader.SkipValue();
  EXPECT_FALSE(reader.NextElement());
  EXPECT_EQ(reader.Peek(), Type::kError);
  EXPECT_FALSE(reader.NextMember());
  EXPECT_EQ(reader.SkipValue(), "");
  EXPECT_FALSE(reader.Finish());
  EXPECT_EQ(reader.error(), "invalid character '2' after array element");
}

}  // namespace
}  // namespace herald
