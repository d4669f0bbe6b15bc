#include "server/access/cors.h"

#include <fmt/core.h>
#include <re2/re2.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "api/quote.h"

namespace herald::server {
namespace {

class HeaderAdder final : public http::Responder {
 public:
  HeaderAdder(std::shared_ptr<http::Responder> inner, http::Headers headers)
      : inner_(std::move(inner)), headers_(std::move(headers)) {}

  void ReadBody(http::BodyReader reader) override { inner_->ReadBody(std::move(reader)); }
  void Send(http::Response response) override {
    AddTo(&response.headers);
    inner_->Send(std::move(response));
  }
  void Start(http::ResponseHead head) override {
    constexpr int kSwitchingProtocols = 101;  // a WebSocket; CORS does not apply to it
    if (head.status != kSwitchingProtocols) AddTo(&head.headers);
    inner_->Start(std::move(head));
  }
  std::size_t Write(http::Chunk chunk) override { return inner_->Write(std::move(chunk)); }
  void End() override { inner_->End(); }
  void Abort() override { inner_->Abort(); }
  std::size_t queued() const override { return inner_->queued(); }
  std::size_t fair_share() const override { return inner_->fair_share(); }
  void Observe(std::function<void()> drained, std::function<void()> closed) override {
    inner_->Observe(std::move(drained), std::move(closed));
  }

 private:
  void AddTo(http::Headers* headers) const {
    for (const http::Headers::Field& field : headers_) headers->Set(field.name, field.value);
  }

  const std::shared_ptr<http::Responder> inner_;
  const http::Headers headers_;
};

}  // namespace

Cors::Cors() = default;
Cors::~Cors() = default;
Cors::Cors(const Cors&) = default;
Cors& Cors::operator=(const Cors&) = default;

Result<Cors> Cors::Make(const std::vector<std::string>& allowed_origins) {
  const auto invalid = [](std::string_view origin, std::string_view why) {
    return Status(StatusReason::kBadRequest,
                  fmt::format("{}: {}; examples of valid expressions are '//example\\.com(:|$)' "
                              "and '^https://example\\.com(:|$)'",
                              Quoted(origin), why));
  };
  const auto has_one_of = [](std::string_view expression, std::string_view a, std::string_view b) {
    return expression.find(a) != std::string_view::npos ||
           expression.find(b) != std::string_view::npos;
  };
  Cors cors;
  for (const std::string& origin : allowed_origins) {
    if (origin.empty()) return invalid(origin, "empty value");
    auto expression = std::make_shared<const re2::RE2>(origin, re2::RE2::Quiet);
    if (!expression->ok())
      return invalid(origin, fmt::format("invalid regular expression: {}", expression->error()));
    // Without anchors, example.com also allows example.com.evil.org. This detects a common mistake,
    // as in kube-apiserver, but does not prove that the expression is safe.
    if (!has_one_of(origin, "^", "//") || !has_one_of(origin, "$", ":"))
      return invalid(origin,
                     "regular expression does not pin to start/end of host in the origin header");
    cors.allowed_.push_back(std::move(expression));
  }
  return cors;
}

bool Cors::Allows(std::string_view origin) const {
  return std::any_of(allowed_.begin(), allowed_.end(), [&](const auto& expression) {
    return re2::RE2::PartialMatch(re2::StringPiece(origin.data(), origin.size()), *expression);
  });
}

http::Headers Cors::ResponseHeaders(const http::Headers& request) const {
  const std::string_view origin = request.Get("origin");
  if (origin.empty() || !Allows(origin)) return {};
  return {{"access-control-allow-origin", std::string(origin)},
          {"access-control-allow-methods", "POST, GET, OPTIONS, PUT, DELETE, PATCH"},
          {"access-control-allow-headers",
           "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, "
           "X-Requested-With, If-Modified-Since"},
          {"access-control-expose-headers", "Date"},
          {"access-control-allow-credentials", "true"}};
}

std::shared_ptr<http::Responder> AddHeaders(std::shared_ptr<http::Responder> inner,
                                            http::Headers headers) {
  return std::make_shared<HeaderAdder>(std::move(inner), std::move(headers));
}

}  // namespace herald::server
