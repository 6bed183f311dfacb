#pragma once
// How a program that unmounts waits until the daemon has stored everything and has released the source: it opens an
// abstract Unix socket, gives its name to the daemon, unmounts, and reads from the socket the result of the last commit.
// All functions are safe from all threads unless they say otherwise.

#include <sys/socket.h>
#include <sys/un.h>

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::fs {

/// A getxattr of this name on the root, followed by the name of an abstract Unix socket, registers that socket. (It is
/// a read, because a read-only mount refuses setxattr.)
inline constexpr std::string_view kUnmountXattr = "user._Farewell.";

/// Of the root: the paths of files that would be lost at the unmount, one a line. ENODATA where there are none.
inline constexpr const char* kNotStoredXattr = "user._NotStored";

/// The address of an abstract socket, which has no file: a zero byte before the name. Its length; EINVAL.
Result<socklen_t> make_socket_address(std::string_view name, sockaddr_un& address);

/// The daemon's side. The destructor sends the result, so it must be created before the source is opened: a program
/// that has received the result can open the source.
class UnmountNotifier {
 public:
  UnmountNotifier() = default;
  ~UnmountNotifier();
  UnmountNotifier(const UnmountNotifier&) = delete;
  UnmountNotifier& operator=(const UnmountNotifier&) = delete;

  /// Connects to the socket of a program that waits. EBUSY: too many wait; ECONNREFUSED and the like.
  Result<> add_listener(std::string_view name);
  /// What all listeners receive. Listeners that receive nothing take the daemon for dead. By one thread, before the end.
  void set_result(const Result<>& ended) { result_ = ended ? std::string(kStored) : ended.error().reason + "\n"; }

  static constexpr std::string_view kStored = "stored\n";

 private:
  std::string result_;  // empty: not known yet
  std::mutex mutex_;
  std::vector<UniqueFd> listeners_;  // guarded by mutex_; may include some that have been closed
};

}  // namespace codecfs::fs
