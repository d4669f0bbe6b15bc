#include "http/client/client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "http/testing/scripts.h"

namespace herald::http {
namespace {

using std::chrono::milliseconds;

std::string Gzip(const std::string& plain) {
  z_stream zlib{};
  EXPECT_EQ(deflateInit2(&zlib, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&zlib, plain.size()) + 32, '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  zlib.avail_in = static_cast<uInt>(plain.size());
  zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
  out.resize(zlib.total_out);
  deflateEnd(&zlib);
  return out;
}

// ---- Calls ----

TEST(Client, FetchesOverHttp1AndKeepsTheConnection) {
  ScriptedServer peer(ServeHttp1);
  const auto client = OpenClient(Plain(peer));
  for (int i = 0; i < 3; ++i) {
    const Result<Response> response = client->Fetch({.target = "/x"}, kPatient);
    ASSERT_TRUE(response.has_value()) << response.error().ToString();
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, "hello");
    EXPECT_EQ(response->headers.Get("x-test"), "yes");
  }
  EXPECT_EQ(peer.connections(), 1);
  EXPECT_EQ(client->Stats().requests, 3U);
  EXPECT_EQ(client->Stats().calls, 0U);
}

TEST(Client, SendsTheWholeRequest) {
  for (const bool http2 : {false, true}) {
    Journal journal;
    ScriptedServer peer([&](ScriptedConnection& wire, int) {
      if (http2) {
        ScriptedHttp2Server(
            wire, {},
            [&](ScriptedHttp2Server& h2, const ScriptedHttp2Server::Stream& stream) {
              const Request& r = stream.request;
              journal.Add(r.method + " " + r.target + " " + r.authority + " " +
                          std::string(r.headers.Get("x-a")) + " " +
                          std::string(r.headers.Get("accept-encoding")) + " " + r.body);
              h2.Respond(stream.id, 201, "");
            })
            .Run();
      } else {
        std::string request = wire.ReadRequest();
        journal.Add(request);
        wire.Write("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
      }
    });
    ClientOptions options = http2 ? PlainHttp2(peer) : Plain(peer);
    options.url += "/base/";
    const auto client = OpenClient(options);
    const Result<Response> response = client->Fetch(
        {.method = "POST", .target = "/x?y=1", .headers = {{"x-a", "b"}}, .body = "body"},
        kPatient);
    ASSERT_TRUE(response.has_value()) << response.error().ToString();
    EXPECT_EQ(response->status, 201);
    const std::string authority = "127.0.0.1:" + std::to_string(peer.port());
    const std::string seen = journal.Await(1)[0];
    if (http2)
      EXPECT_EQ(seen, "POST /base/x?y=1 " + authority + " b gzip body");
    else
      EXPECT_EQ(seen, "POST /base/x?y=1 HTTP/1.1\r\nhost: " + authority +
                          "\r\nx-a: b\r\naccept-encoding: gzip\r\ncontent-length: 4\r\n\r\nbody");
  }
}

TEST(Client, StreamsAResponseAsItArrives) {
  for (const bool http2 : {false, true}) {
    Journal journal;
    Gate gate;
    ScriptedServer peer([&](ScriptedConnection& wire, int) {
      if (http2) {
        ScriptedHttp2Server(
            wire, {},
            [&](ScriptedHttp2Server& h2, const ScriptedHttp2Server::Stream& stream) {
              h2.Begin(stream.id, 200);
              h2.Data(stream.id, "one", false);
              h2.Flush();
              gate.Await();  // the client has received it by now
              h2.Data(stream.id, "two", true);
            })
            .Run();
      } else {
        wire.ReadRequest();
        wire.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
        gate.Await();
        wire.Write("3\r\ntwo\r\n0\r\n\r\n");
      }
    });
    const auto client = OpenClient(http2 ? PlainHttp2(peer) : Plain(peer));
    client->Start({.target = "/watch"}, {},
                  {.head = [&](const ResponseHead& h) { journal.Add(std::to_string(h.status)); },
                   .data = [&](std::string_view data) { journal.Add(std::string(data)); },
                   .done = [&](const Status& status) { journal.Add(status.ToString()); }});
    EXPECT_EQ(journal.Await(2), (std::vector<std::string>{"200", "one"}));
    gate.Open();
    EXPECT_EQ(journal.Await(4), (std::vector<std::string>{"200", "one", "two", "OK"}));
  }
}

TEST(Client, RunsManyCallsOnOneHttp2Connection) {
  constexpr int kCalls = 1000;
  std::atomic<std::size_t> most_streams{0};
  ScriptedServer peer([&](ScriptedConnection& wire, int) {
    ScriptedHttp2Server h2(wire, {.max_streams = 10},
                           [](ScriptedHttp2Server& p, const auto& stream) {
                             p.Respond(stream.id, 200, stream.request.body);
                           });
    h2.Run();
    most_streams = h2.most_streams();
  });
  std::atomic<int> right{0};
  Journal journal;
  {
    const auto client = OpenClient(PlainHttp2(peer));
    // The first alone, so that the server's limit is known.
    ASSERT_TRUE(client->Fetch({.target = "/first"}, kPatient).has_value());
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kCalls / 4; ++i) {
          const std::string body = std::to_string(t) + "." + std::to_string(i);
          client->Fetch({.method = "POST", .target = "/x", .body = body}, kPatient,
                        [&, body](const Result<Response>& response) {
                          if (response && response->body == body) ++right;
                          journal.Add("");
                        });
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(journal.Await(kCalls).size(), std::size_t{kCalls});
    EXPECT_EQ(right, kCalls);
  }
  EXPECT_EQ(peer.connections(), 1);
}

TEST(Client, UsesAPoolOfHttp1Connections) {
  Journal journal;
  Gate gate;
  ScriptedServer peer([&](ScriptedConnection& wire, int) {
    while (!wire.ReadRequest().empty()) {
      journal.Add("request");
      gate.Await();
      wire.Write(Http1Response("x"));
    }
  });
  ClientOptions options = Plain(peer);
  options.max_http1_connections = 3;
  const auto client = OpenClient(options);
  Journal responses;
  for (int i = 0; i < 9; ++i)
    client->Fetch({.target = "/x"}, kPatient, [&](const Result<Response>& response) {
      responses.Add(response ? response->body : response.error().ToString());
    });
  journal.Await(3);
  gate.Open();
  for (const std::string& response : responses.Await(9)) EXPECT_EQ(response, "x");
  EXPECT_EQ(peer.connections(), 3);
}

TEST(Client, OpensAnotherConnectionWhenWatchesUseAllStreams) {
  Journal journal;
  ScriptedServer peer([&](ScriptedConnection& wire, int number) {
    ScriptedHttp2Server(wire, {.max_streams = 2},
                        [&, number](ScriptedHttp2Server& h2, const auto& stream) {
                          journal.Add(std::to_string(number) + stream.request.target);
                          if (stream.request.target == "/watch")
                            h2.Begin(stream.id, 200);
                          else
                            h2.Respond(stream.id, 200, "x");
                        })
        .Run();
  });
  const auto client = OpenClient(PlainHttp2(peer));
  ASSERT_TRUE(client->Fetch({.target = "/first"}, kPatient).has_value());
  for (int i = 0; i < 2; ++i) client->Start({.target = "/watch"}, {}, {});
  journal.Await(3);
  ASSERT_TRUE(client->Fetch({.target = "/get"}, kPatient).has_value());
  EXPECT_EQ(journal.entries().back(), "1/get");
  EXPECT_EQ(peer.connections(), 2);
}

TEST(Client, RejectsRequestsThatWouldChangeTheFraming) {
  ScriptedServer peer(ServeHttp1);
  const auto client = OpenClient(Plain(peer));
  const Request requests[] = {
      {.method = "GET /evil", .target = "/"},
      {.method = "CONNECT", .target = "/"},
      {.target = "no-slash"},
      {.target = "/a b"},
      {.target = "/a\r\nx: y"},
      {.target = "/", .authority = "h\r\nx: y"},
      {.target = "/", .headers = {{"x", "a\r\ny: z"}}},
      {.target = "/", .headers = {{"x", "a\nb"}}},
      {.target = "/", .headers = {{"", "a"}}},
      {.target = "/", .headers = {{"a:b", "c"}}},
      {.target = "/", .headers = {{"Upper", "c"}}},
      {.target = "/", .headers = {{"content-length", "5"}}},
      {.target = "/", .headers = {{"transfer-encoding", "chunked"}}},
  };
  for (const Request& request : requests) {
    const Result<Response> response = client->Fetch(request, kPatient);
    ASSERT_FALSE(response.has_value());
    EXPECT_TRUE(response.error().Is(StatusReason::kBadRequest)) << response.error().ToString();
  }
  EXPECT_EQ(peer.connections(), 0);
}

TEST(Client, ReturnsEveryStatusAndFollowsNoRedirect) {
  ScriptedServer peer([](ScriptedConnection& wire, int) {
    for (const char* status : {"301 Moved", "429 Too Many Requests", "500 Oh", "999 What"}) {
      if (wire.ReadRequest().empty()) return;
      wire.Write("HTTP/1.1 " + std::string(status) +
                 "\r\nLocation: /elsewhere\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n");
    }
  });
  const auto client = OpenClient(Plain(peer));
  for (const int status : {301, 429, 500, 999}) {
    const Result<Response> response = client->Fetch({.target = "/"}, kPatient);
    ASSERT_TRUE(response.has_value()) << response.error().ToString();
    EXPECT_EQ(response->status, status);
    EXPECT_EQ(response->headers.Get("retry-after"), "7");
  }
}

TEST(Client, TriesEveryAddressOfAHostName) {
  // Listens only on 127.0.0.1, while most systems try ::1 first.
  ScriptedServer peer(ServeHttp1);
  const auto client = OpenClient({.url = "http://localhost:" + std::to_string(peer.port())});
  const Result<Response> response = client->Fetch({.target = "/"}, kPatient);
  EXPECT_TRUE(response.has_value()) << response.error().ToString();
}

TEST(Client, ReportsInvalidUrls) {
  EXPECT_TRUE(Client::Open({.url = "host:6443"}).error().Is(StatusReason::kBadRequest));
  const Result<std::unique_ptr<Client>> client =
      Client::Open({.url = "https://host", .proxy_url = "socks4://proxy:1080"});
  ASSERT_FALSE(client.has_value());
  EXPECT_CONTAINS(client.error().message(), "socks4://proxy:1080");
  EXPECT_FALSE(Client::Open({.url = "socks5://host"}).has_value());
}

// ---- Gzip ----

TEST(Client, DecodesGzip) {
  std::string plain;
  for (int i = 0; i < 100'000; ++i) plain += std::to_string(i);
  const std::string packed = Gzip(plain);
  ScriptedServer peer([&](ScriptedConnection& wire, int) {
    while (!wire.ReadRequest().empty())
      wire.Write(Http1Response(packed, "Content-Encoding: gzip\r\n"));
  });
  const auto client = OpenClient(Plain(peer));
  Result<Response> response = client->Fetch({.target = "/"}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_EQ(response->body, plain);
  EXPECT_EQ(response->headers.Find("content-encoding"), nullptr);
  EXPECT_EQ(response->headers.Find("content-length"), nullptr);

  // A request with its own accept-encoding gets the encoded body.
  response = client->Fetch({.target = "/", .headers = {{"accept-encoding", "gzip"}}}, kPatient);
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->body, packed);
  EXPECT_EQ(response->headers.Get("content-encoding"), "gzip");
}

TEST(Client, StreamsGzipOfSeveralMembers) {
  ScriptedServer peer([&](ScriptedConnection& wire, int) {
    wire.ReadRequest();
    wire.Write(Http1Response(Gzip("one") + Gzip("two"), "Content-Encoding: gzip\r\n"));
  });
  const auto client = OpenClient(Plain(peer));
  std::string all;
  Journal journal;
  client->Start({.target = "/"}, kPatient,
                {.data = [&](std::string_view data) { all += data; },
                 .done = [&](const Status& status) { journal.Add(status.ToString()); }});
  EXPECT_EQ(journal.Await(1)[0], "OK");
  EXPECT_EQ(all, "onetwo");
}

TEST(Client, RejectsInvalidGzipAndGzipBombs) {
  const std::string bomb = Gzip(std::string(50'000'000, '\0'));
  const std::string good = Gzip("hello");
  struct Case {
    const char* name;
    std::string packed;
    StatusReason reason;
    const char* message;
  };
  const Case cases[] = {
      {"no gzip", "hello", StatusReason::kUnreachable, "not valid gzip"},
      {"incomplete", good.substr(0, good.size() - 3), StatusReason::kUnreachable, "incomplete"},
      {"bomb", bomb, StatusReason::kRequestEntityTooLarge, "larger than 1000000 bytes"},
      {"rubbish after the end", good + "rubbish", StatusReason::kUnreachable, "not valid gzip"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    ScriptedServer peer([&](ScriptedConnection& wire, int) {
      wire.ReadRequest();
      wire.Write(Http1Response(c.packed, "Content-Encoding: gzip\r\n"));
    });
    const auto client = OpenClient(Plain(peer));
    EXPECT_CONTAINS(
        FailureOf(*client, c.reason, {.timeout = kPatience, .max_body_bytes = 1'000'000}),
        c.message);
  }
}

TEST(Client, LimitsTheBodyOfAFetch) {
  for (const bool http2 : {false, true}) {
    ScriptedServer peer([&](ScriptedConnection& wire, int) {
      if (http2) {
        ScriptedHttp2Server(wire, {}, [](ScriptedHttp2Server& h2, const auto& stream) {
          h2.Respond(stream.id, 200, std::string(1001, 'x'));
        }).Run();
      } else {
        wire.ReadRequest();
        wire.Write(Http1Response(std::string(1001, 'x')));
        wire.AwaitEnd();
      }
    });
    const auto client = OpenClient(http2 ? PlainHttp2(peer) : Plain(peer));
    EXPECT_CONTAINS(FailureOf(*client, StatusReason::kRequestEntityTooLarge,
                              {.timeout = kPatience, .max_body_bytes = 1000}),
                    "larger than 1000 bytes");
  }
}

// ---- Failures ----

TEST(Client, ReportsARefusedConnection) {
  std::string url;
  {
    const ScriptedServer gone(ServeHttp1);
    url = gone.url();
  }
  const auto client = OpenClient({.url = url});
  EXPECT_EQ(FailureOf(*client), url + ": connection refused");
  EXPECT_EQ(client->Stats().connections_failed, 1U);
}

TEST(Client, ReportsAnUnknownHost) {
  const auto client = OpenClient({.url = "http://no-such-host.invalid:1"});
  EXPECT_CONTAINS(FailureOf(*client), "http://no-such-host.invalid:1: ");
  EXPECT_CONTAINS(FailureOf(*client), "no-such-host.invalid");
}

TEST(Client, ReportsThatConnectingTimedOut) {
  // Accepts, but never sends anything of TLS.
  ScriptedServer peer([&](ScriptedConnection& wire, int) { wire.AwaitEnd(); });
  ClientOptions options;
  options.url = "https://127.0.0.1:" + std::to_string(peer.port());
  options.connect_timeout = milliseconds(20);
  const auto client = OpenClient(options);
  const std::string message = FailureOf(*client);
  EXPECT_CONTAINS(message, options.url);
  EXPECT_CONTAINS(message, "20 ms");
}

TEST(Client, ReportsAConnectThatGetsNoReply) {
  // A listener whose queue is full: the kernel drops further connects.
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 0), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::vector<int> queued;
  for (int i = 0; i < 4; ++i) {
    queued.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)connect(queued.back(), reinterpret_cast<sockaddr*>(&address), size);
  }
  ClientOptions options;
  options.url = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  options.connect_timeout = milliseconds(20);
  const auto client = OpenClient(options);
  EXPECT_EQ(FailureOf(*client), options.url + ": connecting timed out after 20 ms");
  for (const int fd : queued) close(fd);
  close(listener);
}

TEST(Client, FailsACallThatGetsNoConnectionWhileAWatchHoldsTheOnlyOne) {
  Journal journal;
  ScriptedServer peer([&](ScriptedConnection& wire, int) {
    wire.ReadRequest();
    journal.Add("watch");
    wire.AwaitEnd();
  });
  const auto client = OpenClient(Plain(peer));
  client->Start({.target = "/watch"}, {}, {});
  journal.Await(1);
  peer.StopListening();
  EXPECT_EQ(FailureOf(*client), peer.url() + ": connection refused");
}

TEST(Client, WaitsForAStreamIfNoOtherConnectionCanBeMade) {
  Journal journal;
  ScriptedServer peer([&](ScriptedConnection& wire, int) {
    ScriptedHttp2Server(wire, {.max_streams = 2}, [&](ScriptedHttp2Server& h2, const auto& stream) {
      journal.Add(stream.request.target);
      if (stream.request.target == "/watch")
        h2.Begin(stream.id, 200);
      else if (stream.request.target != "/stuck")
        h2.Respond(stream.id, 200, "x");
    }).Run();
  });
  const auto client = OpenClient(PlainHttp2(peer));
  ASSERT_TRUE(client->Fetch({.target = "/first"}, kPatient).has_value());
  client->Start({.target = "/watch"}, {}, {});
  const Client::CallId stuck = client->Start({.target = "/stuck"}, {}, {});
  journal.Await(3);
  peer.StopListening();
  Journal responses;
  client->Fetch({.target = "/get"}, kPatient, [&](const Result<Response>& response) {
    responses.Add(response ? response->body : response.error().ToString());
  });
  // The attempt to make another connection has failed; only then a stream becomes free.
  while (client->Stats().connections_failed == 0) std::this_thread::yield();
  client->Cancel(stuck);
  EXPECT_EQ(responses.Await(1)[0], "x");
}

TEST(Client, FailsEveryCallThatWaitedForAConnection) {
  std::string url;
  {
    const ScriptedServer gone(ServeHttp1);
    url = gone.url();
  }
  for (const bool http2 : {false, true}) {
    const auto client = OpenClient({.url = url, .plain_http2 = http2});
    Journal journal;
    for (int i = 0; i < 100; ++i)
      client->Fetch({.target = "/x"}, kPatient,
                    [&](const Result<Response>& r) { journal.Add(r ? "?" : r.error().message()); });
    for (const std::string& message : journal.Await(100))
      EXPECT_EQ(message, url + ": connection refused");
  }
}

TEST(Client, EndsACallThatTakesTooLong) {
  for (const bool http2 : {false, true}) {
    Journal journal;
    ScriptedServer peer([&](ScriptedConnection& wire, int) {
      if (http2) {
        ScriptedHttp2Server(wire, {}, [](ScriptedHttp2Server& h2, const auto& stream) {
          h2.Begin(stream.id, 200);
          h2.Data(stream.id, "and then nothing", false);
        }).Run();
      } else {
        wire.ReadRequest();
        wire.Write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nand then nothing");
        wire.AwaitEnd();
      }
      journal.Add("closed");
    });
    const auto client = OpenClient(http2 ? PlainHttp2(peer) : Plain(peer));
    EXPECT_CONTAINS(FailureOf(*client, StatusReason::kTimeout, {.timeout = milliseconds(30)}),
                    "response within 30 ms");
    // HTTP/1.1 can only close; HTTP/2 keeps the connection.
    if (http2)
      EXPECT_EQ(client->Stats().connections, 1U);
    else
      journal.Await(1);
  }
}

TEST(Client, EndsACallWhoseResponseNeverBegins) {
  ScriptedServer peer([&](ScriptedConnection& wire, int) { wire.AwaitEnd(); });
  const auto client = OpenClient(Plain(peer));
  EXPECT_CONTAINS(FailureOf(*client, StatusReason::kTimeout, {.timeout = milliseconds(30)}),
                  peer.url() + ": no response within 30 ms");
}

TEST(Client, ReportsIncompleteResponses) {
  struct Case {
    const char* name;
    std::function<void(ScriptedConnection&)> response;
    const char* message;
  };
  const Case cases[] = {
      {"closed at once", [](ScriptedConnection&) {}, "without sending a response"},
      {"half a head", [](ScriptedConnection& w) { w.Write("HTTP/1.1 200 OK\r\nX"); },
       "before the response was complete"},
      {"truncated chunk",
       [](ScriptedConnection& w) {
         w.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nabc");
       },
       "before the response was complete"},
      {"half closed",
       [](ScriptedConnection& w) {
         w.Write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
         w.CloseWrite();
         w.AwaitEnd();
       },
       "before the response was complete"},
      {"reset",
       [](ScriptedConnection& w) {
         w.Write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
         w.Reset();
       },
       "reset"},
      {"oversized head",
       [](ScriptedConnection& w) { w.Write("HTTP/1.1 200 OK\r\nX: " + std::string(300'000, 'x')); },
       "larger than 262144 bytes"},
      {"rubbish", [](ScriptedConnection& w) { w.Write("\x16\x03\x01 rubbish"); },
       "not valid HTTP/1.1"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    ScriptedServer peer([&](ScriptedConnection& wire, int) {
      wire.ReadRequest();
      c.response(wire);
    });
    const auto client = OpenClient(Plain(peer));
    const std::string message = FailureOf(*client);
    EXPECT_CONTAINS(message, c.message);
    EXPECT_CONTAINS(message, peer.url());
    EXPECT_EQ(peer.connections(), 1) << "the request was not repeatable";
  }
}

// ---- Cancelling and closing ----

TEST(Client, CancelEndsACall) {
  for (const bool http2 : {false, true}) {
    Journal journal;
    ScriptedServer peer([&](ScriptedConnection& wire, int) {
      if (http2)
        ScriptedHttp2Server(wire, {}, [](ScriptedHttp2Server& h2, const auto& stream) {
          h2.Begin(stream.id, 200);
        }).Run();
      else
        wire.AwaitEnd();
    });
    const auto client = OpenClient(http2 ? PlainHttp2(peer) : Plain(peer));
    const Client::CallId id = client->Start(
        {.target = "/watch"}, {}, {.done = [&](const Status& s) { journal.Add(s.ToString()); }});
    client->Cancel(id);
    client->Cancel(id);
    client->Cancel(id + 1000);
    EXPECT_CONTAINS(journal.Await(1)[0], "cancelled");
    EXPECT_EQ(journal.entries().size(), 1U);
    EXPECT_EQ(client->Stats().calls, 0U);
  }
}

TEST(Client, DeliversNothingMoreAfterCancelInACallback) {
  ScriptedServer peer([&](ScriptedConnection& wire, int) {
    ScriptedHttp2Server(wire, {}, [](ScriptedHttp2Server& h2, const auto& stream) {
      h2.Begin(stream.id, 200);
      for (int i = 0; i < 20; ++i) h2.Data(stream.id, std::string(16'000, 'x'), false);
    }).Run();
  });
  const auto client = OpenClient(PlainHttp2(peer));
  Journal journal;
  std::atomic<Client::CallId> id{0};
  Gate known;
  id = client->Start({.target = "/watch"}, {},
                     {.head = [&](const ResponseHead&) { known.Await(); },
                      .data =
                          [&](std::string_view) {
                            journal.Add("data");
                            client->Cancel(id);
                          },
                      .done = [&](const Status& s) { journal.Add(s.ToString()); }});
  known.Open();
  const std::vector<std::string> entries = journal.Await(2);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0], "data");
  EXPECT_CONTAINS(entries[1], "cancelled");
}

TEST(Client, StopsWaitingWhenStopIsRequested) {
  ScriptedServer peer([&](ScriptedConnection& wire, int) { wire.AwaitEnd(); });
  const auto client = OpenClient(Plain(peer));
  std::stop_source stop;
  client->PostAfter(milliseconds(5), [&] { stop.request_stop(); });
  const Result<Response> response = client->Fetch({.target = "/"}, {}, stop.get_token());
  ASSERT_FALSE(response.has_value());
  EXPECT_TRUE(response.error().Is(StatusReason::kCancelled));
  EXPECT_TRUE(
      client->Fetch({.target = "/"}, {}, stop.get_token()).error().Is(StatusReason::kCancelled));
}

TEST(Client, EndsEveryCallWhenItIsDestroyed) {
  for (const bool http2 : {false, true}) {
    Journal journal;
    Journal requests;
    ScriptedServer peer([&](ScriptedConnection& wire, int) {
      if (http2) {
        ScriptedHttp2Server(wire, {}, [&](ScriptedHttp2Server& h2, const auto& stream) {
          h2.Begin(stream.id, 200);
          requests.Add("");
        }).Run();
      } else {
        wire.ReadRequest();
        requests.Add("");
        wire.AwaitEnd();
      }
    });
    {
      const auto client = OpenClient(http2 ? PlainHttp2(peer) : Plain(peer));
      for (int i = 0; i < 50; ++i)
        client->Start(
            {.target = "/watch"}, kPatient, {.done = [&](const Status& status) {
              journal.Add(status.Is(StatusReason::kCancelled) ? "cancelled" : status.ToString());
              // A second Cancel() has no effect.
              if (journal.entries().size() == 1)
                client->Start({.target = "/again"}, {}, {.done = [&](const Status& s) {
                                journal.Add(s.Is(StatusReason::kCancelled) ? "cancelled" : "?");
                              }});
            }});
      requests.Await(http2 ? 50 : 32);
    }
    EXPECT_EQ(journal.entries(), std::vector<std::string>(51, "cancelled"));
  }
}

// Threads start and cancel calls while the server responds, refuses streams, resets, drains and
// dies: each call ends once, whatever happens.
TEST(Client, EndsEachCallOnceWhateverHappens) {
  constexpr int kThreads = 4;
  constexpr int kCallsPerThread = 300;
  for (const bool http2 : {false, true}) {
    std::atomic<int> request{0};
    ScriptedServer peer([&](ScriptedConnection& wire, int) {
      if (!http2) {
        while (!wire.ReadRequest().empty()) {
          const int turn = ++request % 17;
          if (turn == 3) return;
          if (turn == 7) return wire.Reset();
          if (turn == 11) return wire.Write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
          wire.Write(Http1Response("x"));
        }
        return;
      }
      ScriptedHttp2Server(wire, {.max_streams = 20},
                          [&](ScriptedHttp2Server& h2, const auto& stream) {
                            switch (++request % 53) {
                              case 5:
                                return h2.Reset(stream.id, kRefusedStream);
                              case 17:
                                h2.Begin(stream.id, 200);
                                return h2.Data(stream.id, "half",
                                               false);  // until it is cancelled or closed
                              case 29:
                                return h2.GoAway(stream.id, kNoError);  // and no response
                              case 41:
                                h2.wire().Cut();
                                return h2.Stop();
                              default:
                                return h2.Respond(stream.id, 200, "x");
                            }
                          })
          .Run();
    });
    std::vector<std::atomic<int>> ends(kThreads * kCallsPerThread);
    std::atomic<int> left{kThreads * kCallsPerThread};
    std::promise<void> all;
    {
      const auto client = OpenClient(http2 ? PlainHttp2(peer) : Plain(peer));
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          for (int i = 0; i < kCallsPerThread; ++i) {
            std::atomic<int>& end = ends[static_cast<std::size_t>(t * kCallsPerThread + i)];
            const Client::CallId id = client->Start(
                {.method = "POST", .target = "/", .body = std::string(100, 'x')},
                {.timeout = milliseconds(i % 3 == 0 ? 50 : 500), .repeatable = i % 2 == 0},
                {.done = [&](const Status&) {
                  ++end;
                  if (--left == 0) all.set_value();
                }});
            if (i % 5 == 0) client->Cancel(id);
            if (i % 50 == 0) (void)client->Fetch({.target = "/"}, {.timeout = milliseconds(50)});
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      EXPECT_EQ(all.get_future().wait_for(kPatience), std::future_status::ready);
      EXPECT_EQ(client->Stats().calls, 0U);
    }
    for (const std::atomic<int>& end : ends) ASSERT_EQ(end, 1);
  }
}

TEST(Client, RunsPostedTasksAndDropsThoseThatAreNotDue) {
  Journal journal;
  {
    const auto client = OpenClient({.url = "http://127.0.0.1:1"});
    client->PostAfter(std::chrono::hours(1), [&] { journal.Add("too late"); });
    client->Post([&] {
      journal.Add("now");
      client->PostAfter(milliseconds(2), [&] { journal.Add("later"); });
    });
    client->Post([] { throw std::runtime_error("must not hurt"); });
    EXPECT_EQ(journal.Await(2), (std::vector<std::string>{"now", "later"}));
    client->Post([&] { journal.Add("last"); });
  }
  EXPECT_EQ(journal.entries(), (std::vector<std::string>{"now", "later", "last"}));
}

TEST(Client, SurvivesCallbacksThatThrow) {
  ScriptedServer peer(ServeHttp1);
  Journal log;
  ClientOptions options = Plain(peer);
  options.log = [&](const LogEntry& entry) {
    if (entry.level == LogLevel::kError) log.Add(std::string(entry.message));
    throw std::runtime_error("the log as well");
  };
  const auto client = OpenClient(options);
  Journal journal;
  client->Start({.target = "/"}, kPatient,
                {.head = [](const ResponseHead&) { throw std::runtime_error("head"); },
                 .data = [](std::string_view) { throw 1; },
                 .done =
                     [&](const Status& status) {
                       journal.Add(status.ToString());
                       throw std::runtime_error("done");
                     }});
  EXPECT_EQ(journal.Await(1)[0], "OK");
  EXPECT_EQ(log.Await(3), (std::vector<std::string>{"head callback threw an exception",
                                                    "data callback threw an exception",
                                                    "done callback threw an exception"}));
  EXPECT_TRUE(client->Fetch({.target = "/"}, kPatient).has_value());
}

}  // namespace
}  // namespace herald::http
