#include "base/fd_passing.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace codecfs {
namespace {

using Control = std::array<char, CMSG_SPACE(kMaxPassedFds * sizeof(int))>;

}  // namespace

bool send_datagram(int socket, std::string_view bytes, std::span<const int> fds) {
  if (fds.size() > kMaxPassedFds) {
    errno = EINVAL;
    return false;
  }
  iovec data{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) Control space{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = space.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(control), fds.data(), fds.size_bytes());
  }
  ssize_t count = 0;
  do count = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  while (count < 0 && errno == EINTR);
  return count == static_cast<ssize_t>(bytes.size());
}

Datagram receive_datagram(int socket, size_t most) {
  Datagram received;
  received.bytes.resize(most);
  iovec data{received.bytes.data(), received.bytes.size()};
  alignas(cmsghdr) Control space{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  ssize_t count = 0;
  // ECONNRESET, once: the other end was closed before it received everything. What it sent is still to be received.
  do count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (count < 0 && (errno == EINTR || errno == ECONNRESET));
  received.bytes.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  const cmsghdr* control = count > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (control == nullptr || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) return received;
  for (size_t at = CMSG_LEN(0); at + sizeof(int) <= control->cmsg_len; at += sizeof(int)) {
    int fd = -1;
    std::memcpy(&fd, reinterpret_cast<const char*>(control) + at, sizeof fd);
    received.fds.emplace_back(fd);
  }
  return received;
}

}  // namespace codecfs
