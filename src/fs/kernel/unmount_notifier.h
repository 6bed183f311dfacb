#pragma once
// Lets a program that unmounts wait until the daemon has stored everything and released the source: the program opens
// an abstract Unix socket, sends its name to the daemon, unmounts, and reads the result of the last commit from the
// socket, before it that the last mount of the filesystem is gone. All functions are thread-safe unless noted
// otherwise.

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::fs {

/// A getxattr of this name on the root, followed by the name of an abstract Unix socket, registers that socket. (Not a
/// setxattr, which a read-only mount refuses.)
inline constexpr std::string_view kUnmountXattr = "user._Farewell.";

/// On the root: the paths of files that the unmount would lose, one per line. ENODATA if there are none.
inline constexpr const char* kNotStoredXattr = "user._NotStored";

/// Fills in the address of an abstract socket: a zero byte before the name. Returns its length; EINVAL.
Result<socklen_t> make_socket_address(std::string_view name, sockaddr_un& address);

/// The daemon's side. The destructor sends the result, so it must be created before the source is opened and is
/// destroyed after the source: a program that has received the result can open the source.
class UnmountNotifier {
 public:
  UnmountNotifier() = default;
  ~UnmountNotifier();
  UnmountNotifier(const UnmountNotifier&) = delete;
  UnmountNotifier& operator=(const UnmountNotifier&) = delete;

  /// Connects to the socket of a waiting program. EBUSY: there are too many; ECONNREFUSED and similar.
  Result<> add_listener(std::string_view name);
  /// Reports that nothing has the filesystem any more, so that the listeners need not ask what keeps it.
  void unmounted();
  /// Sets the message for all listeners; without it they conclude that the daemon died. Call it from one thread, before
  /// destruction.
  void set_result(const Result<>& ended) { result_ = ended ? std::string(kStored) : ended.error().reason + "\n"; }

  static constexpr std::string_view kUnmounted = "unmounted\n";
  static constexpr std::string_view kStored = "stored\n";

 private:
  std::string result_;  // empty: not set yet
  Mutex mutex_;
  std::vector<UniqueFd> listeners_ CODECFS_GUARDED_BY(mutex_);  // some may have been closed by the other end
};

}  // namespace codecfs::fs
