#include "herald/api/reference.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "herald/api/codec.h"
#include "test/golden.h"

namespace herald {
namespace {

WallTime AtNanos(std::int64_t nanos) { return WallTime(std::chrono::nanoseconds(nanos)); }

bool LooksLikeUuid(const std::string& name) {
  return name.size() == 36 && name[8] == '-' && name[13] == '-' && name[14] == '4' &&
         name[18] == '-' && name[23] == '-';
}

// A reference as the golden files write it.
testing::Vector ToJson(const ObjectReference& reference) {
  const std::pair<const char*, std::string> members[] = {
      {"kind", reference.kind},
      {"namespace", reference.namespace_},
      {"name", reference.name},
      {"uid", reference.uid},
      {"apiVersion", reference.api_version},
      {"resourceVersion", reference.resource_version},
      {"fieldPath", reference.field_path},
  };
  testing::Vector json = testing::Vector::object();
  for (const auto& [key, value] : members) {
    if (!value.empty()) json[key] = value;
  }
  return json;
}

TEST(MakeReference, CopiesTheIdentifyingFieldsOfTheMetadata) {
  ObjectMeta metadata;
  metadata.name = "web-0";
  metadata.namespace_ = "default";
  metadata.uid = "u-1";
  metadata.resource_version = "17";
  metadata.labels["app"] = "web";
  const ObjectReference expected = {"Pod", "default", "web-0", "u-1", "v1", "17", ""};
  EXPECT_EQ(MakeReference("v1", "Pod", metadata), expected);
}

// Go's client looks up the kind of a type if the object does not name it. Our callers pass the kind
// to MakeReference() instead.
TEST(ReferenceFromJson, AgreesWithEveryGoldenVector) {
  for (const testing::Vector& vector : testing::LoadGolden("references.json")) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const std::string typed = vector.value("typed", "");
    if (typed == "v1.ObjectReference") continue;  // already a reference

    const std::string text = testing::Bytes(vector, "object");
    const auto object = testing::Vector::parse(text);
    Result<ObjectReference> reference = ReferenceFromJson(text);
    if (!typed.empty() && !object.contains("kind") && !object.contains("apiVersion")) {
      EXPECT_FALSE(reference);
      const std::size_t dot = typed.rfind('.');
      const auto meta = object.value("metadata", testing::Vector::object());
      ObjectMeta metadata;
      metadata.name = meta.value("name", "");
      metadata.namespace_ = meta.value("namespace", "");
      metadata.uid = meta.value("uid", "");
      metadata.resource_version = meta.value("resourceVersion", "");
      reference = MakeReference(typed.substr(0, dot), typed.substr(dot + 1), metadata);
    }
    ASSERT_EQ(reference.has_value(), vector.at("ok").get<bool>());
    if (!reference) {
      EXPECT_EQ(reference.error().message(), vector.at("error").get<std::string>());
      EXPECT_TRUE(reference.error().Is(StatusReason::kBadRequest));
      continue;
    }
    reference->field_path = vector.value("field_path", "");
    EXPECT_EQ(ToJson(*reference),
              testing::Vector::parse(vector.at("reference_json").get<std::string>()));
  }
}

TEST(ReferenceFromJson, UsesTheLastValueOfADuplicateField) {
  const auto reference =
      ReferenceFromJson(R"({"kind":"A","kind":"B","apiVersion":"v1",)"
                        R"("metadata":{"name":"x","uid":"u"},"metadata":{"name":"y"}})");
  ASSERT_TRUE(reference);
  EXPECT_EQ(*reference, (ObjectReference{"B", "", "y", "", "v1", "", ""}));
}

TEST(ReferenceFromJson, RejectsJsonThatIsNotAnObject) {
  for (const std::string text :
       {"", "null", "[]", "\"Pod\"", "7", "{", R"({"kind":"Pod"} x)", R"({"kind":"Pod",})"}) {
    SCOPED_TRACE(text);
    const auto reference = ReferenceFromJson(text);
    ASSERT_FALSE(reference);
    EXPECT_TRUE(reference.error().Is(StatusReason::kBadRequest));
    EXPECT_NE(reference.error().message(), "");
  }
}

TEST(ReferenceFromJson, SkipsDeepAndLargeValues) {
  const std::string deep = R"({"kind":"Deep","spec":)" + std::string(9000, '[') +
                           std::string(9000, ']') + R"(,"apiVersion":"v1"})";
  ASSERT_TRUE(ReferenceFromJson(deep));
  EXPECT_EQ(ReferenceFromJson(deep)->api_version, "v1");
  EXPECT_FALSE(ReferenceFromJson(std::string(1000000, '[')));
}

TEST(Names, AgreeWithEveryGoldenVector) {
  for (const testing::Vector& vector : testing::LoadGolden("names.json")) {
    SCOPED_TRACE(vector.dump(-1, ' ', true));
    if (vector.at("kind") == "event") {
      const std::string name = MakeEventName(vector.at("ref").get<std::string>(),
                                             AtNanos(vector.at("nanos").get<std::int64_t>()));
      if (vector.contains("exact")) {
        EXPECT_EQ(name, vector.at("exact").get<std::string>());
      } else {
        EXPECT_TRUE(LooksLikeUuid(name)) << name;
      }
      continue;
    }
    ASSERT_EQ(vector.at("kind"), "generated");
    const std::size_t suffix_bytes = vector.at("suffix_len").get<std::size_t>();
    std::set<char> letters;
    for (int i = 0; i < 1000; ++i) {
      const std::string name = MakeGeneratedName(vector.at("base").get<std::string>());
      ASSERT_EQ(name.substr(0, name.size() - suffix_bytes), testing::Bytes(vector, "prefix_kept"));
      letters.insert(name.end() - static_cast<std::ptrdiff_t>(suffix_bytes), name.end());
    }
    EXPECT_EQ(std::string(letters.begin(), letters.end()),
              vector.at("alphabet").get<std::string>());
  }
}

TEST(Names, AreDifferentEachTime) {
  EXPECT_NE(MakeEventName("Upper", AtNanos(1)), MakeEventName("Upper", AtNanos(1)));
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) names.insert(MakeGeneratedName("web-"));
  EXPECT_GT(names.size(), 98u);
}

}  // namespace
}  // namespace herald
