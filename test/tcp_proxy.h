#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/thread/mutex.h"

namespace herald::testing {

// A proxy between a client and a server on loopback that can reset and hold connections.
//
// Thread-safe. Has one thread.
class TcpProxy {
 public:
  explicit TcpProxy(std::uint16_t target_port);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  std::uint16_t port() const { return port_; }

  // Resets all connections. Asynchronous: returns before they are reset.
  void Cut() EXCLUDES(mu_);
  // While held, connections stay open and new ones are accepted, but no data is forwarded.
  void Hold(bool held) EXCLUDES(mu_);

 private:
  struct Connection;
  enum class Order : std::uint8_t { kNone, kCut, kStop };

  void Post(Order order, bool held) EXCLUDES(mu_);
  void Run();
  void Accept();

  const std::uint16_t target_port_;
  int listener_ = -1;
  int wake_ = -1;  // an eventfd
  std::uint16_t port_ = 0;
  Mutex mu_;
  Order order_ GUARDED_BY(mu_) = Order::kNone;
  bool held_ GUARDED_BY(mu_) = false;
  std::vector<std::unique_ptr<Connection>> connections_;  // confined to the thread
  std::thread thread_;
};

}  // namespace herald::testing
