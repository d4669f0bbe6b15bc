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

Chunk MakeChunk(std::string bytes) { return std::make_shared<const std::string>(std::move(bytes)); }

// A client on nghttp2, which checks that the server keeps to the protocol.
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

  std::int32_t SendRequest(std::string_view method, std::string_view path,
                           const Headers& headers = {}, std::optional<std::string> body = {},
                           const Headers& trailers = {}) {
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

  // The bytes that the client sends.
  std::string TakeOutput() {
    std::string out;
    const std::uint8_t* data = nullptr;
    while (true) {
      const ssize_t size = nghttp2_session_mem_send(session_, &data);
      if (size <= 0) return out;
      out.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
    }
  }
  void Receive(std::string_view bytes) {
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

// Frames as bytes, for cases that nghttp2 does not produce.
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
// GET / with authority "a", encoded with HPACK's static table.
constexpr std::string_view kGetBlock("\x82\x84\x87\x41\x01\x61", 6);

std::string PrefaceAndSettings() {
  return std::string(kPreface) + Frame(NGHTTP2_SETTINGS, 0, 0, "");
}

// A server and a client that exchange bytes when the test calls RunUntilIdle().
struct ServerAndClient {
  static constexpr std::size_t kMaxBodyBytes = std::size_t{4} * 1024 * 1024;

  explicit ServerAndClient(ServerOptions options = {}, std::size_t max_body_bytes = kMaxBodyBytes,
                           bool manual_window = false)
      : connection(std::move(options), max_body_bytes),
        codec(connection.context(), connection.now()),
        client(manual_window) {}

  // Passes bytes between both until neither has any left.
  void RunUntilIdle() {
    for (;;) {
      const std::string requests = client.TakeOutput();
      received += requests.size();
      if (!requests.empty()) codec.Receive(requests, connection.now());
      const std::string responses = connection.Send(codec);
      if (!responses.empty()) client.Receive(responses);
      if (requests.empty() && responses.empty() && !codec.has_more_work()) return;
    }
  }
  // For raw bytes that a client on nghttp2 would not send.
  void Receive(std::string_view bytes) { codec.Receive(bytes, connection.now()); }
  void Wait(std::chrono::nanoseconds time) {
    connection.clock.Advance(time);
    codec.Tick(connection.now());
  }
  // The error code of the GOAWAY in the server's output.
  std::optional<std::uint32_t> GoAway() {
    const std::string output = connection.Send(codec);
    for (std::size_t i = 0; i + 9 <= output.size();) {
      const auto byte = [&](std::size_t at) {
        return static_cast<std::uint32_t>(static_cast<unsigned char>(output.at(i + at)));
      };
      if (byte(3) == NGHTTP2_GOAWAY)
        return (byte(13) << 24U) | (byte(14) << 16U) | (byte(15) << 8U) | byte(16);
      i += 9 + ((byte(0) << 16U) | (byte(1) << 8U) | byte(2));
    }
    return std::nullopt;
  }
  void ExpectTerminated(std::uint32_t code) {
    EXPECT_EQ(GoAway(), code);
    EXPECT_TRUE(codec.finished());
    EXPECT_FALSE(codec.fault().empty());
  }

  FakeConnection connection;
  Http2Server codec;
  TestClient client;
  std::size_t received = 0;  // bytes that the client has sent
};

TEST(Http2Server, DispatchesRequestsWithoutFieldsOfTheConnection) {
  ServerAndClient c;
  const std::int32_t id = c.client.SendRequest("POST", "/api/v1/events?dryRun=All",
                                               {{"content-type", "application/json"},
                                                {"te", "trailers"},
                                                {"x-two", "a"},
                                                {"x-two", "b"},
                                                {"content-length", "2"}},
                                               "{}");
  c.RunUntilIdle();
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
  c.RunUntilIdle();
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

TEST(Http2Server, ReadsRequestsByteByByte) {
  ServerAndClient c;
  c.client.SendRequest("POST", "/", {}, "hello");
  for (const char byte : c.client.TakeOutput()) c.Receive({&byte, 1});
  c.RunUntilIdle();
  ASSERT_EQ(c.connection.requests.size(), 1U);
  EXPECT_EQ(c.connection.Take().request.body, "hello");
}

TEST(Http2Server, RespondsToAThousandStreamsInAnyOrder) {
  ServerAndClient c;
  c.RunUntilIdle();
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 1000; ++i) ids.push_back(c.client.SendRequest("GET", fmt::format("/{}", i)));
  c.RunUntilIdle();
  ASSERT_EQ(c.connection.requests.size(), 1000U);
  EXPECT_EQ(c.connection.counters->streams, 1000U);
  while (!c.connection.requests.empty()) {
    auto [request, responder] = std::move(c.connection.requests.back());
    c.connection.requests.pop_back();
    responder->Send({.body = request.target});
  }
  EXPECT_EQ(c.connection.wake_ups, 1) << "many responses cost one wake-up";
  c.RunUntilIdle();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(c.client.reply(ids.at(static_cast<std::size_t>(i))).body, fmt::format("/{}", i));
  }
  EXPECT_EQ(c.connection.counters->streams, 0U);
}

TEST(Http2Server, RejectsStreamsOverTheLimitAndServesTheOthers) {
  ServerOptions options;
  options.max_streams = 2;
  ServerAndClient c(options);
  c.Receive(PrefaceAndSettings());  // a client that has not received the SETTINGS of the server
  for (const std::uint32_t id : {1U, 3U, 5U})
    c.Receive(
        Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, id, kGetBlock));
  EXPECT_EQ(c.GoAway(), std::nullopt);
  EXPECT_EQ(c.connection.requests.size(), 2U);
  EXPECT_FALSE(c.codec.finished());
}

TEST(Http2Server, CarriesLargeBodiesBothWays) {
  ServerAndClient c;
  std::string body;
  for (int i = 0; body.size() < 3'000'000; ++i) body += fmt::format("{} ", i);
  const std::int32_t id = c.client.SendRequest("PUT", "/", {}, body);
  c.RunUntilIdle();
  ASSERT_EQ(c.connection.requests.size(), 1U);
  auto [request, responder] = c.connection.Take();
  EXPECT_EQ(request.body, body);
  responder->Send({.body = request.body});
  c.RunUntilIdle();
  EXPECT_EQ(c.client.reply(id).body, body);
  EXPECT_TRUE(c.client.reply(id).ended);
}

// A conversation whose handler keeps the heads and does not read bodies.
struct HeadsOnly : ServerAndClient {
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
  const std::int32_t id = c.client.SendRequest("PUT", "/", {}, body);
  c.RunUntilIdle();
  ASSERT_EQ(c.connection.requests.size(), 1U) << "the head was dispatched";
  const auto [request, responder] = c.connection.Take();
  EXPECT_EQ(request.body, "");
  c.ReadBody(*responder, 1'000'000);
  c.RunUntilIdle();
  EXPECT_EQ(c.bodies, std::vector<std::string>{body});
  responder->Send({});
  c.RunUntilIdle();
  EXPECT_TRUE(c.client.reply(id).ended);
}

TEST(Http2Server, UnwantedBodiesUseNoMoreThanTheWindowOfTheConnection) {
  HeadsOnly c;
  const std::string body(900'000, 'x');
  for (int i = 0; i < 100; ++i) c.client.SendRequest("PUT", "/", {}, body);
  c.RunUntilIdle();
  EXPECT_EQ(c.connection.requests.size(), 100U);
  EXPECT_LE(c.received, Http2Server::kConnectionWindowBytes + 100'000);
  // Requests that are rejected by their heads free the window for others.
  while (c.connection.requests.size() > 1) c.connection.Take().responder->Send({.status = 401});
  c.RunUntilIdle();
  const auto [request, responder] = c.connection.Take();
  c.ReadBody(*responder, 1'000'000);
  c.RunUntilIdle();
  EXPECT_EQ(c.bodies, std::vector<std::string>{body});
}

TEST(Http2Server, ReservesMemoryBeforeItReadsABody) {
  HeadsOnly c;
  const std::int32_t id = c.client.SendRequest("PUT", "/", {{"content-length", "5"}}, "abcde");
  c.RunUntilIdle();
  const auto [request, responder] = c.connection.Take();
  std::size_t asked = 0;
  c.ReadBody(*responder, 100, [&asked](std::size_t bytes) {
    asked = bytes;
    return false;
  });
  c.RunUntilIdle();
  EXPECT_EQ(asked, 5U);
  ASSERT_EQ(c.bodies.size(), 1U) << "the handler was notified that there is no room";
  responder->Send({.status = 429});
  c.RunUntilIdle();
  EXPECT_EQ(c.client.reply(id).status, "429");
}

TEST(Http2Server, ReportsABodyThatNeverArrives) {
  HeadsOnly c;
  const std::int32_t id = c.client.SendRequest("PUT", "/", {}, std::string(900'000, 'x'));
  c.RunUntilIdle();
  const auto [request, responder] = c.connection.Take();
  nghttp2_submit_rst_stream(c.client.session(), NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
  c.RunUntilIdle();
  c.ReadBody(*responder, 1'000'000);
  EXPECT_EQ(c.bodies.size(), 1U);
}

struct RejectionCase {
  const char* why;
  Headers headers;
  std::string body;
  std::string status;
};

TEST(Http2Server, RejectsWithTheRightStatusAndKeepsTheConnection) {
  ServerOptions options;
  options.max_header_bytes = 1000;
  options.max_header_fields = 10;
  Headers many;
  for (int i = 0; i < 7; ++i) many.Add("a", "b");
  const RejectionCase cases[] = {
      {"announced body over the limit", {{"content-length", "101"}}, std::string(101, 'x'), "413"},
      {"body over the limit", {}, std::string(101, 'x'), "413"},
      {"head over the limit", {{"a", std::string(1000, 'x')}}, "", "431"},
      {"many small fields", many, "", "431"},
  };
  for (const RejectionCase& rejection : cases) {
    SCOPED_TRACE(rejection.why);
    ServerAndClient c(options, 100);
    const std::int32_t id = c.client.SendRequest("POST", "/", rejection.headers, rejection.body);
    c.RunUntilIdle();
    EXPECT_TRUE(c.connection.requests.empty());
    EXPECT_EQ(c.client.reply(id).status, rejection.status);
    EXPECT_TRUE(c.client.reply(id).ended);
    EXPECT_EQ(c.client.goaway, std::nullopt);
    c.client.SendRequest("GET", "/next");
    c.RunUntilIdle();
    ASSERT_EQ(c.connection.requests.size(), 1U);
    EXPECT_EQ(c.connection.Take().request.target, "/next");
  }
}

TEST(Http2Server, ResetsAStreamWhoseBodyIsTooLong) {
  ServerAndClient c({}, 100);
  const std::int32_t id = c.client.SendRequest("POST", "/", {}, std::string(1'000'000, 'x'));
  c.RunUntilIdle();
  EXPECT_EQ(c.client.reply(id).status, "413");
  EXPECT_FALSE(c.client.reply(id).closed) << "the client should get the response first";
  c.Wait(Http2Server::kResetDelay);
  c.RunUntilIdle();
  EXPECT_TRUE(c.client.reply(id).closed) << "by RST_STREAM, because the request was not complete";
  EXPECT_EQ(c.client.reply(id).code, static_cast<std::uint32_t>(NGHTTP2_NO_ERROR));
}

TEST(Http2Server, AcceptsRequestsJustWithinTheLimits) {
  ServerOptions options;
  options.max_header_fields = 5;  // four of them are HTTP/2's own
  ServerAndClient c(options, 100);
  c.client.SendRequest("POST", "/", {{"a", "b"}}, std::string(100, 'x'));
  c.RunUntilIdle();
  EXPECT_EQ(c.connection.requests.size(), 1U);
}

TEST(Http2Server, RejectsConnect) {
  ServerAndClient c;
  c.Receive(PrefaceAndSettings());
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
  ServerAndClient c;
  const std::int32_t id = c.client.SendRequest("HEAD", "/");
  c.RunUntilIdle();
  c.connection.Take().responder->Send({.body = "12345"});
  c.RunUntilIdle();
  EXPECT_EQ(c.client.reply(id).headers.Get("content-length"), "5");
  EXPECT_EQ(c.client.reply(id).body, "");
  EXPECT_TRUE(c.client.reply(id).ended);
}

TEST(Http2Server, SendsContinueIfTheClientExpectsIt) {
  ServerAndClient c;
  c.RunUntilIdle();
  const std::int32_t id = c.client.SendRequest("POST", "/", {{"expect", "100-continue"}}, "x");
  const std::string requests = c.client.TakeOutput();
  constexpr std::size_t kBody = 9 + 1;  // a frame with one byte, which the client does not send yet
  c.Receive(requests.substr(0, requests.size() - kBody));
  c.client.Receive(c.connection.Send(c.codec));
  c.Receive(requests.substr(requests.size() - kBody));
  c.RunUntilIdle();
  c.connection.Take().responder->Send({});
  c.RunUntilIdle();
  EXPECT_EQ(c.client.reply(id).statuses, (std::vector<std::string>{"100", "200"}));
}

TEST(Http2Server, IgnoresTrailers) {
  ServerAndClient c;
  c.client.SendRequest("POST", "/", {}, "body", {{"x-trailer", "1"}});
  c.RunUntilIdle();
  ASSERT_EQ(c.connection.requests.size(), 1U);
  const Request request = c.connection.Take().request;
  EXPECT_EQ(request.body, "body");
  EXPECT_TRUE(request.headers.empty());
}

TEST(Http2Server, StreamsAndFlushesTheHeadAtOnce) {
  ServerAndClient c;
  const std::int32_t id = c.client.SendRequest("GET", "/watch");
  c.RunUntilIdle();
  auto [request, responder] = c.connection.Take();
  responder->Start({});
  c.RunUntilIdle();
  EXPECT_EQ(c.client.reply(id).status, "200");
  EXPECT_FALSE(c.client.reply(id).ended);
  EXPECT_EQ(responder->Write(MakeChunk("one")), 3U);
  EXPECT_EQ(responder->Write(MakeChunk("two")), 6U);
  c.RunUntilIdle();
  EXPECT_EQ(c.client.reply(id).body, "onetwo");
  EXPECT_EQ(responder->queued(), 0U);
  responder->End();
  c.RunUntilIdle();
  EXPECT_TRUE(c.client.reply(id).ended);
  EXPECT_EQ(c.client.reply(id).code, 0U);
}

TEST(Http2Server, KeepsUnreadBytesInTheQueueAndResetsTheStreamInTheEnd) {
  ServerAndClient c({}, ServerAndClient::kMaxBodyBytes, /*manual_window=*/true);
  const std::int32_t id = c.client.SendRequest("GET", "/watch");
  c.RunUntilIdle();
  auto [request, responder] = c.connection.Take();
  int drained = 0;
  int closed = 0;
  responder->Observe([&] { ++drained; }, [&] { ++closed; });
  responder->Start({});
  responder->Write(MakeChunk(std::string(100'000, 'x')));
  c.RunUntilIdle();
  constexpr std::size_t kClientWindow = 65'535;
  EXPECT_EQ(c.client.reply(id).body.size(), kClientWindow);
  EXPECT_EQ(responder->queued(), 100'000 - kClientWindow);
  EXPECT_EQ(drained, 0);

  // Reading a little restarts the timeout.
  c.Wait(seconds(29));
  nghttp2_session_consume(c.client.session(), id, kClientWindow);
  c.RunUntilIdle();
  EXPECT_EQ(responder->queued(), 0U);
  EXPECT_EQ(drained, 1);
  c.Wait(seconds(60));
  EXPECT_EQ(closed, 0) << "nothing is queued, so the client is not slow";

  responder->Write(MakeChunk(std::string(100'000, 'x')));
  c.RunUntilIdle();
  c.Wait(milliseconds(29'999));
  EXPECT_EQ(closed, 0);
  c.Wait(milliseconds(1));
  c.RunUntilIdle();
  EXPECT_EQ(closed, 1);
  EXPECT_EQ(c.client.reply(id).code, static_cast<std::uint32_t>(NGHTTP2_CANCEL));
  EXPECT_EQ(c.connection.group->streamed_bytes, 0U);
}

// A client that has requested a list of 300,000 bytes, has received the first 65,535, and opens the
// window only when the test does.
struct SlowReader {
  explicit SlowReader(ResponseHead head = {.finite = true})
      : c({}, ServerAndClient::kMaxBodyBytes, /*manual_window=*/true) {
    id = c.client.SendRequest("GET", "/list");
    c.RunUntilIdle();
    responder = c.connection.Take().responder;
    responder->Start(std::move(head));
    responder->Write(MakeChunk(std::string(300'000, 'x')));
    responder->End();
    c.RunUntilIdle();
  }
  // Opens the window of the stream or, with 0, of the connection.
  void Open(std::int32_t window, std::int32_t bytes) {
    nghttp2_submit_window_update(c.client.session(), NGHTTP2_FLAG_NONE, window, bytes);
    c.RunUntilIdle();
  }
  // Shows that the client is alive.
  void Ping() {
    nghttp2_submit_ping(c.client.session(), NGHTTP2_FLAG_NONE, nullptr);
    c.RunUntilIdle();
  }
  bool reset() { return c.client.reply(id).closed && !c.client.reply(id).ended; }

  ServerAndClient c;
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
  reader.c.RunUntilIdle();
  // The first period is the one in which the list began, with its 65,535 bytes.
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
  // The connection stays open.
  EXPECT_EQ(reader.c.client.goaway, std::nullopt);
}

TEST(Http2Server, TerminatesAConnectionWhoseWindowIsOpenedByteByByte) {
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

TEST(Http2Server, AListThatIsNeverReadIsResetAlthoughTheClientSendsFrames) {
  SlowReader reader;
  reader.Open(0, kPlenty);
  for (int waited = 10; waited <= 30; waited += 10) {
    EXPECT_FALSE(reader.reset());
    reader.c.Wait(seconds(10));
    reader.Ping();
  }
  EXPECT_TRUE(reader.reset());
}

TEST(Http2Server, AListIsSentAtTheMinimumRate) {
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
  ServerAndClient c;
  const std::int32_t id = c.client.SendRequest("GET", "/list");
  c.RunUntilIdle();
  const std::shared_ptr<Responder> responder = c.connection.Take().responder;
  responder->Start({.finite = true});
  for (int waited = 0; waited < 120; waited += 20) {
    responder->Write(MakeChunk("x"));
    c.RunUntilIdle();
    c.Wait(seconds(20));
  }
  responder->End();
  c.RunUntilIdle();
  EXPECT_TRUE(c.client.reply(id).ended);
}

TEST(Http2Server, AStreamThatIsNotReadDoesNotDelayOthers) {
  ServerAndClient c({}, ServerAndClient::kMaxBodyBytes, /*manual_window=*/true);
  const std::int32_t slow = c.client.SendRequest("GET", "/slow");
  c.RunUntilIdle();
  auto first = c.connection.Take();
  first.responder->Start({});
  first.responder->Write(MakeChunk(std::string(60'000, 'x')));
  c.RunUntilIdle();
  // The client reads the connection, but not this stream.
  nghttp2_session_consume_connection(c.client.session(), 60'000);
  first.responder->Write(MakeChunk(std::string(60'000, 'x')));
  const std::int32_t quick = c.client.SendRequest("GET", "/quick");
  c.RunUntilIdle();
  nghttp2_session_consume_connection(c.client.session(), 5'535);
  c.connection.Take().responder->Send({.body = "here"});
  c.RunUntilIdle();
  EXPECT_EQ(c.client.reply(quick).body, "here");
  EXPECT_EQ(c.client.reply(slow).body.size(), 65'535U);
}

TEST(Http2Server, RequestsWaitWhileTooMuchIsUnread) {
  ServerOptions options;
  options.max_queued_bytes = 100'000;
  ServerAndClient c(options, ServerAndClient::kMaxBodyBytes, /*manual_window=*/true);
  const std::int32_t first = c.client.SendRequest("GET", "/list");
  c.RunUntilIdle();
  c.connection.Take().responder->Send({.body = std::string(200'000, 'x')});
  c.RunUntilIdle();
  c.client.SendRequest("GET", "/next");
  c.RunUntilIdle();
  EXPECT_TRUE(c.connection.requests.empty());
  for (int i = 0; i < 4; ++i) {
    const std::size_t unread = c.client.reply(first).body.size();
    nghttp2_session_consume(c.client.session(), first, unread);
    c.client.reply(first).body.clear();
    c.RunUntilIdle();
  }
  ASSERT_EQ(c.connection.requests.size(), 1U);
  EXPECT_EQ(c.connection.Take().request.target, "/next");
}

TEST(Http2Server, AWaitingRequestIsDispatchedWhenAnotherIsReset) {
  ServerOptions options;
  options.max_queued_bytes = 10'000;
  ServerAndClient c(options, ServerAndClient::kMaxBodyBytes, /*manual_window=*/true);
  c.connection.handler = [](const Request& request, const Peer&,
                            const std::shared_ptr<Responder>& responder) {
    responder->Send({.body = request.target == "/long" ? std::string(200'000, 'x') : "short"});
  };
  const std::int32_t unread = c.client.SendRequest("GET", "/long");
  const std::int32_t waiting = c.client.SendRequest("GET", "/short");
  c.RunUntilIdle();
  EXPECT_EQ(c.client.reply(waiting).status, "");
  nghttp2_submit_rst_stream(c.client.session(), NGHTTP2_FLAG_NONE, unread, NGHTTP2_CANCEL);
  nghttp2_session_consume_connection(c.client.session(), 65'535);
  c.RunUntilIdle();
  EXPECT_EQ(c.client.reply(waiting).body, "short");
}

TEST(Http2Server, StreamsWithinTheirShareAreNotTerminated) {
  ServerOptions options;
  options.max_queued_bytes = 100'000;
  ServerAndClient c(options, ServerAndClient::kMaxBodyBytes, /*manual_window=*/true);
  constexpr std::size_t kStreams = 20;
  std::vector<std::shared_ptr<Responder>> streams;
  for (std::size_t i = 0; i < kStreams; ++i) {
    c.client.SendRequest("GET", "/watch");
    c.RunUntilIdle();
    streams.push_back(c.connection.Take().responder);
    streams.back()->Start({});
  }
  EXPECT_EQ(streams.front()->fair_share(), 100'000U / 2 / kStreams);
  // The client does not read: at first the windows of HTTP/2 take some of it.
  for (int i = 0; i < 1000; ++i) {
    for (const auto& stream : streams) {
      if (stream->queued() < stream->fair_share()) stream->Write(MakeChunk(std::string(700, 'x')));
    }
    c.RunUntilIdle();
  }
  for (const auto& stream : streams) EXPECT_GE(stream->queued(), stream->fair_share());
  EXPECT_FALSE(c.connection.group->overflow);

  // A stream that has ended leaves its share to the others.
  while (streams.size() > 1) streams.pop_back();
  c.RunUntilIdle();
  EXPECT_EQ(streams.front()->fair_share(), 50'000U);
}

TEST(Http2Server, OnePieceOfAStreamOfAnySizeIsAccepted) {
  ServerOptions options;
  options.max_queued_bytes = 10'000;
  ServerAndClient c(options, ServerAndClient::kMaxBodyBytes, /*manual_window=*/true);
  c.client.SendRequest("GET", "/watch");
  c.RunUntilIdle();
  const auto stream = c.connection.Take().responder;
  stream->Start({});
  EXPECT_EQ(stream->Write(MakeChunk(std::string(100'000, 'x'))), 100'000U);
  EXPECT_FALSE(c.connection.group->overflow);
  EXPECT_EQ(stream->Write(MakeChunk("one more")), 0U);
  EXPECT_TRUE(c.connection.group->overflow);
}

TEST(Http2Server, AnAbortedStreamEndsWithAnError) {
  ServerAndClient c;
  const std::int32_t before = c.client.SendRequest("GET", "/before");
  const std::int32_t during = c.client.SendRequest("GET", "/during");
  const std::int32_t dropped = c.client.SendRequest("GET", "/dropped");
  const std::int32_t never = c.client.SendRequest("GET", "/never");
  c.RunUntilIdle();
  c.connection.Take().responder->Abort();
  {
    auto [request, responder] = c.connection.Take();
    responder->Start({});
    responder->Write(MakeChunk("part"));
    c.RunUntilIdle();
    responder->Abort();
    c.RunUntilIdle();
  }
  {
    auto [request, responder] = c.connection.Take();
    responder->Start({});
    c.RunUntilIdle();
  }
  c.connection.requests.clear();
  c.RunUntilIdle();
  for (const std::int32_t id : {before, during, dropped}) {
    EXPECT_EQ(c.client.reply(id).code, static_cast<std::uint32_t>(NGHTTP2_INTERNAL_ERROR));
    EXPECT_FALSE(c.client.reply(id).ended);
  }
  EXPECT_EQ(c.client.reply(during).body, "part");
  EXPECT_EQ(c.client.reply(never).status, "500");
  EXPECT_EQ(c.connection.counters->streams, 0U);
}

TEST(Http2Server, AStreamIsNotifiedWhenTheClientDisconnects) {
  ServerAndClient c;
  const std::int32_t reset = c.client.SendRequest("GET", "/reset");
  c.client.SendRequest("GET", "/eof");
  c.RunUntilIdle();
  std::vector<std::string> closed;
  std::vector<std::shared_ptr<Responder>> responders;
  while (!c.connection.requests.empty()) {
    auto [request, responder] = c.connection.Take();
    responder->Observe(nullptr, [&closed, t = request.target] { closed.push_back(t); });
    responder->Start({});
    responders.push_back(std::move(responder));
  }
  c.RunUntilIdle();
  nghttp2_submit_rst_stream(c.client.session(), NGHTTP2_FLAG_NONE, reset, NGHTTP2_CANCEL);
  c.RunUntilIdle();
  EXPECT_EQ(closed, std::vector<std::string>{"/reset"});
  c.codec.ReceiveEof(c.connection.now());
  EXPECT_EQ(closed, (std::vector<std::string>{"/reset", "/eof"}));
  EXPECT_TRUE(c.codec.finished());
  EXPECT_EQ(responders.back()->Write(MakeChunk("x")), 0U);
}

TEST(Http2Server, DrainSendsGoawayCompletesRequestsAndNotifiesStreams) {
  ServerAndClient c;
  const std::int32_t whole = c.client.SendRequest("GET", "/whole");
  const std::int32_t stream = c.client.SendRequest("GET", "/stream");
  c.RunUntilIdle();
  auto first = c.connection.Take();
  auto second = c.connection.Take();
  bool closed = false;
  second.responder->Observe(nullptr, [&] { closed = true; });
  second.responder->Start({});
  c.RunUntilIdle();
  c.codec.Drain(c.connection.now());
  EXPECT_TRUE(closed);
  c.RunUntilIdle();
  EXPECT_EQ(c.client.goaway, static_cast<std::uint32_t>(NGHTTP2_NO_ERROR));
  EXPECT_EQ(c.client.goaway_last, stream);
  EXPECT_FALSE(c.codec.finished());
  second.responder->Write(MakeChunk("bye"));
  second.responder->End();
  first.responder->Send({.body = "done"});
  c.RunUntilIdle();
  EXPECT_EQ(c.client.reply(whole).body, "done");
  EXPECT_EQ(c.client.reply(stream).body, "bye");
  EXPECT_TRUE(c.codec.finished());
  EXPECT_TRUE(c.codec.fault().empty());
}

TEST(Http2Server, AcceptsNoRequestAfterGoaway) {
  ServerAndClient c;
  const auto get = [&](std::uint32_t id) {
    c.Receive(
        Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, id, kGetBlock));
  };
  c.Receive(PrefaceAndSettings());
  get(1);
  c.codec.Drain(c.connection.now());
  EXPECT_EQ(c.GoAway(), static_cast<std::uint32_t>(NGHTTP2_NO_ERROR));
  get(3);
  ASSERT_EQ(c.connection.requests.size(), 1U);
  c.connection.Take().responder->Send({});
  c.connection.Send(c.codec);
  EXPECT_TRUE(c.codec.finished());
}

TEST(Http2Server, AnIdleConnectionGetsGoawayAfterTheTimeout) {
  ServerAndClient c;
  c.client.SendRequest("GET", "/");
  c.RunUntilIdle();
  auto received = c.connection.Take();
  c.Wait(std::chrono::hours(1));
  EXPECT_FALSE(c.codec.finished()) << "a response may take any time";
  received.responder->Send({});
  c.RunUntilIdle();
  c.Wait(milliseconds(119'999));
  c.RunUntilIdle();
  EXPECT_EQ(c.client.goaway, std::nullopt);
  c.Wait(milliseconds(1));
  c.RunUntilIdle();
  EXPECT_EQ(c.client.goaway, static_cast<std::uint32_t>(NGHTTP2_NO_ERROR));
  EXPECT_TRUE(c.codec.finished());
  EXPECT_TRUE(c.codec.fault().empty());
}

TEST(Http2Server, ABodyThatTakesTooLongIsA408AndOtherStreamsContinue) {
  ServerAndClient c;
  c.Receive(PrefaceAndSettings());
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

TEST(Http2Server, TerminatesAConnectionWithoutSettings) {
  ServerAndClient c;
  c.Receive(kPreface);
  c.Wait(seconds(10));
  c.ExpectTerminated(NGHTTP2_SETTINGS_TIMEOUT);
}

TEST(Http2Server, TerminatesOnAHeadThatTakesTooLong) {
  ServerAndClient c;
  c.Receive(PrefaceAndSettings());
  c.Receive(Frame(NGHTTP2_HEADERS, 0, 1, kGetBlock));
  c.Wait(milliseconds(9'999));
  c.Receive(Frame(NGHTTP2_CONTINUATION, 0, 1, ""));
  EXPECT_EQ(c.GoAway(), std::nullopt);
  c.Wait(milliseconds(1));
  c.ExpectTerminated(NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST(Http2Server, TerminatesOnAnInvalidPreface) {
  ServerAndClient c;
  c.Receive("PRI * HTTP/1.1\r\nHost: h\r\n\r\n");
  c.ExpectTerminated(NGHTTP2_PROTOCOL_ERROR);
}

TEST(Http2Server, TerminatesTheConnectionOnAProtocolError) {
  ServerAndClient c;
  c.Receive(PrefaceAndSettings());
  c.Receive(Frame(NGHTTP2_DATA, 0, 0, "data without a stream"));
  c.ExpectTerminated(NGHTTP2_PROTOCOL_ERROR);
}

// A field of 1,920 bytes that is added to HPACK's table, then `times` references of one byte each.
std::string Bomb(std::size_t times) {
  return std::string("\x40\x01\x61\x7f\x81\x0e", 6) + std::string(1920, 'x') +
         std::string(times, '\xbe');
}

TEST(Http2Server, TerminatesOnAHeadFarOverTheLimit) {
  ServerOptions options;
  options.max_header_bytes = 4000;
  ServerAndClient c(options);
  c.Receive(PrefaceAndSettings());
  c.Receive(Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1,
                  std::string(kGetBlock) + Bomb(/*times=*/10'000)));
  EXPECT_TRUE(c.connection.requests.empty());
  c.ExpectTerminated(NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST(Http2Server, TerminatesOnAHeadWhosePayloadTakesTooLong) {
  ServerAndClient c;
  c.Receive(PrefaceAndSettings());
  const std::string frame = Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, kGetBlock);
  c.Receive(std::string_view(frame).substr(0, frame.size() - 1));
  c.Wait(milliseconds(9'999));
  EXPECT_EQ(c.GoAway(), std::nullopt);
  c.Wait(milliseconds(1));
  c.ExpectTerminated(NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST(Http2Server, TerminatesOnTrailersFarOverTheLimit) {
  ServerOptions options;
  options.max_header_bytes = 4000;
  ServerAndClient c(options);
  c.Receive(PrefaceAndSettings() + Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, kGetBlock));
  c.Receive(Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1,
                  Bomb(/*times=*/5)));
  EXPECT_EQ(c.GoAway(), std::nullopt);
  c.Receive(Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 3, kGetBlock));
  c.Receive(Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 3,
                  Bomb(/*times=*/10)));
  c.ExpectTerminated(NGHTTP2_ENHANCE_YOUR_CALM);
}

// GET / with a second :method: nghttp2 ignores the block from there on.
const std::string kBrokenBlock = std::string(kGetBlock.substr(0, 1)) + std::string(kGetBlock);

TEST(Http2Server, TerminatesOnAnInvalidHeadFarOverTheLimit) {
  ServerOptions options;
  options.max_header_bytes = 4000;
  ServerAndClient c(options);
  c.Receive(PrefaceAndSettings());
  c.Receive(Frame(NGHTTP2_HEADERS, 0, 1, kBrokenBlock));
  c.Receive(Frame(NGHTTP2_CONTINUATION, 0, 1, Bomb(/*times=*/14'000)));
  EXPECT_EQ(c.GoAway(), std::nullopt);
  c.Receive(Frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, std::string(1'000, '\xbe')));
  c.ExpectTerminated(NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST(Http2Server, TerminatesOnAnInvalidHeadThatTakesTooLong) {
  ServerAndClient c;
  c.Receive(PrefaceAndSettings());
  c.Receive(Frame(NGHTTP2_HEADERS, 0, 1, kBrokenBlock));
  c.Wait(milliseconds(9'999));
  c.Receive(Frame(NGHTTP2_CONTINUATION, 0, 1, ""));
  EXPECT_EQ(c.GoAway(), std::nullopt);
  c.Wait(milliseconds(1));
  c.ExpectTerminated(NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST(Http2Server, AnIdleClientIsNotTerminatedForAnIgnoredHead) {
  ServerAndClient c;
  c.Receive(PrefaceAndSettings());
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

// Frames that nghttp2 ignores, because it has forgotten the stream or does not check them.
TEST(Http2Server, TerminatesOnFramesOnStreamsThatTheClientEnded) {
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
    ServerAndClient c;
    c.Receive(PrefaceAndSettings());
    // Byte by byte, with a response to each request at once, so that its stream is closed.
    for (const char byte : violation.frames) {
      ASSERT_TRUE(c.codec.fault().empty());
      c.Receive({&byte, 1});
      while (!c.connection.requests.empty()) c.connection.Take().responder->Send({});
      if (!c.codec.fault().empty()) break;
      c.connection.Send(c.codec);
    }
    c.ExpectTerminated(violation.code);
  }
}

TEST(Http2Server, DispatchesALimitedNumberOfRequestsAtATime) {
  ServerAndClient c;
  c.RunUntilIdle();
  for (int i = 0; i < 40; ++i) c.client.SendRequest("GET", "/");
  c.Receive(c.client.TakeOutput());
  std::vector<std::size_t> handed_over;
  do {
    c.connection.Send(c.codec);
    handed_over.push_back(c.connection.requests.size());
  } while (c.codec.has_more_work());
  EXPECT_EQ(handed_over, (std::vector<std::size_t>{16, 32, 40}));
}

TEST(Http2Server, DoesNotDispatchARequestThatCameWithItsReset) {
  ServerAndClient c;
  constexpr std::uint8_t kEndAll = NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM;
  std::string bytes = PrefaceAndSettings();
  for (std::uint32_t id = 1; id < 200; id += 2) {
    bytes += Frame(NGHTTP2_HEADERS, kEndAll, id, kGetBlock);
    bytes += Frame(NGHTTP2_RST_STREAM, 0, id, std::string("\0\0\0\x08", 4));
  }
  c.Receive(bytes + Frame(NGHTTP2_HEADERS, kEndAll, 201, kGetBlock));
  EXPECT_EQ(c.GoAway(), std::nullopt);
  EXPECT_EQ(c.connection.requests.size(), 1U);
  EXPECT_FALSE(c.codec.has_more_work());
}

TEST(Http2Server, RequestsThatComeWithAViolationAreNotDispatched) {
  ServerAndClient c;
  constexpr std::uint8_t kEndAll = NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM;
  c.Receive(PrefaceAndSettings() + Frame(NGHTTP2_HEADERS, kEndAll, 1, kGetBlock) +
            Frame(NGHTTP2_HEADERS, kEndAll, 3, kGetBlock) + Frame(NGHTTP2_DATA, 0, 1, "x"));
  c.ExpectTerminated(NGHTTP2_STREAM_CLOSED);
  EXPECT_EQ(c.connection.requests.size(), 0U);
}

TEST(Http2Server, LateFramesOnAStreamThatTheServerResetAreIgnored) {
  ServerAndClient c;
  c.Receive(PrefaceAndSettings());
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
  std::string (*frame)(std::uint32_t);  // frame number n of the flood
  int allowed;                          // how many are accepted
  std::uint32_t code;
};

TEST(Http2Server, TerminatesTheConnectionAfterAFloodOfFrames) {
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
      {"streams over the limit", "",
       [](std::uint32_t n) {
         return Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 2 * n + 1, kGetBlock);
       },
       Http2Server::kResets.burst + 1000, NGHTTP2_ENHANCE_YOUR_CALM},
      // One less: the SETTINGS at the start were one already.
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
      {"CONTINUATION of a rejected stream", too_many + Frame(NGHTTP2_HEADERS, 0, 2001, kGetBlock),
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
      // RST_STREAM for the first is one of them, and each counts when the next frame is received.
      {"heads for a stream that was reset",
       Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, kBrokenBlock),
       [](std::uint32_t) { return Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, kGetBlock); },
       Http2Server::kResets.burst, NGHTTP2_ENHANCE_YOUR_CALM},
  };
  for (const FloodCase& flood : cases) {
    SCOPED_TRACE(flood.name);
    ServerAndClient c;
    c.Receive(PrefaceAndSettings() + flood.before);
    std::string all;
    for (int i = 0; i < flood.allowed; ++i) {
      c.Receive(flood.frame(static_cast<std::uint32_t>(i)));
      // The output is read, so that only the frames of the client count and not unread output.
      if (i % 100 == 99) {
        ASSERT_EQ(c.GoAway(), std::nullopt) << i;
      }
    }
    ASSERT_EQ(c.GoAway(), std::nullopt);
    EXPECT_TRUE(c.codec.fault().empty()) << c.codec.fault();
    c.Receive(flood.frame(static_cast<std::uint32_t>(flood.allowed)));
    c.ExpectTerminated(flood.code);
    // The same in one piece, without reading the output.
    ServerAndClient again;
    for (int i = 0; i <= flood.allowed; ++i) all += flood.frame(static_cast<std::uint32_t>(i));
    again.Receive(PrefaceAndSettings() + flood.before + all + all);
    again.ExpectTerminated(flood.code);
  }
}

TEST(Http2Server, ResetsAtASlowRateAreAllowed) {
  ServerAndClient c;
  c.Receive(PrefaceAndSettings());
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

TEST(Http2Server, DispatchesNothingAfterTermination) {
  ServerAndClient c;
  std::string all = PrefaceAndSettings();
  for (int i = 0; i <= Http2Server::kControls.burst; ++i)
    all += Frame(NGHTTP2_PING, 0, 0, "12345678");
  all += Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1, kGetBlock);
  c.Receive(all);
  EXPECT_TRUE(c.connection.requests.empty());
}

}  // namespace
}  // namespace herald::http
