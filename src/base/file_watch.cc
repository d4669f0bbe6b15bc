#include "base/file_watch.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace herald {
namespace {

// Follows symbolic links, so that a change of a link's target is detected.
void AppendState(const std::string& path, std::string* out) {
  struct stat info{};
  *out += path;
  if (stat(path.c_str(), &info) != 0) {
    *out += " none\n";
    return;
  }
  const long long parts[] = {static_cast<long long>(info.st_dev),
                             static_cast<long long>(info.st_ino), info.st_size, info.st_mtim.tv_sec,
                             info.st_mtim.tv_nsec};
  for (const long long part : parts) *out += ' ' + std::to_string(part);
  *out += '\n';
  if (!S_ISDIR(info.st_mode)) return;
  std::vector<std::string> inside;
  std::error_code error;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error))
    inside.push_back(it->path());
  std::sort(inside.begin(), inside.end());
  for (const std::string& file : inside)
    if (!std::filesystem::is_directory(file, error)) AppendState(file, out);
}

std::string StateOf(const std::vector<std::string>& paths) {
  std::string out;
  for (const std::string& path : paths) AppendState(path, &out);
  return out;
}

}  // namespace

void FileWatch::Add(std::vector<std::string> paths, std::function<void()> changed) {
  std::erase(paths, "");
  if (paths.empty()) return;
  std::string seen = StateOf(paths);
  watched_.push_back({std::move(paths), std::move(changed), std::move(seen)});
}

void FileWatch::Check() {
  for (Watched& watched : watched_) {
    std::string now = StateOf(watched.paths);
    if (now == watched.seen) continue;
    watched.seen = std::move(now);
    watched.changed();
  }
}

}  // namespace herald
