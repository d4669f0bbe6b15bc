// The parts of a request that a server parses first: the path, the query and the Accept header, one
// line each. Parsing must not crash, parsed names must occur in the path or in a selector, and
// every encoded continue token must decode to the same value.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/continue_token.h"
#include "api/delete_options.h"
#include "http/url.h"
#include "server/request/negotiation.h"
#include "server/request/request_info.h"
#include "server/request/request_options.h"

namespace {

using namespace herald;  // NOLINT(google-build-using-namespace)

std::string_view TakeLine(std::string_view* text) {
  const std::size_t end = std::min(text->find('\n'), text->size());
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return line;
}

void CheckOptions(const http::Query& query) {
  constexpr WallTime kNow{std::chrono::seconds(1'700'000'000)};
  for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
    for (const bool watch : {false, true}) {
      const auto options = server::ParseListOptions(query, api, watch, kNow);
      if (!options) {
        if (options.error().code() != 400 && options.error().code() != 422) std::abort();
        continue;
      }
      if (options->limit < 0) std::abort();
      if (const auto token = DecodeContinueToken(options->continue_)) {
        const auto again = DecodeContinueToken(EncodeContinueToken(*token));
        if (!again || *again != *token) std::abort();
      }
    }
  }
  (void)server::ParseWriteOptions(query, "PatchOptions");
  if (const auto options = server::ParseDeleteOptions(query)) {
    (void)server::CheckDeleteOptions(*options);
  }
  const auto timeout = server::ParseTimeout(query);
  if (!timeout && timeout.error().code() != 400) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view method = TakeLine(&text);
  const std::string_view target = TakeLine(&text);
  const std::string_view accept = TakeLine(&text);

  const server::RequestInfo info = server::ParseRequestInfo(method, target);
  if (!info.is_resource && !(info.resource.empty() && info.name.empty())) std::abort();
  if (info.name.find('/') != std::string::npos) std::abort();

  const http::Query query = http::ParseQuery(http::SplitTarget(target).second);
  CheckOptions(query);

  const http::Headers headers = {{"accept", std::string(accept)},
                                 {"content-type", std::string(accept)}};
  (void)server::Negotiate(headers, query, {.shapes = true});
  (void)server::Negotiate(headers, query, {});
  (void)server::Accepts(headers, {});
  (void)server::BodyMediaType(headers);
  (void)server::BodyPatchType(headers);
  (void)server::PrefersAggregatedDiscovery(headers);

  (void)DecodeDeleteOptionsJson(text);
  (void)DecodeDeleteOptionsProtobuf(text);
  return 0;
}
