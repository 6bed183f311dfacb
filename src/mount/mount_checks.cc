#include "mount/mount_checks.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include "base/directory_stream.h"
#include "base/mount_table.h"
#include "base/unique_fd.h"

namespace codecfs::mount {
namespace {

/// The name of an entry of a directory; none if it is empty or may not be read.
std::optional<std::string> first_entry(const std::string& path) {
  const DirectoryStream directory(opendir(path.c_str()));
  while (directory) {
    const dirent* const entry = readdir(directory.get());
    if (entry == nullptr) break;
    if (const std::string_view name = entry->d_name; name != "." && name != "..") return std::string(name);
  }
  return std::nullopt;
}

constexpr std::string_view kContainer =
    "in a container: start it with --device /dev/fuse --cap-add SYS_ADMIN (with AppArmor also "
    "--security-opt apparmor=unconfined)";

/// Whether /etc/fuse.conf has a line "user_allow_other".
bool users_may_allow_others() {
  std::ifstream file("/etc/fuse.conf");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find_first_not_of(" \t");
    const size_t last = line.find_last_not_of(" \t\r");
    if (first != std::string::npos && line.substr(first, last + 1 - first) == "user_allow_other") return true;
  }
  return false;
}

/// Whether a process with this effective user may mount without fusermount3.
bool has_mount_capability() {
  constexpr unsigned kSysAdmin = 21;  // capabilities(7)
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("CapEff:")) return (std::strtoull(line.c_str() + 7, nullptr, 16) >> kSysAdmin & 1) != 0;
  return true;
}

}  // namespace

std::string hint_for_failed_mount(bool allow_other) {
  const UniqueFd device(open("/dev/fuse", O_RDWR | O_CLOEXEC));
  const int code = device ? 0 : errno;
  if (code == ENOENT || code == ENODEV || code == ENXIO)
    return fmt::format("; there is no /dev/fuse: load the kernel's module (modprobe fuse); {}", kContainer);
  if (code == EACCES || code == EPERM)
    return fmt::format(
        "; /dev/fuse: {}: give this user access to it (usermod -aG with the group that `ls -l /dev/fuse` "
        "shows, often fuse; a new login is needed), or, {}",
        std::strerror(code), kContainer);
  if (geteuid() == 0) {
    if (has_mount_capability()) return {};
    return fmt::format("; this process has no CAP_SYS_ADMIN, which a mount by root needs; {}", kContainer);
  }
  if (allow_other && !users_may_allow_others())
    return "; allow_other and allow_root are for root, unless /etc/fuse.conf has the line user_allow_other";
  if (access("/bin/fusermount3", X_OK) != 0 && access("/usr/local/bin/fusermount3", X_OK) != 0)
    return "; fusermount3 is missing, which mounts for users other than root: install the package fuse3";
  return {};
}

Result<std::string> check_mountpoint(const std::string& path, const std::string& source, bool nonempty) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return fail(ENOENT, "mount point {}: does not exist; make it, or use -o mkdir", path);
    return fail_errno(errno, "mount point {}", path);
  }
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

Result<> check_is_nczarr(const std::string& source, Source& store) {
  if (store.root().kind == EntryKind::group) {
    CODECFS_ASSIGN(const auto members, store.nczarr_members(store.root().object));
    if (members) return {};
  }
  return fail(EEXIST, "-o create=nczarr: {} exists already and is plain Zarr; mount it without create", source);
}

}  // namespace codecfs::mount
