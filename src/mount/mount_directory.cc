#include "mount/mount_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace codecfs::mount {

Result<MadeDirectories> MadeDirectories::make(const std::string& path) {
  MadeDirectories directories;
  std::filesystem::path part;
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  UniqueFd at(::open(path.starts_with('/') ? "/" : ".", kFlags));
  for (const std::filesystem::path& name : std::filesystem::path(path)) {
    part /= name;
    if (name.empty() || name == "/") continue;
    const bool made = ::mkdirat(at.get(), name.c_str(), 0777) == 0;
    if (!made && errno != EEXIST) {
      struct stat status{};
      const int error = errno;
      if (::fstatat(at.get(), name.c_str(), &status, 0) != 0) return fail_errno(error, "-o mkdir: {}", part.string());
    }
    // Do not follow a link that has replaced a directory created here.
    UniqueFd next(::openat(at.get(), name.c_str(), made ? kFlags | O_NOFOLLOW : kFlags));
    const int error = errno;
    if (made) directories.made_.push_back({std::move(at), name.string()});
    if (!next) return fail_errno(error, "-o mkdir: {}", part.string());
    at = std::move(next);
  }
  return directories;
}

void MadeDirectories::remove() {
  for (; !made_.empty(); made_.pop_back())  // stops at a directory that is not empty
    if (::unlinkat(made_.back().parent.get(), made_.back().name.c_str(), AT_REMOVEDIR) != 0) break;
  made_.clear();
}

}  // namespace codecfs::mount
