#include "base/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace herald {

Result<std::string> ReadFile(const std::string& path) {
  const auto failed = [&path](int error) {
    return Status(
        error == ENOENT || error == ENOTDIR ? StatusReason::kNotFound : StatusReason::kUnknown,
        fmt::format("cannot read {}: {}", path, std::generic_category().message(error)));
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failed(errno);
  std::string text;
  std::array<char, 16384> buffer;
  ssize_t n = 0;
  int error = 0;
  while ((n = ::read(fd, buffer.data(), buffer.size())) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 || text.size() > kMaxFileBytes) {
      error = n < 0 ? errno : EFBIG;
      break;
    }
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  ::close(fd);
  if (error != 0) return failed(error);
  return text;
}

}  // namespace herald
