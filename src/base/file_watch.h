#pragma once

#include <functional>
#include <string>
#include <vector>

namespace herald {

// A FileWatch detects changes of files by polling: it compares the times, sizes and inodes of files
// and of the files in directories. Polling also works where notifications do not, as for the
// symbolic links that Kubernetes replaces in mounted secrets.
//
// Thread-confined.
class FileWatch {
 public:
  // Check() calls `changed` if any of the paths has changed. A path may be a file or a directory
  // and need not exist; empty paths are ignored.
  void Add(std::vector<std::string> paths, std::function<void()> changed);

  // Compares all paths with their state at the last call.
  void Check();

 private:
  struct Watched {
    std::vector<std::string> paths;
    std::function<void()> changed;
    std::string seen;  // the state of the paths
  };
  std::vector<Watched> watched_;
};

}  // namespace herald
