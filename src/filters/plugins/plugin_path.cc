#include "filters/plugins/plugin_path.h"

#include <H5pubconf.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "base/directory_stream.h"

namespace codecfs::filters {
namespace {

void add_directories(std::string_view path, std::vector<std::string>& directories) {
  while (!path.empty()) {
    const size_t end = std::min(path.find(':'), path.size());
    const std::string_view part = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (part.empty()) continue;
    // Make it absolute now: the daemon changes its working directory.
    std::string directory = std::filesystem::absolute(part).lexically_normal().string();
    if (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
    if (std::ranges::find(directories, directory) == directories.end()) directories.push_back(std::move(directory));
  }
}

bool is_library_name(std::string_view name) { return name.starts_with("lib") && name.find(".so") != name.npos; }

}  // namespace

std::vector<std::string> plugin_directories(std::string_view option, const char* environment) {
  std::vector<std::string> directories;
  add_directories(option, directories);
  if (environment != nullptr) add_directories(environment, directories);
  if (environment == nullptr || *environment != '\0') {
    // conda writes another, shorter prefix into the program when it installs it, and zeros after it: the compiler must
    // not know the lengths.
    const char* const volatile ours = CODECFS_PLUGIN_DIR;
    const char* const volatile of_libhdf5 = H5_DEFAULT_PLUGINDIR;
    add_directories(ours, directories);
    add_directories(of_libhdf5, directories);
  }
  return directories;
}

Result<std::vector<std::string>> plugin_files(const std::string& directory) {
  const DirectoryStream entries(opendir(directory.c_str()));
  if (!entries) return fail_errno(errno, "{}", directory);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(entries.get()))
    if (is_library_name(entry->d_name)) names.emplace_back(entry->d_name);
  std::ranges::sort(names);

  std::vector<std::string> files;
  std::set<std::pair<dev_t, ino_t>> seen;
  for (const std::string& name : names) {
    struct stat status{};
    // Opening a FIFO or a device could block.
    if (fstatat(dirfd(entries.get()), name.c_str(), &status, 0) != 0 || !S_ISREG(status.st_mode)) continue;
    if (seen.emplace(status.st_dev, status.st_ino).second) files.push_back(directory + "/" + name);
  }
  return files;
}

}  // namespace codecfs::filters
