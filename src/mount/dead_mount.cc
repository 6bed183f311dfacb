#include "mount/dead_mount.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/log.h"
#include "base/mount_table.h"
#include "base/unique_fd.h"
#include "mount/unmount.h"

namespace codecfs::mount {
namespace {

/// Whether the daemon is dead. stat() would use the kernel's attribute cache. ECONNABORTED: it died during the call.
bool is_dead(const std::string& path) {
  struct statvfs numbers{};
  return ::statvfs(path.c_str(), &numbers) != 0 && (errno == ENOTCONN || errno == ECONNABORTED);
}

/// A daemon that exits closes its connection shortly before it unmounts, and would then unmount the new mount. So
/// checks again after a moment.
bool is_dead_for_good(const std::string& path) {
  constexpr int kTimes = 25;
  constexpr std::chrono::milliseconds kPause{20};
  for (int i = 0; i < kTimes; ++i) {
    if (!is_dead(path)) return false;
    std::this_thread::sleep_for(kPause);
  }
  return is_dead(path);
}

/// Removes trailing "/" and "/.", which would have to be looked up in the dead mount.
std::string without_end(std::string path) {
  while (path.size() > 1 && (path.ends_with('/') || path.ends_with("/."))) path.pop_back();
  return path;
}

/// Resolves symbolic links without accessing the filesystem of the target. Empty if that is in a dead mount.
std::string real_path(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!file) return {};
  std::error_code error;
  return std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", file.get()), error).string();
}

Result<> detach_one(const std::string& path) {
  const std::optional<MountEntry> entry = mount_at(real_path(path));
  // A path inside a dead mount is not a mount point.
  if (!entry) return fail_errno(ENOTCONN, "mount point {}", path);
  if (entry->type != "fuse.codecfs")
    return fail(ENOTCONN, "{}: the dead mount of another program ({}) covers it; unmount that first (umount -l {})",
                entry->path, entry->type, entry->path);
  if (!detach_mount(entry->path))
    return fail(ENOTCONN, "{}: a dead mount covers it, which only root or its owner can unmount", entry->path);
  log::warning("{}: the daemon of a mount there died; it was unmounted", entry->path);
  return {};
}

}  // namespace

Result<> detach_dead_mounts(const std::string& mountpoint) {
  const std::string path = without_end(mountpoint);
  if (!is_dead(path) || !is_dead_for_good(path)) return {};
  constexpr int kMax = 64;  // stacked mounts
  for (int i = 0; i < kMax && is_dead(path); ++i) CODECFS_TRY(detach_one(path));
  return {};
}

}  // namespace codecfs::mount
