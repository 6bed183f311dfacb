#pragma once
// How `umount` and `codecfs --unmount` wait for a mount to end, as umount(2) does not: the helper umount.fuse.codecfs,
// which umount(8) calls, and the option give the daemon the name of a socket, unmount, and listen until the daemon has
// stored everything and tells how it went.

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::fs {

/// Who asks for this extended attribute of the root gives the daemon the name of an abstract Unix socket, the rest of
/// the attribute's. (It is asked for, not set, as nothing is set on a read-only mount.)
inline constexpr std::string_view kFarewellXattr = "user._Farewell.";

/// Of the root: the paths of files that would be lost at the unmount, one a line. ENODATA where there are none.
inline constexpr const char* kNotStoredXattr = "user._NotStored";

/// The daemon's side. It speaks when it is destroyed: make it before what holds the source, so that whoever hears it
/// can have the source.
class Farewell {
 public:
  Farewell() = default;
  ~Farewell();
  Farewell(const Farewell&) = delete;
  Farewell& operator=(const Farewell&) = delete;

  /// Connects to the socket, to speak at the end. ECONNREFUSED and the like.
  Result<> listen_to(std::string_view name);
  /// What all are told: how it went. Without that they hear nothing, which means that the daemon died.
  void tell_at_the_end(const Result<>& ended) { last_word_ = ended ? std::string(kWell) : ended.error().reason + "\n"; }

  static constexpr std::string_view kWell = "stored\n";

 private:
  std::string last_word_;  // empty: not known yet
  std::mutex mutex_;
  std::vector<UniqueFd> listeners_;  // guarded by mutex_; of those that have gone away too
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

/// Unmounts what is mounted there last, also while it is used: it ends when nobody uses it any more. Whether it did.
bool detach_mount(const std::string& directory);

/// umount.fuse.codecfs DIRECTORY [-flnrv]: stores, unmounts, waits. The exit code of umount(8): 0, 1 for a wrong call,
/// 32 for a failure, which is on stderr.
int run_umount_helper(int argc, const char* const* argv);

/// codecfs --unmount DIRECTORY: the same, of a mount of codecfs alone. EINVAL where there is none; EBUSY where it is in
/// use (the system's own line is on stderr); EIO and the like where not all is stored.
Result<> unmount(const std::string& directory);

}  // namespace codecfs::fs
