#include "http/client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "http/client_test_peer.h"

namespace herald::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Long enough for the slowest machine; no test that passes waits for it.
constexpr seconds kPatience{60};
constexpr CallOptions kPatient{.timeout = kPatience};
constexpr std::uint32_t kNoError = 0;
constexpr std::uint32_t kRefusedStream = 7;
constexpr std::int32_t kLastPossibleStream = 0x7fffffff;

// Things that happened on several threads, in their order. Thread-safe.
class Journal {
 public:
  void Add(std::string entry) {
    MutexLock lock(mu_);
    entries_.push_back(std::move(entry));
    changed_.NotifyAll();
  }
  // Waits until so many are there, and returns all.
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

// A gate that scripts wait at until the test opens it. Thread-safe.
class Gate {
 public:
  void Open() { opened_.set_value(); }
  void Await() { future_.wait_for(kPatience); }

 private:
  std::promise<void> opened_{};
  std::shared_future<void> future_{opened_.get_future()};
};

std::unique_ptr<Client> OpenClient(ClientOptions options) {
  Result<std::unique_ptr<Client>> client = Client::Open(std::move(options));
  EXPECT_TRUE(client.has_value()) << client.error().ToString();
  return *std::move(client);
}

ClientOptions Plain(const TestPeer& peer) {
  ClientOptions options;
  options.url = peer.url();
  return options;
}

ClientOptions PlainHttp2(const TestPeer& peer) {
  ClientOptions options = Plain(peer);
  options.plain_http2 = true;
  return options;
}

std::string Http1Answer(const std::string& body, const std::string& fields = "") {
  return "HTTP/1.1 200 OK\r\n" + fields + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

// An ordinary HTTP/1.1 server, until the client closes.
void ServeHttp1(TestWire& wire, int) {
  while (!wire.ReadRequest().empty()) wire.Write(Http1Answer("hello", "X-Test: yes\r\n"));
}

// The same for HTTP/2: says the body back.
void ServeHttp2(TestWire& wire, int) {
  TestHttp2Peer(wire, {}, [](TestHttp2Peer& peer, const TestHttp2Peer::Stream& stream) {
    peer.Answer(stream.id, 200, "echo:" + stream.request.body, {{"x-test", "yes"}});
  }).Run();
}

std::string Gzip(const std::string& text) {
  z_stream zlib{};
  EXPECT_EQ(deflateInit2(&zlib, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&zlib, text.size()) + 32, '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  zlib.avail_in = static_cast<uInt>(text.size());
  zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
  out.resize(zlib.total_out);
  deflateEnd(&zlib);
  return out;
}

// The message of a call that must fail.
std::string FailureOf(Client& client, StatusReason reason = StatusReason::kUnreachable,
                      const CallOptions& options = kPatient) {
  const Result<Response> response = client.Fetch({.target = "/x"}, options);
  if (response) return "it succeeded";
  EXPECT_TRUE(response.error().Is(reason)) << response.error().ToString();
  EXPECT_EQ(response.error().origin(), Status::Origin::kLocal);
  return response.error().message();
}

#define EXPECT_CONTAINS(text, part)                                                            \
  EXPECT_PRED2([](const std::string& t, const std::string& p) { return t.find(p) != t.npos; }, \
               text, part)

// ---- Calls ----

TEST(Client, FetchesOverHttp1AndKeepsTheConnection) {
  TestPeer peer(ServeHttp1);
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
    TestPeer peer([&](TestWire& wire, int) {
      if (http2) {
        TestHttp2Peer(wire, {}, [&](TestHttp2Peer& h2, const TestHttp2Peer::Stream& stream) {
          const Request& r = stream.request;
          journal.Add(r.method + " " + r.target + " " + r.authority + " " +
                      std::string(r.headers.Get("x-a")) + " " +
                      std::string(r.headers.Get("accept-encoding")) + " " + r.body);
          h2.Answer(stream.id, 201, "");
        }).Run();
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

TEST(Client, StreamsAnAnswerAsItComes) {
  for (const bool http2 : {false, true}) {
    Journal journal;
    Gate gate;
    TestPeer peer([&](TestWire& wire, int) {
      if (http2) {
        TestHttp2Peer(wire, {}, [&](TestHttp2Peer& h2, const TestHttp2Peer::Stream& stream) {
          h2.Begin(stream.id, 200);
          h2.Data(stream.id, "one", false);
          h2.Flush();
          gate.Await();  // the client has seen it by now
          h2.Data(stream.id, "two", true);
        }).Run();
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
  TestPeer peer([&](TestWire& wire, int) {
    TestHttp2Peer h2(wire, {.max_streams = 10}, [](TestHttp2Peer& p, const auto& stream) {
      p.Answer(stream.id, 200, stream.request.body);
    });
    h2.Run();
    most_streams = h2.most_streams();
  });
  std::atomic<int> right{0};
  Journal journal;
  {
    const auto client = OpenClient(PlainHttp2(peer));
    // The first alone, so that the peer's limit is known.
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
  TestPeer peer([&](TestWire& wire, int) {
    while (!wire.ReadRequest().empty()) {
      journal.Add("request");
      gate.Await();
      wire.Write(Http1Answer("x"));
    }
  });
  ClientOptions options = Plain(peer);
  options.max_http1_connections = 3;
  const auto client = OpenClient(options);
  Journal answers;
  for (int i = 0; i < 9; ++i)
    client->Fetch({.target = "/x"}, kPatient, [&](const Result<Response>& response) {
      answers.Add(response ? response->body : response.error().ToString());
    });
  journal.Await(3);
  gate.Open();
  for (const std::string& answer : answers.Await(9)) EXPECT_EQ(answer, "x");
  EXPECT_EQ(peer.connections(), 3);
}

TEST(Client, OpensAnotherConnectionWhenWatchesTakeAllStreams) {
  Journal journal;
  TestPeer peer([&](TestWire& wire, int number) {
    TestHttp2Peer(wire, {.max_streams = 2}, [&, number](TestHttp2Peer& h2, const auto& stream) {
      journal.Add(std::to_string(number) + stream.request.target);
      if (stream.request.target == "/watch")
        h2.Begin(stream.id, 200);
      else
        h2.Answer(stream.id, 200, "x");
    }).Run();
  });
  const auto client = OpenClient(PlainHttp2(peer));
  ASSERT_TRUE(client->Fetch({.target = "/first"}, kPatient).has_value());
  for (int i = 0; i < 2; ++i) client->Start({.target = "/watch"}, {}, {});
  journal.Await(3);
  ASSERT_TRUE(client->Fetch({.target = "/get"}, kPatient).has_value());
  EXPECT_EQ(journal.entries().back(), "1/get");
  EXPECT_EQ(peer.connections(), 2);
}

TEST(Client, RefusesRequestsThatWouldBreakOutOfTheirPlace) {
  TestPeer peer(ServeHttp1);
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

TEST(Client, HandsOnEveryStatusAndFollowsNoRedirect) {
  TestPeer peer([](TestWire& wire, int) {
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

TEST(Client, TriesEveryAddressOfAName) {
  // Listens on 127.0.0.1 alone, while most systems try ::1 first.
  TestPeer peer(ServeHttp1);
  const auto client = OpenClient({.url = "http://localhost:" + std::to_string(peer.port())});
  const Result<Response> response = client->Fetch({.target = "/"}, kPatient);
  EXPECT_TRUE(response.has_value()) << response.error().ToString();
}

TEST(Client, SaysWhatIsWrongWithItsUrls) {
  EXPECT_TRUE(Client::Open({.url = "host:6443"}).error().Is(StatusReason::kBadRequest));
  const Result<std::unique_ptr<Client>> client =
      Client::Open({.url = "https://host", .proxy_url = "socks4://proxy:1080"});
  ASSERT_FALSE(client.has_value());
  EXPECT_CONTAINS(client.error().message(), "socks4://proxy:1080");
  EXPECT_FALSE(Client::Open({.url = "socks5://host"}).has_value());
}

// ---- Gzip ----

TEST(Client, UnpacksGzip) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i);
  const std::string packed = Gzip(text);
  TestPeer peer([&](TestWire& wire, int) {
    while (!wire.ReadRequest().empty())
      wire.Write(Http1Answer(packed, "Content-Encoding: gzip\r\n"));
  });
  const auto client = OpenClient(Plain(peer));
  Result<Response> response = client->Fetch({.target = "/"}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_EQ(response->body, text);
  EXPECT_EQ(response->headers.Find("content-encoding"), nullptr);
  EXPECT_EQ(response->headers.Find("content-length"), nullptr);

  // Who asks by himself gets what he asked for.
  response = client->Fetch({.target = "/", .headers = {{"accept-encoding", "gzip"}}}, kPatient);
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->body, packed);
  EXPECT_EQ(response->headers.Get("content-encoding"), "gzip");
}

TEST(Client, StreamsGzipOfSeveralMembers) {
  TestPeer peer([&](TestWire& wire, int) {
    wire.ReadRequest();
    wire.Write(Http1Answer(Gzip("one") + Gzip("two"), "Content-Encoding: gzip\r\n"));
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

TEST(Client, RefusesGzipThatIsBrokenOrABomb) {
  const std::string bomb = Gzip(std::string(50'000'000, '\0'));
  const std::string good = Gzip("hello");
  struct Case {
    const char* name;
    std::string packed;
    StatusReason reason;
    const char* message;
  };
  const Case cases[] = {
      {"no gzip", "hello", StatusReason::kUnreachable, "not the gzip"},
      {"cut off", good.substr(0, good.size() - 3), StatusReason::kUnreachable, "cut off"},
      {"bomb", bomb, StatusReason::kRequestEntityTooLarge, "larger than 1000000 bytes"},
      {"rubbish after the end", good + "rubbish", StatusReason::kUnreachable, "not the gzip"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    TestPeer peer([&](TestWire& wire, int) {
      wire.ReadRequest();
      wire.Write(Http1Answer(c.packed, "Content-Encoding: gzip\r\n"));
    });
    const auto client = OpenClient(Plain(peer));
    EXPECT_CONTAINS(
        FailureOf(*client, c.reason, {.timeout = kPatience, .max_body_bytes = 1'000'000}),
        c.message);
  }
}

TEST(Client, BoundsTheBodyOfAFetch) {
  for (const bool http2 : {false, true}) {
    TestPeer peer([&](TestWire& wire, int) {
      if (http2) {
        TestHttp2Peer(wire, {}, [](TestHttp2Peer& h2, const auto& stream) {
          h2.Answer(stream.id, 200, std::string(1001, 'x'));
        }).Run();
      } else {
        wire.ReadRequest();
        wire.Write(Http1Answer(std::string(1001, 'x')));
        wire.AwaitEnd();
      }
    });
    const auto client = OpenClient(http2 ? PlainHttp2(peer) : Plain(peer));
    EXPECT_CONTAINS(FailureOf(*client, StatusReason::kRequestEntityTooLarge,
                              {.timeout = kPatience, .max_body_bytes = 1000}),
                    "larger than 1000 bytes");
  }
}

// ---- TLS ----

// An authority and what it signed.
struct Pki {
  TestCertificate authority = MakeTestCertificate({.common_name = "test CA", .authority = true});
  TestCertificate server = MakeTestCertificate({.common_name = "server"}, &authority);
  TestCertificate client = MakeTestCertificate({.common_name = "alice", .names = ""}, &authority);
};

ClientOptions Secure(const TestPeer& peer, ClientTls tls) {
  ClientOptions options;
  options.url = peer.url();
  options.tls = [tls = std::move(tls)] { return tls; };
  return options;
}

void ServeEither(TestWire& wire, int number) {
  wire.alpn() == "h2" ? ServeHttp2(wire, number) : ServeHttp1(wire, number);
}

TEST(Client, SpeaksWhatAlpnChoseOverTls) {
  const Pki pki;
  struct Case {
    std::vector<std::string> protocols;
    bool allow_http2;
    const char* chosen;
  };
  const Case cases[] = {
      {{"h2", "http/1.1"}, true, "h2"},
      {{"h2", "http/1.1"}, false, "http/1.1"},
      {{"http/1.1"}, true, "http/1.1"},
      {{}, true, ""},
  };
  for (const Case& c : cases) {
    Journal journal;
    TestPeer peer(
        [&](TestWire& wire, int number) {
          journal.Add(wire.alpn());
          ServeEither(wire, number);
        },
        TestPeer::Tls{.certificate = pki.server, .protocols = c.protocols});
    ClientOptions options = Secure(peer, {.ca = pki.authority.certificate});
    options.allow_http2 = c.allow_http2;
    const auto client = OpenClient(options);
    for (int i = 0; i < 2; ++i) {
      const Result<Response> response = client->Fetch({.target = "/x"}, kPatient);
      ASSERT_TRUE(response.has_value()) << response.error().ToString();
      EXPECT_EQ(response->headers.Get("x-test"), "yes");
    }
    EXPECT_EQ(journal.entries(), std::vector<std::string>{c.chosen});
  }
}

TEST(Client, MovesLargeBodiesOverTls) {
  const Pki pki;
  TestPeer peer(ServeEither, TestPeer::Tls{.certificate = pki.server, .protocols = {"h2"}});
  const auto client = OpenClient(Secure(peer, {.ca = pki.authority.certificate}));
  std::string body;
  for (int i = 0; body.size() < 5'000'000; ++i) body += std::to_string(i);
  const Result<Response> response =
      client->Fetch({.method = "POST", .target = "/x", .body = body}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_TRUE(response->body == "echo:" + body);
}

TEST(Client, RefusesCertificatesAndSaysWhy) {
  const Pki pki;
  const TestCertificate other = MakeTestCertificate({.common_name = "other CA", .authority = true});
  struct Case {
    const char* name;
    TestCertificate server;
    const char* message;
  };
  const Case cases[] = {
      {"expired",
       MakeTestCertificate({.common_name = "old", .valid_from_days = -20, .valid_to_days = -10},
                           &pki.authority),
       "the certificate of CN = old expired at 20"},
      {"not yet valid",
       MakeTestCertificate({.common_name = "new", .valid_from_days = 10, .valid_to_days = 20},
                           &pki.authority),
       "the certificate of CN = new is not valid before 20"},
      {"wrong name",
       MakeTestCertificate({.names = "DNS:a.example,DNS:b.example,IP:10.0.0.1"}, &pki.authority),
       "valid for a.example, b.example, 10.0.0.1, not for 127.0.0.1"},
      {"only a common name",
       MakeTestCertificate({.common_name = "127.0.0.1", .names = ""}, &pki.authority),
       "valid for no name at all, not for 127.0.0.1"},
      {"unknown CA", MakeTestCertificate({.common_name = "x"}, &other),
       "signed by an unknown authority (CN = other CA)"},
      {"signed by itself", MakeTestCertificate({.common_name = "self"}),
       "signed by an unknown authority (CN = self)"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    TestPeer peer(ServeEither, TestPeer::Tls{.certificate = c.server});
    {
      const auto client = OpenClient(Secure(peer, {.ca = pki.authority.certificate}));
      const std::string message = FailureOf(*client);
      EXPECT_CONTAINS(message, c.message);
      EXPECT_CONTAINS(message, peer.url());
      EXPECT_EQ(client->Stats().connections_failed, 1U);
    }
    const auto careless = OpenClient(Secure(peer, {.insecure_skip_verify = true}));
    EXPECT_TRUE(careless->Fetch({.target = "/x"}, kPatient).has_value());
  }
}

TEST(Client, VerifiesTheNameItWasToldToExpect) {
  const Pki pki;
  const TestCertificate certificate =
      MakeTestCertificate({.names = "DNS:kubernetes.default"}, &pki.authority);
  TestPeer peer(ServeEither, TestPeer::Tls{.certificate = certificate});
  const auto client = OpenClient(
      Secure(peer, {.ca = pki.authority.certificate, .server_name = "kubernetes.default"}));
  EXPECT_TRUE(client->Fetch({.target = "/x"}, kPatient).has_value());
}

TEST(Client, ShowsItsCertificate) {
  const Pki pki;
  Journal journal;
  TestPeer peer(
      [&](TestWire& wire, int number) {
        journal.Add(wire.client_name());
        ServeEither(wire, number);
      },
      TestPeer::Tls{
          .certificate = pki.server, .client_ca = pki.authority.certificate, .protocols = {"h2"}});
  const auto client = OpenClient(Secure(peer, {.ca = pki.authority.certificate,
                                               .certificate = pki.client.certificate,
                                               .key = pki.client.key}));
  EXPECT_TRUE(client->Fetch({.target = "/x"}, kPatient).has_value());
  EXPECT_EQ(journal.entries(), std::vector<std::string>{"alice"});
}

TEST(Client, SaysThatTheServerWantsACertificate) {
  const Pki pki;
  constexpr int kTls12 = 0x0303;
  for (const int version : {0, kTls12}) {
    TestPeer peer(ServeEither, TestPeer::Tls{.certificate = pki.server,
                                             .client_ca = pki.authority.certificate,
                                             .max_version = version});
    const auto client = OpenClient(Secure(peer, {.ca = pki.authority.certificate}));
    const std::string message = FailureOf(*client);
    // A server that closes while we are still sending may take its own alert back.
    if (message.find("reset") == std::string::npos) {
      EXPECT_CONTAINS(message, "the server asks for a client certificate");
    }
    EXPECT_CONTAINS(message, peer.url());
  }
}

TEST(Client, SaysWhatIsWrongWithItsOwnMaterial) {
  const Pki pki;
  const TestCertificate other = MakeTestCertificate({});
  TestPeer peer(ServeEither, TestPeer::Tls{.certificate = pki.server});
  struct Case {
    ClientTls tls;
    const char* message;
  };
  const Case cases[] = {
      {{.ca = "rubbish"}, "the CA holds no PEM certificate"},
      {{.certificate = pki.client.certificate}, "no client key"},
      {{.key = pki.client.key}, "no client certificate"},
      {{.certificate = "rubbish", .key = pki.client.key}, "not a PEM certificate"},
      {{.certificate = pki.client.certificate, .key = "rubbish"}, "not a PEM private key"},
      {{.certificate = pki.client.certificate, .key = other.key}, "does not fit"},
  };
  for (const Case& c : cases) {
    const auto client = OpenClient(Secure(peer, c.tls));
    EXPECT_CONTAINS(FailureOf(*client), c.message);
  }
  ClientOptions options = Plain(peer);
  options.tls = [] {
    return Result<ClientTls>(Status(StatusReason::kUnreachable, "cannot read /ca.crt"));
  };
  EXPECT_CONTAINS(FailureOf(*OpenClient(options)), "cannot read /ca.crt");
  EXPECT_EQ(peer.connections(), 0);
}

TEST(Client, UsesNewTlsMaterialForTheNextConnection) {
  const Pki pki;
  const TestCertificate bob =
      MakeTestCertificate({.common_name = "bob", .names = ""}, &pki.authority);
  Journal journal;
  Mutex mu;
  ClientTls tls{.ca = pki.authority.certificate,
                .certificate = pki.client.certificate,
                .key = pki.client.key};
  TestPeer peer(
      [&](TestWire& wire, int number) {
        journal.Add(wire.client_name());
        ServeEither(wire, number);
      },
      TestPeer::Tls{
          .certificate = pki.server, .client_ca = pki.authority.certificate, .protocols = {"h2"}});
  ClientOptions options = Plain(peer);
  options.tls = [&] {
    MutexLock lock(mu);
    return tls;
  };
  options.tls_check_interval = milliseconds(1);
  const auto client = OpenClient(options);
  EXPECT_TRUE(client->Fetch({.target = "/x"}, kPatient).has_value());
  {
    MutexLock lock(mu);
    tls.certificate = bob.certificate;
    tls.key = bob.key;
  }
  // Soon all calls go over a connection that was made with it.
  while (journal.entries().size() < 2)
    ASSERT_TRUE(client->Fetch({.target = "/x"}, kPatient).has_value());
  EXPECT_EQ(journal.entries(), (std::vector<std::string>{"alice", "bob"}));
}

TEST(Client, SaysThatTheServerDoesNotSpeakTls) {
  TestPeer peer([](TestWire& wire, int) {
    wire.ReadSome();
    wire.Write("HTTP/1.1 400 Bad Request\r\n\r\n");
    wire.AwaitEnd();
  });
  ClientOptions options;
  options.url = "https://127.0.0.1:" + std::to_string(peer.port());
  const auto client = OpenClient(options);
  EXPECT_CONTAINS(FailureOf(*client), options.url + ": the server does not speak TLS");
}

// ---- Failures ----

TEST(Client, SaysThatAConnectionWasRefused) {
  std::string url;
  {
    const TestPeer gone(ServeHttp1);
    url = gone.url();
  }
  const auto client = OpenClient({.url = url});
  EXPECT_EQ(FailureOf(*client), url + ": connection refused");
  EXPECT_EQ(client->Stats().connections_failed, 1U);
}

TEST(Client, SaysThatThereIsNoSuchHost) {
  const auto client = OpenClient({.url = "http://no-such-host.invalid:1"});
  EXPECT_CONTAINS(FailureOf(*client), "http://no-such-host.invalid:1: ");
  EXPECT_CONTAINS(FailureOf(*client), "no-such-host.invalid");
}

TEST(Client, SaysThatConnectingTimedOut) {
  // Accepts, and never says a word of TLS.
  TestPeer peer([&](TestWire& wire, int) { wire.AwaitEnd(); });
  ClientOptions options;
  options.url = "https://127.0.0.1:" + std::to_string(peer.port());
  options.connect_timeout = milliseconds(20);
  const auto client = OpenClient(options);
  const std::string message = FailureOf(*client);
  EXPECT_CONTAINS(message, options.url);
  EXPECT_CONTAINS(message, "20 ms");
}

TEST(Client, SaysThatNobodyAnsweredTheConnect) {
  // A listener whose queue is full: the kernel drops what comes next.
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
  TestPeer peer([&](TestWire& wire, int) {
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

TEST(Client, WaitsForAStreamWhereThereIsNoOtherConnectionToBeHad) {
  Journal journal;
  TestPeer peer([&](TestWire& wire, int) {
    TestHttp2Peer(wire, {.max_streams = 2}, [&](TestHttp2Peer& h2, const auto& stream) {
      journal.Add(stream.request.target);
      if (stream.request.target == "/watch")
        h2.Begin(stream.id, 200);
      else if (stream.request.target != "/stuck")
        h2.Answer(stream.id, 200, "x");
    }).Run();
  });
  const auto client = OpenClient(PlainHttp2(peer));
  ASSERT_TRUE(client->Fetch({.target = "/first"}, kPatient).has_value());
  client->Start({.target = "/watch"}, {}, {});
  const Client::CallId stuck = client->Start({.target = "/stuck"}, {}, {});
  journal.Await(3);
  peer.StopListening();
  Journal answers;
  client->Fetch({.target = "/get"}, kPatient, [&](const Result<Response>& response) {
    answers.Add(response ? response->body : response.error().ToString());
  });
  // Its try for another connection has failed; only then is there a stream.
  while (client->Stats().connections_failed == 0) std::this_thread::yield();
  client->Cancel(stuck);
  EXPECT_EQ(answers.Await(1)[0], "x");
}

TEST(Client, FailsEveryCallThatWaitedForAConnection) {
  std::string url;
  {
    const TestPeer gone(ServeHttp1);
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
    TestPeer peer([&](TestWire& wire, int) {
      if (http2) {
        TestHttp2Peer(wire, {}, [](TestHttp2Peer& h2, const auto& stream) {
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
                    "answer within 30 ms");
    // HTTP/1.1 can only close; HTTP/2 goes on.
    if (http2)
      EXPECT_EQ(client->Stats().connections, 1U);
    else
      journal.Await(1);
  }
}

TEST(Client, EndsACallWhoseAnswerNeverBegins) {
  TestPeer peer([&](TestWire& wire, int) { wire.AwaitEnd(); });
  const auto client = OpenClient(Plain(peer));
  EXPECT_CONTAINS(FailureOf(*client, StatusReason::kTimeout, {.timeout = milliseconds(30)}),
                  peer.url() + ": no answer within 30 ms");
}

TEST(Client, ReportsAnswersThatAreCutOff) {
  struct Case {
    const char* name;
    std::function<void(TestWire&)> answer;
    const char* message;
  };
  const Case cases[] = {
      {"closed at once", [](TestWire&) {}, "without an answer"},
      {"half a head", [](TestWire& w) { w.Write("HTTP/1.1 200 OK\r\nX"); }, "in the middle"},
      {"truncated chunk",
       [](TestWire& w) {
         w.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nabc");
       },
       "in the middle"},
      {"half closed",
       [](TestWire& w) {
         w.Write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
         w.CloseWrite();
         w.AwaitEnd();
       },
       "in the middle"},
      {"reset",
       [](TestWire& w) {
         w.Write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
         w.Reset();
       },
       "reset"},
      {"oversized head",
       [](TestWire& w) { w.Write("HTTP/1.1 200 OK\r\nX: " + std::string(300'000, 'x')); },
       "larger than 262144 bytes"},
      {"rubbish", [](TestWire& w) { w.Write("\x16\x03\x01 rubbish"); }, "not HTTP/1.1"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    TestPeer peer([&](TestWire& wire, int) {
      wire.ReadRequest();
      c.answer(wire);
    });
    const auto client = OpenClient(Plain(peer));
    const std::string message = FailureOf(*client);
    EXPECT_CONTAINS(message, c.message);
    EXPECT_CONTAINS(message, peer.url());
    EXPECT_EQ(peer.connections(), 1) << "it was not said to be repeatable";
  }
}

TEST(Client, DoesNotTakeACutTlsConnectionForTheEndOfABody) {
  const Pki pki;
  for (const bool honest : {true, false}) {
    TestPeer peer(
        [&](TestWire& wire, int) {
          wire.ReadRequest();
          wire.Write("HTTP/1.1 200 OK\r\n\r\nuntil the end");
          if (honest) wire.CloseWrite();
        },
        TestPeer::Tls{.certificate = pki.server});
    const auto client = OpenClient(Secure(peer, {.ca = pki.authority.certificate}));
    const Result<Response> response = client->Fetch({.target = "/"}, kPatient);
    EXPECT_EQ(response.has_value(), honest);
    EXPECT_EQ(response.value_or(Response{}).body, honest ? "until the end" : "");
  }
}

// ---- Repeating ----

TEST(Client, RepeatsOnABrokenIdleConnectionOnlyWhatIsRepeatable) {
  for (const bool repeatable : {false, true}) {
    Journal journal;
    TestPeer peer([&](TestWire& wire, int number) {
      // The first connection serves one request, and dies on the second.
      for (int i = 0; number > 0 || i < 2; ++i) {
        if (wire.ReadRequest().empty()) return;
        journal.Add(std::to_string(number));
        if (number == 0 && i == 1) return;
        wire.Write(Http1Answer("x"));
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
  TestPeer peer([&](TestWire& wire, int number) {
    if (wire.ReadRequest().empty()) return;
    wire.Write(Http1Answer("x"));
    wire.Cut();
    journal.Add("cut " + std::to_string(number));
  });
  const auto client = OpenClient(Plain(peer));
  for (std::size_t i = 0; i < 20; ++i) {
    // Not repeatable, and still none is lost.
    const Result<Response> response = client->Fetch({.method = "POST", .target = "/"}, kPatient);
    ASSERT_TRUE(response.has_value()) << response.error().ToString();
    journal.Await(i + 1);
  }
  EXPECT_EQ(peer.connections(), 20);
}

TEST(Client, GivesUpRepeatingAfterAWhile) {
  TestPeer peer([](TestWire& wire, int) { wire.ReadRequest(); });
  const auto client = OpenClient(Plain(peer));
  EXPECT_CONTAINS(
      FailureOf(*client, StatusReason::kUnreachable, {.timeout = kPatience, .repeatable = true}),
      "without an answer");
  EXPECT_EQ(peer.connections(), 4);
}

TEST(Client, NeverRepeatsWhatHasBeenAnswered) {
  TestPeer peer([](TestWire& wire, int) {
    wire.ReadRequest();
    wire.Write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
  });
  const auto client = OpenClient(Plain(peer));
  FailureOf(*client, StatusReason::kUnreachable, {.timeout = kPatience, .repeatable = true});
  EXPECT_EQ(peer.connections(), 1);
}

TEST(Client, RepeatsWhatAGoAwayLeftUndone) {
  Journal journal;
  TestPeer peer([&](TestWire& wire, int number) {
    TestHttp2Peer(wire, {}, [&, number](TestHttp2Peer& h2, const auto& stream) {
      journal.Add(std::to_string(number) + " " + stream.request.body);
      if (number == 0) {
        h2.GoAway(0, kNoError);  // none of them was looked at
        h2.Flush();
        h2.wire().AwaitEnd();
        h2.Stop();
        return;
      }
      h2.Answer(stream.id, 200, stream.request.body);
    }).Run();
  });
  const auto client = OpenClient(PlainHttp2(peer));
  // Not said to be repeatable: it is known that nothing happened.
  const Result<Response> response =
      client->Fetch({.method = "POST", .target = "/", .body = "body"}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_EQ(response->body, "body");
  EXPECT_EQ(journal.entries(), (std::vector<std::string>{"0 body", "1 body"}));
  EXPECT_EQ(client->Stats().repeated, 1U);
}

TEST(Client, SaysWhetherTheServerMayHaveActed) {
  std::atomic<bool> answers{true};
  TestPeer peer([&](TestWire& wire, int) {
    TestHttp2Peer(wire, {}, [&](TestHttp2Peer& h2, const auto& stream) {
      if (stream.request.target == "/break") return h2.wire().Reset();
      if (stream.request.target == "/refuse") return h2.Reset(stream.id, kRefusedStream);
      if (answers) h2.Answer(stream.id, 200, "");
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
  answers = false;
  EXPECT_FALSE(unprocessed("/silent", {.timeout = std::chrono::milliseconds(20)}));
  // A call that was perhaps acted upon, and then found nobody to ask again.
  peer.StopListening();
  EXPECT_FALSE(unprocessed("/break", {.timeout = kPatience, .repeatable = true}));
  EXPECT_TRUE(unprocessed("/nobody"));
}

TEST(Client, GoesOverANewConnectionWhenTold) {
  Gate gate;
  Gate began;
  TestPeer peer([&](TestWire& wire, int connection) {
    TestHttp2Peer(wire, {}, [&, connection](TestHttp2Peer& h2, const auto& stream) {
      if (stream.request.target == "/slow") {
        began.Open();
        gate.Await();
      }
      h2.Answer(stream.id, 200, std::to_string(connection));
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
  // What was under way goes on where it was, and the old connection ends with it.
  gate.Open();
  EXPECT_EQ(journal.Await(1), std::vector<std::string>{"0"});
}

TEST(Client, RepeatsARefusedStreamOnTheSameConnection) {
  int requests = 0;
  TestPeer peer([&](TestWire& wire, int) {
    TestHttp2Peer(wire, {}, [&](TestHttp2Peer& h2, const auto& stream) {
      if (++requests == 1)
        h2.Reset(stream.id, kRefusedStream);
      else
        h2.Answer(stream.id, 200, "x");
    }).Run();
  });
  const auto client = OpenClient(PlainHttp2(peer));
  EXPECT_TRUE(client->Fetch({.method = "POST", .target = "/"}, kPatient).has_value());
  EXPECT_EQ(peer.connections(), 1);
}

TEST(Client, FinishesOldCallsAndStartsNewOnesElsewhereWhenTheServerDrains) {
  Journal journal;
  Gate gate;
  TestPeer peer([&](TestWire& wire, int number) {
    TestHttp2Peer(wire, {}, [&, number](TestHttp2Peer& h2, const auto& stream) {
      if (number == 0) {
        h2.GoAway(kLastPossibleStream, kNoError);
        h2.Flush();
        journal.Add("draining");
        gate.Await();
      }
      h2.Answer(stream.id, 200, std::to_string(number));
    }).Run();
    journal.Add("closed " + std::to_string(number));
  });
  const auto client = OpenClient(PlainHttp2(peer));
  Journal answers;
  client->Fetch({.target = "/old"}, kPatient,
                [&](const Result<Response>& r) { answers.Add("old " + r.value().body); });
  journal.Await(1);
  // The GOAWAY is on its way; sooner or later calls go elsewhere, and none fails.
  Result<Response> response = client->Fetch({.target = "/new"}, {.timeout = milliseconds(10)});
  while (!response) response = client->Fetch({.target = "/new"}, {.timeout = milliseconds(10)});
  EXPECT_EQ(response->body, "1");
  gate.Open();
  EXPECT_EQ(answers.Await(1)[0], "old 0");
  EXPECT_EQ(journal.Await(2)[1], "closed 0");
}

// ---- Idle connections ----

TEST(Client, ClosesIdleConnections) {
  for (const bool http2 : {false, true}) {
    Journal journal;
    TestPeer peer([&](TestWire& wire, int number) {
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
  TestPeer peer([&](TestWire& wire, int) {
    TestHttp2Peer h2(wire, {}, [&](TestHttp2Peer& p, const auto& stream) {
      if (stream.request.target == "/watch") return p.Begin(stream.id, 200);
      p.Answer(stream.id, 200, std::to_string(p.pings()));
    });
    h2.Run();
  });
  ClientOptions options = PlainHttp2(peer);
  options.ping_interval = milliseconds(5);
  const auto client = OpenClient(options);
  client->Start({.target = "/watch"}, {}, {});
  std::string seen;
  while (seen.empty() || std::stoi(seen) < 3) {
    // Quiet for long enough for a ping, told by the client's own clock.
    std::promise<void> later;
    client->PostAfter(milliseconds(20), [&] { later.set_value(); });
    later.get_future().wait();
    const Result<Response> response = client->Fetch({.target = "/"}, kPatient);
    ASSERT_TRUE(response.has_value()) << response.error().ToString();
    seen = response->body;
  }
  EXPECT_EQ(peer.connections(), 1);
}

TEST(Client, LeavesAConnectionWithoutCallsAloneIfTold) {
  TestPeer peer([&](TestWire& wire, int) {
    TestHttp2Peer(wire, {}, [&](TestHttp2Peer& p, const auto& stream) {
      p.Answer(stream.id, 200, std::to_string(p.pings()));
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
  // One, where a machine was too slow for an answer within 100 ms.
  EXPECT_LE(std::stoi(response->body), 1);
}

TEST(Client, GivesUpAConnectionThatDoesNotAnswerPings) {
  TestPeer peer([&](TestWire& wire, int) {
    TestHttp2Peer h2(wire, {}, [&](TestHttp2Peer& p, const auto& stream) {
      p.Begin(stream.id, 200);
      p.Flush();
      p.Stop();  // reads no more, but stays
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

// ---- Proxy ----

// Talks HTTP on both sides of CONNECT, as if it were the server as well.
TEST(Client, AsksAProxy) {
  Journal journal;
  TestPeer proxy([&](TestWire& wire, int) {
    journal.Add(wire.ReadRequest());
    wire.Write("HTTP/1.1 200 Connection established\r\n\r\n");
    journal.Add(wire.ReadRequest());
    wire.Write(Http1Answer("through"));
    wire.AwaitEnd();
  });
  ClientOptions options;
  options.url = "http://server.invalid:8080";
  options.proxy_url = "http://user:p%40ss@127.0.0.1:" + std::to_string(proxy.port());
  const auto client = OpenClient(options);
  const Result<Response> response = client->Fetch({.target = "/x"}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_EQ(response->body, "through");
  const std::vector<std::string> seen = journal.entries();
  EXPECT_EQ(seen[0],
            "CONNECT server.invalid:8080 HTTP/1.1\r\nhost: server.invalid:8080\r\n"
            "proxy-authorization: Basic dXNlcjpwQHNz\r\n\r\n");
  EXPECT_TRUE(seen[1].starts_with("GET /x HTTP/1.1\r\nhost: server.invalid:8080\r\n")) << seen[1];
}

// A proxy that knows one server: moves bytes until either side ends.
void Tunnel(TestWire& wire, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(connect(server, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  std::thread back([&] {
    char bytes[4096];
    for (ssize_t size = 0; (size = recv(server, bytes, sizeof(bytes), 0)) > 0;)
      wire.Write({bytes, static_cast<std::size_t>(size)});
    wire.CloseWrite();
  });
  for (std::string bytes = wire.ReadSome(); !bytes.empty(); bytes = wire.ReadSome())
    if (send(server, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) break;
  shutdown(server, SHUT_RDWR);
  back.join();
  close(server);
}

TEST(Client, VerifiesTheServerBehindTheProxy) {
  const Pki pki;
  for (const char* name : {"DNS:server.invalid", "DNS:other.invalid"}) {
    TestPeer server(ServeEither, TestPeer::Tls{.certificate = MakeTestCertificate({.names = name},
                                                                                  &pki.authority),
                                               .protocols = {"h2"}});
    TestPeer proxy([&](TestWire& wire, int) {
      wire.ReadRequest();
      wire.Write("HTTP/1.1 200 OK\r\n\r\n");
      Tunnel(wire, server.port());
    });
    ClientOptions options;
    options.url = "https://server.invalid";
    options.proxy_url = proxy.url();
    options.tls = [&] { return ClientTls{.ca = pki.authority.certificate}; };
    const auto client = OpenClient(options);
    if (std::string_view(name) == "DNS:server.invalid") {
      const Result<Response> response =
          client->Fetch({.method = "POST", .target = "/", .body = "b"}, kPatient);
      ASSERT_TRUE(response.has_value()) << response.error().ToString();
      EXPECT_EQ(response->body, "echo:b");
    } else {
      EXPECT_CONTAINS(FailureOf(*client), "valid for other.invalid, not for server.invalid");
    }
  }
}

TEST(Client, SaysWhatTheProxySaid) {
  struct Case {
    const char* answer;
    const char* message;
  };
  const Case cases[] = {
      {"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "asks for a user and a password"},
      {"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nbad", "answered 502 to CONNECT"},
      {"rubbish", "not HTTP/1.1"},
      {"", "closed the connection"},
  };
  for (const Case& c : cases) {
    TestPeer proxy([&](TestWire& wire, int) {
      wire.ReadRequest();
      wire.Write(c.answer);
    });
    ClientOptions options;
    options.url = "https://server.invalid";
    options.proxy_url = proxy.url();
    const auto client = OpenClient(options);
    const std::string message = FailureOf(*client);
    EXPECT_CONTAINS(message, c.message);
    EXPECT_CONTAINS(message, "https://server.invalid: proxy 127.0.0.1:");
  }
}

// Plain, behind a proxy with TLS, and TLS within TLS; by HTTP/1.1 and HTTP/2.
TEST(Client, SpeaksTlsToAProxy) {
  const Pki pki;
  const TestPeer::Tls tls{.certificate = MakeTestCertificate({}, &pki.authority),
                          .protocols = {"h2", "http/1.1"}};
  for (const bool https : {false, true}) {
    SCOPED_TRACE(https);
    TestPeer server(https ? ServeEither : ServeHttp1, https ? std::optional(tls) : std::nullopt);
    TestPeer proxy(
        [&](TestWire& wire, int) {
          EXPECT_EQ(wire.alpn(), "http/1.1");
          EXPECT_CONTAINS(wire.ReadRequest(), "CONNECT localhost:");
          wire.Write("HTTP/1.1 200 OK\r\n\r\n");
          Tunnel(wire, server.port());
        },
        tls);
    ClientOptions options;
    options.url =
        (https ? "https" : "http") + std::string("://localhost:") + std::to_string(server.port());
    options.proxy_url = "https://localhost:" + std::to_string(proxy.port());
    options.tls = [&] { return ClientTls{.ca = pki.authority.certificate}; };
    const auto client = OpenClient(options);
    const std::string body(300'000, 'b');  // more than one record, one read and one write
    const Result<Response> response =
        client->Fetch({.method = "POST", .target = "/", .body = body}, kPatient);
    ASSERT_TRUE(response.has_value()) << response.error().ToString();
    EXPECT_TRUE(response->body == (https ? "echo:" + body : "hello")) << response->body.size();
  }
}

TEST(Client, VerifiesTheProxy) {
  const Pki pki;
  TestPeer proxy([](TestWire& wire, int) { wire.AwaitEnd(); },
                 TestPeer::Tls{.certificate = MakeTestCertificate({.names = "DNS:other.invalid"},
                                                                  &pki.authority)});
  ClientOptions options;
  options.url = "https://server.invalid";
  options.proxy_url = "https://localhost:" + std::to_string(proxy.port());
  options.tls = [&] { return ClientTls{.ca = pki.authority.certificate}; };
  const std::string message = FailureOf(*OpenClient(options));
  EXPECT_CONTAINS(message, "https://server.invalid: proxy localhost:");
  EXPECT_CONTAINS(message, "valid for other.invalid, not for localhost");
}

TEST(Client, GoesThroughASocksProxy) {
  const Pki pki;
  TestPeer server(ServeEither, TestPeer::Tls{.certificate = MakeTestCertificate({}, &pki.authority),
                                             .protocols = {"h2"}});
  Journal journal;
  TestPeer proxy([&](TestWire& wire, int) {
    std::string greeting = wire.ReadSome();
    journal.Add(greeting);
    wire.Write({"\5\2", 2});
    journal.Add(wire.ReadSome());
    wire.Write({"\1\0", 2});
    journal.Add(wire.ReadSome());
    wire.Write({"\5\0\0\1\0\0\0\0\0\0", 10});
    Tunnel(wire, server.port());
  });
  ClientOptions options;
  options.url = "https://localhost:" + std::to_string(server.port());
  options.proxy_url = "socks5://user:p%3Aw@127.0.0.1:" + std::to_string(proxy.port());
  options.tls = [&] { return ClientTls{.ca = pki.authority.certificate}; };
  const auto client = OpenClient(options);
  const Result<Response> response =
      client->Fetch({.method = "POST", .target = "/", .body = "b"}, kPatient);
  ASSERT_TRUE(response.has_value()) << response.error().ToString();
  EXPECT_EQ(response->body, "echo:b");
  const std::uint16_t port = server.port();
  EXPECT_EQ(journal.entries(),
            (std::vector<std::string>{std::string("\5\2\0\2", 4), std::string("\1\4user\3p:w"),
                                      std::string("\5\1\0\3\11localhost", 14) +
                                          static_cast<char>(port >> 8) +
                                          static_cast<char>(port & 0xff)}));
}

// ---- Cancelling and closing ----

TEST(Client, CancelEndsACall) {
  for (const bool http2 : {false, true}) {
    Journal journal;
    TestPeer peer([&](TestWire& wire, int) {
      if (http2)
        TestHttp2Peer(wire, {}, [](TestHttp2Peer& h2, const auto& stream) {
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

TEST(Client, HearsNothingMoreAfterCancelInACallback) {
  TestPeer peer([&](TestWire& wire, int) {
    TestHttp2Peer(wire, {}, [](TestHttp2Peer& h2, const auto& stream) {
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

TEST(Client, StopsWaitingWhenAskedTo) {
  TestPeer peer([&](TestWire& wire, int) { wire.AwaitEnd(); });
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
    TestPeer peer([&](TestWire& wire, int) {
      if (http2) {
        TestHttp2Peer(wire, {}, [&](TestHttp2Peer& h2, const auto& stream) {
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
              // Whoever tries again is told the same, and is heard no more.
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

// Threads start and cancel calls while the server answers, refuses, resets, drains and
// dies: each call ends once, whatever happens.
TEST(Client, EndsEachCallOnceWhateverHappens) {
  constexpr int kThreads = 4;
  constexpr int kCallsPerThread = 300;
  for (const bool http2 : {false, true}) {
    std::atomic<int> request{0};
    TestPeer peer([&](TestWire& wire, int) {
      if (!http2) {
        while (!wire.ReadRequest().empty()) {
          const int turn = ++request % 17;
          if (turn == 3) return;
          if (turn == 7) return wire.Reset();
          if (turn == 11) return wire.Write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
          wire.Write(Http1Answer("x"));
        }
        return;
      }
      TestHttp2Peer(wire, {.max_streams = 20}, [&](TestHttp2Peer& h2, const auto& stream) {
        switch (++request % 53) {
          case 5:
            return h2.Reset(stream.id, kRefusedStream);
          case 17:
            h2.Begin(stream.id, 200);
            return h2.Data(stream.id, "half", false);  // until it is cancelled or cut
          case 29:
            return h2.GoAway(stream.id, kNoError);  // and no answer
          case 41:
            h2.wire().Cut();
            return h2.Stop();
          default:
            return h2.Answer(stream.id, 200, "x");
        }
      }).Run();
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

TEST(Client, RunsWhatIsPostedAndDropsWhatIsNotDue) {
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
  TestPeer peer(ServeHttp1);
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
  EXPECT_EQ(log.Await(3),
            (std::vector<std::string>{"a head callback threw", "a data callback threw",
                                      "a done callback threw"}));
  EXPECT_TRUE(client->Fetch({.target = "/"}, kPatient).has_value());
}

}  // namespace
}  // namespace herald::http
