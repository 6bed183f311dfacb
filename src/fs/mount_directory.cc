#include "fs/mount_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace codecfs::fs {

Result<MadeDirectories> MadeDirectories::make(const std::string& path) {
  MadeDirectories directories;
  std::filesystem::path part;
  for (const std::filesystem::path& name : std::filesystem::path(path)) {
    part /= name;
    if (::mkdir(part.c_str(), 0777) == 0)
      directories.made_.push_back(part.string());
    else if (struct stat status{}; errno != EEXIST && ::stat(part.c_str(), &status) != 0)
      return fail_errno(errno, "-o mkdir: {}", part.string());
  }
  return directories;
}

void MadeDirectories::remove() {
  for (; !made_.empty(); made_.pop_back())
    if (::rmdir(made_.back().c_str()) != 0) break;  // somebody uses it, or what it lies in
  made_.clear();
}

}  // namespace codecfs::fs
