#include "api/patch/merge_errors.h"

#include <utility>

#include "api/json/type_names.h"

namespace herald::strategic {

Status PlainError(std::string message) {
  return Status(StatusReason::kUnknown, std::move(message));
}

Status BadFormat(std::string_view what) {
  return Status(StatusReason::kBadRequest, "invalid patch format of " + std::string(what));
}

Status Crash() {
  return Status(StatusReason::kInternalError,
                "Internal error occurred: this patch crashes the Kubernetes API server");
}

std::string GoText(const Json& json) {
  std::string text;
  AppendGoText(json, 'v', &text);
  return text;
}

namespace {

Status WrongArgument(std::string_view expected, const Json& actual) {
  return PlainError("expected a " + std::string(expected) + ", but received a " +
                    std::string(GoTypeName(actual)));
}

}  // namespace

Status NotAList(const Json& actual) { return WrongArgument("[]interface {}", actual); }
Status NotAMap(const Json& actual) { return WrongArgument("map[string]interface {}", actual); }

Status NoMergeKey(const Json& map, std::string_view key) {
  return PlainError("map: " + GoText(map) +
                    " does not contain declared merge key: " + std::string(key));
}

Status UnknownDirective(const Json& directive, const Json& map) {
  std::string message = "unknown patch type: ";
  AppendGoText(directive, 's', &message);
  return PlainError(message + " in map: " + GoText(map));
}

}  // namespace herald::strategic
