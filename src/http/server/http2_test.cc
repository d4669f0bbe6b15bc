#include "http/server/http2.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "http/testing/fake_connection.h"

namespace herald::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Chunk MakeChunk(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

// A client by nghttp2, which judges all that the server says by the rules of the protocol.
class TestClient {
 public:
  struct Reply {
    std::string status{};  // the last one
    std::vector<std::string> statuses{};
    Headers headers{};
    std::string body{};
    bool ended = false;
    bool closed = false;
    std::uint32_t code = 0;
  };

  explicit TestClient(bool manual_window = false) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnData);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, OnFrame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnClose);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, OnInvalid);
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    if (manual_window) nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_session_client_new2(&session_, callbacks, this, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0);
  }
  ~TestClient() { nghttp2_session_del(session_); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  std::int32_t Ask(std::string_view method, std::string_view path, const Headers& headers = {},
                   std::optional<std::string> body = {}, const Headers& trailers = {}) {
    std::vector<nghttp2_nv> fields = {Field(":method", method), Field(":scheme", "https"),
                                      Field(":authority", "herald:6443"), Field(":path", path)};
    for (const Headers::Field& f : headers) fields.push_back(Field(f.name, f.value));
    nghttp2_data_provider provider{};
    provider.read_callback = ReadBody;
    const std::int32_t id = nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(),
                                                   body ? &provider : nullptr, nullptr);
    if (body) bodies_[id] = {*std::move(body), trailers};
    return id;
  }

  // What the client says.
  std::string Talk() {
    std::string out;
    const std::uint8_t* data = nullptr;
    while (true) {
      const ssize_t size = nghttp2_session_mem_send(session_, &data);
      if (size <= 0) return out;
      out.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
    }
  }
  void Listen(std::string_view bytes) {
    const ssize_t used = nghttp2_session_mem_recv(
        session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    EXPECT_EQ(used, static_cast<ssize_t>(bytes.size())) << nghttp2_strerror(static_cast<int>(used));
  }

  nghttp2_session* session() { return session_; }
  Reply& reply(std::int32_t id) { return replies_[id]; }
  std::optional<std::uint32_t> goaway{};
  std::int32_t goaway_last = -1;
  int invalid = 0;

 private:
  struct Body {
    std::string text;
    Headers trailers;
    std::size_t offset = 0;
  };

  static nghttp2_nv Field(std::string_view name, std::string_view value) {
    return {const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(name.data())),
            const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(value.data())),
            name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
  }
  static TestClient& Self(void* user) { return *static_cast<TestClient*>(user); }
  static int OnHeader(nghttp2_session* /*session*/, const nghttp2_frame* frame,
                      const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                      std::size_t value_size, std::uint8_t /*flags*/, void* user) {
    Reply& reply = Self(user).replies_[frame->hd.stream_id];
    std::string n(reinterpret_cast<const char*>(name), name_size);
    std::string v(reinterpret_cast<const char*>(value), value_size);
    if (n == ":status") {
      reply.status = v;
      reply.statuses.push_back(v);
    } else {
      reply.headers.Add(std::move(n), std::move(v));
    }
    return 0;
  }
  static int OnData(nghttp2_session* /*session*/, std::uint8_t /*flags*/, std::int32_t id,
                    const std::uint8_t* data, std::size_t size, void* user) {
    Self(user).replies_[id].body.append(reinterpret_cast<const char*>(data), size);
    return 0;
  }
  static int OnFrame(nghttp2_session* /*session*/, const nghttp2_frame* frame, void* user) {
    TestClient& self = Self(user);
    if (frame->hd.type == NGHTTP2_GOAWAY) {
      self.goaway = frame->goaway.error_code;
      self.goaway_last = frame->goaway.last_stream_id;
    }
    if ((frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      self.replies_[frame->hd.stream_id].ended = true;
    }
    return 0;
  }
  static int OnClose(nghttp2_session* /*session*/, std::int32_t id, std::uint32_t code,
                     void* user) {
    Self(user).replies_[id].closed = true;
    Self(user).replies_[id].code = code;
    return 0;
  }
  static int OnInvalid(nghttp2_session* /*session*/, const nghttp2_frame* /*frame*/, int /*error*/,
                       void* user) {
    ++Self(user).invalid;
    return 0;
  }
  static ssize_t ReadBody(nghttp2_session* session, std::int32_t id, std::uint8_t* buffer,
                          std::size_t size, std::uint32_t* flags, nghttp2_data_source* /*source*/,
                          void* user) {
    Body& body = Self(user).bodies_[id];
    const std::size_t n = body.text.copy(reinterpret_cast<char*>(buffer), size, body.offset);
    body.offset += n;
    if (body.offset == body.text.size()) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
      if (!body.trailers.empty()) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        std::vector<nghttp2_nv> fields;
        for (const Headers::Field& f : body.trailers) fields.push_back(Field(f.name, f.value));
        nghttp2_submit_trailer(session, id, fields.data(), fields.size());
      }
    }
    return static_cast<ssize_t>(n);
  }

  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, Reply> replies_;
  std::map<std::int32_t, Body> bodies_;
};

// Frames as bytes, for what nghttp2 would not do.
std::string Frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                  std::string_view payload) {
  std::string frame;
  const std::size_t n = payload.size();
  frame += static_cast<char>(n >> 16);
  frame += static_cast<char>(n >> 8);
  frame += static_cast<char>(n);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift);
  frame += payload;
  return frame;
}

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
// GET / of authority "a", by HPACK's static table.
constexpr std::string_view kGetBlock("\x82\x84\x87\x41\x01\x61", 6);

std::string Greeting() { return std::string(kPreface) + Frame(NGHTTP2_SETTINGS, 0, 0, ""); }

// A server and a client that hear each other when they are told to.
struct Conversation {
  static constexpr std::size_t kMaxBodyBytes = std::size_t{4} * 1024 * 1024;

  explicit Conversation(ServerOptions options = {}, std::size_t max_body_bytes = kMaxBodyBytes,
                        bool manual_window = false)
      : connection(std::move(options), max_body_bytes),
        codec(connection.context(), connection.now()),
        client(manual_window) {}

  // Both talk until neither has anything left to say.
  void Talk() {
    for (;;) {
      const std::string asked = client.Talk();
      received += asked.size();
      if (!asked.empty()) codec.Receive(asked, connection.now());
      const std::string answered = connection.Send(codec);
      if (!answered.empty()) client.Listen(answered);
      if (asked.empty() && answered.empty() && !codec.has_more_work()) return;
    }
  }
  // For raw bytes of a client that nghttp2 would refuse to be.
  void Receive(std::string_view bytes) { codec.Receive(bytes, connection.now()); }
  void Wait(std::chrono::nanoseconds time) {
    connection.clock.Advance(time);
    codec.Tick(connection.now());
  }
  // The code of the GOAWAY among what the server has to say.
  std::optional<std::uint32_t> GoAway() {
    const std::string said = connection.Send(codec);
    for (std::size_t i = 0; i + 9 <= said.size();) {
      const auto byte = [&](std::size_t at) {
        return static_cast<std::uint32_t>(static_cast<unsigned char>(said.at(i + at)));
      };
      if (byte(3) == NGHTTP2_GOAWAY)
        return (byte(13) << 24U) | (byte(14) << 16U) | (byte(15) << 8U) | byte(16);
      i += 9 + ((byte(0) << 16U) | (byte(1) << 8U) | byte(2));
    }
    return std::nullopt;
  }
  void ExpectCut(std::uint32_t code) {
    EXPECT_EQ(GoAway(), code);
    EXPECT_TRUE(codec.finished());
    EXPECT_FALSE(codec.fault().empty());
  }

  FakeConnection connection;
  Http2Server codec;
  TestClient client;
  std::size_t received = 0;  // bytes of the client
};

TEST(Http2Server, HandsOverTheMessageWithoutWhatBelongsToTheConnection) {
  Conversation c;
  const std::int32_t id = c.client.Ask("POST", "/api/v1/events?dryRun=All",
                                       {{"content-type", "application/json"},
                                        {"te", "trailers"},
                                        {"x-two", "a"},
                                        {"x-two", "b"},
                                        {"content-length", "2"}},
                                       "{}");
  c.Talk();
  ASSERT_EQ(c.connection.requests.size(), 1U);
  auto [request, responder] = c.connection.Take();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/api/v1/events?dryRun=All");
  EXPECT_EQ(request.authority, "herald:6443");
  EXPECT_EQ(request.body, "{}");
  EXPECT_EQ(request.headers,
            (Headers{{"content-type", "application/json"}, {"x-two", "a"}, {"x-two", "b"}}));

  responder->Send({.status = 201,
                   .headers = {{"content-type", "text/plain"}, {"connection", "close"}},
                   .body = "made"});
  c.Talk();
  const TestClient::Reply& reply = c.client.reply(id);
  EXPECT_EQ(reply.status, "201");
  EXPECT_EQ(reply.headers, (Headers{{"content-type", "text/plain"},
                                    {"date", "Mon, 16 Nov 2026 00:00:00 GMT"},
                                    {"content-length", "4"}}));
  EXPECT_EQ(reply.body, "made");
  EXPECT_TRUE(reply.closed);
  EXPECT_EQ(reply.code, 0U);
  EXPECT_EQ(c.connection.counters->streams, 0U);
}

TEST(Http2Server, ReadsWhatComesByteByByte) {
  Conversation c;
  c.client.Ask("POST", "/", {}, "hello");
  for (const char byte : c.client.Talk()) c.Receive({&byte, 1});
  c.Talk();
  ASSERT_EQ(c.connection.requests.size(), 1U);
  EXPECT_EQ(c.connection.Take().request.body, "hello");
}

TEST(Http2Server, AnswersAThousandStreamsInAnyOrder) {
  Conversation c;
  c.Talk();
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 1000; ++i) ids.push_back(c.client.Ask("GET", fmt::format("/{}", i)));
  c.Talk();
  ASSERT_EQ(c.connection.requests.size(), 1000U);
  EXPECT_EQ(c.connection.counters->streams, 1000U);
  while (!c.connection.requests.empty()) {
    auto [request, responder] = std::move(c.connection.requests.back());
    c.connection.requests.pop_back();
    responder->Send({.body = request.target});
  }
  EXPECT_EQ(c.connection.wake_ups, 1) << "many responses cost one wake-up";
  c.Talk();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(c.client.reply(ids.at(static_cast<std::size_t>(i))).body, fmt::format("/{}", i));
  }
  EXPECT_EQ(c.connection.counters->streams, 0U);
}

TEST(Http2Server, RefusesStreamsOverTheBoundAndServesTheOthers) {
  ServerOptions options;
  options.max_streams = 2;
  Conversation c(options);
  c.Receive(Greeting());  // a client that has not seen our SETTINGS
  for (const std::uint32_t id : {1U, 3U, 5U})
    c.Receive(
        Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, id, kGetBlock));
  EXPECT_EQ(c.GoAway(), std::nullopt);
  EXPECT_EQ(c.connection.requests.size(), 2U);
  EXPECT_FALSE(c.codec.finished());
}

TEST(Http2Server, CarriesLargeBodiesBothWays) {
  Conversation c;
  std::string body;
  for (int i = 0; body.size() < 3'000'000; ++i) body += fmt::format("{} ", i);
  const std::int32_t id = c.client.Ask("PUT", "/", {}, body);
  c.Talk();
  ASSERT_EQ(c.connection.requests.size(), 1U);
  auto [request, responder] = c.connection.Take();
  EXPECT_EQ(request.body, body);
  responder->Send({.body = request.body});
  c.Talk();
  EXPECT_EQ(c.client.reply(id).body, body);
  EXPECT_TRUE(c.client.reply(id).ended);
}

// A conversation whose handler keeps the heads and reads no body by itself.
struct HeadsOnly : Conversation {
  HeadsOnly() {
    connection.handler = [this](Request request, const Peer&,
                                std::shared_ptr<Responder> responder) {
      connection.requests.push_back({std::move(request), std::move(responder)});
    };
  }
  void ReadBody(Responder& responder, std::size_t max_bytes,
                std::function<bool(std::size_t)> reserve = {}) {
    responder.ReadBody({.max_bytes = max_bytes,
                        .reserve = std::move(reserve),
                        .done = [this](Result<std::string> body) {
                          bodies.push_back(body ? *body : body.error().message());
                        }});
  }
  std::vector<std::string> bodies;
};

TEST(Http2Server, ReadsABodyWhenTheHandlerAsksForIt) {
  HeadsOnly c;
  const std::string body(900'000, 'x');
  const std::int32_t id = c.client.Ask("PUT", "/", {}, body);
  c.Talk();
  ASSERT_EQ(c.connection.requests.size(), 1U) << "the head is there";
  const auto [request, responder] = c.connection.Take();
  EXPECT_EQ(request.body, "");
  c.ReadBody(*responder, 1'000'000);
  c.Talk();
  EXPECT_EQ(c.bodies, std::vector<std::string>{body});
  responder->Send({});
  c.Talk();
  EXPECT_TRUE(c.client.reply(id).ended);
}

TEST(Http2Server, BodiesThatNobodyAsksForTakeNoMoreThanTheWindowOfTheConnection) {
  HeadsOnly c;
  const std::string body(900'000, 'x');
  for (int i = 0; i < 100; ++i) c.client.Ask("PUT", "/", {}, body);
  c.Talk();
  EXPECT_EQ(c.connection.requests.size(), 100U);
  EXPECT_LE(c.received, Http2Server::kConnectionWindowBytes + 100'000);
  // Those that are refused by their heads leave the room to others.
  while (c.connection.requests.size() > 1) c.connection.Take().responder->Send({.status = 401});
  c.Talk();
  const auto [request, responder] = c.connection.Take();
  c.ReadBody(*responder, 1'000'000);
  c.Talk();
  EXPECT_EQ(c.bodies, std::vector<std::string>{body});
}

TEST(Http2Server, AsksForRoomBeforeItReadsABody) {
  HeadsOnly c;
  const std::int32_t id = c.client.Ask("PUT", "/", {{"content-length", "5"}}, "abcde");
  c.Talk();
  const auto [request, responder] = c.connection.Take();
  std::size_t asked = 0;
  c.ReadBody(*responder, 100, [&asked](std::size_t bytes) {
    asked = bytes;
    return false;
  });
  c.Talk();
  EXPECT_EQ(asked, 5U);
  ASSERT_EQ(c.bodies.size(), 1U) << "the handler knows that there is no room";
  responder->Send({.status = 429});
  c.Talk();
  EXPECT_EQ(c.client.reply(id).status, "429");
}

TEST(Http2Server, ReportsABodyThatNeverComes) {
  HeadsOnly c;
  const std::int32_t id = c.client.Ask("PUT", "/", {}, std::string(900'000, 'x'));
  c.Talk();
  const auto [request, responder] = c.connection.Take();
  nghttp2_submit_rst_stream(c.client.session(), NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
  c.Talk();
  c.ReadBody(*responder, 1'000'000);
  EXPECT_EQ(c.bodies.size(), 1U);
}

struct RefusalCase {
  const char* why;
  Headers headers;
  std::string body;
  std::string status;
};

TEST(Http2Server, RefusesWithTheRightStatusAndGoesOn) {
  ServerOptions options;
  options.max_header_bytes = 1000;
  options.max_header_fields = 10;
  Headers many;
  for (int i = 0; i < 7; ++i) many.Add("a", "b");
  const RefusalCase cases[] = {
      {"announced body over the bound", {{"content-length", "101"}}, std::string(101, 'x'), "413"},
      {"body over the bound", {}, std::string(101, 'x'), "413"},
      {"head over the bound", {{"a", std::string(1000, 'x')}}, "", "431"},
      {"many small fields", many, "", "431"},
  };
  for (const RefusalCase& refusal : cases) {
    SCOPED_TRACE(refusal.why);
    Conversation c(options, 100);
    const std::int32_t id = c.client.Ask("POST", "/", refusal.headers, refusal.body);
    c.Talk();
    EXPECT_TRUE(c.connection.requests.empty());
    EXPECT_EQ(c.client.reply(id).status, refusal.status);
    EXPECT_TRUE(c.client.reply(id).ended);
    EXPECT_EQ(c.client.goaway, std::nullopt);
    c.client.Ask("GET", "/next");
    c.Talk();
    ASSERT_EQ(c.connection.requests.size(), 1U);
    EXPECT_EQ(c.connection.Take().request.target, "/next");
  }
}

TEST(Http2Server, TellsWhoSendsTooLongABodyToStop) {
  Conversation c({}, 100);
  const std::int32_t id = c.client.Ask("POST", "/", {}, std::string(1'000'000, 'x'));
  c.Talk();
  EXPECT_EQ(c.client.reply(id).status, "413");
  EXPECT_FALSE(c.client.reply(id).closed) << "it should see the response first";
  c.Wait(Http2Server::kResetDelay);
  c.Talk();
  EXPECT_TRUE(c.client.reply(id).closed) << "by RST_STREAM, for the client was not done";
  EXPECT_EQ(c.client.reply(id).code, static_cast<std::uint32_t>(NGHTTP2_NO_ERROR));
}

TEST(Http2Server, TakesWhatIsJustWithinTheBounds) {
  ServerOptions options;
  options.max_header_fields = 5;  // four of them are HTTP/2's own
  Conversation c(options, 100);
  c.client.Ask("POST", "/", {{"a", "b"}}, std::string(100, 'x'));
  c.Talk();
  EXPECT_EQ(c.connection.requests.size(), 1U);
}

TEST(Http2Server, RefusesTunnels) {
  Conversation c;
  c.Receive(Greeting());
  // :method CONNECT and :authority only.
  c.Receive(Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1,
                  std::string("\x02\x07"
                              "CONNECT\x41\x01\x61",
                              12)));
  EXPECT_TRUE(c.connection.requests.empty());
  EXPECT_NE(c.connection.Send(c.codec).size(), 0U);
  EXPECT_FALSE(c.codec.finished());
}

TEST(Http2Server, HeadHasTheLengthButNotTheBody) {
  Conversation c;
  const std::int32_t id = c.client.Ask("HEAD", "/");
  c.Talk();
  c.connection.Take().responder->Send({.body = "12345"});
  c.Talk();
  EXPECT_EQ(c.client.reply(id).headers.Get("content-length"), "5");
  EXPECT_EQ(c.client.reply(id).body, "");
  EXPECT_TRUE(c.client.reply(id).ended);
}

TEST(Http2Server, SaysContinueToWhoWaitsForIt) {
  Conversation c;
  c.Talk();
  const std::int32_t id = c.client.Ask("POST", "/", {{"expect", "100-continue"}}, "x");
  const std::string asked = c.client.Talk();
  constexpr std::size_t kBody = 9 + 1;  // a frame with one byte, which the client holds back
  c.Receive(asked.substr(0, asked.size() - kBody));
  c.client.Listen(c.connection.Send(c.codec));
  c.Receive(asked.substr(asked.size() - kBody));
  c.Talk();
  c.connection.Take().responder->Send({});
  c.Talk();
  EXPECT_EQ(c.client.reply(id).statuses, (std::vector<std::string>{"100", "200"}));
}

TEST(Http2Server, IgnoresTrailers) {
  Conversation c;
  c.client.Ask("POST", "/", {}, "body", {{"x-trailer", "1"}});
  c.Talk();
  ASSERT_EQ(c.connection.requests.size(), 1U);
  const Request request = c.connection.Take().request;
  EXPECT_EQ(request.body, "body");
  EXPECT_TRUE(request.headers.empty());
}

TEST(Http2Server, StreamsAndFlushesTheHeadAtOnce) {
  Conversation c;
  const std::int32_t id = c.client.Ask("GET", "/watch");
  c.Talk();
  auto [request, responder] = c.connection.Take();
  responder->Start({});
  c.Talk();
  EXPECT_EQ(c.client.reply(id).status, "200");
  EXPECT_FALSE(c.client.reply(id).ended);
  EXPECT_EQ(responder->Write(MakeChunk("one")), 3U);
  EXPECT_EQ(responder->Write(MakeChunk("two")), 6U);
  c.Talk();
  EXPECT_EQ(c.client.reply(id).body, "onetwo");
  EXPECT_EQ(responder->queued(), 0U);
  responder->End();
  c.Talk();
  EXPECT_TRUE(c.client.reply(id).ended);
  EXPECT_EQ(c.client.reply(id).code, 0U);
}

TEST(Http2Server, KeepsInTheQueueWhatThePeerDoesNotReadAndGivesItUpInTheEnd) {
  Conversation c({}, Conversation::kMaxBodyBytes, /*manual_window=*/true);
  const std::int32_t id = c.client.Ask("GET", "/watch");
  c.Talk();
  auto [request, responder] = c.connection.Take();
  int drained = 0;
  int closed = 0;
  responder->Observe([&] { ++drained; }, [&] { ++closed; });
  responder->Start({});
  responder->Write(MakeChunk(std::string(100'000, 'x')));
  c.Talk();
  constexpr std::size_t kClientWindow = 65'535;
  EXPECT_EQ(c.client.reply(id).body.size(), kClientWindow);
  EXPECT_EQ(responder->queued(), 100'000 - kClientWindow);
  EXPECT_EQ(drained, 0);

  // Reading a little starts the time anew.
  c.Wait(seconds(29));
  nghttp2_session_consume(c.client.session(), id, kClientWindow);
  c.Talk();
  EXPECT_EQ(responder->queued(), 0U);
  EXPECT_EQ(drained, 1);
  c.Wait(seconds(60));
  EXPECT_EQ(closed, 0) << "nothing is queued, so nobody is slow";

  responder->Write(MakeChunk(std::string(100'000, 'x')));
  c.Talk();
  c.Wait(milliseconds(29'999));
  EXPECT_EQ(closed, 0);
  c.Wait(milliseconds(1));
  c.Talk();
  EXPECT_EQ(closed, 1);
  EXPECT_EQ(c.client.reply(id).code, static_cast<std::uint32_t>(NGHTTP2_CANCEL));
  EXPECT_EQ(c.connection.group->streamed_bytes, 0U);
}

// A client that has asked for a list of 300,000 bytes, has taken the first 65,535 of it, and lets
// more through only when told.
struct SlowReader {
  explicit SlowReader(ResponseHead head = {.finite = true})
      : c({}, Conversation::kMaxBodyBytes, /*manual_window=*/true) {
    id = c.client.Ask("GET", "/list");
    c.Talk();
    responder = c.connection.Take().responder;
    responder->Start(std::move(head));
    responder->Write(MakeChunk(std::string(300'000, 'x')));
    responder->End();
    c.Talk();
  }
  // Opens the window of the stream or, with 0, of the connection.
  void Open(std::int32_t window, std::int32_t bytes) {
    nghttp2_submit_window_update(c.client.session(), NGHTTP2_FLAG_NONE, window, bytes);
    c.Talk();
  }
  // A client that is alive.
  void Ping() {
    nghttp2_submit_ping(c.client.session(), NGHTTP2_FLAG_NONE, nullptr);
    c.Talk();
  }
  bool reset() { return c.client.reply(id).closed && !c.client.reply(id).ended; }

  Conversation c;
  std::int32_t id = 0;
  std::shared_ptr<Responder> responder;
};

constexpr std::int32_t kPlenty = 1'000'000;

TEST(Http2Server, AListWhoseWindowIsOpenedByteByByteIsReset) {
  SlowReader reader;
  reader.Open(0, kPlenty);
  for (int waited = 10; waited < 30; waited += 10) {
    reader.c.Wait(seconds(10));
    reader.Open(reader.id, 1);
    reader.Ping();
    EXPECT_FALSE(reader.reset());
  }
  reader.c.Wait(seconds(10));
  reader.c.Talk();
  // The first window is that in which the list began, with its 65,535 bytes.
  EXPECT_FALSE(reader.reset());
  for (int waited = 10; waited <= 30; waited += 10) {
    reader.Open(reader.id, 1);
    EXPECT_FALSE(reader.reset());
    reader.c.Wait(seconds(10));
    reader.Ping();
  }
  EXPECT_TRUE(reader.reset());
  EXPECT_EQ(reader.c.client.reply(reader.id).code, static_cast<std::uint32_t>(NGHTTP2_CANCEL));
  EXPECT_EQ(reader.c.connection.group->whole_bytes, 0U);
  // The connection goes on.
  EXPECT_EQ(reader.c.client.goaway, std::nullopt);
}

TEST(Http2Server, AConnectionWhoseWindowIsOpenedByteByByteIsCut) {
  SlowReader reader;
  reader.Open(reader.id, kPlenty);
  for (int waited = 10; waited <= 60; waited += 10) {
    EXPECT_EQ(reader.c.client.goaway, std::nullopt) << "after " << waited - 10 << " s";
    reader.Open(0, 1);
    reader.c.Wait(seconds(10));
    reader.Ping();
  }
  EXPECT_EQ(reader.c.client.goaway, static_cast<std::uint32_t>(NGHTTP2_ENHANCE_YOUR_CALM));
}

TEST(Http2Server, AListThatIsNeverReadIsResetWhateverElseThePeerSays) {
  SlowReader reader;
  reader.Open(0, kPlenty);
  for (int waited = 10; waited <= 30; waited += 10) {
    EXPECT_FALSE(reader.reset());
    reader.c.Wait(seconds(10));
    reader.Ping();
  }
  EXPECT_TRUE(reader.reset());
}

TEST(Http2Server, AListIsServedAtTheLowestRate) {
  SlowReader reader;
  while (reader.responder->queued() > 0) {
    for (int second = 0; second < 30; ++second) {
      reader.Open(0, 1024);
      reader.Open(reader.id, 1024);
      reader.c.Wait(seconds(1));
    }
    ASSERT_FALSE(reader.reset());
    ASSERT_EQ(reader.c.client.goaway, std::nullopt);
  }
  EXPECT_TRUE(reader.c.client.reply(reader.id).ended);
}

TEST(Http2Server, AWatchMayBeReadSlowly) {
  SlowReader reader({.finite = false});
  for (int waited = 0; waited <= 600; waited += 10) {
    reader.Open(0, 1);
    reader.Open(reader.id, 1);
    reader.c.Wait(seconds(10));
    ASSERT_FALSE(reader.reset());
  }
  EXPECT_EQ(reader.c.client.goaway, std::nullopt);
}

TEST(Http2Server, AListThatTheServerIsSlowToWriteIsNotReset) {
  Conversation c;
  const std::int32_t id = c.client.Ask("GET", "/list");
  c.Talk();
  const std::shared_ptr<Responder> responder = c.connection.Take().responder;
  responder->Start({.finite = true});
  for (int waited = 0; waited < 120; waited += 20) {
    responder->Write(MakeChunk("x"));
    c.Talk();
    c.Wait(seconds(20));
  }
  responder->End();
  c.Talk();
  EXPECT_TRUE(c.client.reply(id).ended);
}

TEST(Http2Server, AStreamThatIsNotReadDoesNotHoldBackOthers) {
  Conversation c({}, Conversation::kMaxBodyBytes, /*manual_window=*/true);
  const std::int32_t slow = c.client.Ask("GET", "/slow");
  c.Talk();
  auto first = c.connection.Take();
  first.responder->Start({});
  first.responder->Write(MakeChunk(std::string(60'000, 'x')));
  c.Talk();
  // The client reads the connection, but not this stream.
  nghttp2_session_consume_connection(c.client.session(), 60'000);
  first.responder->Write(MakeChunk(std::string(60'000, 'x')));
  const std::int32_t quick = c.client.Ask("GET", "/quick");
  c.Talk();
  nghttp2_session_consume_connection(c.client.session(), 5'535);
  c.connection.Take().responder->Send({.body = "here"});
  c.Talk();
  EXPECT_EQ(c.client.reply(quick).body, "here");
  EXPECT_EQ(c.client.reply(slow).body.size(), 65'535U);
}

TEST(Http2Server, RequestsWaitWhileTooMuchIsUnread) {
  ServerOptions options;
  options.max_queued_bytes = 100'000;
  Conversation c(options, Conversation::kMaxBodyBytes, /*manual_window=*/true);
  const std::int32_t first = c.client.Ask("GET", "/list");
  c.Talk();
  c.connection.Take().responder->Send({.body = std::string(200'000, 'x')});
  c.Talk();
  c.client.Ask("GET", "/next");
  c.Talk();
  EXPECT_TRUE(c.connection.requests.empty());
  for (int i = 0; i < 4; ++i) {
    const std::size_t unread = c.client.reply(first).body.size();
    nghttp2_session_consume(c.client.session(), first, unread);
    c.client.reply(first).body.clear();
    c.Talk();
  }
  ASSERT_EQ(c.connection.requests.size(), 1U);
  EXPECT_EQ(c.connection.Take().request.target, "/next");
}

TEST(Http2Server, ARequestThatWaitedIsAnsweredWhenAnotherIsGivenUp) {
  ServerOptions options;
  options.max_queued_bytes = 10'000;
  Conversation c(options, Conversation::kMaxBodyBytes, /*manual_window=*/true);
  c.connection.handler = [](const Request& request, const Peer&,
                            const std::shared_ptr<Responder>& responder) {
    responder->Send({.body = request.target == "/long" ? std::string(200'000, 'x') : "short"});
  };
  const std::int32_t unread = c.client.Ask("GET", "/long");
  const std::int32_t waiting = c.client.Ask("GET", "/short");
  c.Talk();
  EXPECT_EQ(c.client.reply(waiting).status, "");
  nghttp2_submit_rst_stream(c.client.session(), NGHTTP2_FLAG_NONE, unread, NGHTTP2_CANCEL);
  nghttp2_session_consume_connection(c.client.session(), 65'535);
  c.Talk();
  EXPECT_EQ(c.client.reply(waiting).body, "short");
}

TEST(Http2Server, StreamsThatKeepToTheirShareAreNotCut) {
  ServerOptions options;
  options.max_queued_bytes = 100'000;
  Conversation c(options, Conversation::kMaxBodyBytes, /*manual_window=*/true);
  constexpr std::size_t kStreams = 20;
  std::vector<std::shared_ptr<Responder>> streams;
  for (std::size_t i = 0; i < kStreams; ++i) {
    c.client.Ask("GET", "/watch");
    c.Talk();
    streams.push_back(c.connection.Take().responder);
    streams.back()->Start({});
  }
  EXPECT_EQ(streams.front()->fair_share(), 100'000U / 2 / kStreams);
  // Nobody reads: at first the windows of HTTP/2 take some of it.
  for (int i = 0; i < 1000; ++i) {
    for (const auto& stream : streams) {
      if (stream->queued() < stream->fair_share()) stream->Write(MakeChunk(std::string(700, 'x')));
    }
    c.Talk();
  }
  for (const auto& stream : streams) EXPECT_GE(stream->queued(), stream->fair_share());
  EXPECT_FALSE(c.connection.group->overflow);

  // Who has gone leaves its share to the others.
  while (streams.size() > 1) streams.pop_back();
  c.Talk();
  EXPECT_EQ(streams.front()->fair_share(), 50'000U);
}

TEST(Http2Server, OnePieceOfAStreamIsTakenWhateverItsSize) {
  ServerOptions options;
  options.max_queued_bytes = 10'000;
  Conversation c(options, Conversation::kMaxBodyBytes, /*manual_window=*/true);
  c.client.Ask("GET", "/watch");
  c.Talk();
  const auto stream = c.connection.Take().responder;
  stream->Start({});
  EXPECT_EQ(stream->Write(MakeChunk(std::string(100'000, 'x'))), 100'000U);
  EXPECT_FALSE(c.connection.group->overflow);
  EXPECT_EQ(stream->Write(MakeChunk("one more")), 0U);
  EXPECT_TRUE(c.connection.group->overflow);
}

TEST(Http2Server, AnAbortedStreamEndsWithAnError) {
  Conversation c;
  const std::int32_t before = c.client.Ask("GET", "/before");
  const std::int32_t during = c.client.Ask("GET", "/during");
  const std::int32_t dropped = c.client.Ask("GET", "/dropped");
  const std::int32_t never = c.client.Ask("GET", "/never");
  c.Talk();
  c.connection.Take().responder->Abort();
  {
    auto [request, responder] = c.connection.Take();
    responder->Start({});
    responder->Write(MakeChunk("part"));
    c.Talk();
    responder->Abort();
    c.Talk();
  }
  {
    auto [request, responder] = c.connection.Take();
    responder->Start({});
    c.Talk();
  }
  c.connection.requests.clear();
  c.Talk();
  for (const std::int32_t id : {before, during, dropped}) {
    EXPECT_EQ(c.client.reply(id).code, static_cast<std::uint32_t>(NGHTTP2_INTERNAL_ERROR));
    EXPECT_FALSE(c.client.reply(id).ended);
  }
  EXPECT_EQ(c.client.reply(during).body, "part");
  EXPECT_EQ(c.client.reply(never).status, "500");
  EXPECT_EQ(c.connection.counters->streams, 0U);
}

TEST(Http2Server, AStreamIsToldThatThePeerHasGone) {
  Conversation c;
  const std::int32_t reset = c.client.Ask("GET", "/reset");
  c.client.Ask("GET", "/eof");
  c.Talk();
  std::vector<std::string> closed;
  std::vector<std::shared_ptr<Responder>> responders;
  while (!c.connection.requests.empty()) {
    auto [request, responder] = c.connection.Take();
    responder->Observe(nullptr, [&closed, t = request.target] { closed.push_back(t); });
    responder->Start({});
    responders.push_back(std::move(responder));
  }
  c.Talk();
  nghttp2_submit_rst_stream(c.client.session(), NGHTTP2_FLAG_NONE, reset, NGHTTP2_CANCEL);
  c.Talk();
  EXPECT_EQ(closed, std::vector<std::string>{"/reset"});
  c.codec.ReceiveEof(c.connection.now());
  EXPECT_EQ(closed, (std::vector<std::string>{"/reset", "/eof"}));
  EXPECT_TRUE(c.codec.finished());
  EXPECT_EQ(responders.back()->Write(MakeChunk("x")), 0U);
}

TEST(Http2Server, DrainSaysGoawayFinishesRequestsAndTellsStreams) {
  Conversation c;
  const std::int32_t whole = c.client.Ask("GET", "/whole");
  const std::int32_t stream = c.client.Ask("GET", "/stream");
  c.Talk();
  auto first = c.connection.Take();
  auto second = c.connection.Take();
  bool closed = false;
  second.responder->Observe(nullptr, [&] { closed = true; });
  second.responder->Start({});
  c.Talk();
  c.codec.Drain(c.connection.now());
  EXPECT_TRUE(closed);
  c.Talk();
  EXPECT_EQ(c.client.goaway, static_cast<std::uint32_t>(NGHTTP2_NO_ERROR));
  EXPECT_EQ(c.client.goaway_last, stream);
  EXPECT_FALSE(c.codec.finished());
  second.responder->Write(MakeChunk("bye"));
  second.responder->End();
  first.responder->Send({.body = "done"});
  c.Talk();
  EXPECT_EQ(c.client.reply(whole).body, "done");
  EXPECT_EQ(c.client.reply(stream).body, "bye");
  EXPECT_TRUE(c.codec.finished());
  EXPECT_TRUE(c.codec.fault().empty());
}

TEST(Http2Server, TakesNoRequestAfterGoaway) {
  Conversation c;
  const auto get = [&](std::uint32_t id) {
    c.Receive(
        Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, id, kGetBlock));
  };
  c.Receive(Greeting());
  get(1);
  c.codec.Drain(c.connection.now());
  EXPECT_EQ(c.GoAway(), static_cast<std::uint32_t>(NGHTTP2_NO_ERROR));
  get(3);
  ASSERT_EQ(c.connection.requests.size(), 1U);
  c.connection.Take().responder->Send({});
  c.connection.Send(c.codec);
  EXPECT_TRUE(c.codec.finished());
}

TEST(Http2Server, AnIdleConnectionIsToldToGoAfterItsTime) {
  Conversation c;
  c.client.Ask("GET", "/");
  c.Talk();
  auto received = c.connection.Take();
  c.Wait(std::chrono::hours(1));
  EXPECT_FALSE(c.codec.finished()) << "a response may take any time";
  received.responder->Send({});
  c.Talk();
  c.Wait(milliseconds(119'999));
  c.Talk();
  EXPECT_EQ(c.client.goaway, std::nullopt);
  c.Wait(milliseconds(1));
  c.Talk();
  EXPECT_EQ(c.client.goaway, static_cast<std::uint32_t>(NGHTTP2_NO_ERROR));
  EXPECT_TRUE(c.codec.finished());
  EXPECT_TRUE(c.codec.fault().empty());
}

TEST(Http2Server, ABodyThatTakesTooLongIsA408AndHurtsNobodyElse) {
  Conversation c;
  c.Receive(Greeting());
  c.Receive(Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, kGetBlock));
  c.connection.Send(c.codec);
  c.Wait(milliseconds(29'999));
  c.Receive(Frame(NGHTTP2_DATA, 0, 1, "x"));
  EXPECT_EQ(c.connection.Send(c.codec), "");
  c.Wait(milliseconds(1));
  EXPECT_NE(c.connection.Send(c.codec).find("Request Timeout"), std::string::npos);
  EXPECT_FALSE(c.codec.finished());
  c.Wait(Http2Server::kResetDelay);
  c.connection.Send(c.codec);
  EXPECT_EQ(c.connection.counters->streams, 0U);
}

TEST(Http2Server, WhoDoesNotGreetIsCut) {
  Conversation c;
  c.Receive(kPreface);
  c.Wait(seconds(10));
  c.ExpectCut(NGHTTP2_SETTINGS_TIMEOUT);
}

TEST(Http2Server, AHeadThatTakesTooLongIsCut) {
  Conversation c;
  c.Receive(Greeting());
  c.Receive(Frame(NGHTTP2_HEADERS, 0, 1, kGetBlock));
  c.Wait(milliseconds(9'999));
  c.Receive(Frame(NGHTTP2_CONTINUATION, 0, 1, ""));
  EXPECT_EQ(c.GoAway(), std::nullopt);
  c.Wait(milliseconds(1));
  c.ExpectCut(NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST(Http2Server, WhatIsNoHttp2IsCut) {
  Conversation c;
  c.Receive("PRI * HTTP/1.1\r\nHost: h\r\n\r\n");
  c.ExpectCut(NGHTTP2_PROTOCOL_ERROR);
}

TEST(Http2Server, ABreachOfTheProtocolIsCut) {
  Conversation c;
  c.Receive(Greeting());
  c.Receive(Frame(NGHTTP2_DATA, 0, 0, "data without a stream"));
  c.ExpectCut(NGHTTP2_PROTOCOL_ERROR);
}

// A field of 1,920 bytes that enters HPACK's table, then `times` references of one byte each.
std::string Bomb(std::size_t times) {
  return std::string("\x40\x01\x61\x7f\x81\x0e", 6) + std::string(1920, 'x') +
         std::string(times, '\xbe');
}

TEST(Http2Server, AHeadFarOverTheBoundIsCut) {
  ServerOptions options;
  options.max_header_bytes = 4000;
  Conversation c(options);
  c.Receive(Greeting());
  c.Receive(Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1,
                  std::string(kGetBlock) + Bomb(/*times=*/10'000)));
  EXPECT_TRUE(c.connection.requests.empty());
  c.ExpectCut(NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST(Http2Server, AHeadWhosePayloadTakesTooLongIsCut) {
  Conversation c;
  c.Receive(Greeting());
  const std::string frame = Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, kGetBlock);
  c.Receive(std::string_view(frame).substr(0, frame.size() - 1));
  c.Wait(milliseconds(9'999));
  EXPECT_EQ(c.GoAway(), std::nullopt);
  c.Wait(milliseconds(1));
  c.ExpectCut(NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST(Http2Server, TrailersFarOverTheBoundAreCut) {
  ServerOptions options;
  options.max_header_bytes = 4000;
  Conversation c(options);
  c.Receive(Greeting() + Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, kGetBlock));
  c.Receive(Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1,
                  Bomb(/*times=*/5)));
  EXPECT_EQ(c.GoAway(), std::nullopt);
  c.Receive(Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 3, kGetBlock));
  c.Receive(Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 3,
                  Bomb(/*times=*/10)));
  c.ExpectCut(NGHTTP2_ENHANCE_YOUR_CALM);
}

// GET / in which :method comes twice: from there on nghttp2 ignores the block.
const std::string kBrokenBlock = std::string(kGetBlock.substr(0, 1)) + std::string(kGetBlock);

TEST(Http2Server, ABrokenHeadFarOverTheBoundIsCut) {
  ServerOptions options;
  options.max_header_bytes = 4000;
  Conversation c(options);
  c.Receive(Greeting());
  c.Receive(Frame(NGHTTP2_HEADERS, 0, 1, kBrokenBlock));
  c.Receive(Frame(NGHTTP2_CONTINUATION, 0, 1, Bomb(/*times=*/14'000)));
  EXPECT_EQ(c.GoAway(), std::nullopt);
  c.Receive(Frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, std::string(1'000, '\xbe')));
  c.ExpectCut(NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST(Http2Server, ABrokenHeadThatTakesTooLongIsCut) {
  Conversation c;
  c.Receive(Greeting());
  c.Receive(Frame(NGHTTP2_HEADERS, 0, 1, kBrokenBlock));
  c.Wait(milliseconds(9'999));
  c.Receive(Frame(NGHTTP2_CONTINUATION, 0, 1, ""));
  EXPECT_EQ(c.GoAway(), std::nullopt);
  c.Wait(milliseconds(1));
  c.ExpectCut(NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST(Http2Server, AnIdleClientIsNotCutForAnIgnoredHead) {
  Conversation c;
  c.Receive(Greeting());
  c.Receive(Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, kBrokenBlock));
  c.connection.Send(c.codec);  // RST_STREAM, which crosses a trailer
  c.Receive(
      Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1, kGetBlock));
  c.Wait(seconds(11));
  EXPECT_EQ(c.GoAway(), std::nullopt);
}

struct ViolationCase {
  const char* name;
  std::string frames;
  std::uint32_t code;
};

// What nghttp2 would ignore, because it has forgotten the stream or does not look.
TEST(Http2Server, FramesOnStreamsThatThePeerEndedAreCut) {
  constexpr std::uint8_t kEndHeaders = NGHTTP2_FLAG_END_HEADERS;
  constexpr std::uint8_t kEndAll = NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM;
  const std::string reset = std::string("\0\0\0\x08", 4);
  const ViolationCase cases[] = {
      {"DATA after the end",
       Frame(NGHTTP2_HEADERS, kEndAll, 1, kGetBlock) + Frame(NGHTTP2_DATA, 0, 1, "x"),
       NGHTTP2_STREAM_CLOSED},
      {"HEADERS after the end",
       Frame(NGHTTP2_HEADERS, kEndAll, 1, kGetBlock) +
           Frame(NGHTTP2_HEADERS, kEndAll, 1, kGetBlock),
       NGHTTP2_STREAM_CLOSED},
      {"DATA after a body",
       Frame(NGHTTP2_HEADERS, kEndHeaders, 1, kGetBlock) +
           Frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "x") + Frame(NGHTTP2_DATA, 0, 1, "x"),
       NGHTTP2_STREAM_CLOSED},
      {"DATA after RST_STREAM",
       Frame(NGHTTP2_HEADERS, kEndHeaders, 1, kGetBlock) + Frame(NGHTTP2_RST_STREAM, 0, 1, reset) +
           Frame(NGHTTP2_DATA, 0, 1, "x"),
       NGHTTP2_STREAM_CLOSED},
      {"HEADERS after RST_STREAM",
       Frame(NGHTTP2_HEADERS, kEndHeaders, 1, kGetBlock) + Frame(NGHTTP2_RST_STREAM, 0, 1, reset) +
           Frame(NGHTTP2_HEADERS, kEndAll, 1, kGetBlock),
       NGHTTP2_STREAM_CLOSED},
      {"a skipped id",
       Frame(NGHTTP2_HEADERS, kEndAll, 5, kGetBlock) +
           Frame(NGHTTP2_HEADERS, kEndAll, 3, kGetBlock),
       NGHTTP2_PROTOCOL_ERROR},
      {"PRIORITY without a stream", Frame(NGHTTP2_PRIORITY, 0, 0, std::string("\0\0\0\x01\x10", 5)),
       NGHTTP2_PROTOCOL_ERROR},
      {"PRIORITY on itself", Frame(NGHTTP2_PRIORITY, 0, 3, std::string("\0\0\0\x03\x10", 5)),
       NGHTTP2_PROTOCOL_ERROR},
  };
  for (const ViolationCase& violation : cases) {
    SCOPED_TRACE(violation.name);
    Conversation c;
    c.Receive(Greeting());
    // Byte by byte, with each request answered at once, so that its stream is closed.
    for (const char byte : violation.frames) {
      ASSERT_TRUE(c.codec.fault().empty());
      c.Receive({&byte, 1});
      while (!c.connection.requests.empty()) c.connection.Take().responder->Send({});
      if (!c.codec.fault().empty()) break;
      c.connection.Send(c.codec);
    }
    c.ExpectCut(violation.code);
  }
}

TEST(Http2Server, HandsOverOnlySoManyRequestsAtATime) {
  Conversation c;
  c.Talk();
  for (int i = 0; i < 40; ++i) c.client.Ask("GET", "/");
  c.Receive(c.client.Talk());
  std::vector<std::size_t> handed_over;
  do {
    c.connection.Send(c.codec);
    handed_over.push_back(c.connection.requests.size());
  } while (c.codec.has_more_work());
  EXPECT_EQ(handed_over, (std::vector<std::size_t>{16, 32, 40}));
}

TEST(Http2Server, DoesNotHandOverARequestThatCameWithItsReset) {
  Conversation c;
  constexpr std::uint8_t kEndAll = NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM;
  std::string bytes = Greeting();
  for (std::uint32_t id = 1; id < 200; id += 2) {
    bytes += Frame(NGHTTP2_HEADERS, kEndAll, id, kGetBlock);
    bytes += Frame(NGHTTP2_RST_STREAM, 0, id, std::string("\0\0\0\x08", 4));
  }
  c.Receive(bytes + Frame(NGHTTP2_HEADERS, kEndAll, 201, kGetBlock));
  EXPECT_EQ(c.GoAway(), std::nullopt);
  EXPECT_EQ(c.connection.requests.size(), 1U);
  EXPECT_FALSE(c.codec.has_more_work());
}

TEST(Http2Server, RequestsThatComeWithAViolationAreNotHandedOver) {
  Conversation c;
  constexpr std::uint8_t kEndAll = NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM;
  c.Receive(Greeting() + Frame(NGHTTP2_HEADERS, kEndAll, 1, kGetBlock) +
            Frame(NGHTTP2_HEADERS, kEndAll, 3, kGetBlock) + Frame(NGHTTP2_DATA, 0, 1, "x"));
  c.ExpectCut(NGHTTP2_STREAM_CLOSED);
  EXPECT_EQ(c.connection.requests.size(), 0U);
}

TEST(Http2Server, LateFramesOnAStreamThatTheServerResetAreIgnored) {
  Conversation c;
  c.Receive(Greeting());
  c.Receive(Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, kBrokenBlock));
  c.connection.Send(c.codec);  // RST_STREAM, which the rest of the request crosses
  c.Receive(Frame(NGHTTP2_DATA, 0, 1, "x"));
  c.Receive(
      Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1, kGetBlock));
  EXPECT_EQ(c.GoAway(), std::nullopt);
  EXPECT_TRUE(c.codec.fault().empty());
}

struct FloodCase {
  const char* name;
  std::string before;                   // sent once
  std::string (*frame)(std::uint32_t);  // the n-th of the flood
  int allowed;                          // so many are taken
  std::uint32_t code;
};

TEST(Http2Server, FloodsAreCutAfterTheirBound) {
  const auto reset = [](std::uint32_t n) {
    const std::uint32_t id = 2 * n + 1;
    return Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, id,
                 kGetBlock) +
           Frame(NGHTTP2_RST_STREAM, 0, id, std::string("\0\0\0\x08", 4));
  };
  std::string too_many;
  for (std::uint32_t id = 1; id < 2 * ServerOptions().max_streams; id += 2)
    too_many += Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, kGetBlock);
  const FloodCase cases[] = {
      {"rapid reset", "", reset, Http2Server::kResets.burst, NGHTTP2_ENHANCE_YOUR_CALM},
      {"made you reset", "",
       [](std::uint32_t n) {
         const std::uint32_t id = 2 * n + 1;
         return Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, id,
                      kGetBlock) +
                Frame(NGHTTP2_WINDOW_UPDATE, 0, id, "\x7f\xff\xff\xff");
       },
       Http2Server::kControls.burst - 1, NGHTTP2_ENHANCE_YOUR_CALM},
      {"streams over the bound", "",
       [](std::uint32_t n) {
         return Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 2 * n + 1, kGetBlock);
       },
       Http2Server::kResets.burst + 1000, NGHTTP2_ENHANCE_YOUR_CALM},
      // One less: the greeting was one already.
      {"SETTINGS", "", [](std::uint32_t) { return Frame(NGHTTP2_SETTINGS, 0, 0, ""); },
       Http2Server::kControls.burst - 1, NGHTTP2_ENHANCE_YOUR_CALM},
      {"PING", "", [](std::uint32_t) { return Frame(NGHTTP2_PING, 0, 0, "12345678"); },
       Http2Server::kControls.burst - 1, NGHTTP2_ENHANCE_YOUR_CALM},
      {"PRIORITY", "",
       [](std::uint32_t) { return Frame(NGHTTP2_PRIORITY, 0, 3, std::string("\0\0\0\0\x10", 5)); },
       Http2Server::kControls.burst - 1, NGHTTP2_ENHANCE_YOUR_CALM},
      {"empty DATA", Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, kGetBlock),
       [](std::uint32_t) { return Frame(NGHTTP2_DATA, 0, 1, ""); },
       Http2Server::kControls.burst - 1, NGHTTP2_ENHANCE_YOUR_CALM},
      {"WINDOW_UPDATE", "",
       [](std::uint32_t) {
         return Frame(NGHTTP2_WINDOW_UPDATE, 0, 0, std::string("\0\0\0\x01", 4));
       },
       static_cast<int>(Http2Server::kUpdatesInAdvance), NGHTTP2_ENHANCE_YOUR_CALM},
      {"CONTINUATION", Frame(NGHTTP2_HEADERS, 0, 1, kGetBlock),
       [](std::uint32_t) { return Frame(NGHTTP2_CONTINUATION, 0, 1, ""); },
       static_cast<int>(Http2Server::kMaxContinuations), NGHTTP2_ENHANCE_YOUR_CALM},
      {"CONTINUATION of a broken head", Frame(NGHTTP2_HEADERS, 0, 1, kBrokenBlock),
       [](std::uint32_t) { return Frame(NGHTTP2_CONTINUATION, 0, 1, ""); },
       static_cast<int>(Http2Server::kMaxContinuations), NGHTTP2_ENHANCE_YOUR_CALM},
      {"CONTINUATION of a refused stream", too_many + Frame(NGHTTP2_HEADERS, 0, 2001, kGetBlock),
       [](std::uint32_t) { return Frame(NGHTTP2_CONTINUATION, 0, 2001, ""); },
       static_cast<int>(Http2Server::kMaxContinuations), NGHTTP2_ENHANCE_YOUR_CALM},
      {"CONTINUATION of a trailer",
       Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, kGetBlock) +
           Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, ""),
       [](std::uint32_t) { return Frame(NGHTTP2_CONTINUATION, 0, 1, ""); },
       static_cast<int>(Http2Server::kMaxContinuations), NGHTTP2_ENHANCE_YOUR_CALM},
      {"CONTINUATION for a stream that was reset",
       Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, kBrokenBlock) +
           Frame(NGHTTP2_HEADERS, 0, 1, kGetBlock),
       [](std::uint32_t) { return Frame(NGHTTP2_CONTINUATION, 0, 1, ""); },
       static_cast<int>(Http2Server::kMaxContinuations), NGHTTP2_ENHANCE_YOUR_CALM},
      // RST_STREAM for the first is one of them, and each counts when the next frame comes.
      {"heads for a stream that was reset",
       Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, kBrokenBlock),
       [](std::uint32_t) { return Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, kGetBlock); },
       Http2Server::kResets.burst, NGHTTP2_ENHANCE_YOUR_CALM},
  };
  for (const FloodCase& flood : cases) {
    SCOPED_TRACE(flood.name);
    Conversation c;
    c.Receive(Greeting() + flood.before);
    std::string all;
    for (int i = 0; i < flood.allowed; ++i) {
      c.Receive(flood.frame(static_cast<std::uint32_t>(i)));
      // Read, so that it is the peer's frames that count and not what waits for it.
      if (i % 100 == 99) {
        ASSERT_EQ(c.GoAway(), std::nullopt) << i;
      }
    }
    ASSERT_EQ(c.GoAway(), std::nullopt);
    EXPECT_TRUE(c.codec.fault().empty()) << c.codec.fault();
    c.Receive(flood.frame(static_cast<std::uint32_t>(flood.allowed)));
    c.ExpectCut(flood.code);
    // And all of it again in one go, with nobody reading.
    Conversation again;
    for (int i = 0; i <= flood.allowed; ++i) all += flood.frame(static_cast<std::uint32_t>(i));
    again.Receive(Greeting() + flood.before + all + all);
    again.ExpectCut(flood.code);
  }
}

TEST(Http2Server, WhoResetsAtAHumanPaceIsServed) {
  Conversation c;
  c.Receive(Greeting());
  for (std::uint32_t i = 0; i < 5'000; ++i) {
    const std::uint32_t id = 2 * i + 1;
    c.Receive(
        Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, id, kGetBlock) +
        Frame(NGHTTP2_RST_STREAM, 0, id, std::string("\0\0\0\x08", 4)));
    c.connection.requests.clear();
    c.Wait(milliseconds(25));
    c.connection.Send(c.codec);
    ASSERT_TRUE(c.codec.fault().empty()) << i;
  }
}

TEST(Http2Server, NothingIsAskedOfTheHandlerAfterTheCut) {
  Conversation c;
  std::string all = Greeting();
  for (int i = 0; i <= Http2Server::kControls.burst; ++i)
    all += Frame(NGHTTP2_PING, 0, 0, "12345678");
  all += Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1, kGetBlock);
  c.Receive(all);
  EXPECT_TRUE(c.connection.requests.empty());
}

}  // namespace
}  // namespace herald::http
