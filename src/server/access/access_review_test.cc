#include "server/access/access_review.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "server/testing/responder.h"

namespace herald::server {
namespace {

constexpr std::string_view kAccess = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
constexpr std::string_view kRules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
constexpr std::string_view kSelf = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

const User kUser{.name = "jane",
                 .uid = "7",
                 .groups = {"dev", "system:authenticated"},
                 .extra = {{"acme.com/team", {"a", "b"}}, {"acme.com/x", {"<"}}}};

class ReviewTest : public testing::Test {
 protected:
  std::shared_ptr<TestResponder> Post(std::string_view target, std::string body,
                                      http::Headers headers = {}) {
    return Ask("POST", target, std::move(body), std::move(headers));
  }
  std::shared_ptr<TestResponder> Ask(std::string method, std::string_view target, std::string body,
                                     http::Headers headers = {}) {
    if (headers.Find("content-type") == nullptr) headers.Add("content-type", "application/json");
    auto responder = std::make_shared<TestResponder>();
    AdmittedRequest admitted;
    admitted.info = ParseRequestInfo(method, target);
    EXPECT_TRUE(IsReview(admitted.info));
    admitted.request = {.method = std::move(method),
                        .target = std::string(target),
                        .authority = {},
                        .headers = std::move(headers),
                        .body = std::move(body)};
    admitted.user = kUser;
    AnswerReview(std::make_shared<Exchange>(std::move(admitted), responder), authorizer_,
                 WallTime(std::chrono::seconds(1'700'000'000)));
    return responder;
  }

  // Records the requests and returns the decision that the test sets.
  struct TestAuthorizer final : public Authorizer {
    void Authorize(const User& user, const RequestInfo& request, Done done) const override {
      EXPECT_EQ(user, kUser);
      asked = request;
      done(decision);
    }
    RuleList RulesFor(const User& user, std::string_view namespace_) const override {
      EXPECT_EQ(user, kUser);
      asked.namespace_ = namespace_;
      return rules;
    }
    mutable RequestInfo asked;
    Decision decision;
    RuleList rules;
  };

  const std::shared_ptr<TestAuthorizer> authorizer_ = std::make_shared<TestAuthorizer>();
  RequestInfo& asked_ = authorizer_->asked;
  Decision& decision_ = authorizer_->decision;
  RuleList& rules_ = authorizer_->rules;
};

TEST_F(ReviewTest, RecognizesTheThreeReviewCollections) {
  for (const std::string_view path : {kAccess, kRules, kSelf}) {
    for (const char* method : {"GET", "PUT", "DELETE"})
      EXPECT_EQ(Ask(method, path, "{}")->status(), 405) << path;
    EXPECT_FALSE(IsReview(ParseRequestInfo("POST", std::string(path) + "/x")));
  }
  for (const char* path : {"/apis/authorization.k8s.io/v1beta1/selfsubjectaccessreviews",
                           "/apis/authorization.k8s.io/v1/selfsubjectreviews",
                           "/apis/authorization.k8s.io/v1/namespaces/x/selfsubjectrulesreviews",
                           "/api/v1/selfsubjectaccessreviews"})
    EXPECT_FALSE(IsReview(ParseRequestInfo("POST", path))) << path;
}

TEST_F(ReviewTest, ReturnsTheUserInASelfSubjectReview) {
  const auto review = Post(kSelf, R"({"kind":"SelfSubjectReview"})");
  EXPECT_EQ(review->status(), 201);
  EXPECT_EQ(review->body(),
            R"({"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","metadata":)"
            R"({"creationTimestamp":"2023-11-14T22:13:20Z"},"status":{"userInfo":{)"
            R"("username":"jane","uid":"7","groups":["dev","system:authenticated"],)"
            R"("extra":{"acme.com/team":["a","b"],"acme.com/x":["\u003c"]}}}})"
            "\n");
  EXPECT_NE(Post(kSelf, "{}", {{"accept", "application/yaml"}})->body().find("username: jane\n"),
            std::string::npos);
}

TEST_F(ReviewTest, ReturnsTheDecisionAndItsReason) {
  decision_ = {.allowed = true, .reason = "RBAC: allowed by \"x\""};
  const auto review = Post(
      kAccess,
      R"({"spec":{"resourceAttributes":{"verb":"get","group":"g","version":"v","resource":"r",)"
      R"("subresource":"s","name":"n","namespace":"ns"}}})");
  EXPECT_EQ(review->status(), 201);
  EXPECT_EQ(review->body(),
            R"({"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1",)"
            R"("metadata":{},"spec":{"resourceAttributes":{"namespace":"ns","verb":"get",)"
            R"("group":"g","version":"v","resource":"r","subresource":"s","name":"n"}},)"
            R"("status":{"allowed":true,"reason":"RBAC: allowed by \"x\""}})"
            "\n");
  EXPECT_TRUE(asked_.is_resource);
  EXPECT_EQ(asked_.subresource, "s");

  decision_ = {};
  EXPECT_TRUE(Post(kAccess, R"({"spec":{"nonResourceAttributes":{"verb":"get","path":"/x"}}})")
                  ->body()
                  .ends_with(R"("spec":{"nonResourceAttributes":{"path":"/x","verb":"get"}},)"
                             R"("status":{"allowed":false}})"
                             "\n"));
  EXPECT_FALSE(asked_.is_resource);
  EXPECT_EQ(asked_.path, "/x");
}

TEST_F(ReviewTest, ReadsProtobuf) {
  const http::Headers protobuf{{"content-type", "application/vnd.kubernetes.protobuf"}};
  const auto message = [](int field, const std::string& bytes) {
    return std::string(1, static_cast<char>(field << 3 | 2)) +
           std::string(1, static_cast<char>(bytes.size())) + bytes;
  };
  const auto body = [&](const std::string& spec) {
    return std::string("k8s\0", 4) + message(2, message(2, spec));
  };
  Post(kAccess, body(message(1, message(2, "list") + message(5, "events"))), protobuf);
  EXPECT_EQ(asked_.verb, "list");
  EXPECT_EQ(asked_.resource, "events");
  Post(kAccess, body(message(2, message(1, "/p") + message(2, "get"))), protobuf);
  EXPECT_EQ(asked_.path, "/p");
  Post(kRules, body(message(1, "ns")), protobuf);
  EXPECT_EQ(asked_.namespace_, "ns");
  EXPECT_EQ(Post(kSelf, std::string("k8s\0", 4) + message(2, ""), protobuf)->status(), 201);
  for (const std::string& bad :
       {std::string("x"), std::string("k8s\0\x12\x05", 6), body(std::string("\x0a\x05", 2))})
    EXPECT_EQ(Post(kAccess, bad, protobuf)->status(), 400);
}

TEST_F(ReviewTest, ListsTheRulesOfTheUser) {
  rules_.rules = {
      {.verbs = {"get"}, .api_groups = {""}, .resources = {"events"}, .resource_names = {"n"}},
      {.verbs = {"get"}, .non_resource_urls = {"/metrics"}},
      {.verbs = {"*"}, .api_groups = {"*"}, .resources = {"*"}}};
  const auto review = Post(kRules, R"({"spec":{"namespace":"ns"}})");
  EXPECT_EQ(review->status(), 201);
  EXPECT_EQ(asked_.namespace_, "ns");
  EXPECT_EQ(review->body(),
            R"({"kind":"SelfSubjectRulesReview","apiVersion":"authorization.k8s.io/v1",)"
            R"("metadata":{},"spec":{},"status":{"resourceRules":[)"
            R"({"verbs":["get"],"apiGroups":[""],"resources":["events"],"resourceNames":["n"]},)"
            R"({"verbs":["*"],"apiGroups":["*"],"resources":["*"]}],)"
            R"("nonResourceRules":[{"verbs":["get"],"nonResourceURLs":["/metrics"]}],)"
            R"("incomplete":false}})"
            "\n");
  rules_ = {.rules = {}, .incomplete = true, .error = "e"};
  EXPECT_TRUE(Post(kRules, R"({"spec":{"namespace":"ns"}})")
                  ->body()
                  .ends_with(R"("status":{"resourceRules":[],"nonResourceRules":[],)"
                             R"("incomplete":true,"evaluationError":"e"}})"
                             "\n"));
  const auto nowhere = Post(kRules, "{}");
  EXPECT_EQ(nowhere->status(), 400);
  EXPECT_NE(nowhere->body().find("no namespace on request"), std::string::npos);
}

TEST_F(ReviewTest, RejectsInvalidBodies) {
  for (const char* bad : {"", "[]", "{", R"({"kind":"Event"})", R"({"kind":5})",
                          R"({"apiVersion":"events.k8s.io/v1"})"}) {
    for (const std::string_view path : {kAccess, kRules, kSelf})
      EXPECT_EQ(Post(path, bad)->status(), 400) << path << bad;
  }
  for (const char* bad : {R"({"spec":5})", R"({"spec":{"resourceAttributes":[]}})",
                          R"({"spec":{"resourceAttributes":{"verb":5}}})"})
    EXPECT_EQ(Post(kAccess, bad)->status(), 400) << bad;
  EXPECT_NE(Post(kAccess, R"({"spec":{"resourceAttributes":{"verb":5}}})")
                ->body()
                .find("SelfSubjectAccessReview in version \\\"v1\\\" cannot be handled as a "
                      "SelfSubjectAccessReview: spec.resourceAttributes.verb: must be of type "
                      "string, not number"),
            std::string::npos);
  EXPECT_EQ(Post(kRules, R"({"spec":{"namespace":5}})")->status(), 400);
  for (const char* bad : {"{}", R"({"spec":{"resourceAttributes":null}})",
                          R"({"spec":{"resourceAttributes":{},"nonResourceAttributes":{}}})"})
    EXPECT_EQ(Post(kAccess, bad)->status(), 422) << bad;
  EXPECT_EQ(Post(kSelf, "x", {{"content-type", "text/plain"}})->status(), 415);
  EXPECT_EQ(Post(kSelf, "{}", {{"accept", "image/png"}})->status(), 406);
}

}  // namespace
}  // namespace herald::server
