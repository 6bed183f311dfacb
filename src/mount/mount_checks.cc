#include "mount/mount_checks.h"

#include <dirent.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/mount_table.h"

namespace codecfs::mount {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

/// The name of an entry of a directory; none if it is empty or may not be read.
std::optional<std::string> first_entry(const std::string& path) {
  const std::unique_ptr<DIR, CloseDirectory> directory(opendir(path.c_str()));
  while (directory) {
    const dirent* const entry = readdir(directory.get());
    if (entry == nullptr) break;
    if (const std::string_view name = entry->d_name; name != "." && name != "..") return std::string(name);
  }
  return std::nullopt;
}

}  // namespace

Result<std::string> check_mountpoint(const std::string& path, const std::string& source, bool nonempty) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return fail_errno(errno, "mount point {}", path);
  if (!S_ISDIR(status.st_mode)) return fail(ENOTDIR, "mount point {}: not a directory", path);
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr), &std::free);
  if (!real) return fail_errno(errno, "mount point {}", path);
  std::string mountpoint = real.get();
  if (nonempty) return mountpoint;
  if (const std::optional<MountEntry> mount = mount_at(mountpoint); mount && mount->type == "fuse.codecfs")
    return fail(EBUSY,
                "mount point {}: codecfs is mounted there; unmount it first (codecfs -u {}), or hide it with "
                "-o nonempty",
                path, path);
  struct stat other{};
  // A store that is mounted on itself hides nothing but its encoded form.
  if (stat(source.c_str(), &other) == 0 && other.st_dev == status.st_dev && other.st_ino == status.st_ino)
    return mountpoint;
  if (const std::optional<std::string> name = first_entry(mountpoint))
    return fail(ENOTEMPTY,
                "mount point {}: the directory is not empty (it has '{}'), and a mount hides what is in it; "
                "use an empty directory, or -o nonempty",
                path, *name);
  return mountpoint;
}

Result<> check_created_format(const std::string& source, std::string_view create, std::string_view format) {
  const bool is_zip = format.find("zip") != std::string_view::npos;
  bool fits = false;
  if (create == "hdf5")
    fits = format == "HDF5" || format == "netCDF-4";
  else if (create == "zip")
    fits = is_zip && format.starts_with("Zarr");
  else
    fits = !is_zip && format.starts_with(create == "zarr3" ? "Zarr v3" : "Zarr v2");
  if (fits) return {};
  return fail(EEXIST,
              "-o create={}: {} exists already and is another format ({}); choose another name, or mount it "
              "without create",
              create, source, format);
}

}  // namespace codecfs::mount
