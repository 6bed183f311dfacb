#include "mount/mount_path.h"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/unique_fd.h"

namespace codecfs::mount {

std::string without_end(std::string path) {
  while (path.size() > 1 && (path.ends_with('/') || path.ends_with("/."))) path.pop_back();
  return path;
}

Result<std::string> path_of_mount(std::string path) {
  path = without_end(std::move(path));
  const UniqueFd file(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!file) return fail_errno(errno, "{}", path);
  std::error_code error;
  const auto real = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", file.get()), error);
  if (error) return fail_errno(error.value(), "{}", path);
  return real.string();
}

}  // namespace codecfs::mount
