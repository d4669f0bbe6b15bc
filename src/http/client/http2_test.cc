#include "http/client/http2.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace herald::http {
namespace {

using Outcome = ExchangeEnd::Outcome;

// Frames by hand, so that nghttp2 is not its own judge.
enum Type : std::uint8_t {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPushPromise = 5,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
};
constexpr std::uint8_t kEndStream = 1;
constexpr std::uint8_t kAck = 1;
constexpr std::uint8_t kEndHeaders = 4;
constexpr std::uint32_t kNoError = 0;
constexpr std::uint32_t kProtocolError = 1;
constexpr std::uint32_t kRefusedStream = 7;
constexpr std::uint32_t kCancel = 8;
constexpr std::uint32_t kCalm = 11;

std::string Number(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string Frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                  const std::string& payload) {
  return Number(static_cast<std::uint32_t>(payload.size())).substr(1) + static_cast<char>(type) +
         static_cast<char>(flags) + Number(stream) + payload;
}

std::string Setting(std::uint16_t id, std::uint32_t value) {
  return std::string{static_cast<char>(id >> 8), static_cast<char>(id)} + Number(value);
}
constexpr std::uint16_t kMaxConcurrentStreams = 3;
constexpr std::uint16_t kInitialWindowSize = 4;

// HPACK without its table: a literal field that is not remembered.
std::string Literal(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}
const std::string kStatus200 = "\x88";
const std::string kStatus404 = "\x8d";

std::string Head(std::uint32_t stream, const std::string& fields, std::uint8_t flags = 0) {
  return Frame(kHeaders, kEndHeaders | flags, stream, fields);
}
std::string GoAway(std::uint32_t last_stream, std::uint32_t error,
                   const std::string& debug_data = "") {
  return Frame(kGoAway, 0, 0, Number(last_stream) + Number(error) + debug_data);
}

struct Sent {
  int type = 0;
  int flags = 0;
  std::uint32_t stream = 0;
  std::string payload{};
};

// A codec, and all that it has reported, as a string: "1 head 200; 1 data abc; 1 whole".
class Harness {
 public:
  explicit Harness(std::size_t max_header_bytes = 4096) : codec(events_, max_header_bytes, true) {
    preface = Take().substr(0, 24);
    codec.Receive(Frame(kSettings, 0, 0, "") + Frame(kSettings, kAck, 0, ""));
    Take();
  }

  std::string Take() {
    std::string out;
    codec.Send(&out, 1 << 20);
    return out;
  }
  // The frames that it wants to send, parsed.
  std::vector<Sent> TakeFrames() {
    const std::string bytes = Take();
    std::vector<Sent> frames;
    for (std::size_t at = 0; at + 9 <= bytes.size();) {
      const auto byte = [&](std::size_t i) {
        return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i]));
      };
      const std::size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
      frames.push_back({static_cast<int>(byte(3)), static_cast<int>(byte(4)),
                        byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8),
                        bytes.substr(at + 9, size)});
      at += 9 + size;
    }
    return frames;
  }
  std::vector<Sent> TakeFrames(int type) {
    std::vector<Sent> frames = TakeFrames();
    std::erase_if(frames, [type](const Sent& frame) { return frame.type != type; });
    return frames;
  }
  // Starts requests and sends them: streams 1, 3, 5, ... are exchanges 1, 2, 3, ...
  void Get(int count = 1) {
    for (int i = 0; i < count; ++i) codec.Start(++exchange_, get_);
    Take();
  }
  void Receive(const std::string& bytes) {
    codec.Receive(bytes);
    Take();
  }
  std::string Log() {
    std::string out;
    for (const std::string& entry : log_) out += (out.empty() ? "" : "; ") + entry;
    log_.clear();
    return out;
  }

  std::string preface{};
  Headers headers{};
  std::string cause{};
  Headers trailers{};

 private:
  static std::string Name(std::uint64_t exchange) { return std::to_string(exchange) + " "; }

  const Request get_{.target = "/x", .authority = "host"};
  std::uint64_t exchange_ = 0;
  std::vector<std::string> log_{};
  ClientCodecEvents events_{
      .head =
          [this](std::uint64_t exchange, const ResponseHead& head) {
            headers = head.headers;
            log_.push_back(Name(exchange) + "head " + std::to_string(head.status));
          },
      .data =
          [this](std::uint64_t exchange, std::string_view data) {
            const std::string start = Name(exchange) + "data ";
            if (!log_.empty() && log_.back().starts_with(start))
              log_.back().append(data);
            else
              log_.push_back(start + std::string(data));
          },
      .end =
          [this](std::uint64_t exchange, const ExchangeEnd& end) {
            cause = end.cause;
            trailers = end.trailers;
            log_.push_back(Name(exchange) + (end.outcome == Outcome::kWhole ? "whole"
                                             : end.outcome == Outcome::kNotProcessed
                                                 ? "not processed"
                                                 : "broken"));
          },
  };

 public:
  Http2Client codec;
};

TEST(Http2Client, SendsThePrefaceAndDisablesPush) {
  Harness h;
  EXPECT_EQ(h.preface, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  h.Get();
  h.Receive(Frame(kPushPromise, kEndHeaders, 1, Number(2) + kStatus200));
  EXPECT_TRUE(h.codec.finished());
  EXPECT_EQ(h.Log(), "1 broken");
}

// Each response comes whole, and then again in small pieces: both must say the same. Not
// byte by byte, because the nghttp2 of Debian 12 takes every read in which a CONTINUATION
// is not yet whole for another one, and allows eight.
TEST(Http2Client, ReadsResponses) {
  struct Case {
    const char* name;
    std::string bytes;
    const char* log;
  };
  const Case cases[] = {
      {"head only", Head(1, kStatus404, kEndStream), "1 head 404; 1 whole"},
      {"body", Head(1, kStatus200) + Frame(kData, 0, 1, "ab") + Frame(kData, kEndStream, 1, "cd"),
       "1 head 200; 1 data abcd; 1 whole"},
      {"empty last piece",
       Head(1, kStatus200) + Frame(kData, 0, 1, "ab") + Frame(kData, kEndStream, 1, ""),
       "1 head 200; 1 data ab; 1 whole"},
      {"padding",
       Head(1, kStatus200) + Frame(kData, kEndStream | 8, 1,
                                   "\x02"
                                   "abXX"),
       "1 head 200; 1 data ab; 1 whole"},
      {"continuation",
       Frame(kHeaders, 0, 1, kStatus200) + Frame(kContinuation, kEndHeaders, 1, Literal("a", "b")) +
           Frame(kData, kEndStream, 1, "x"),
       "1 head 200; 1 data x; 1 whole"},
      {"interim",
       Head(1, Literal(":status", "103")) + Head(1, kStatus200) + Frame(kData, kEndStream, 1, "x"),
       "1 head 200; 1 data x; 1 whole"},
      {"trailers",
       Head(1, kStatus200) + Frame(kData, 0, 1, "x") + Head(1, Literal("t", "u"), kEndStream),
       "1 head 200; 1 data x; 1 whole"},
      {"unknown frame", Frame(0x42, 0, 1, "?") + Head(1, kStatus200, kEndStream),
       "1 head 200; 1 whole"},
      {"right length",
       Head(1, kStatus200 + Literal("content-length", "2")) + Frame(kData, kEndStream, 1, "ab"),
       "1 head 200; 1 data ab; 1 whole"},
  };
  for (const Case& c : cases) {
    for (const std::size_t piece : {std::size_t{1000}, std::size_t{3}}) {
      SCOPED_TRACE(std::string(c.name) + ", in pieces of " + std::to_string(piece));
      Harness h;
      h.Get();
      for (std::size_t at = 0; at < c.bytes.size(); at += piece)
        h.codec.Receive(std::string_view(c.bytes).substr(at, piece));
      EXPECT_EQ(h.Log(), c.log);
      EXPECT_EQ(h.codec.active(), 0U);
      EXPECT_TRUE(h.codec.CanStart());
    }
  }
}

TEST(Http2Client, ReturnsTrailersWithTheEnd) {
  Harness h;
  h.Get();
  h.Receive(Head(1, kStatus200 + Literal("h", "1")) + Frame(kData, 0, 1, "x") +
            Head(1, Literal("t", "u") + Literal("v", ""), kEndStream));
  EXPECT_EQ(h.Log(), "1 head 200; 1 data x; 1 whole");
  EXPECT_EQ(h.headers, (Headers{{"h", "1"}}));
  EXPECT_EQ(h.trailers, (Headers{{"t", "u"}, {"v", ""}}));
}

TEST(Http2Client, RejectsProtocolErrors) {
  struct Case {
    const char* name;
    std::string bytes;
    const char* log;
    bool connection_survives;
  };
  const Case cases[] = {
      {"HTTP/1.1", "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "1 broken", false},
      {"data before a head", Frame(kData, kEndStream, 1, "x"), "1 broken", false},
      {"no status", Head(1, Literal("a", "b"), kEndStream), "1 broken", true},
      {"status of letters", Head(1, Literal(":status", "abc"), kEndStream), "1 broken", true},
      {"status below 100", Head(1, Literal(":status", "051"), kEndStream), "1 broken", true},
      {"status twice", Head(1, kStatus200 + kStatus200, kEndStream), "1 broken", true},
      {"upper case", Head(1, kStatus200 + Literal("A", "b"), kEndStream), "1 broken", true},
      {"connection field", Head(1, kStatus200 + Literal("connection", "close"), kEndStream),
       "1 broken", true},
      {"too short",
       Head(1, kStatus200 + Literal("content-length", "3")) + Frame(kData, kEndStream, 1, "ab"),
       "1 head 200; 1 data ab; 1 broken", true},
      {"too long",
       Head(1, kStatus200 + Literal("content-length", "1")) + Frame(kData, kEndStream, 1, "ab"),
       "1 head 200; 1 broken", true},
      {"interim that ends", Head(1, Literal(":status", "103"), kEndStream), "1 broken", true},
      {"stream that is not there", Head(3, kStatus200, kEndStream), "1 broken", false},
      {"even stream", Head(2, kStatus200, kEndStream), "1 broken", false},
      {"head of stream 0", Head(0, kStatus200, kEndStream), "1 broken", false},
      {"bad HPACK", Head(1, "\xff\xff\xff\xff\xff\xff", kEndStream), "1 broken", false},
      {"oversized frame", Frame(kData, 0, 1, std::string(16'385, 'x')), "1 broken", false},
      {"continuation of nothing", Frame(kContinuation, kEndHeaders, 1, ""), "1 broken", false},
      {"short settings", Frame(kSettings, 0, 0, "abc"), "1 broken", false},
      {"short ping", Frame(kPing, 0, 0, "abc"), "1 broken", false},
      {"window over its limit", Frame(kWindowUpdate, 0, 0, Number(0x7fffffff)), "1 broken", false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Harness h;
    h.Get();
    h.Receive(c.bytes);
    EXPECT_EQ(h.Log(), c.log);
    EXPECT_FALSE(h.cause.empty());
    EXPECT_EQ(h.codec.finished(), !c.connection_survives);
    EXPECT_EQ(h.codec.CanStart(), c.connection_survives);
  }
}

TEST(Http2Client, LimitsTheHeadOfAResponse) {
  std::string fields = kStatus200;
  for (int i = 0; i < 40; ++i) fields += Literal("n", std::string(100, 'v'));
  for (const std::size_t limit : {1000, 100'000}) {
    Harness h(limit);
    h.Get();
    h.Receive(Head(1, fields, kEndStream));
    if (limit == 1000) {
      EXPECT_EQ(h.Log(), "1 broken");
      EXPECT_NE(h.cause.find("larger than 1000 bytes"), std::string::npos) << h.cause;
    } else {
      EXPECT_EQ(h.Log(), "1 head 200; 1 whole");
    }
    EXPECT_TRUE(h.codec.CanStart()) << "the other streams are not affected";
  }
}

TEST(Http2Client, CountsTrailersAndInterimResponsesAgainstTheLimit) {
  Harness h(1000);
  h.Get();
  for (int i = 0; i < 100; ++i) h.Receive(Head(1, Literal(":status", "103")));
  EXPECT_EQ(h.Log(), "1 broken");
}

TEST(Http2Client, KeepsManyExchangesApart) {
  Harness h;
  h.Get(3);
  EXPECT_EQ(h.codec.active(), 3U);
  h.Receive(Head(5, kStatus200) + Head(1, kStatus404, kEndStream) + Head(3, kStatus200) +
            Frame(kData, 0, 3, "three") + Frame(kData, kEndStream, 5, "five") +
            Frame(kData, kEndStream, 3, "!"));
  EXPECT_EQ(h.Log(),
            "3 head 200; 1 head 404; 1 whole; 2 head 200; 2 data three; 3 data five; 3 whole; "
            "2 data !; 2 whole");
}

TEST(Http2Client, EndsEachExchangeWhenTheConnectionEnds) {
  Harness h;
  h.Get(2);
  h.Receive(Head(1, kStatus200) + Frame(kData, 0, 1, "ab"));
  Request late{.target = "/late", .authority = "h"};
  h.codec.Start(9, late);  // nothing of it is sent
  h.codec.ReceiveEnd(false, "reset");
  std::string log = h.Log();
  EXPECT_TRUE(log.starts_with("1 head 200; 1 data ab; "));
  EXPECT_NE(log.find("1 broken"), std::string::npos) << log;
  EXPECT_NE(log.find("2 broken"), std::string::npos) << log;
  EXPECT_NE(log.find("9 not processed"), std::string::npos) << log;
  EXPECT_EQ(h.cause, "reset");
  EXPECT_TRUE(h.codec.finished());
}

TEST(Http2Client, ReportsARefusedStreamAsNotProcessedAndOtherResetsAsBroken) {
  struct Case {
    const char* name;
    std::string before;
    std::uint32_t error;
    const char* log;
  };
  const Case cases[] = {
      {"refused", "", kRefusedStream, "1 not processed"},
      {"refused after the head", Head(1, kStatus200), kRefusedStream, "1 head 200; 1 broken"},
      {"cancelled", "", kCancel, "1 broken"},
      {"without an error", "", kNoError, "1 broken"},
      {"after half of a body", Head(1, kStatus200) + Frame(kData, 0, 1, "ab"), kProtocolError,
       "1 head 200; 1 data ab; 1 broken"},
      {"after the end", Head(1, kStatus200, kEndStream), kCancel, "1 head 200; 1 whole"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Harness h;
    h.Get();
    h.Receive(c.before + Frame(kReset, 0, 1, Number(c.error)));
    EXPECT_EQ(h.Log(), c.log);
    EXPECT_TRUE(h.codec.CanStart());
  }
}

TEST(Http2Client, ReportsStreamsAboveAGoAwayAsNotProcessed) {
  Harness h;
  h.Get(3);
  h.Receive(Head(1, kStatus200) + GoAway(3, kNoError));
  // Stream 5 was not processed, 1 and 3 continue.
  EXPECT_EQ(h.Log(), "1 head 200; 3 not processed");
  EXPECT_FALSE(h.codec.CanStart());
  EXPECT_TRUE(h.codec.draining());
  EXPECT_FALSE(h.codec.finished());
  h.Receive(Frame(kData, kEndStream, 1, "x"));
  EXPECT_EQ(h.Log(), "1 data x; 1 whole");
  // A second GOAWAY has a lower last stream.
  h.Receive(GoAway(1, kNoError));
  EXPECT_EQ(h.Log(), "2 not processed");
  EXPECT_TRUE(h.codec.finished());
}

TEST(Http2Client, ContinuesAfterTheFirstOfTwoGoAways) {
  Harness h;
  h.Get(2);
  h.Receive(GoAway(0x7fffffff, kNoError));
  EXPECT_EQ(h.Log(), "");
  EXPECT_TRUE(h.codec.draining());
  h.Receive(Head(1, kStatus200, kEndStream) + Head(3, kStatus200, kEndStream));
  EXPECT_EQ(h.Log(), "1 head 200; 1 whole; 2 head 200; 2 whole");
  EXPECT_TRUE(h.codec.finished());
}

TEST(Http2Client, ReportsTheDebugDataOfAGoAway) {
  Harness h;
  h.Get();
  h.Receive(GoAway(1, kCalm, "too many\npings"));
  h.codec.ReceiveEnd(true, "closed");
  EXPECT_EQ(h.Log(), "1 broken");
  EXPECT_NE(h.cause.find("ENHANCE_YOUR_CALM"), std::string::npos) << h.cause;
  EXPECT_NE(h.cause.find("too many?pings"), std::string::npos) << h.cause;
}

TEST(Http2Client, KeepsToTheServersLimitOfStreams) {
  Harness h;
  h.codec.Receive(Frame(kSettings, 0, 0, Setting(kMaxConcurrentStreams, 2)));
  h.Get(2);
  EXPECT_FALSE(h.codec.CanStart());
  h.Receive(Head(1, kStatus200, kEndStream));
  EXPECT_TRUE(h.codec.CanStart());
  h.Receive(Frame(kSettings, 0, 0, Setting(kMaxConcurrentStreams, 0)));
  EXPECT_FALSE(h.codec.CanStart());
  EXPECT_FALSE(h.codec.draining()) << "the server may allow more again";
  h.Receive(Frame(kSettings, 0, 0, Setting(kMaxConcurrentStreams, 100)));
  EXPECT_TRUE(h.codec.CanStart());
}

TEST(Http2Client, StartsAHundredStreamsBeforeTheServersSettings) {
  const ClientCodecEvents events{
      .head = [](auto, auto) {}, .data = [](auto, auto) {}, .end = [](auto, auto) {}};
  Http2Client codec(events, 4096, true);
  const Request request{.target = "/", .authority = "h"};
  std::uint64_t started = 0;
  while (codec.CanStart()) codec.Start(++started, request);
  EXPECT_EQ(started, 100U);
}

TEST(Http2Client, CancelResetsTheStreamAndForgetsTheExchange) {
  Harness h;
  h.Get(2);
  h.codec.Cancel(1);
  h.codec.Cancel(1);
  h.codec.Cancel(77);
  const std::vector<Sent> sent = h.TakeFrames();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].type, kReset);
  EXPECT_EQ(sent[0].stream, 1U);
  EXPECT_EQ(sent[0].payload, Number(kCancel));
  // Data that was already sent is dropped.
  h.Receive(Head(1, kStatus200) + Frame(kData, kEndStream, 1, "late") +
            Head(3, kStatus200, kEndStream));
  EXPECT_EQ(h.Log(), "2 head 200; 2 whole");
}

TEST(Http2Client, CancelBeforeAnythingIsSentSendsNothing) {
  Harness h;
  const Request request{.target = "/x", .authority = "h", .body = "x"};
  h.codec.Start(1, request);
  h.codec.Cancel(1);
  EXPECT_TRUE(h.TakeFrames(kHeaders).empty());
  EXPECT_TRUE(h.codec.CanStart());
  EXPECT_EQ(h.codec.active(), 0U);
  h.codec.Start(2, request);
  EXPECT_EQ(h.TakeFrames(kHeaders).size(), 1U);
  EXPECT_EQ(h.Log(), "");
}

TEST(Http2Client, WaitsForTheServersWindowAndContinuesWhenItOpens) {
  Harness h;
  h.codec.Receive(Frame(kSettings, 0, 0, Setting(kInitialWindowSize, 10)));
  h.Take();
  const Request request{
      .method = "POST", .target = "/", .authority = "h", .body = "0123456789abcdefghij!"};
  h.codec.Start(1, request);
  std::vector<Sent> sent = h.TakeFrames(kData);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].payload, "0123456789");
  EXPECT_TRUE(h.TakeFrames().empty());
  h.codec.Receive(Frame(kWindowUpdate, 0, 1, Number(10)));
  sent = h.TakeFrames(kData);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].payload, "abcdefghij");
  EXPECT_EQ(sent[0].flags & kEndStream, 0);
  h.codec.Receive(Frame(kWindowUpdate, 0, 1, Number(10)));
  sent = h.TakeFrames(kData);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].payload, "!");
  EXPECT_EQ(sent[0].flags & kEndStream, kEndStream);
}

TEST(Http2Client, AcceptsAResponseBeforeTheRequestIsSent) {
  Harness h;
  h.codec.Receive(Frame(kSettings, 0, 0, Setting(kInitialWindowSize, 10)));
  h.Take();
  {
    // Destroyed as soon as the exchange has ended.
    const auto request = std::make_unique<Request>();
    request->method = "POST";
    request->authority = "h";
    request->body.assign(100'000, 'x');
    h.codec.Start(1, *request);
    h.Take();
    h.codec.Receive(Head(1, Literal(":status", "413"), kEndStream));
    EXPECT_EQ(h.Log(), "1 head 413; 1 whole");
  }
  h.codec.Receive(Frame(kWindowUpdate, 0, 1, Number(1000)));
  const std::vector<Sent> sent = h.TakeFrames();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0].type, kReset);
  EXPECT_TRUE(std::none_of(sent.begin(), sent.end(), [](auto& f) { return f.type == kData; }));
}

TEST(Http2Client, OpensTheWindowAsDataIsConsumed) {
  Harness h;
  h.Get();
  h.codec.Receive(Head(1, kStatus200));
  std::size_t stream_credit = 0;
  std::size_t connection_credit = 0;
  constexpr std::size_t kPiece = 16'000;
  constexpr std::size_t kPieces = 1000;  // 16 MB: far more than either window
  for (std::size_t i = 0; i < kPieces; ++i) {
    h.codec.Receive(Frame(kData, 0, 1, std::string(kPiece, 'x')));
    for (const Sent& frame : h.TakeFrames(kWindowUpdate)) {
      std::size_t credit = 0;
      for (const char c : frame.payload) credit = credit << 8 | static_cast<unsigned char>(c);
      (frame.stream == 0 ? connection_credit : stream_credit) += credit;
    }
  }
  EXPECT_EQ(h.codec.active(), 1U) << h.cause;
  EXPECT_GT(stream_credit, kPiece * kPieces - (1 << 20));
  EXPECT_GT(connection_credit, kPiece * kPieces - (4 << 20));
}

TEST(Http2Client, AnswersPingsAndSendsPings) {
  Harness h;
  h.codec.Receive(Frame(kPing, 0, 0, "12345678"));
  std::vector<Sent> sent = h.TakeFrames(kPing);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].flags, kAck);
  EXPECT_EQ(sent[0].payload, "12345678");
  h.codec.Ping();
  sent = h.TakeFrames(kPing);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].flags, 0);
}

TEST(Http2Client, SendsGoAwayOnShutdown) {
  Harness h;
  h.codec.Shutdown();
  EXPECT_FALSE(h.codec.CanStart());
  const std::vector<Sent> sent = h.TakeFrames();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].type, kGoAway);
  EXPECT_EQ(sent[0].payload.substr(4), Number(kNoError));
  EXPECT_TRUE(h.codec.finished());
}

TEST(Http2Client, SendsTheErrorCodeToTheServer) {
  Harness h;
  h.Get();
  h.codec.Receive(Head(2, kStatus200, kEndStream));
  const std::vector<Sent> sent = h.TakeFrames(kGoAway);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].payload.substr(4, 4), Number(kProtocolError));
  EXPECT_TRUE(h.codec.finished());
}

}  // namespace
}  // namespace herald::http
