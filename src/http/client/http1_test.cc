#include "http/client/http1.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace herald::http {
namespace {

using Outcome = ExchangeEnd::Outcome;

// A codec, and all that it has reported, as strings: "head 200", "data abc", "end whole".
class Harness {
 public:
  explicit Harness(std::size_t max_header_bytes = 1024) : codec(events_, max_header_bytes) {}

  std::string Sent() {
    std::string out;
    codec.Send(&out, 1 << 20);
    return out;
  }
  // Starts a GET and takes the bytes that it sends.
  void Get() {
    codec.Start(++exchange_, get_);
    Sent();
  }
  // All events since the last call, in one line.
  std::string Log() {
    std::string out;
    for (const std::string& entry : log_) out += (out.empty() ? "" : "; ") + entry;
    log_.clear();
    return out;
  }
  Headers headers{};
  std::string cause{};

 private:
  Request get_{.target = "/x", .authority = "host"};
  std::uint64_t exchange_ = 0;
  std::vector<std::string> log_{};
  ClientCodecEvents events_{
      .head =
          [this](std::uint64_t, ResponseHead head) {
            headers = head.headers;
            log_.push_back("head " + std::to_string(head.status));
          },
      .data =
          [this](std::uint64_t, std::string_view data) {
            if (!log_.empty() && log_.back().starts_with("data "))
              log_.back().append(data);
            else
              log_.push_back("data " + std::string(data));
          },
      .end =
          [this](std::uint64_t, const ExchangeEnd& end) {
            cause = end.cause;
            log_.emplace_back(end.outcome == Outcome::kWhole          ? "whole"
                              : end.outcome == Outcome::kNotProcessed ? "not processed"
                                                                      : "broken");
          },
  };

 public:
  Http1Client codec;
};

TEST(Http1Client, WritesARequest) {
  Harness h;
  const Request request{.method = "POST",
                        .target = "/api/v1/events?x=1",
                        .authority = "host:6443",
                        .headers = {{"content-type", "application/json"}},
                        .body = "{}"};
  h.codec.Start(1, request);
  EXPECT_EQ(h.Sent(),
            "POST /api/v1/events?x=1 HTTP/1.1\r\nhost: host:6443\r\n"
            "content-type: application/json\r\ncontent-length: 2\r\n\r\n{}");
  EXPECT_EQ(h.Sent(), "");
}

TEST(Http1Client, SendsContentLengthZeroForAPostWithoutABody) {
  Harness h;
  const Request request{.method = "POST", .target = "/", .authority = "h"};
  h.codec.Start(1, request);
  EXPECT_EQ(h.Sent(), "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n");
}

TEST(Http1Client, SendsALargeBodyInPieces) {
  Harness h;
  Request request{.method = "PUT", .target = "/", .authority = "h"};
  request.body.assign(100'000, 'x');
  h.codec.Start(1, request);
  std::string all;
  for (;;) {
    std::string piece;
    h.codec.Send(&piece, 4096);
    if (piece.empty()) break;
    EXPECT_LE(piece.size(), 4096U);
    all += piece;
  }
  EXPECT_EQ(all.size(), all.find("\r\n\r\n") + 4 + request.body.size());
}

// Each response arrives in one piece, and then again byte by byte: the results must be equal.
TEST(Http1Client, ReadsResponses) {
  struct Case {
    const char* name;
    std::string bytes;
    const char* log;
    bool reusable;
  };
  const Case cases[] = {
      {"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "head 200; data hello; whole",
       true},
      {"empty", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "head 404; whole", true},
      {"no reason", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "head 200; whole", true},
      {"204", "HTTP/1.1 204 No Content\r\n\r\n", "head 204; whole", true},
      {"304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "head 304; whole", true},
      {"chunked",
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n"
       "0\r\nTrailer: t\r\n\r\n",
       "head 200; data abc0123456789; whole", true},
      {"chunked and empty", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       "head 200; whole", true},
      {"close", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx",
       "head 200; data x; whole", false},
      {"1.0", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", "head 200; data x; whole", false},
      {"1.0 alive", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\nx",
       "head 200; data x; whole", true},
      {"interim",
       "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
       "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
       "head 201; whole", true},
      {"too much", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n",
       "head 200; data x; whole", false},
  };
  for (const Case& c : cases) {
    for (const bool bytewise : {false, true}) {
      SCOPED_TRACE(std::string(c.name) + (bytewise ? ", byte by byte" : ""));
      Harness h;
      h.Get();
      if (bytewise)
        for (const char byte : c.bytes) h.codec.Receive({&byte, 1});
      else
        h.codec.Receive(c.bytes);
      EXPECT_EQ(h.Log(), c.log);
      EXPECT_EQ(h.codec.CanStart(), c.reusable);
      EXPECT_EQ(h.codec.finished(), !c.reusable);
      EXPECT_EQ(h.codec.active(), 0U);
    }
  }
}

TEST(Http1Client, RejectsInvalidResponses) {
  struct Case {
    const char* name;
    std::string bytes;
    const char* log;
    const char* cause;  // a part of it
  };
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  const Case cases[] = {
      {"TLS alert", std::string("\x15\x03\x01\x00\x02\x02\x46", 7), "broken", "not valid HTTP/1.1"},
      {"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n", "broken", "not valid HTTP/1.1"},
      {"status of two digits", "HTTP/1.1 20 OK\r\n\r\n", "broken", "not valid HTTP/1.1"},
      {"status below 100", "HTTP/1.1 051 OK\r\n\r\n", "broken", "not valid HTTP/1.1"},
      {"status of letters", "HTTP/1.1 abc OK\r\n\r\n", "broken", "not valid HTTP/1.1"},
      {"version", "HTTP/3.0 200 OK\r\n\r\n", "broken", "not valid HTTP/1.1"},
      {"space in a name", ok + "Bad Name: x\r\n\r\n", "broken", "not valid HTTP/1.1"},
      {"control character", ok + "X: a\x01z\r\n\r\n", "broken", "not valid HTTP/1.1"},
      {"negative length", ok + "Content-Length: -1\r\n\r\n", "broken", "not valid HTTP/1.1"},
      {"two lengths", ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "broken",
       "not valid HTTP/1.1"},
      {"length and chunked", ok + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
       "broken", "not valid HTTP/1.1"},
      {"huge length", ok + "Content-Length: 99999999999999999999999\r\n\r\n", "broken",
       "not valid HTTP/1.1"},
      {"chunk size", ok + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "head 200; broken",
       "not valid HTTP/1.1"},
      {"chunk end", ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
       "head 200; data a; broken", "not valid HTTP/1.1"},
      {"large head", ok + "X: " + std::string(2000, 'x'), "broken", "larger than 1024 bytes"},
      {"many fields",
       ok +
           [] {
             std::string fields;
             for (int i = 0; i < 200; ++i) fields += "X: 1234567\r\n";
             return fields;
           }() +
           "\r\n",
       "broken", "larger than 1024 bytes"},
      {"large chunk extension",
       ok + "Transfer-Encoding: chunked\r\n\r\n1;" + std::string(2000, 'x'), "head 200; broken",
       ""},
      {"endless interim",
       [] {
         std::string all;
         for (int i = 0; i < 100; ++i) all += "HTTP/1.1 100 Continue\r\n\r\n";
         return all;
       }(),
       "broken", "interim"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Harness h;
    h.Get();
    h.codec.Receive(c.bytes);
    EXPECT_EQ(h.Log(), c.log);
    EXPECT_NE(h.cause.find(c.cause), std::string::npos) << h.cause;
    EXPECT_TRUE(h.codec.finished());
    // Bytes after the end are ignored.
    h.codec.Receive("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    h.codec.ReceiveEnd(true, "");
    EXPECT_EQ(h.Log(), "");
  }
}

TEST(Http1Client, DistinguishesCompleteFromIncompleteResponses) {
  struct Case {
    const char* name;
    std::string bytes;
    bool clean;
    const char* log;
    const char* cause;
  };
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  const Case cases[] = {
      {"nothing", "", true, "broken", "without sending a response"},
      {"half a head", "HTTP/1.1 200", true, "broken", "before the response was complete"},
      {"half a body", ok + "Content-Length: 5\r\n\r\nab", true, "head 200; data ab; broken",
       "before the response was complete"},
      {"truncated chunk", ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nab", true,
       "head 200; data ab; broken", "before the response was complete"},
      {"no last chunk", ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", true,
       "head 200; data ab; broken", "before the response was complete"},
      {"only an interim response", "HTTP/1.1 100 Continue\r\n\r\n", true, "broken",
       "before the response was complete"},
      {"until the end", ok + "\r\nabc", true, "head 200; data abc; whole", ""},
      {"until an end that proves nothing", ok + "\r\nabc", false, "head 200; data abc; broken",
       "reset"},
      {"reset", "", false, "broken", "reset"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Harness h;
    h.Get();
    h.codec.Receive(c.bytes);
    h.codec.ReceiveEnd(c.clean, "reset");
    EXPECT_EQ(h.Log(), c.log);
    EXPECT_NE(h.cause.find(c.cause), std::string::npos) << h.cause;
    EXPECT_TRUE(h.codec.finished());
  }
}

TEST(Http1Client, DeliversTheFirstByteOfAChunkAtOnce) {
  Harness h;
  h.Get();
  h.codec.Receive("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (const char* byte : {"3", "\r", "\n", "a"}) h.codec.Receive(byte);
  EXPECT_EQ(h.Log(), "head 200; data a");
  h.codec.ReceiveEnd(true, "");
  EXPECT_EQ(h.Log(), "broken");
}

TEST(Http1Client, ReportsAnUnsentRequestAsNotProcessed) {
  Harness h;
  const Request request{.method = "POST", .target = "/", .authority = "h", .body = "x"};
  h.codec.Start(1, request);
  h.codec.ReceiveEnd(true, "gone");
  EXPECT_EQ(h.Log(), "not processed");
}

TEST(Http1Client, ExpectsNoBodyForHead) {
  Harness h;
  const Request request{.method = "HEAD", .target = "/", .authority = "h"};
  h.codec.Start(1, request);
  h.Sent();
  h.codec.Receive("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
  EXPECT_EQ(h.Log(), "head 200; whole");
  EXPECT_TRUE(h.codec.CanStart());
}

TEST(Http1Client, AcceptsAResponseBeforeTheRequestIsSent) {
  Harness h;
  Request request{.method = "POST", .target = "/", .authority = "h"};
  request.body.assign(100'000, 'x');
  h.codec.Start(1, request);
  std::string out;
  h.codec.Send(&out, 1000);
  h.codec.Receive("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(h.Log(), "head 413; whole");
  EXPECT_TRUE(h.codec.finished()) << "the rest of the body would be parsed as a request";
}

TEST(Http1Client, MakesFieldNamesLowerCaseAndDropsTrailers) {
  Harness h;
  h.Get();
  h.codec.Receive(
      "HTTP/1.1 200 OK\r\nRetry-After: 5\r\nX:\r\nTransfer-Encoding: chunked\r\n\r\n"
      "0\r\nLate: 1\r\n\r\n");
  EXPECT_EQ(h.headers,
            (Headers{{"retry-after", "5"}, {"x", ""}, {"transfer-encoding", "chunked"}}));
}

TEST(Http1Client, IsFinishedAfterCancel) {
  Harness h;
  h.Get();
  h.codec.Cancel(7);  // another exchange
  EXPECT_EQ(h.codec.active(), 1U);
  h.codec.Cancel(1);
  EXPECT_TRUE(h.codec.finished());
  h.codec.Receive("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  h.codec.ReceiveEnd(true, "");
  EXPECT_EQ(h.Log(), "");
}

TEST(Http1Client, ClosesOnBytesWithoutARequest) {
  Harness h;
  h.codec.Receive("HTTP/1.1 408 Request Timeout\r\n\r\n");
  EXPECT_TRUE(h.codec.finished());
  EXPECT_EQ(h.Log(), "");
}

TEST(Http1Client, ReturnsTheTunnelBytesAfterConnect) {
  Harness h;
  const Request request{.method = "CONNECT", .target = "host:443", .authority = "host:443"};
  h.codec.Start(1, request);
  EXPECT_EQ(h.Sent(), "CONNECT host:443 HTTP/1.1\r\nhost: host:443\r\n\r\n");
  h.codec.Receive("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\ntunnel");
  EXPECT_EQ(h.Log(), "head 200; whole");
  EXPECT_EQ(h.codec.TakeTunnelBytes(), "tunnel");
}

}  // namespace
}  // namespace herald::http
