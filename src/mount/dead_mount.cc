#include "mount/dead_mount.h"

#include <sys/statvfs.h>

#include <chrono>
#include <optional>
#include <thread>

#include "base/log.h"
#include "base/mount_table.h"
#include "mount/mount_path.h"
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

Result<> detach_one(const std::string& path) {
  const Result<std::string> place = path_of_mount(path);
  const std::optional<MountEntry> entry = place ? mount_at(*place) : std::nullopt;
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
