#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "http/client/client.h"
#include "http/testing/scripted_server.h"

// Helpers of the client tests: scripts for a ScriptedServer, and calls to it.

#define EXPECT_CONTAINS(actual, part)                                                          \
  EXPECT_PRED2([](const std::string& t, const std::string& p) { return t.find(p) != t.npos; }, \
               actual, part)

namespace herald::http {

// Long enough for the slowest machine; a test that passes does not wait this long.
inline constexpr std::chrono::seconds kPatience{60};
inline constexpr CallOptions kPatient{.timeout = kPatience};

// Constants of HTTP/2.
inline constexpr std::uint32_t kNoError = 0;
inline constexpr std::uint32_t kRefusedStream = 7;
inline constexpr std::int32_t kLastPossibleStream = 0x7fffffff;

// Events of several threads, in their order. Thread-safe.
class Journal {
 public:
  void Add(std::string entry) {
    MutexLock lock(mu_);
    entries_.push_back(std::move(entry));
    changed_.NotifyAll();
  }
  // Waits until there are this many entries, and returns all.
  std::vector<std::string> Await(std::size_t count) {
    MutexLock lock(mu_);
    changed_.WaitFor(lock, kPatience, [&]() REQUIRES(mu_) { return entries_.size() >= count; });
    return entries_;
  }
  std::vector<std::string> entries() {
    MutexLock lock(mu_);
    return entries_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::vector<std::string> entries_ GUARDED_BY(mu_);
};

// Scripts wait at a gate until the test opens it. Thread-safe.
class Gate {
 public:
  void Open() { opened_.set_value(); }
  void Await() { future_.wait_for(kPatience); }

 private:
  std::promise<void> opened_{};
  std::shared_future<void> future_{opened_.get_future()};
};

inline std::string Http1Response(const std::string& body, const std::string& fields = "") {
  return "HTTP/1.1 200 OK\r\n" + fields + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

// An ordinary HTTP/1.1 server, until the client closes.
inline void ServeHttp1(ScriptedConnection& wire, int) {
  while (!wire.ReadRequest().empty()) wire.Write(Http1Response("hello", "X-Test: yes\r\n"));
}

// The same for HTTP/2: returns the body of the request.
inline void ServeHttp2(ScriptedConnection& wire, int) {
  ScriptedHttp2Server(wire, {},
                      [](ScriptedHttp2Server& peer, const ScriptedHttp2Server::Stream& stream) {
                        peer.Respond(stream.id, 200, "echo:" + stream.request.body,
                                     {{"x-test", "yes"}});
                      })
      .Run();
}

// The one that ALPN has chosen.
inline void ServeEither(ScriptedConnection& wire, int number) {
  wire.alpn() == "h2" ? ServeHttp2(wire, number) : ServeHttp1(wire, number);
}

// A CA and certificates that it has signed.
struct Pki {
  TestCertificate authority =
      MakeTestCertificate({.subject = {{"CN", "test CA"}}, .authority = true});
  TestCertificate server = MakeTestCertificate({.subject = {{"CN", "server"}}}, &authority);
  TestCertificate client =
      MakeTestCertificate({.subject = {{"CN", "alice"}}, .names = ""}, &authority);
};

inline std::unique_ptr<Client> OpenClient(ClientOptions options) {
  Result<std::unique_ptr<Client>> client = Client::Open(std::move(options));
  EXPECT_TRUE(client.has_value()) << client.error().ToString();
  return *std::move(client);
}

inline ClientOptions Plain(const ScriptedServer& peer) {
  ClientOptions options;
  options.url = peer.url();
  return options;
}

inline ClientOptions PlainHttp2(const ScriptedServer& peer) {
  ClientOptions options = Plain(peer);
  options.plain_http2 = true;
  return options;
}

inline ClientOptions Secure(const ScriptedServer& peer, ClientTls tls) {
  ClientOptions options = Plain(peer);
  options.tls = [tls = std::move(tls)] { return tls; };
  return options;
}

// The message of a call that must fail.
inline std::string FailureOf(Client& client, StatusReason reason = StatusReason::kUnreachable,
                             const CallOptions& options = kPatient) {
  const Result<Response> response = client.Fetch({.target = "/x"}, options);
  if (response) return "it succeeded";
  EXPECT_TRUE(response.error().Is(reason)) << response.error().ToString();
  EXPECT_EQ(response.error().origin(), Status::Origin::kLocal);
  return response.error().message();
}

}  // namespace herald::http
