#include "fs/guardian.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/log.h"
#include "fs/mount_table.h"

namespace codecfs::fs {
namespace {

constexpr const char* kConnections = "/sys/fs/fuse/connections/";

// In the child of a process with threads: nothing but calls of the system. An open `abort` is its own connection's,
// also when that is gone and another has its number.
[[noreturn]] void wait_for_death_of(pid_t parent, int abort) {
  constexpr int kAbort = 0;
  ::dup2(abort, kAbort);
  ::close_range(kAbort + 1, ~0U, 0);  // above all the connection itself
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGUSR1);
  if (::chdir("/") == 0 && ::getppid() == parent) {
    sigset_t death;
    ::sigemptyset(&death);
    ::sigaddset(&death, SIGUSR1);
    int signal = 0;
    while (::sigwait(&death, &signal) == EINTR) continue;
  }
  const ssize_t ignored = ::write(kAbort, "1", 1);
  ::_exit(ignored == 1 ? 0 : 1);
}

/// None with errno.
UniqueFd open_abort(const std::string& connection) {
  const std::string file = connection + "/abort";
  UniqueFd abort(::open((std::string(kConnections) + file).c_str(), O_WRONLY | O_CLOEXEC));
  if (abort || errno != ENOENT) return abort;
  // Where nobody has mounted that directory (containers), root can have one of his own that stands nowhere.
  const UniqueFd context(::fsopen("fusectl", FSOPEN_CLOEXEC));
  if (!context || ::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return {};
  const UniqueFd directory(::fsmount(context.get(), FSMOUNT_CLOEXEC, 0));
  if (!directory) return {};
  return UniqueFd(::openat(directory.get(), file.c_str(), O_WRONLY | O_CLOEXEC));
}

}  // namespace

Guardian::Guardian(const std::string& mountpoint) {
  const auto mount = mount_at(mountpoint);
  if (!mount) return;
  const UniqueFd abort = open_abort(mount->device.substr(mount->device.find(':') + 1));
  if (!abort) {
    log::info("no access to {} ({}): should this process be killed, its clients may have to wait for a forced unmount",
              kConnections, std::strerror(errno));
    return;
  }
  const pid_t parent = ::getpid();
  child_ = ::fork();
  if (child_ == 0) wait_for_death_of(parent, abort.get());
  if (child_ < 0) log::warning("no process that ends the mount if this one is killed: {}", std::strerror(errno));
}

Guardian::~Guardian() {
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) continue;
}

}  // namespace codecfs::fs
