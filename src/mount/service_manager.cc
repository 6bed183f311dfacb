#include "mount/service_manager.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "base/unique_fd.h"

namespace codecfs::mount {

ServiceManager::ServiceManager() {
  if (const char* const name = ::secure_getenv("NOTIFY_SOCKET"); name != nullptr) socket_ = name;
  ::unsetenv("NOTIFY_SOCKET");
}

void ServiceManager::ready(std::string_view status) const {
  send(fmt::format("READY=1\nMAINPID={}\nSTATUS={}", ::getpid(), status));
}

void ServiceManager::stopping(std::string_view status) const { send(fmt::format("STOPPING=1\nSTATUS={}", status)); }

void ServiceManager::send(const std::string& text) const {
  if (socket_.empty()) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_.size() >= sizeof address.sun_path || (socket_[0] != '/' && socket_[0] != '@')) {
    log::warning("NOTIFY_SOCKET={} is not a supported socket address", socket_);
    return;
  }
  std::ranges::copy(socket_, address.sun_path);
  if (socket_[0] == '@') address.sun_path[0] = '\0';
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  const UniqueFd channel(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!channel || ::sendto(channel.get(), text.data(), text.size(), MSG_NOSIGNAL,
                           reinterpret_cast<const sockaddr*>(&address), length) < 0)
    log::warning("cannot notify the service manager: {}", std::strerror(errno));
}

}  // namespace codecfs::mount
