// Connections that break, drain, idle or fall silent under the client.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <vector>

#include "http/testing/scripts.h"

namespace herald::http {
namespace {

using std::chrono::milliseconds;

// ---- Repeating ----

TEST(Client, SendsOnlyRepeatableRequestsAgainAfterAnIdleConnectionBroke) {
  for (const bool repeatable : {false, true}) {
    Journal journal;
    ScriptedServer peer([&](ScriptedConnection& wire, int number) {
      // The first connection serves one request, and closes on the second.
      for (int i = 0; number > 0 || i < 2; ++i) {
        if (wire.ReadRequest().empty()) return;
        journal.Add(std::to_string(number));
        if (number == 0 && i == 1) return;
        wire.Write(Http1Response("x"));
      }
    });
    const auto client = OpenClient(Plain(peer));
    ASSERT_TRUE(client->Fetch({.target = "/"}, kPatient).has_value());
    const Result<Response> second =
        client->Fetch({.target = "/"}, {.timeout = kPatience, .repeatable = repeatable});
    EXPECT_EQ(second.has_value(), repeatable);
    EXPECT_EQ(client->Stats().repeated, repeatable ? 1U : 0U);
    EXPECT_EQ(journal.entries(), repeatable ? (std::vector<std::string>{"0", "0", "1"})
                                            : (std::vector<std::string>{"0", "0"}));
  }
}

TEST(Client, DoesNotSendToAConnectionThatTheServerHasClosed) {
  Journal journal;
  ScriptedServer peer([&](ScriptedConnection& wire, int number) {
    if (wire.ReadRequest().empty()) return;
    wire.Write(Http1Response("x"));
    wire.Cut();
    journal.Add("cut " + std::to_string(number));
  });
  const auto client = OpenClient(Plain(peer));
  for (std::size_t i = 0; i < 20; ++i) {
    // Not repeatable, but none is lost.
    const Result<Response> response = client->Fetch({.method = "POST", .target = "/"}, kPatient);
    ASSERT_TRUE(response.has_value()) << response.error().ToString();
    journal.Await(i + 1);
  }
  EXPECT_EQ(peer.connections(), 20);
}

TEST(Client, SendsARequestAgainAtMostThreeTimes) {
  ScriptedServer peer([](ScriptedConnection& wire, int) { wire.ReadRequest(); });
  const auto client = OpenClient(Plain(peer));
  EXPECT_CONTAINS(
      FailureOf(*client, StatusReason::kUnreachable, {.timeout = kPatience, .repeatable = true}),
      "without sending a response");
  EXPECT_EQ(peer.connections(), 4);
}

TEST(Client, NeverSendsARequestAgainAfterItsResponseBegan) {
  ScriptedServer peer([](ScriptedConnection& wire, int) {
    wire.ReadRequest();
    wire.Write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
  });
  const auto client = OpenClient(Plain(peer));
  FailureOf(*client, StatusReason::kUnreachable, {.timeout = kPatience, .repeatable = true});
  EXPECT_EQ(peer.connections(), 1);
}

TEST(Client, SendsRequestsAgainThatAGoAwayLeftUnprocessed) {
  Journal journal;
  ScriptedServer peer([&](ScriptedConnection& wire, int number) {
    ScriptedHttp2Server(wire, {}, [&, number](ScriptedHttp2Server& h2, const auto& stream) {
      journal.Add(std::to_string(number) + " " + stream.request.body);
      if (number == 0) {
        h2.GoAway(0, kNoError);  // none of them was processed
        h2.Flush();
        h2.wire().AwaitEnd();
        h2.Stop();
        return;
      }
      h2.Respond(stream.id, 200, stream.request.body);
    }).Run();
  });
  const auto client = OpenClient(PlainHttp2(peer));
  // Not repeatable, but it is known that nothing was processed.
  const Result<Response> response =
      client->Fetch({.method = "POST", .target = "/", .body = "body"}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_EQ(response->body, "body");
  EXPECT_EQ(journal.entries(), (std::vector<std::string>{"0 body", "1 body"}));
  EXPECT_EQ(client->Stats().repeated, 1U);
}

TEST(Client, ReportsWhetherTheServerMayHaveProcessedTheRequest) {
  std::atomic<bool> responding{true};
  ScriptedServer peer([&](ScriptedConnection& wire, int) {
    ScriptedHttp2Server(wire, {}, [&](ScriptedHttp2Server& h2, const auto& stream) {
      if (stream.request.target == "/break") return h2.wire().Reset();
      if (stream.request.target == "/refuse") return h2.Reset(stream.id, kRefusedStream);
      if (responding) h2.Respond(stream.id, 200, "");
    }).Run();
  });
  const auto client = OpenClient(PlainHttp2(peer));
  const auto unprocessed = [&](const std::string& target, const CallOptions& options = kPatient) {
    const Result<Response> response = client->Fetch({.target = target}, options);
    EXPECT_FALSE(response.has_value()) << target;
    return !response && IsUnprocessed(response.error());
  };
  ASSERT_TRUE(client->Fetch({.target = "/"}, kPatient).has_value());
  EXPECT_FALSE(unprocessed("/break"));
  EXPECT_TRUE(unprocessed("/refuse"));
  responding = false;
  EXPECT_FALSE(unprocessed("/silent", {.timeout = std::chrono::milliseconds(20)}));
  // A call that may have been processed, and for which no other connection could be made.
  peer.StopListening();
  EXPECT_FALSE(unprocessed("/break", {.timeout = kPatience, .repeatable = true}));
  EXPECT_TRUE(unprocessed("/nobody"));
}

TEST(Client, UsesANewConnectionAfterRenew) {
  Gate gate;
  Gate began;
  ScriptedServer peer([&](ScriptedConnection& wire, int connection) {
    ScriptedHttp2Server(wire, {}, [&, connection](ScriptedHttp2Server& h2, const auto& stream) {
      if (stream.request.target == "/slow") {
        began.Open();
        gate.Await();
      }
      h2.Respond(stream.id, 200, std::to_string(connection));
    }).Run();
  });
  const auto client = OpenClient(PlainHttp2(peer));
  ASSERT_TRUE(client->Fetch({.target = "/"}, kPatient).has_value());
  Journal journal;
  client->Fetch({.target = "/slow"}, kPatient, [&](const Result<Response>& response) {
    journal.Add(response ? response->body : response.error().ToString());
  });
  began.Await();
  client->Renew();
  const Result<Response> response = client->Fetch({.target = "/"}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_EQ(response->body, "1");
  // Started calls stay on the old connection, which is closed after them.
  gate.Open();
  EXPECT_EQ(journal.Await(1), std::vector<std::string>{"0"});
}

TEST(Client, SendsARefusedStreamAgainOnTheSameConnection) {
  int requests = 0;
  ScriptedServer peer([&](ScriptedConnection& wire, int) {
    ScriptedHttp2Server(wire, {}, [&](ScriptedHttp2Server& h2, const auto& stream) {
      if (++requests == 1)
        h2.Reset(stream.id, kRefusedStream);
      else
        h2.Respond(stream.id, 200, "x");
    }).Run();
  });
  const auto client = OpenClient(PlainHttp2(peer));
  EXPECT_TRUE(client->Fetch({.method = "POST", .target = "/"}, kPatient).has_value());
  EXPECT_EQ(peer.connections(), 1);
}

TEST(Client, FinishesOldCallsAndStartsNewOnesElsewhereWhenTheServerDrains) {
  Journal journal;
  Gate gate;
  ScriptedServer peer([&](ScriptedConnection& wire, int number) {
    ScriptedHttp2Server(wire, {}, [&, number](ScriptedHttp2Server& h2, const auto& stream) {
      if (number == 0) {
        h2.GoAway(kLastPossibleStream, kNoError);
        h2.Flush();
        journal.Add("draining");
        gate.Await();
      }
      h2.Respond(stream.id, 200, std::to_string(number));
    }).Run();
    journal.Add("closed " + std::to_string(number));
  });
  const auto client = OpenClient(PlainHttp2(peer));
  Journal responses;
  client->Fetch({.target = "/old"}, kPatient,
                [&](const Result<Response>& r) { responses.Add("old " + r.value().body); });
  journal.Await(1);
  // The GOAWAY arrives at some time; then calls use another connection, and none fails.
  Result<Response> response = client->Fetch({.target = "/new"}, {.timeout = milliseconds(10)});
  while (!response) response = client->Fetch({.target = "/new"}, {.timeout = milliseconds(10)});
  EXPECT_EQ(response->body, "1");
  gate.Open();
  EXPECT_EQ(responses.Await(1)[0], "old 0");
  EXPECT_EQ(journal.Await(2)[1], "closed 0");
}

// ---- Idle connections ----

TEST(Client, ClosesIdleConnections) {
  for (const bool http2 : {false, true}) {
    Journal journal;
    ScriptedServer peer([&](ScriptedConnection& wire, int number) {
      http2 ? ServeHttp2(wire, number) : ServeHttp1(wire, number);
      journal.Add("closed");
    });
    ClientOptions options = http2 ? PlainHttp2(peer) : Plain(peer);
    options.idle_timeout = milliseconds(20);
    const auto client = OpenClient(options);
    EXPECT_TRUE(client->Fetch({.target = "/"}, kPatient).has_value());
    journal.Await(1);
    EXPECT_TRUE(client->Fetch({.target = "/"}, kPatient).has_value());
    EXPECT_EQ(peer.connections(), 2);
  }
}

TEST(Client, PingsQuietHttp2ConnectionsAndKeepsThoseThatAnswer) {
  ScriptedServer peer([&](ScriptedConnection& wire, int) {
    ScriptedHttp2Server h2(wire, {}, [&](ScriptedHttp2Server& p, const auto& stream) {
      if (stream.request.target == "/watch") return p.Begin(stream.id, 200);
      p.Respond(stream.id, 200, std::to_string(p.pings()));
    });
    h2.Run();
  });
  ClientOptions options = PlainHttp2(peer);
  options.ping_interval = milliseconds(5);
  const auto client = OpenClient(options);
  client->Start({.target = "/watch"}, {}, {});
  std::string seen;
  while (seen.empty() || std::stoi(seen) < 3) {
    // Without bytes for long enough that a ping is sent, by the client's clock.
    std::promise<void> later;
    client->PostAfter(milliseconds(20), [&] { later.set_value(); });
    later.get_future().wait();
    const Result<Response> response = client->Fetch({.target = "/"}, kPatient);
    ASSERT_TRUE(response.has_value()) << response.error().ToString();
    seen = response->body;
  }
  EXPECT_EQ(peer.connections(), 1);
}

TEST(Client, DoesNotPingAConnectionWithoutCallsIfDisabled) {
  ScriptedServer peer([&](ScriptedConnection& wire, int) {
    ScriptedHttp2Server(wire, {}, [&](ScriptedHttp2Server& p, const auto& stream) {
      p.Respond(stream.id, 200, std::to_string(p.pings()));
    }).Run();
  });
  ClientOptions options = PlainHttp2(peer);
  options.ping_interval = milliseconds(100);
  options.ping_without_calls = false;
  const auto client = OpenClient(options);
  ASSERT_TRUE(client->Fetch({.target = "/"}, kPatient).has_value());
  // Long enough for five pings.
  std::promise<void> later;
  client->PostAfter(milliseconds(550), [&] { later.set_value(); });
  later.get_future().wait();
  const Result<Response> response = client->Fetch({.target = "/"}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  // One ping is possible if the machine was too slow for a response within 100 ms.
  EXPECT_LE(std::stoi(response->body), 1);
}

TEST(Client, ClosesAConnectionThatDoesNotAnswerPings) {
  ScriptedServer peer([&](ScriptedConnection& wire, int) {
    ScriptedHttp2Server h2(wire, {}, [&](ScriptedHttp2Server& p, const auto& stream) {
      p.Begin(stream.id, 200);
      p.Flush();
      p.Stop();  // reads no more, but stays connected
    });
    h2.Run();
    wire.AwaitEnd();
  });
  ClientOptions options = PlainHttp2(peer);
  options.ping_interval = milliseconds(10);
  options.ping_timeout = milliseconds(10);
  const auto client = OpenClient(options);
  Journal journal;
  client->Start({.target = "/watch"}, {},
                {.done = [&](const Status& status) { journal.Add(status.message()); }});
  EXPECT_EQ(journal.Await(1), std::vector<std::string>{
                                  peer.url() + ": the server did not answer a ping within 10 ms"});
}

}  // namespace
}  // namespace herald::http
