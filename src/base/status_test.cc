#include "herald/base/status.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace herald {
namespace {

constexpr int kReasonCount = static_cast<int>(StatusReason::kCancelled) + 1;

StatusReason ReasonAt(int i) { return static_cast<StatusReason>(i); }

TEST(StatusReasonTest, EveryReasonIsFoundByItsName) {
  std::set<std::string_view> names;
  for (int i = 0; i < kReasonCount; ++i) {
    const StatusReason reason = ReasonAt(i);
    if (reason == StatusReason::kOk || reason == StatusReason::kUnknown) {
      EXPECT_EQ(ReasonName(reason), "");
      continue;
    }
    EXPECT_FALSE(ReasonName(reason).empty()) << i;
    EXPECT_TRUE(names.insert(ReasonName(reason)).second) << ReasonName(reason);
    EXPECT_EQ(ReasonFromName(ReasonName(reason)), reason) << ReasonName(reason);
  }
}

TEST(StatusReasonTest, AnUnknownNameIsTheUnknownReason) {
  for (std::string_view name : {"", "notfound", "NotFound ", "Teapot", "OK", "Unknown"}) {
    EXPECT_EQ(ReasonFromName(name), StatusReason::kUnknown) << name;
  }
}

TEST(StatusReasonTest, HasTheNamesAndCodesOfKubernetes) {
  const struct {
    StatusReason reason;
    std::string_view name;
    int code;
  } kRows[] = {
      {StatusReason::kOk, "", 200},
      {StatusReason::kUnknown, "", 500},
      {StatusReason::kUnauthorized, "Unauthorized", 401},
      {StatusReason::kForbidden, "Forbidden", 403},
      {StatusReason::kNotFound, "NotFound", 404},
      {StatusReason::kAlreadyExists, "AlreadyExists", 409},
      {StatusReason::kConflict, "Conflict", 409},
      {StatusReason::kGone, "Gone", 410},
      {StatusReason::kInvalid, "Invalid", 422},
      {StatusReason::kServerTimeout, "ServerTimeout", 500},
      {StatusReason::kStoreReadError, "StorageReadError", 500},
      {StatusReason::kTimeout, "Timeout", 504},
      {StatusReason::kTooManyRequests, "TooManyRequests", 429},
      {StatusReason::kBadRequest, "BadRequest", 400},
      {StatusReason::kMethodNotAllowed, "MethodNotAllowed", 405},
      {StatusReason::kNotAcceptable, "NotAcceptable", 406},
      {StatusReason::kRequestEntityTooLarge, "RequestEntityTooLarge", 413},
      {StatusReason::kUnsupportedMediaType, "UnsupportedMediaType", 415},
      {StatusReason::kInternalError, "InternalError", 500},
      {StatusReason::kExpired, "Expired", 410},
      {StatusReason::kServiceUnavailable, "ServiceUnavailable", 503},
      {StatusReason::kUnreachable, "Unreachable", 500},
      {StatusReason::kCorruption, "Corruption", 500},
      {StatusReason::kCancelled, "Cancelled", 500},
  };
  EXPECT_EQ(std::size(kRows), static_cast<std::size_t>(kReasonCount));
  for (const auto& row : kRows) {
    EXPECT_EQ(ReasonName(row.reason), row.name);
    EXPECT_EQ(DefaultHttpCode(row.reason), row.code) << row.name;
  }
}

TEST(StatusReasonTest, AValueOutsideOfTheEnumIsUnknown) {
  EXPECT_EQ(ReasonName(ReasonAt(200)), "");
  EXPECT_EQ(DefaultHttpCode(ReasonAt(200)), 500);
}

TEST(StatusTest, IsOkByDefault) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_TRUE(status.Is(StatusReason::kOk));
  EXPECT_EQ(status.code(), 200);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.retry_after(), std::chrono::seconds(0));
  EXPECT_EQ(status.origin(), Status::Origin::kLocal);
  EXPECT_EQ(status.ToString(), "OK");
  EXPECT_EQ(status, Status(StatusReason::kOk, ""));
}

TEST(StatusTest, AnOkStatusMayHaveDetails) {
  // The response to a DELETE is a Success with the details of the object.
  Status::Parts parts;
  parts.reason = StatusReason::kOk;
  parts.details.emplace().name = "web-1.17978a1f2b3c4d5e";
  const Status status(parts);
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), 200);
  EXPECT_EQ(status.details().name, "web-1.17978a1f2b3c4d5e");
  EXPECT_EQ(status.ToString(), "OK");
  EXPECT_NE(status, Status());
}

TEST(StatusTest, HasTheCodeOfItsReasonByDefault) {
  EXPECT_EQ(Status(StatusReason::kNotFound, "x").code(), 404);
  Status::Parts parts;
  EXPECT_EQ(Status(parts).code(), 500);
  parts.code = 418;
  EXPECT_EQ(Status(parts).code(), 418);
}

TEST(StatusTest, ACopyWithAnotherReasonHasTheCodeOfThatReason) {
  Status::Parts parts = Status(StatusReason::kNotFound, "x").parts();
  parts.reason = StatusReason::kConflict;
  EXPECT_EQ(Status(parts).code(), 409);
}

TEST(StatusTest, PrintsReasonCodeAndMessage) {
  EXPECT_EQ(Status(StatusReason::kNotFound, "events \"x\" not found").ToString(),
            "NotFound (404): events \"x\" not found");
  EXPECT_EQ(Status(StatusReason::kUnreachable, "").ToString(), "Unreachable (500)");
  Status::Parts parts;
  parts.code = 502;
  parts.message = "bad gateway";
  EXPECT_EQ(Status(parts).ToString(), "Unknown (502): bad gateway");
}

TEST(StatusTest, ComparesEveryPart) {
  Status::Parts base;
  base.reason = StatusReason::kExpired;
  base.message = "too old";
  EXPECT_EQ(Status(base), Status(base));

  const auto differs = [&](auto change) {
    Status::Parts changed = base;
    change(changed);
    return Status(changed) != Status(base);
  };
  EXPECT_TRUE(differs([](auto& p) { p.reason = StatusReason::kGone; }));
  EXPECT_TRUE(differs([](auto& p) { p.code = 500; }));
  EXPECT_TRUE(differs([](auto& p) { p.message = "older"; }));
  EXPECT_TRUE(differs([](auto& p) { p.details.emplace().causes.push_back({"a", "b", "c"}); }));
  EXPECT_TRUE(differs([](auto& p) { p.retry_after = std::chrono::seconds(1); }));
  EXPECT_TRUE(differs([](auto& p) { p.continue_token = "t"; }));
  EXPECT_TRUE(differs([](auto& p) { p.origin = Status::Origin::kServer; }));
  EXPECT_FALSE(differs([](auto& p) { p.code = 410; })) << "0 means 410 here";
}

TEST(StatusTest, CopiesShareOneImmutableValue) {
  const Status a(StatusReason::kConflict, "the object has been modified");
  const Status b = a;
  EXPECT_EQ(&a.message(), &b.message());
  EXPECT_EQ(a, b);
}

TEST(ResultTest, HasAValueOrAStatus) {
  Result<int> good = 7;
  ASSERT_TRUE(good.has_value());
  EXPECT_EQ(*good, 7);
  EXPECT_EQ(good.value_or(1), 7);

  Result<int> bad = Status(StatusReason::kNotFound, "gone");
  ASSERT_FALSE(bad);
  EXPECT_TRUE(bad.error().Is(StatusReason::kNotFound));
  EXPECT_EQ(bad.value_or(1), 1);
}

TEST(ResultTest, MovesOutAMoveOnlyValue) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);
  std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 3);
}

}  // namespace
}  // namespace herald
