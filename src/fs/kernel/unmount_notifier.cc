#include "fs/kernel/unmount_notifier.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

namespace codecfs::fs {

Result<socklen_t> make_socket_address(std::string_view name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof address.sun_path)
    return fail(EINVAL, "this is not the name of an abstract socket");
  std::ranges::copy(name, address.sun_path + 1);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

Result<> UnmountNotifier::add_listener(std::string_view name) {
  sockaddr_un address;
  CODECFS_ASSIGN(const socklen_t length, make_socket_address(name, address));
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener || connect(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
    return fail_errno(errno, "the socket of umount");
  const LockGuard lock(mutex_);
  // After a failed unmount (the mount was in use) the program has closed its socket.
  std::erase_if(listeners_, [](const UniqueFd& other) {
    pollfd state{other.get(), POLLIN, 0};
    return poll(&state, 1, 0) > 0 && (state.revents & (POLLHUP | POLLERR)) != 0;
  });
  constexpr size_t kMax = 16;
  if (listeners_.size() >= kMax) return fail(EBUSY, "{} programs wait for the end of this mount already", kMax);
  listeners_.push_back(std::move(listener));
  return {};
}

void UnmountNotifier::unmounted() {
  const LockGuard lock(mutex_);
  for (const UniqueFd& listener : listeners_)
    (void)send(listener.get(), kUnmounted.data(), kUnmounted.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

UnmountNotifier::~UnmountNotifier() {
  for (const UniqueFd& listener : listeners_) (void)send(listener.get(), result_.data(), result_.size(), MSG_NOSIGNAL);
}

}  // namespace codecfs::fs
