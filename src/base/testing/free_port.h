#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "base/bytes/random.h"
#include "base/check.h"

namespace herald {

// A free port of 127.0.0.1 for a server that a test starts. It is below Linux's ephemeral ports, so
// that no connection uses it by chance before the server listens, or while the server is stopped.
inline std::uint16_t FreePort() {
  constexpr std::uint16_t kFirst = 10'000;
  constexpr std::uint16_t kEnd = 32'768;
  Random random(RandomSeed());
  for (;;) {
    const auto port = static_cast<std::uint16_t>(kFirst + random.Next() % (kEnd - kFirst));
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    HERALD_CHECK(fd >= 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    const bool free = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    ::close(fd);
    if (free) return port;
  }
}

}  // namespace herald
