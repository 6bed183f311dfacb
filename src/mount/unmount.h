#pragma once
// Unmounting from outside the daemon: umount(2) returns before a FUSE daemon has stored everything. The helper
// umount.fuse.codecfs, which umount(8) calls, and `codecfs unmount` wait for the daemon
// (fs/kernel/unmount_notifier.h).

#include <string>

#include "base/result.h"

namespace codecfs::mount {

/// Registers the umount helper: umount(8), called by root, uses it only if /run/mount/utab names it (otherwise it looks
/// for umount.fuse). Adds the entry for its lifetime if the helper is installed and the daemon runs as root.
class NotedHelper {
 public:
  NotedHelper(const std::string& source, std::string mountpoint);
  NotedHelper(const NotedHelper&) = delete;
  NotedHelper& operator=(const NotedHelper&) = delete;
  ~NotedHelper();

 private:
  std::string mountpoint_;  // empty: no entry was added
};

/// Detaches the top mount at a directory even if it is in use: it ends with its last user. Returns whether it did.
bool detach_mount(const std::string& directory);

/// What umount(8) needs from umount.fuse.codecfs: stores (unless `lazy` or `force`), unmounts, and waits for the daemon
/// (unless `lazy`). Returns the exit code of umount, which reports its own errors; EIO and others if not all data could
/// be stored; EBUSY if the daemon goes on because the mount exists elsewhere, too.
Result<int> unmount_for_umount(const std::string& directory, bool lazy, bool force);

/// codecfs unmount DIRECTORY: unmounts as unmount_for_umount(), only mounts of codecfs. EINVAL if there is none; EBUSY
/// if it is in use (umount's own message is on stderr), or if the daemon goes on because the mount exists elsewhere,
/// too; EIO and others if not all data could be stored. What takes seconds is said on stderr.
Result<> unmount(const std::string& directory);

}  // namespace codecfs::mount
