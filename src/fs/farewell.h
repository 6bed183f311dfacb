#pragma once
// How `umount` waits for a mount to end, as umount(2) does not: umount.fuse.codecfs, which umount(8) calls, gives the
// daemon the name of a socket, unmounts, and listens until the daemon has stored everything and tells how it went.

#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::fs {

/// The extended attribute of the root by which the name of an abstract Unix socket comes to the daemon.
inline constexpr std::string_view kFarewellXattr = "user._Farewell";

/// The daemon's side.
class Farewell {
 public:
  /// Connects to the socket, to speak at the end. ECONNREFUSED and the like.
  Result<> listen_to(std::string_view name);
  /// Tells all how it went; that they hear nothing before the end of the daemon means that it died.
  void tell(const Result<>& ended);

 private:
  std::mutex mutex_;
  std::vector<UniqueFd> listeners_;  // guarded by mutex_
};

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

/// umount.fuse.codecfs DIRECTORY [-flnrv]: stores, unmounts, waits. The exit code of umount(8): 0, 1 for a wrong call,
/// 32 for a failure, which is on stderr.
int run_umount_helper(int argc, const char* const* argv);

}  // namespace codecfs::fs
