#pragma once
// What we tell the service manager that started us, where one did: sd_notify(3), without its library.

#include <string>
#include <string_view>

namespace codecfs::mount {

class ServiceManager {
 public:
  /// Takes NOTIFY_SOCKET out of the environment, so that programs which we start do not speak in our name.
  ServiceManager();

  /// The mount can be used. By the process that stays.
  void ready(std::string_view status) const;
  /// It is unmounted, and what was written is being stored.
  void stopping(std::string_view status) const;

 private:
  void send(const std::string& text) const;

  std::string socket_;  // a path, or '@' and an abstract name; empty: nobody listens
};

}  // namespace codecfs::mount
