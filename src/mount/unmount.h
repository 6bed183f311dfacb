#pragma once
// Unmounting from the outside: umount(2) returns before a FUSE daemon has stored everything. The helper
// umount.fuse.codecfs, which umount(8) calls, and `codecfs --unmount` wait for the daemon
// (fs/kernel/unmount_notifier.h).

#include <string>

#include "base/result.h"

namespace codecfs::mount {

/// umount(8) of a root finds the helper only where the mount table's own notes name it (it otherwise looks for
/// umount.fuse): notes it in /run/mount/utab while it lives, where there is such a helper and we are root.
class NotedHelper {
 public:
  NotedHelper(const std::string& source, std::string mountpoint);
  NotedHelper(const NotedHelper&) = delete;
  NotedHelper& operator=(const NotedHelper&) = delete;
  ~NotedHelper();

 private:
  std::string mountpoint_;  // empty: nothing was noted
};

/// Unmounts what is mounted there last, unless somebody uses it. Whether it did. By a thread that serves no request.
bool unmount_unused(const std::string& directory);

/// Unmounts what is mounted there last, also while it is used: it ends when nobody uses it any more. Whether it did.
bool detach_mount(const std::string& directory);

/// umount.fuse.codecfs DIRECTORY [-flnrv]: stores, unmounts, waits. The exit code of umount(8): 0, 1 for a wrong call,
/// 32 for a failure, which is on stderr.
int run_umount_helper(int argc, const char* const* argv);

/// codecfs --unmount DIRECTORY: the same, of a mount of codecfs alone. EINVAL where there is none; EBUSY where it is in
/// use (the system's own line is on stderr); EIO and the like where not all is stored.
Result<> unmount(const std::string& directory);

}  // namespace codecfs::mount
