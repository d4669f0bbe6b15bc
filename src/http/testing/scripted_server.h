#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/thread/mutex.h"
#include "http/message.h"
#include "http/testing/certificate.h"

struct ssl_st;
struct ssl_ctx_st;

namespace herald::http {

// The server's side of one connection, with blocking calls. Errors are ignored: a script that
// writes to a client that has disconnected continues to its end.
//
// Confined to its script's thread, except for Cut().
class ScriptedConnection {
 public:
  // Without TLS if `tls` is null; otherwise Handshake() must be called first.
  ScriptedConnection(int socket, ssl_ctx_st* tls);
  ~ScriptedConnection();
  ScriptedConnection(const ScriptedConnection&) = delete;
  ScriptedConnection& operator=(const ScriptedConnection&) = delete;

  bool Handshake();
  std::string alpn() const;
  // The common name of the client's certificate; empty if it sent none.
  std::string client_name() const;

  // The available bytes, at least one; empty at the end.
  std::string ReadSome();
  // The next HTTP/1.1 request, head and body; empty at the end.
  std::string ReadRequest();
  void Write(std::string_view bytes);
  // Closes the writing half.
  void CloseWrite();
  // Whether ReadSome() would return at once.
  bool readable();
  // Closes so that the client gets a reset.
  void Reset();
  // Waits until the client has closed. For scripts that send no response.
  void AwaitEnd();
  // Closes both halves. May be called from any thread.
  void Cut();

 private:
  const int socket_;
  ssl_st* ssl_ = nullptr;
  bool established_ = false;
  std::string buffer_{};
};

// A server that runs a script for each connection, on a thread of its own.
//
// Thread-safe.
class ScriptedServer {
 public:
  // `connection` counts from 0.
  using Script = std::function<void(ScriptedConnection& wire, int connection)>;

  struct Tls {
    TestCertificate certificate{};
    std::string client_ca{};               // not empty: a client certificate is required
    std::vector<std::string> protocols{};  // in order of preference; empty: no ALPN
    int max_version = 0;                   // OpenSSL's number; 0: any
  };

  explicit ScriptedServer(Script script, std::optional<Tls> tls = std::nullopt);
  // Closes all connections and waits for the scripts.
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::uint16_t port() const { return port_; }
  std::string url() const;  // with the IP address
  int connections() const;
  // New connections are refused; existing ones continue.
  void StopListening();

 private:
  void Accept();

  const Script script_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  ssl_ctx_st* tls_ = nullptr;
  std::vector<unsigned char> protocols_{};  // in the wire format of ALPN

  mutable Mutex mu_;
  bool stopping_ GUARDED_BY(mu_) = false;
  std::vector<std::shared_ptr<ScriptedConnection>> wires_ GUARDED_BY(mu_);
  std::vector<std::thread> scripts_ GUARDED_BY(mu_);
  int connections_ GUARDED_BY(mu_) = 0;
  std::thread acceptor_;
};

// HTTP/2 on a ScriptedConnection: reads requests and sends responses. A script calls Run().
//
// Thread-confined.
class ScriptedHttp2Server {
 public:
  struct Options {
    std::uint32_t max_streams = 100;
    std::uint32_t window_bytes = 65'535;  // for requests, per stream
  };
  struct Stream {
    std::int32_t id = 0;
    Request request{};
  };
  // Called with each whole request; responds with the functions below, at once or later.
  using Handler = std::function<void(ScriptedHttp2Server& peer, const Stream& stream)>;

  ScriptedHttp2Server(ScriptedConnection& wire, Options options, Handler handler);
  ~ScriptedHttp2Server();
  ScriptedHttp2Server(const ScriptedHttp2Server&) = delete;
  ScriptedHttp2Server& operator=(const ScriptedHttp2Server&) = delete;

  // Returns when the client has disconnected or Stop() was called.
  void Run();
  void Stop() { stopped_ = true; }

  void Respond(std::int32_t stream, int status, std::string_view body, const Headers& headers = {});
  // Sends only the head; the body follows with Data().
  void Begin(std::int32_t stream, int status, const Headers& headers = {});
  void Data(std::int32_t stream, std::string_view piece, bool last);
  void Reset(std::int32_t stream, std::uint32_t error);
  void GoAway(std::int32_t last_stream, std::uint32_t error);
  // Sends queued output.
  void Flush();
  ScriptedConnection& wire() { return wire_; }
  std::size_t most_streams() const { return most_streams_; }
  std::size_t pings() const { return pings_; }

 private:
  struct Callbacks;
  struct State;

  ScriptedConnection& wire_;
  const Handler handler_;
  bool stopped_ = false;
  std::size_t most_streams_ = 0;
  std::size_t pings_ = 0;
  std::unique_ptr<State> state_;
};

}  // namespace herald::http
