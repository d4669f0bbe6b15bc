#include "http/testing/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <utility>

#include "base/check.h"
#include "http/tls/openssl.h"

namespace herald::http {
namespace {

void UseCertificate(SSL_CTX* context, const TestCertificate& certificate) {
  const std::vector<X509Ptr> leaf = ReadCertificates(certificate.certificate);
  const KeyPtr key = ReadPrivateKey(certificate.key);
  HERALD_CHECK(leaf.size() == 1 &&
               SSL_CTX_use_cert_and_key(context, leaf.front().get(), key.get(), nullptr, 1) == 1);
}

int SelectProtocol(SSL*, const unsigned char** out, unsigned char* out_size,
                   const unsigned char* offered, unsigned offered_size, void* user) {
  const auto& supported = *static_cast<const std::vector<unsigned char>*>(user);
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, supported.data(),
                            static_cast<unsigned>(supported.size()), offered,
                            offered_size) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_NOACK;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

ScriptedConnection::ScriptedConnection(int socket, ssl_ctx_st* tls) : socket_(socket) {
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (tls == nullptr) {
    established_ = true;
    return;
  }
  ssl_ = SSL_new(tls);
  SSL_set_fd(ssl_, socket_);
}

ScriptedConnection::~ScriptedConnection() {
  if (ssl_ != nullptr) SSL_free(ssl_);
  close(socket_);
}

std::string ScriptedConnection::alpn() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  if (ssl_ != nullptr) SSL_get0_alpn_selected(ssl_, &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

std::string ScriptedConnection::client_name() const {
  X509* certificate = ssl_ != nullptr ? SSL_get1_peer_certificate(ssl_) : nullptr;
  if (certificate == nullptr) return {};
  char name[64] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof(name));
  X509_free(certificate);
  return name;
}

bool ScriptedConnection::Handshake() {
  if (ssl_ != nullptr && !established_) established_ = SSL_accept(ssl_) == 1;
  ERR_clear_error();
  return established_;
}

std::string ScriptedConnection::ReadSome() {
  if (!buffer_.empty()) return std::exchange(buffer_, {});
  char bytes[16 * 1024];
  const ssize_t size = ssl_ != nullptr ? SSL_read(ssl_, bytes, sizeof(bytes))
                                       : recv(socket_, bytes, sizeof(bytes), 0);
  ERR_clear_error();
  return size > 0 ? std::string(bytes, static_cast<std::size_t>(size)) : std::string();
}

std::string ScriptedConnection::ReadRequest() {
  std::string request;
  std::size_t whole = std::string::npos;
  while (request.size() < whole) {
    const std::string more = ReadSome();
    if (more.empty()) return {};
    request += more;
    if (whole != std::string::npos) continue;
    const std::size_t end = request.find("\r\n\r\n");
    if (end == std::string::npos) continue;
    whole = end + 4;
    const std::size_t length = request.find("content-length: ");
    if (length < end) whole += std::stoul(request.substr(length + 16));
  }
  buffer_ = request.substr(whole);
  request.resize(whole);
  return request;
}

void ScriptedConnection::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ssl_ != nullptr
                             ? SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()))
                             : send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ERR_clear_error();
    if (size <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
}

void ScriptedConnection::CloseWrite() {
  if (ssl_ != nullptr) SSL_shutdown(ssl_);
  ERR_clear_error();
  shutdown(socket_, SHUT_WR);
}

void ScriptedConnection::Reset() {
  const linger now{1, 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  // The destructor closes the descriptor; connecting it to AF_UNSPEC resets the connection.
  sockaddr nowhere{};
  nowhere.sa_family = AF_UNSPEC;
  connect(socket_, &nowhere, sizeof(nowhere));
}

void ScriptedConnection::AwaitEnd() {
  while (!ReadSome().empty()) {
  }
}

void ScriptedConnection::Cut() { shutdown(socket_, SHUT_RDWR); }

bool ScriptedConnection::readable() {
  if (!buffer_.empty() || (ssl_ != nullptr && SSL_pending(ssl_) > 0)) return true;
  pollfd poll_for{socket_, POLLIN, 0};
  return poll(&poll_for, 1, 0) > 0;
}

ScriptedServer::ScriptedServer(Script script, std::optional<Tls> tls) : script_(std::move(script)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  HERALD_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  HERALD_CHECK(listen(listener_, 128) == 0);
  socklen_t size = sizeof(address);
  HERALD_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port_ = ntohs(address.sin_port);
  if (tls) {
    tls_ = SSL_CTX_new(TLS_server_method());
    UseCertificate(tls_, tls->certificate);
    if (tls->max_version != 0) SSL_CTX_set_max_proto_version(tls_, tls->max_version);
    if (!tls->client_ca.empty()) {
      for (const X509Ptr& authority : ReadCertificates(tls->client_ca))
        X509_STORE_add_cert(SSL_CTX_get_cert_store(tls_), authority.get());
      SSL_CTX_set_verify(tls_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
    for (const std::string& name : tls->protocols) {
      protocols_.push_back(static_cast<unsigned char>(name.size()));
      protocols_.insert(protocols_.end(), name.begin(), name.end());
    }
    if (!protocols_.empty()) SSL_CTX_set_alpn_select_cb(tls_, SelectProtocol, &protocols_);
  }
  acceptor_ = std::thread([this] { Accept(); });
}

ScriptedServer::~ScriptedServer() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    for (const auto& wire : wires_) wire->Cut();
  }
  StopListening();
  acceptor_.join();
  std::vector<std::thread> scripts;
  {
    MutexLock lock(mu_);
    scripts.swap(scripts_);
  }
  for (std::thread& script : scripts) script.join();
  close(listener_);
  SSL_CTX_free(tls_);
}

void ScriptedServer::StopListening() { shutdown(listener_, SHUT_RDWR); }

std::string ScriptedServer::url() const {
  return (tls_ != nullptr ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(port_);
}

int ScriptedServer::connections() const {
  MutexLock lock(mu_);
  return connections_;
}

void ScriptedServer::Accept() {
  for (;;) {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    auto wire = std::make_shared<ScriptedConnection>(socket, tls_);
    MutexLock lock(mu_);
    if (stopping_) return;
    const int number = connections_++;
    wires_.push_back(wire);
    scripts_.emplace_back([this, wire, number] {
      // OpenSSL writes to sockets without MSG_NOSIGNAL.
      sigset_t pipe;
      sigemptyset(&pipe);
      sigaddset(&pipe, SIGPIPE);
      pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
      if (wire->Handshake()) script_(*wire, number);
      wire->Cut();
    });
  }
}

struct ScriptedHttp2Server::State {
  struct Response {
    std::string body{};
    std::size_t sent = 0;
    bool last = false;
    bool begun = false;
  };

  nghttp2_session* session = nullptr;
  std::map<std::int32_t, Stream> requests{};
  std::map<std::int32_t, Response> responses{};
  std::vector<std::int32_t> whole{};
};

struct ScriptedHttp2Server::Callbacks {
  static ScriptedHttp2Server& Self(void* user) { return *static_cast<ScriptedHttp2Server*>(user); }

  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                      std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                      std::uint8_t, void* user) {
    ScriptedHttp2Server& self = Self(user);
    Stream& stream = self.state_->requests[frame->hd.stream_id];
    stream.id = frame->hd.stream_id;
    const std::string field(reinterpret_cast<const char*>(name), name_size);
    const std::string content(reinterpret_cast<const char*>(value), value_size);
    if (field == ":method")
      stream.request.method = content;
    else if (field == ":path")
      stream.request.target = content;
    else if (field == ":authority")
      stream.request.authority = content;
    else
      stream.request.headers.Add(field, content);
    return 0;
  }
  static int OnData(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                    std::size_t size, void* user) {
    Self(user).state_->requests[id].request.body.append(reinterpret_cast<const char*>(bytes), size);
    return 0;
  }
  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    ScriptedHttp2Server& self = Self(user);
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) ++self.pings_;
    if (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) {
      self.most_streams_ = std::max(self.most_streams_, self.state_->requests.size());
      if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        self.state_->whole.push_back(frame->hd.stream_id);
    }
    return 0;
  }
  static int OnClose(nghttp2_session*, std::int32_t id, std::uint32_t, void* user) {
    Self(user).state_->requests.erase(id);
    return 0;
  }
  static ssize_t ReadBody(nghttp2_session*, std::int32_t id, std::uint8_t* out, std::size_t size,
                          std::uint32_t* flags, nghttp2_data_source*, void* user) {
    State::Response& response = Self(user).state_->responses[id];
    const std::size_t piece = std::min(size, response.body.size() - response.sent);
    std::memcpy(out, response.body.data() + response.sent, piece);
    response.sent += piece;
    if (response.sent == response.body.size()) {
      if (response.last)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
      else if (piece == 0)
        return NGHTTP2_ERR_DEFERRED;
    }
    return static_cast<ssize_t>(piece);
  }
};

ScriptedHttp2Server::ScriptedHttp2Server(ScriptedConnection& wire, Options options, Handler handler)
    : wire_(wire), handler_(std::move(handler)), state_(std::make_unique<State>()) {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, Callbacks::OnHeader);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, Callbacks::OnData);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, Callbacks::OnFrame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Callbacks::OnClose);
  nghttp2_session_server_new(&state_->session, callbacks, this);
  nghttp2_session_callbacks_del(callbacks);
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, options.max_streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, options.window_bytes},
  };
  nghttp2_submit_settings(state_->session, NGHTTP2_FLAG_NONE, settings, std::size(settings));
}

ScriptedHttp2Server::~ScriptedHttp2Server() { nghttp2_session_del(state_->session); }

void ScriptedHttp2Server::Run() {
  Flush();
  while (!stopped_) {
    const std::string bytes = wire_.ReadSome();
    if (bytes.empty()) return;
    if (nghttp2_session_mem_recv(
            state_->session, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()) < 0)
      return;
    // Outside of nghttp2's callbacks, in which mem_send must not be called.
    for (const std::int32_t id : std::exchange(state_->whole, {})) {
      const auto it = state_->requests.find(id);
      if (it != state_->requests.end() && !stopped_) {
        const Stream stream = it->second;
        handler_(*this, stream);
      }
    }
    Flush();
  }
}

void ScriptedHttp2Server::Respond(std::int32_t stream, int status, std::string_view body,
                                  const Headers& headers) {
  Begin(stream, status, headers);
  Data(stream, body, true);
}

void ScriptedHttp2Server::Begin(std::int32_t stream, int status, const Headers& headers) {
  const std::string code = std::to_string(status);
  std::vector<nghttp2_nv> fields;
  const auto add = [&fields](std::string_view name, std::string_view value) {
    fields.push_back({reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
                      reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
                      value.size(), NGHTTP2_NV_FLAG_NONE});
  };
  add(":status", code);
  for (const Headers::Field& field : headers) add(field.name, field.value);
  nghttp2_data_provider body{};
  body.read_callback = Callbacks::ReadBody;
  nghttp2_submit_response(state_->session, stream, fields.data(), fields.size(), &body);
}

void ScriptedHttp2Server::Data(std::int32_t stream, std::string_view piece, bool last) {
  State::Response& response = state_->responses[stream];
  response.body += piece;
  response.last = last;
  nghttp2_session_resume_data(state_->session, stream);
}

void ScriptedHttp2Server::Reset(std::int32_t stream, std::uint32_t error) {
  nghttp2_submit_rst_stream(state_->session, NGHTTP2_FLAG_NONE, stream, error);
}

void ScriptedHttp2Server::GoAway(std::int32_t last_stream, std::uint32_t error) {
  nghttp2_submit_goaway(state_->session, NGHTTP2_FLAG_NONE, last_stream, error, nullptr, 0);
}

void ScriptedHttp2Server::Flush() {
  for (;;) {
    const std::uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(state_->session, &bytes);
    if (size <= 0) return;
    wire_.Write({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)});
  }
}

}  // namespace herald::http
