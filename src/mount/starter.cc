#include "mount/starter.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace codecfs::mount {
namespace {

/// Whether the daemon has written that the mount is ready; false if it has ended.
bool is_mounted(int told) {
  char byte = 0;
  ssize_t count = -1;
  while ((count = ::read(told, &byte, sizeof byte)) < 0 && errno == EINTR) continue;
  return count == 1;
}

}  // namespace

Result<std::optional<int>> Starter::fork_daemon() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "cannot go to the background");
  UniqueFd told(ends[0]);
  UniqueFd tells(ends[1]);
  const pid_t starter = ::getpid();
  const pid_t daemon = ::fork();
  if (daemon < 0) return fail_errno(errno, "cannot go to the background");
  if (daemon == 0) {
    told_ = std::move(tells);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != starter) ::raise(SIGTERM);  // it ended before that
    return std::optional<int>();
  }
  tells.reset();
  if (is_mounted(told.get())) return 0;
  int status = 0;
  while (::waitpid(daemon, &status, 0) < 0)
    if (errno != EINTR) return fail_errno(errno, "the process that mounts");
  if (WIFEXITED(status)) return WEXITSTATUS(status);  // it has given the reason
  return fail(EIO, "the process that mounts was ended before the mount was ready ({})", ::strsignal(WTERMSIG(status)));
}

Result<> Starter::mounted() {
  if (!told_) return {};
  ::prctl(PR_SET_PDEATHSIG, 0);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null || ::setsid() < 0 || ::chdir("/") != 0) return fail_errno(errno, "cannot go to the background");
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::dup2(null.get(), fd) < 0) return fail_errno(errno, "cannot go to the background");
  const char byte = 'm';
  // If the starter was killed just now, its mount goes on.
  [[maybe_unused]] const ssize_t count = ::write(told_.get(), &byte, sizeof byte);
  told_.reset();
  return {};
}

}  // namespace codecfs::mount
