#pragma once

#include <functional>
#include <string>
#include <vector>

namespace herald {

// Notices when files have changed, by looking at them: at the times, sizes and
// identities of files and of what is in folders. Looking also works where notifications do
// not, as on the symbolic links that Kubernetes swaps below mounted secrets.
//
// Thread-confined.
class FileWatch {
 public:
  // `changed` is called by Check() when any of the paths is different from before. Empty
  // paths are left out. A path may be a file or a folder, and need not exist.
  void Add(std::vector<std::string> paths, std::function<void()> changed);

  // Looks at all of them.
  void Check();

 private:
  struct Watched {
    std::vector<std::string> paths;
    std::function<void()> changed;
    std::string seen;  // what the paths looked like
  };
  std::vector<Watched> watched_;
};

}  // namespace herald
