#pragma once
// Notifies the service manager that started the daemon, if any: sd_notify(3) without its library.

#include <string>
#include <string_view>

namespace codecfs::mount {

class ServiceManager {
 public:
  /// Removes NOTIFY_SOCKET from the environment, so that child processes do not send notifications.
  ServiceManager();

  /// Reports that the mount is usable. Must be called in the process that stays.
  void ready(std::string_view status) const;
  /// Reports that the mount is unmounted and data is being stored.
  void stopping(std::string_view status) const;

 private:
  void send(const std::string& text) const;

  std::string socket_;  // a path, or '@' and an abstract name; empty: no service manager
};

}  // namespace codecfs::mount
