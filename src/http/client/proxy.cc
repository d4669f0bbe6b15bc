#include "http/client/proxy.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/bytes/base64.h"
#include "http/client/http1.h"

namespace herald::http {
namespace {

// A response to CONNECT is a status line and a few fields.
constexpr std::size_t kMaxProxyHeaderBytes = 16 * 1024;
// The longest string in SOCKS, whose lengths have one byte.
constexpr std::size_t kMaxSocksString = 255;

Status TunnelError(std::string why) { return Status(StatusReason::kUnreachable, std::move(why)); }

// HTTP's CONNECT (RFC 9110, 9.3.6).
class ConnectClient final : public ProxyClient {
 public:
  ConnectClient(const Url& proxy, const Url& server) {
    const bool ipv6 = server.host.find(':') != std::string::npos;
    request_.method = "CONNECT";
    request_.target = ipv6 ? fmt::format("[{}]:{}", server.host, server.port)
                           : fmt::format("{}:{}", server.host, server.port);
    request_.authority = request_.target;
    if (!proxy.user_info.empty())
      request_.headers.Add("proxy-authorization", "Basic " + Base64Encode(proxy.user_info));
    events_.head = [this](std::uint64_t, const ResponseHead& head) { status_ = head.status; };
    events_.data = [](std::uint64_t, std::string_view) {};
    events_.end = [this](std::uint64_t, const ExchangeEnd& end) { error_ = end.cause; };
    codec_.Start(1, request_);
  }
  ConnectClient(const ConnectClient&) = delete;
  ConnectClient& operator=(const ConnectClient&) = delete;

  Status Receive(std::string_view bytes) override {
    codec_.Receive(bytes);
    if (codec_.active() > 0) return {};
    if (!error_.empty()) return TunnelError(error_);
    if (status_ == 407) return TunnelError("the proxy requires a user name and a password");
    if (status_ / 100 != 2)
      return TunnelError(fmt::format("the proxy rejected CONNECT with status {}", status_));
    established_ = true;
    return {};
  }
  void Send(std::string* out) override { codec_.Send(out, kMaxProxyHeaderBytes); }
  bool established() const override { return established_; }
  std::string TakeTunnelBytes() override { return codec_.TakeTunnelBytes(); }

 private:
  Request request_{};
  ClientCodecEvents events_{};
  int status_ = 0;
  std::string error_{};
  bool established_ = false;
  Http1Client codec_{events_, kMaxProxyHeaderBytes};  // last: uses all above
};

// SOCKS version 5 (RFC 1928) with a user and a password, if the URL has them (RFC 1929).
// The proxy resolves host names, as with Go's client.
class SocksClient final : public ProxyClient {
 public:
  SocksClient(const Url& proxy, const Url& server) : host_(server.host), port_(server.port) {
    const std::size_t colon = std::min(proxy.user_info.find(':'), proxy.user_info.size());
    user_ = proxy.user_info.substr(0, colon);
    if (colon < proxy.user_info.size()) password_ = proxy.user_info.substr(colon + 1);
    output_ = user_.empty() ? std::string{kVersion, 1, kNoLogin}
                            : std::string{kVersion, 2, kNoLogin, kLogin};
  }

  Status Receive(std::string_view bytes) override {
    input_.append(bytes);
    Status status;
    while (status.ok() && step_ != Step::kDone) {
      const std::size_t before = input_.size();
      status = Take();
      if (input_.size() == before) break;  // the next message is incomplete
    }
    return status;
  }
  void Send(std::string* out) override { out->append(std::exchange(output_, {})); }
  bool established() const override { return step_ == Step::kDone; }
  std::string TakeTunnelBytes() override { return std::exchange(input_, {}); }

 private:
  enum class Step : std::uint8_t { kMethod, kLogin, kConnect, kDone };
  static constexpr char kVersion = 5, kNoLogin = 0, kLogin = 2, kNoMethod = '\xff';
  static constexpr char kLoginVersion = 1;
  static constexpr char kConnect = 1;
  static constexpr char kAddress4 = 1, kName = 3, kAddress6 = 4;

  // Processes the next message of the input, if it is complete.
  Status Take() {
    switch (step_) {
      case Step::kMethod:
        return TakeMethod();
      case Step::kLogin:
        return TakeLogin();
      case Step::kConnect:
        return TakeReply();
      case Step::kDone:
        break;
    }
    return {};
  }

  Status TakeMethod() {
    if (!input_.empty() && input_[0] != kVersion)
      return TunnelError("the proxy does not support SOCKS5");
    if (input_.size() < 2) return {};
    const char method = input_[1];
    input_.erase(0, 2);
    if (method == kNoLogin) return SendConnect();
    if (method == kNoMethod)
      return TunnelError(user_.empty()
                             ? "the proxy requires a user name and a password"
                             : "the proxy does not support authentication with a password");
    if (method != kLogin || user_.empty())
      return TunnelError("the proxy chose an authentication method that was not offered");
    if (user_.size() > kMaxSocksString || password_.size() > kMaxSocksString)
      return TunnelError(
          "the user name and the password must not be longer than 255 bytes for SOCKS5");
    output_ = std::string{kLoginVersion};
    AppendString(user_);
    AppendString(password_);
    step_ = Step::kLogin;
    return {};
  }

  Status TakeLogin() {
    if (input_.size() < 2) return {};
    const char status = input_[1];
    input_.erase(0, 2);
    if (status != 0) return TunnelError("the proxy rejected the user name and the password");
    return SendConnect();
  }

  Status SendConnect() {
    output_ += {kVersion, kConnect, 0};
    std::array<char, 16> address{};
    if (inet_pton(AF_INET, host_.c_str(), address.data()) == 1) {
      output_ += kAddress4;
      output_.append(address.data(), 4);
    } else if (inet_pton(AF_INET6, host_.c_str(), address.data()) == 1) {
      output_ += kAddress6;
      output_.append(address.data(), address.size());
    } else if (host_.size() <= kMaxSocksString) {
      output_ += kName;
      AppendString(host_);
    } else {
      return TunnelError("the host name must not be longer than 255 bytes for SOCKS5");
    }
    output_ += {static_cast<char>(port_ >> 8), static_cast<char>(port_ & 0xff)};
    step_ = Step::kConnect;
    return {};
  }

  // Version, result, 0, then the address from which the proxy connects: type, address and port.
  Status TakeReply() {
    if (!input_.empty() && input_[0] != kVersion)
      return TunnelError("the proxy does not support SOCKS5");
    // With an error the proxy may send nothing more.
    if (input_.size() >= 2 && input_[1] != 0)
      return TunnelError(fmt::format("the proxy reported: {}", Reason(input_[1])));
    if (input_.size() < 5) return {};
    std::size_t address = 0;
    switch (input_[3]) {
      case kAddress4:
        address = 4;
        break;
      case kAddress6:
        address = 16;
        break;
      case kName:
        address = 1 + static_cast<unsigned char>(input_[4]);
        break;
      default:
        return TunnelError("the proxy sent an invalid address type");
    }
    const std::size_t size = 4 + address + 2;
    if (input_.size() < size) return {};
    input_.erase(0, size);
    step_ = Step::kDone;
    return {};
  }

  static std::string Reason(char code) {
    switch (code) {
      case 1:
        return "general failure";
      case 2:
        return "not allowed by the rules of the proxy";
      case 3:
        return "network unreachable";
      case 4:
        return "host unreachable";
      case 5:
        return "connection refused";
      case 6:
        return "time to live expired";
      case 7:
        return "command not supported";
      case 8:
        return "address type not supported";
      default:
        return fmt::format("error {}", static_cast<unsigned char>(code));
    }
  }

  // REQUIRES: at most kMaxSocksString bytes
  void AppendString(std::string_view string) {
    output_ += static_cast<char>(string.size());
    output_ += string;
  }

  const std::string host_;
  const std::uint16_t port_;
  std::string user_{};
  std::string password_{};
  Step step_ = Step::kMethod;
  std::string input_{};
  std::string output_{};
};

}  // namespace

std::unique_ptr<ProxyClient> ProxyClient::Make(const Url& proxy, const Url& server) {
  if (proxy.scheme.starts_with("socks5")) return std::make_unique<SocksClient>(proxy, server);
  return std::make_unique<ConnectClient>(proxy, server);
}

}  // namespace herald::http
