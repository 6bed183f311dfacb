#include "cli/chosen_mountpoint.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "backends/open/source_opener.h"

namespace codecfs::cli {
namespace {

constexpr int kMaxNumber = 99;  // of mount points of the same name

/// The path of a URL, without what may follow it.
std::filesystem::path path_of(const std::string& source) {
  if (!is_source_url(source)) return source;
  const std::string url = source.substr(0, source.find_first_of("?#"));
  return url.substr(url.find("://") + 2);
}

/// Whether it is a directory, and not that of a Zarr store.
bool is_folder(const std::string& source) {
  constexpr std::array kStoreFiles{"zarr.json", ".zgroup", ".zarray", ".zmetadata", ".nczarr", ".nczgroup"};
  std::error_code error;
  const std::filesystem::path path(source);
  return std::filesystem::is_directory(path, error) && std::ranges::none_of(kStoreFiles, [&](const char* file) {
           return std::filesystem::exists(path / file, error);
         });
}

}  // namespace

Result<std::string> choose_mountpoint(const std::string& source) {
  std::filesystem::path path = path_of(source);
  if (!path.has_filename()) path = path.parent_path();
  std::string name = path.stem().string();
  if (name.empty() || name == "." || name == "..") name = "codecfs";
  std::filesystem::path directory = path.parent_path();
  if (is_source_url(source) || access(directory.empty() ? "." : directory.c_str(), W_OK) != 0) {
    const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
    if (runtime == nullptr || *runtime != '/' || access(runtime, W_OK) != 0)
      return fail(EINVAL,
                  "no mount point is given, and none can be made beside {} or in $XDG_RUNTIME_DIR: codecfs SOURCE "
                  "MOUNTPOINT",
                  source);
    directory = std::filesystem::path(runtime) / "codecfs";
  }
  const char* const ending = !is_source_url(source) && is_folder(source) ? "" : ".zarr";
  for (int number = 1; number <= kMaxNumber; ++number) {
    const std::string mark = number == 1 ? ".mnt" : fmt::format(".mnt{}", number);
    const std::filesystem::path candidate = directory / (name + mark + ending);
    struct stat status{};
    if (lstat(candidate.c_str(), &status) == 0) continue;
    if (errno == ENOENT) return candidate.string();
    return fail_errno(errno, "mount point {}", candidate.string());
  }
  return fail(EEXIST, "{}: exists, as {} others of this name: codecfs SOURCE MOUNTPOINT",
              (directory / (name + ".mnt" + ending)).string(), kMaxNumber - 1);
}

}  // namespace codecfs::cli
