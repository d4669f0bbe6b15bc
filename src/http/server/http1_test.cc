#include "http/server/http1.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "http/testing/fake_connection.h"

namespace herald::http {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kGet = "GET /a?b=c HTTP/1.1\r\nHost: herald\r\n\r\n";

class Http1ServerTest : public testing::Test {
 protected:
  explicit Http1ServerTest(ServerOptions options = {})
      : connection_(std::move(options)), codec_(connection_.context(), connection_.now()) {}

  void Receive(std::string_view bytes) { codec_.Receive(bytes, connection_.now()); }
  std::string Send(std::size_t limit = FakeConnection::kNoLimit) {
    return connection_.Send(codec_, limit);
  }
  // Receives, expects one request and takes it.
  FakeConnection::Received Ask(std::string_view bytes) {
    Receive(bytes);
    EXPECT_EQ(connection_.requests.size(), 1U) << bytes;
    if (connection_.requests.empty()) return {{}, std::make_shared<NullResponder>()};
    return connection_.Take();
  }
  void Wait(std::chrono::nanoseconds time) {
    connection_.clock.Advance(time);
    codec_.Tick(connection_.now());
  }

  class NullResponder : public Responder {
   public:
    void ReadBody(BodyReader /*reader*/) override {}
    void Send(Response /*response*/) override {}
    void Start(ResponseHead /*head*/) override {}
    std::size_t Write(Chunk /*chunk*/) override { return 0; }
    void End() override {}
    void Abort() override {}
    std::size_t queued() const override { return 0; }
    std::size_t fair_share() const override { return 1; }
    void Observe(std::function<void()> /*drained*/, std::function<void()> /*closed*/) override {}
  };

  FakeConnection connection_;
  Http1Server codec_;
};

Chunk MakeChunk(std::string bytes) { return std::make_shared<const std::string>(std::move(bytes)); }

TEST_F(Http1ServerTest, DispatchesRequestsWithoutFieldsOfTheConnection) {
  const auto [request, responder] =
      Ask("POST /api/v1/events?dryRun=All HTTP/1.1\r\nHOST: herald:6443\r\nContent-Type: "
          "application/json\r\nX-Two:  a b \r\nx-two: c\r\nConnection: keep-alive, X-Hop\r\nX-Hop: "
          "1\r\nTE: trailers\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/api/v1/events?dryRun=All");
  EXPECT_EQ(request.authority, "herald:6443");
  EXPECT_EQ(request.body, "{}");
  EXPECT_EQ(request.headers,
            (Headers{{"content-type", "application/json"}, {"x-two", "a b"}, {"x-two", "c"}}));
}

TEST_F(Http1ServerTest, SendsAWholeResponseWithLengthAndDate) {
  auto [request, responder] = Ask(kGet);
  responder->Send({.status = 404, .headers = {{"content-type", "text/plain"}}, .body = "no"});
  EXPECT_EQ(Send(),
            "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\n"
            "date: Mon, 16 Nov 2026 00:00:00 GMT\r\ncontent-length: 2\r\n\r\nno");
  EXPECT_FALSE(codec_.finished());
  EXPECT_EQ(connection_.counters->streams, 0U);
}

TEST_F(Http1ServerTest, ReadsRequestsByteByByte) {
  constexpr std::string_view kText =
      "\r\nPUT /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;ext=1\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nTrailer-Field: 1\r\n\r\n";
  for (const char c : kText) {
    EXPECT_TRUE(connection_.requests.empty());
    Receive({&c, 1});
  }
  ASSERT_EQ(connection_.requests.size(), 1U);
  const Request request = connection_.Take().request;
  EXPECT_EQ(request.body, "abc0123456789abcdef");
  EXPECT_TRUE(request.headers.empty()) << "trailers are not header fields";
}

TEST_F(Http1ServerTest, ReadsQuotedChunkExtensions) {
  const auto [request, responder] =
      Ask("PUT /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
          "3;a=\"b\\\"\t;c\" ;d\r\nabc\r\n0;e=\"\"\r\nF:\r\nG: \t h \r\n\r\n");
  EXPECT_EQ(request.body, "abc");
}

TEST_F(Http1ServerTest, ReadsAnEmptyChunkedBodyInPieces) {
  Receive("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (const char c : std::string_view("0\r\n\r")) Receive({&c, 1});
  EXPECT_TRUE(connection_.requests.empty());
  EXPECT_EQ(Ask("\n").request.body, "");
}

TEST_F(Http1ServerTest, RespondsToPipelinedRequestsOneByOneAndInOrder) {
  Receive(
      "POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\noneGET /2 HTTP/1.1\r\nHost: "
      "h\r\n\r\n"
      "GET /3 HTTP/1.1\r\nHost: h\r\n\r\n");
  for (const char* target : {"/1", "/2", "/3"}) {
    ASSERT_EQ(connection_.requests.size(), 1U) << "only one at a time";
    auto [request, responder] = connection_.Take();
    EXPECT_EQ(request.target, target);
    responder->Send({.body = request.target});
    EXPECT_TRUE(Send().ends_with("\r\n\r\n" + request.target));
  }
  EXPECT_TRUE(connection_.requests.empty());
}

TEST_F(Http1ServerTest, LimitsTheBufferForPipelinedRequests) {
  auto first = Ask(kGet);
  EXPECT_TRUE(codec_.wants_input());
  Receive(std::string(std::size_t{65} * 1024, 'x'));
  EXPECT_FALSE(codec_.wants_input());
}

TEST_F(Http1ServerTest, SendsContinueOnceIfTheClientExpectsIt) {
  Receive("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 4\r\n\r\n");
  EXPECT_EQ(Send(), "HTTP/1.1 100 Continue\r\n\r\n");
  Receive("ab");
  EXPECT_EQ(Send(), "");
  EXPECT_EQ(Ask("cd").request.body, "abcd");
}

TEST_F(Http1ServerTest, DoesNotSendContinueIfTheBodyIsReceived) {
  Ask("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab");
  EXPECT_TRUE(Send().starts_with("HTTP/1.1 500 ")) << "only the response was dropped";
}

TEST_F(Http1ServerTest, HeadHasTheLengthButNotTheBody) {
  auto [request, responder] = Ask("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
  responder->Send({.body = "12345"});
  EXPECT_EQ(Send(),
            "HTTP/1.1 200 OK\r\ndate: Mon, 16 Nov 2026 00:00:00 GMT\r\ncontent-length: "
            "5\r\n\r\n");
  EXPECT_EQ(Ask(kGet).request.target, "/a?b=c") << "the next request is parsed";
}

TEST_F(Http1ServerTest, TheHeadOfAStreamEndsItForHead) {
  auto [request, responder] = Ask("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
  bool closed = false;
  responder->Observe(nullptr, [&] { closed = true; });
  responder->Start({});
  EXPECT_TRUE(Send().ends_with("\r\n\r\n"));
  EXPECT_TRUE(closed) << "the handler does not want the rest";
  Ask(kGet);
}

TEST_F(Http1ServerTest, NoContentHasNeitherLengthNorBody) {
  auto [request, responder] = Ask(kGet);
  responder->Send({.status = 204, .body = "x"});
  EXPECT_EQ(Send(), "HTTP/1.1 204 No Content\r\ndate: Mon, 16 Nov 2026 00:00:00 GMT\r\n\r\n");
}

TEST_F(Http1ServerTest, StreamsInChunksAndFlushesTheHeadAtOnce) {
  auto [request, responder] = Ask(kGet);
  responder->Start({.headers = {{"content-length", "7"}}});
  EXPECT_EQ(Send(),
            "HTTP/1.1 200 OK\r\ndate: Mon, 16 Nov 2026 00:00:00 GMT\r\n"
            "transfer-encoding: chunked\r\n\r\n");
  EXPECT_EQ(responder->Write(MakeChunk("hello ")), 6U);
  EXPECT_EQ(responder->Write(MakeChunk("world, how are")), 20U);
  EXPECT_EQ(Send(), "14\r\nhello world, how are\r\n");
  EXPECT_EQ(responder->queued(), 0U);
  responder->Write(MakeChunk("you"));
  responder->End();
  EXPECT_EQ(responder->Write(MakeChunk("dropped")), 3U);
  EXPECT_EQ(Send(), "3\r\nyou\r\n0\r\n\r\n");
  EXPECT_FALSE(codec_.finished());
}

TEST_F(Http1ServerTest, KeepsUnreadBytesInTheQueue) {
  auto [request, responder] = Ask(kGet);
  int drained = 0;
  responder->Observe([&] { ++drained; }, nullptr);
  responder->Start({});
  Send();
  responder->Write(MakeChunk(std::string(1000, 'x')));
  EXPECT_LT(Send(100).size(), 130U);
  EXPECT_GE(responder->queued(), 900U);
  EXPECT_EQ(drained, 0);
  Send();
  EXPECT_EQ(responder->queued(), 0U);
  EXPECT_EQ(drained, 1);
}

constexpr std::string_view kOffer =
    "GET /a HTTP/1.1\r\nHost: herald\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
    "Sec-WebSocket-Key: k\r\n\r\n";
constexpr std::string_view kUpgraded =
    "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
    "sec-websocket-accept: x\r\n\r\n";
const ResponseHead kUpgrade{.status = 101, .headers = {{"sec-websocket-accept", "x"}}};

TEST_F(Http1ServerTest, UpgradesToAWebSocketAndSendsACloseFrame) {
  auto [request, responder] = Ask(kOffer);
  EXPECT_TRUE(request.websocket);
  EXPECT_EQ(request.headers.Get("sec-websocket-key"), "k");
  responder->Start(kUpgrade);
  EXPECT_EQ(Send(), kUpgraded);
  responder->Write(MakeChunk("\x81\x02hi"));
  EXPECT_EQ(Send(), "\x81\x02hi");
  responder->End();
  EXPECT_EQ(Send(), "\x88\x02\x03\xe8");
  EXPECT_TRUE(codec_.finished());
}

TEST_F(Http1ServerTest, AnswersPingsOfAWebSocketBetweenFrames) {
  auto [request, responder] = Ask(kOffer);
  // Sent before the response, which is not an error.
  Receive(std::string("\x89\x81\0\0\0\0p", 7));
  responder->Start(kUpgrade);
  responder->Write(MakeChunk("\x81\x02hi"));
  std::string out = Send();
  ASSERT_TRUE(out.starts_with(kUpgraded));
  // One response of two frames, whichever came first.
  out.erase(0, kUpgraded.size());
  out += Send();
  EXPECT_EQ(out, "\x81\x02hi\x8a\x01p");

  responder->Write(MakeChunk("\x81\x09long text"));
  std::string second = Send(4);
  Receive(std::string("\x89\x81\0\0\0\0q", 7));
  second += Send();
  EXPECT_EQ(second, "\x81\x09long text\x8a\x01q");
}

TEST_F(Http1ServerTest, AWebSocketIsNotifiedWhenTheClientClosesIt) {
  struct Case {
    std::string name;
    std::string sent;
    std::size_t limit;
    std::string response;
    bool fault;
  };
  const std::string good_bye("\x88\x80\0\0\0\0", 6);
  for (const Case& c : {Case{"closes", good_bye, 100, "\x88\x02\x03\xe8", false},
                        Case{"pings and closes", std::string("\x89\x81\0\0\0\0p", 7) + good_bye,
                             100, "\x8a\x01p\x88\x02\x03\xe8", false},
                        Case{"closes while it does not read", good_bye, 3, "", false},
                        Case{"breaks the protocol", "\x81\x01x", 100, "\x88\x02\x03\xea", true}}) {
    SCOPED_TRACE(c.name);
    FakeConnection connection;
    Http1Server codec(connection.context(), connection.now());
    codec.Receive(kOffer, connection.now());
    FakeConnection::Received received = connection.Take();
    int closed = 0;
    received.responder->Observe(nullptr, [&] { ++closed; });
    received.responder->Start(kUpgrade);
    connection.Send(codec);
    received.responder->Write(MakeChunk("\x81\x02hi"));
    connection.Send(codec, c.limit);
    codec.Receive(c.sent, connection.now());
    EXPECT_EQ(closed, 1);
    EXPECT_EQ(connection.Send(codec), c.response);
    EXPECT_TRUE(codec.finished());
    EXPECT_EQ(!codec.fault().empty(), c.fault);
  }
}

TEST_F(Http1ServerTest, DoesNotUpgradeWithoutARequestForIt) {
  for (const std::string_view offer :
       {kGet, std::string_view("GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n"),
        std::string_view("GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"),
        std::string_view("GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\n"
                         "\r\n")}) {
    SCOPED_TRACE(offer);
    FakeConnection connection;
    Http1Server codec(connection.context(), connection.now());
    codec.Receive(offer, connection.now());
    FakeConnection::Received received = connection.Take();
    EXPECT_FALSE(received.request.websocket);
    received.responder->Start(kUpgrade);
    EXPECT_NE(connection.Send(codec).find(" 500 "), std::string::npos);
  }
}

TEST_F(Http1ServerTest, AnAbortedStreamHasNoEnd) {
  auto [request, responder] = Ask(kGet);
  responder->Start({});
  responder->Write(MakeChunk("part"));
  Send();
  responder->Abort();
  EXPECT_EQ(Send(), "");
  EXPECT_TRUE(codec_.finished());
}

// The output ends within a chunk or between two; every byte is one that was written.
void ExpectUnfinishedChunks(std::string_view sent) {
  const std::size_t head = sent.find("\r\n\r\n");
  if (head == std::string_view::npos) return;
  EXPECT_EQ(sent.substr(head).find('\0'), std::string_view::npos);
  EXPECT_FALSE(sent.ends_with("0\r\n\r\n"));
}

TEST(Http1Server, AResponseAbortedByAnotherThreadHasNoCorruptBytes) {
  constexpr int kRounds = 200;
  constexpr int kStepsPerRound = 1'000;
  constexpr std::size_t kPieceBytes = std::size_t{1} << 22;
  const Chunk piece = MakeChunk(std::string(kPieceBytes, 'x'));
  for (int i = 0; i < kRounds; ++i) {
    FakeConnection connection;
    Http1Server codec(connection.context(), connection.now());
    codec.Receive(kGet, connection.now());
    const std::shared_ptr<Responder> responder = connection.Take().responder;
    responder->Start({.finite = true});
    responder->Write(piece);
    std::atomic<bool> sending = false;
    std::thread aborter([&] {
      while (!sending) std::this_thread::yield();
      // Later in each round, so that some aborts happen between the steps of the codec.
      for (std::atomic<int> step = 0; step < i * kStepsPerRound;) ++step;
      responder->Abort();
    });
    sending = true;
    std::string sent = connection.Send(codec, kPieceBytes);
    aborter.join();
    sent += connection.Send(codec);
    ExpectUnfinishedChunks(sent);
    EXPECT_TRUE(codec.finished());
    if (testing::Test::HasFailure()) return;
  }
}

TEST_F(Http1ServerTest, AStreamWhoseResponderIsDestroyedHasNoEnd) {
  auto received = Ask(kGet);
  received.responder->Start({});
  Send();
  received.responder.reset();
  EXPECT_EQ(Send(), "");
  EXPECT_TRUE(codec_.finished());
}

TEST_F(Http1ServerTest, AResponseThatIsNeverSentIsA500) {
  Ask(kGet);
  EXPECT_TRUE(Send().starts_with("HTTP/1.1 500 Internal Server Error\r\n"));
  EXPECT_FALSE(codec_.finished());
}

TEST_F(Http1ServerTest, NoStringInAResponseCanAddFields) {
  auto [request, responder] = Ask(kGet);
  responder->Send({.status = 99, .headers = {{"x", "a\r\nset-cookie: b"}, {"connection", "x"}}});
  const std::string sent = Send();
  EXPECT_TRUE(sent.starts_with("HTTP/1.1 500 ")) << sent;
  EXPECT_NE(sent.find("\r\nx: a  set-cookie: b\r\n"), std::string::npos) << sent;
  EXPECT_EQ(sent.find("connection"), std::string::npos) << sent;
}

TEST_F(Http1ServerTest, TakesTheHostFromAnAbsoluteTarget) {
  const Request request = Ask("GET http://one/x?y HTTP/1.1\r\nHost: two\r\n\r\n").request;
  EXPECT_EQ(request.target, "/x?y");
  EXPECT_EQ(request.authority, "one");
}

struct ConnectionCase {
  std::string_view request;
  bool keeps;
};

TEST(Http1Server, KeepsTheConnectionAsTheClientRequests) {
  const ConnectionCase cases[] = {
      {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", true},
      {"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", false},
      {"GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n", false},
      {"GET / HTTP/1.0\r\n\r\n", false},
      {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true},
  };
  for (const ConnectionCase& c : cases) {
    SCOPED_TRACE(c.request);
    FakeConnection connection;
    Http1Server codec(connection.context(), connection.now());
    codec.Receive(c.request, connection.now());
    ASSERT_EQ(connection.requests.size(), 1U);
    connection.Take().responder->Send({.body = "x"});
    const std::string sent = connection.Send(codec);
    EXPECT_EQ(codec.finished(), !c.keeps);
    EXPECT_EQ(sent.find("connection: close") == std::string::npos, c.keeps) << sent;
    EXPECT_TRUE(codec.fault().empty());
  }
}

TEST(Http1Server, AStreamInHttp10EndsWithTheConnection) {
  FakeConnection connection;
  Http1Server codec(connection.context(), connection.now());
  codec.Receive("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", connection.now());
  auto [request, responder] = connection.Take();
  responder->Start({});
  responder->Write(MakeChunk("abc"));
  responder->End();
  const std::string sent = connection.Send(codec);
  EXPECT_TRUE(sent.ends_with("connection: close\r\n\r\nabc")) << sent;
  EXPECT_TRUE(codec.finished());
}

struct RejectionCase {
  const char* why;
  std::string request;
  int status;
};

TEST(Http1Server, RejectsWithTheRightStatusAndClosesTheConnection) {
  ServerOptions options;
  options.max_header_bytes = 1000;
  options.max_header_fields = 10;
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\n";
  const std::string chunked = start + "Transfer-Encoding: chunked\r\n\r\n";
  std::string many;
  for (int i = 0; i < 10; ++i) many += "A: b\r\n";
  const RejectionCase cases[] = {
      {"no HTTP", "hello\r\n\r\n", 400},
      {"TLS", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + "\r\n\r\n", 400},
      {"no version", "GET /\r\n\r\n", 400},
      {"HTTP/2 as text", "GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505},
      {"no host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"target is not a path", "GET x HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"absolute target without host", "GET http:///x HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"tunnel", "CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n", 501},
      {"space before colon", start + "A : b\r\n\r\n", 400},
      {"control character", start + "A: \x01\r\n\r\n", 400},
      {"length and chunks", start + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"chunks and length", start + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400},
      {"two lengths", start + "Content-Length: 3\r\nContent-Length: 4\r\n\r\n", 400},
      {"negative length", start + "Content-Length: -1\r\n\r\n", 400},
      {"length too long to be a number", start + "Content-Length: 99999999999999999999\r\n\r\n",
       400},
      {"other transfer coding", start + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {"twice chunked", start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
       400},
      {"almost chunked", start + "Transfer-Encoding: xchunked\r\n\r\n", 501},
      {"bad chunk size", start + "Transfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n", 400},
      {"chunk too long", start + "Transfer-Encoding: chunked\r\n\r\n1\r\nabcd\r\n\r\n", 400},
      {"chunks in HTTP/1.0",
       "POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       400},
      {"length and chunks in HTTP/1.0",
       "POST / HTTP/1.0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"bare LF before the request line", "\n" + std::string(kGet), 400},
      {"bare CR before the request line", "\r" + std::string(kGet), 400},
      {"bare LF after the request line", "GET / HTTP/1.1\nHost: h\r\n\r\n", 505},
      {"bare LF after a field", "GET / HTTP/1.1\r\nHost: h\nA: b\r\n\r\n", 400},
      {"bare CR after a field", "GET / HTTP/1.1\r\nHost: h\rA: b\r\n\r\n", 400},
      {"bare LF at the end of the head", "GET / HTTP/1.1\r\nHost: h\r\n\n" + std::string(kGet),
       400},
      {"space before the first field", "GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400},
      {"folded field", start + "A: b\r\n c\r\n\r\n", 400},
      {"folded field, first line empty", start + "A:\r\n\tb\r\n\r\n", 400},
      {"folded field, second line empty", start + "A: b\r\n \r\n\r\n", 400},
      {"folded field, all lines empty", start + "A: \r\n \r\n\r\n", 400},
      {"folded coding", start + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400},
      {"bare LF after a chunk size", chunked + "1\na\r\n0\r\n\r\n", 400},
      {"bare CR after a chunk size", chunked + "1\ra\r\n0\r\n\r\n", 400},
      {"bare LF after a chunk", chunked + "1\r\na\n0\r\n\r\n", 400},
      {"bare LF after the last chunk", chunked + "0\n\r\n\r\n", 400},
      {"space before a chunk size", chunked + " 1\r\na\r\n0\r\n\r\n", 400},
      {"space after a chunk size", chunked + "1 \r\na\r\n0\r\n\r\n", 400},
      {"sign of a chunk size", chunked + "+1\r\na\r\n0\r\n\r\n", 400},
      {"prefix of a chunk size", chunked + "0x1\r\na\r\n0\r\n\r\n", 400},
      {"bare LF in a chunk extension", chunked + "1;a\nb\r\na\r\n0\r\n\r\n", 400},
      {"bare LF in a quoted chunk extension", chunked + "1;a=\"\n\"\r\na\r\n0\r\n\r\n", 400},
      {"escaped LF in a quoted chunk extension", chunked + "1;a=\"\\\n\"\r\na\r\n0\r\n\r\n", 400},
      {"CRLF in a quoted chunk extension", chunked + "1;a=\"\r\n\"\r\na\r\n0\r\n\r\n", 400},
      {"bare CR in a quoted chunk extension", chunked + "1;a=\"\r\"\r\na\r\n0\r\n\r\n", 400},
      {"bare LF in the last chunk's extension", chunked + "0;a=\"\n\"\r\n\r\n", 400},
      {"bare LF in a trailer", chunked + "0\r\nA: b\nC: d\r\n\r\n", 400},
      {"bare CR in a trailer", chunked + "0\r\nA: b\rC: d\r\n\r\n", 400},
      {"folded trailer", chunked + "0\r\nA: b\r\n c\r\n\r\n", 400},
      {"length in a trailer", chunked + "0\r\nContent-Length: 1\r\n\r\n", 400},
      {"unknown expectation", start + "Expect: wonders\r\n\r\n", 417},
      {"body over the limit", start + "Content-Length: 101\r\n\r\n", 413},
      {"chunks over the limit",
       start + "Transfer-Encoding: chunked\r\n\r\n65\r\n" + std::string(101, 'x'), 413},
      {"head over the limit", start + "A: " + std::string(2000, 'x') + "\r\n\r\n", 431},
      {"head without end", start + "A: " + std::string(2000, 'x'), 431},
      {"many small fields", start + many + "\r\n", 431},
      {"chunk extension without end",
       start + "Transfer-Encoding: chunked\r\n\r\n1;" + std::string(2000, 'x'), 431},
      {"target over the limit", "GET /" + std::string(2000, 'x'), 431},
  };
  for (const RejectionCase& c : cases) {
    SCOPED_TRACE(c.why);
    FakeConnection connection(options, 100);
    Http1Server codec(connection.context(), connection.now());
    codec.Receive(c.request, connection.now());
    EXPECT_TRUE(connection.requests.empty());
    EXPECT_FALSE(codec.finished()) << "the response is not sent yet";
    const std::string sent = connection.Send(codec);
    EXPECT_TRUE(sent.starts_with("HTTP/1.1 " + std::to_string(c.status) + " ")) << sent;
    EXPECT_NE(sent.find("\r\nconnection: close\r\n"), std::string::npos) << sent;
    EXPECT_TRUE(codec.finished());
    EXPECT_EQ(codec.fault().empty(), c.status == 413) << "that one was the handler's decision";
    // The following bytes are not parsed as a request.
    codec.Receive(kGet, connection.now());
    EXPECT_TRUE(connection.requests.empty());
    EXPECT_EQ(connection.Send(codec), "");
  }
}

TEST(Http1Server, AcceptsRequestsJustWithinTheLimits) {
  ServerOptions options;
  options.max_header_fields = 3;
  FakeConnection connection(options, 4);
  Http1Server codec(connection.context(), connection.now());
  codec.Receive("POST / HTTP/1.1\r\nHost: h\r\nA: b\r\nContent-Length: 4\r\n\r\nabcd",
                connection.now());
  EXPECT_EQ(connection.requests.size(), 1U);
}

constexpr std::string_view kPost = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n";

// A handler that keeps the requests and does not read bodies.
struct HeadsOnly {
  explicit HeadsOnly(ServerOptions options = {}) : connection(std::move(options)) {
    connection.handler = [this](Request request, const Peer&,
                                std::shared_ptr<Responder> responder) {
      connection.requests.push_back({std::move(request), std::move(responder)});
    };
  }
  void Receive(std::string_view bytes) { codec.Receive(bytes, connection.now()); }
  void ReadBody(Responder& responder, std::size_t max_bytes = 100,
                std::function<bool(std::size_t)> reserve = {}) {
    responder.ReadBody({.max_bytes = max_bytes,
                        .reserve = std::move(reserve),
                        .done = [this](Result<std::string> body) {
                          bodies.push_back(body ? *body : body.error().message());
                        }});
  }

  std::vector<std::string> bodies;  // before the codec, which calls back when it is destroyed
  FakeConnection connection;
  Http1Server codec{connection.context(), connection.now()};
};

TEST(Http1Server, DispatchesTheHeadBeforeTheBodyIsReceived) {
  HeadsOnly server;
  server.Receive(kPost);
  ASSERT_EQ(server.connection.requests.size(), 1U);
  const auto [request, responder] = server.connection.Take();
  EXPECT_EQ(request.body, "");
  server.ReadBody(*responder);
  server.connection.Send(server.codec);
  server.Receive("abc");
  EXPECT_TRUE(server.bodies.empty());
  server.Receive("de");
  EXPECT_EQ(server.bodies, std::vector<std::string>{"abcde"});
}

TEST(Http1Server, DoesNotReadABodyThatTheHandlerDoesNotAskFor) {
  HeadsOnly server;
  server.Receive("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n");
  int received = 0;
  for (; server.codec.wants_input() && received < 100; ++received)
    server.Receive(std::string(10'000, 'x'));
  EXPECT_LT(received, 10) << "input is not read any more";
  EXPECT_TRUE(server.bodies.empty());
}

TEST(Http1Server, KeepsTheConnectionAfterAShortUnwantedBody) {
  HeadsOnly server;
  server.Receive(kPost);
  server.connection.Take().responder->Send({.status = 401});
  const std::string sent = server.connection.Send(server.codec);
  EXPECT_TRUE(sent.starts_with("HTTP/1.1 401 ")) << sent;
  EXPECT_EQ(sent.find("connection: close"), std::string::npos) << sent;
  server.Receive("ab");
  server.Receive("cdeGET /next HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_EQ(server.connection.requests.size(), 1U);
  EXPECT_EQ(server.connection.Take().request.target, "/next");
}

TEST(Http1Server, ClosesTheConnectionAfterALongUnwantedBody) {
  for (const std::string_view framing : {"Content-Length: 1000000", "Transfer-Encoding: chunked",
                                         "Content-Length: 5\r\nExpect: 100-continue"}) {
    HeadsOnly server;
    server.Receive(fmt::format("POST / HTTP/1.1\r\nHost: h\r\n{}\r\n\r\n", framing));
    server.connection.Take().responder->Send({.status = 401});
    const std::string sent = server.connection.Send(server.codec);
    EXPECT_NE(sent.find("connection: close"), std::string::npos) << sent;
    EXPECT_EQ(sent.find("100 Continue"), std::string::npos) << sent;
    EXPECT_TRUE(server.codec.finished());
  }
}

TEST(Http1Server, SendsContinueWhenTheHandlerAsksForTheBody) {
  HeadsOnly server;
  server.Receive("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(server.connection.Send(server.codec), "");
  const auto [request, responder] = server.connection.Take();
  server.ReadBody(*responder);
  EXPECT_EQ(server.connection.Send(server.codec), "HTTP/1.1 100 Continue\r\n\r\n");
}

TEST(Http1Server, ReservesMemoryBeforeItReadsABody) {
  HeadsOnly server;
  server.Receive(kPost);
  const auto [request, responder] = server.connection.Take();
  std::size_t asked = 0;
  server.ReadBody(*responder, 100, [&asked](std::size_t bytes) {
    asked = bytes;
    return false;
  });
  server.connection.Send(server.codec);
  EXPECT_EQ(asked, 5U);
  ASSERT_EQ(server.bodies.size(), 1U) << "the handler was notified that there is no room";
  responder->Send({.status = 429});
  const std::string sent = server.connection.Send(server.codec);
  EXPECT_TRUE(sent.starts_with("HTTP/1.1 429 ")) << sent;
  EXPECT_NE(sent.find("connection: close"), std::string::npos) << sent;
}

TEST(Http1Server, ReservesMemoryInStepsIfNoLengthIsAnnounced) {
  HeadsOnly server;
  server.Receive("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  const auto [request, responder] = server.connection.Take();
  std::vector<std::size_t> asked;
  server.ReadBody(*responder, 1'000'000, [&asked](std::size_t bytes) {
    asked.push_back(bytes);
    return true;
  });
  server.connection.Send(server.codec);
  for (int i = 0; i < 200; ++i) server.Receive("400\r\n" + std::string(1024, 'x') + "\r\n");
  server.Receive("0\r\n\r\n");
  ASSERT_EQ(server.bodies.size(), 1U);
  EXPECT_EQ(server.bodies[0].size(), 200U * 1024);
  EXPECT_EQ(asked, (std::vector<std::size_t>{0, 65'536, 131'072, 262'144}));
}

TEST(Http1Server, ReportsABodyThatNeverArrives) {
  {
    HeadsOnly server;
    server.Receive(kPost);
    const auto [request, responder] = server.connection.Take();
    server.ReadBody(*responder);
    server.connection.Send(server.codec);
    server.codec.ReceiveEof(server.connection.now());
    EXPECT_EQ(server.bodies.size(), 1U) << "the client has disconnected";
  }
  HeadsOnly server;
  server.Receive(kPost);
  const auto [request, responder] = server.connection.Take();
  responder->Send({});
  server.connection.Send(server.codec);
  server.ReadBody(*responder);
  EXPECT_EQ(server.bodies.size(), 1U) << "the response is complete";
}

TEST_F(Http1ServerTest, AHeadThatTakesTooLongIsA408) {
  Receive("GET / HT");
  for (int i = 0; i < 9; ++i) {
    Wait(milliseconds(1000));
    Receive("x");  // one byte at a time does not help
    EXPECT_FALSE(codec_.finished());
  }
  Wait(milliseconds(1000));
  EXPECT_TRUE(Send().starts_with("HTTP/1.1 408 "));
  EXPECT_TRUE(codec_.finished());
}

TEST_F(Http1ServerTest, ABodyThatTakesTooLongIsA408) {
  Receive("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
  Wait(milliseconds(29'999));
  Receive("x");
  EXPECT_EQ(Send(), "");
  Wait(milliseconds(1));
  EXPECT_TRUE(Send().starts_with("HTTP/1.1 408 "));
}

TEST_F(Http1ServerTest, AConnectionWithoutARequestIsClosedAfterTheHeaderTimeout) {
  Wait(milliseconds(9'999));
  EXPECT_FALSE(codec_.finished());
  Wait(milliseconds(1));
  EXPECT_TRUE(codec_.finished());
  EXPECT_EQ(Send(), "");
  EXPECT_FALSE(codec_.fault().empty());
}

TEST_F(Http1ServerTest, AnIdleConnectionIsClosedAfterTheTimeoutWithoutAFault) {
  Ask(kGet).responder->Send({});
  Send();
  Wait(milliseconds(119'999));
  EXPECT_FALSE(codec_.finished());
  Wait(milliseconds(1));
  EXPECT_TRUE(codec_.finished());
  EXPECT_TRUE(codec_.fault().empty());
}

TEST_F(Http1ServerTest, AResponseMayTakeAnyTime) {
  auto [request, responder] = Ask(kGet);
  Wait(std::chrono::hours(1));
  responder->Send({.body = "late"});
  EXPECT_TRUE(Send().ends_with("late"));
}

TEST_F(Http1ServerTest, DrainClosesAnIdleConnectionAtOnce) {
  codec_.Drain(connection_.now());
  EXPECT_TRUE(codec_.finished());
}

TEST_F(Http1ServerTest, DrainCompletesARequestAndNotifiesStreams) {
  auto [request, responder] = Ask(kGet);
  int closed = 0;
  responder->Observe(nullptr, [&] { ++closed; });
  codec_.Drain(connection_.now());
  EXPECT_EQ(closed, 0) << "it is not a stream yet";
  responder->Start({});
  EXPECT_EQ(closed, 1);
  responder->Write(MakeChunk("bye"));
  responder->End();
  const std::string sent = Send();
  EXPECT_NE(sent.find("connection: close"), std::string::npos);
  EXPECT_TRUE(sent.ends_with("bye\r\n0\r\n\r\n"));
  EXPECT_TRUE(codec_.finished());
  EXPECT_EQ(closed, 1);
}

TEST_F(Http1ServerTest, AStreamIsNotifiedWhenTheClientDisconnects) {
  auto [request, responder] = Ask(kGet);
  int closed = 0;
  responder->Observe(nullptr, [&] { ++closed; });
  responder->Start({});
  Send();
  codec_.ReceiveEof(connection_.now());
  EXPECT_EQ(closed, 1);
  EXPECT_TRUE(codec_.finished());
  EXPECT_EQ(responder->Write(MakeChunk("x")), 0U);
}

TEST_F(Http1ServerTest, AClientThatClosesItsHalfGetsItsResponses) {
  Receive(std::string(kGet) + std::string(kGet));
  codec_.ReceiveEof(connection_.now());
  for (const char* body : {"one", "two"}) {
    ASSERT_EQ(connection_.requests.size(), 1U);
    EXPECT_FALSE(codec_.finished());
    connection_.Take().responder->Send({.body = body});
    EXPECT_TRUE(Send().ends_with(body));
  }
  EXPECT_TRUE(codec_.finished());
}

TEST_F(Http1ServerTest, AClientThatClosesItsHalfGetsAFiniteResponseButNoStream) {
  auto [request, responder] = Ask(kGet);
  responder->Start({.finite = true});
  responder->Write(MakeChunk("one"));
  EXPECT_TRUE(Send().ends_with("\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n"));
  codec_.ReceiveEof(connection_.now());
  EXPECT_FALSE(codec_.finished());
  responder->Write(MakeChunk("two"));
  responder->End();
  EXPECT_EQ(Send(), "3\r\ntwo\r\n0\r\n\r\n");
  EXPECT_TRUE(codec_.finished());
}

TEST_F(Http1ServerTest, AnIncompleteRequestIsNotDispatched) {
  Receive("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabc");
  codec_.ReceiveEof(connection_.now());
  EXPECT_TRUE(connection_.requests.empty());
  EXPECT_TRUE(codec_.finished());
}

}  // namespace
}  // namespace herald::http
