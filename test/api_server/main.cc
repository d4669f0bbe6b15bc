// The API on a store in memory, with two users and nothing else of heraldd: what the API
// suite and kubectl are tried against while only the API is at stake.
//
//   api_server --port N --cert FILE --key FILE
//
// Without a certificate it speaks plain HTTP. Tokens: "admin" may do all, "limited" what
// test/api_suite/rbac.yaml allows that user. A line "compact" on standard input makes it
// forget all older versions; it ends when standard input does.
#include <fmt/core.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "http/server.h"
#include "server/api.h"
#include "server/request_info.h"
#include "store/memory_store.h"

namespace {

using herald::Status;
using herald::StatusReason;
using herald::server::Api;
using herald::server::RequestInfo;
using herald::server::SendStatus;
using herald::server::User;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool MayDo(const User& user, const RequestInfo& info) {
  if (user.name == "admin") return true;
  return info.is_resource && info.api_group.empty() && info.resource == "events" &&
         (info.verb == "create" || info.verb == "patch");
}

Status Forbidden(const User& user, const RequestInfo& info) {
  const std::string name = info.name.empty() ? "" : fmt::format(" \"{}\"", info.name);
  Status::Parts parts;
  parts.reason = StatusReason::kForbidden;
  parts.message = fmt::format("{}{} is forbidden: User \"{}\" cannot {} resource \"{}\"",
                              info.resource, name, user.name, info.verb, info.resource);
  parts.details.emplace().kind = info.resource;
  return Status(std::move(parts));
}

void Serve(Api* api, herald::http::Request request, const herald::http::Peer& peer,
           std::shared_ptr<herald::http::Responder> responder) {
  const std::string_view token = request.headers.Get("authorization");
  User user;
  if (token == "Bearer admin") user.name = "admin";
  if (token == "Bearer limited") user.name = "limited";
  RequestInfo info = herald::server::ParseRequestInfo(request.method, request.target);
  if (user.name.empty()) {
    return SendStatus(request, Status(StatusReason::kUnauthorized, "Unauthorized"), *responder);
  }
  if (!MayDo(user, info)) return SendStatus(request, Forbidden(user, info), *responder);
  api->Handle({std::move(request), std::move(info), std::move(user), peer.address},
              std::move(responder));
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> flags;
  for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];

  herald::store::StoreOptions store_options;
  store_options.schema =
      Api::MakeSchema([](const herald::Event&) { return std::chrono::seconds(3600); });
  store_options.background = false;
  store_options.history = std::chrono::seconds(0);
  herald::store::MemoryStore store(std::move(store_options));
  herald::server::ApiOptions api_options;
  api_options.authorize = MayDo;
  Api api(&store, std::move(api_options));

  herald::http::ServerOptions options;
  options.port = static_cast<std::uint16_t>(std::atoi(flags["--port"].c_str()));
  if (flags.contains("--cert")) {
    options.tls = herald::http::ServerTls{.certificate = ReadFile(flags["--cert"]),
                                          .key = ReadFile(flags["--key"])};
  }
  const auto server = herald::http::Server::Start(
      std::move(options), [&api](herald::http::Request request, const herald::http::Peer& peer,
                                 std::shared_ptr<herald::http::Responder> responder) {
        Serve(&api, std::move(request), peer, std::move(responder));
      });
  if (!server) {
    std::cerr << server.error().ToString() << "\n";
    return 1;
  }
  std::cout << (*server)->port() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "compact") store.Maintain();
  }
  api.Stop();
  (*server)->Drain(std::chrono::seconds(1));
  (*server)->Stop();
  return 0;
}
