#include "fs/farewell.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace codecfs::fs {
namespace {

constexpr std::string_view kWell = "stored\n";
constexpr int kFailed = 32;  // umount(8)'s exit code

/// The address of an abstract socket, which has no file: a zero byte before the name.
Result<socklen_t> make_address(std::string_view name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof address.sun_path) return fail(EINVAL, "this is no name of a socket");
  std::ranges::copy(name, address.sun_path + 1);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

int complain(const std::string& text) {
  std::fprintf(stderr, "umount.fuse.codecfs: %s\n", text.c_str());
  return kFailed;
}

/// Runs a program and waits for it: its exit code.
int run(std::vector<const char*> words, bool quiet) {
  words.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int nowhere = quiet ? open("/dev/null", O_RDWR) : -1;
    if (nowhere >= 0) {
      dup2(nowhere, 1);
      dup2(nowhere, 2);
    }
    execvp(words[0], const_cast<char* const*>(words.data()));
    _exit(127);
  }
  int status = 0;
  if (child < 0) return kFailed;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return kFailed;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kFailed;
}

/// Runs the plain umount. Its exit code.
int run_umount(const std::string& directory, bool lazy) {
  // -i: not through this helper again.
  if (geteuid() == 0) return run({"umount", "-i", lazy ? "-l" : "--", directory.c_str()}, false);
  return run({"fusermount3", lazy ? "-uz" : "-u", "--", directory.c_str()}, false);
}

/// What the daemon did not store yet comes to it (dirty pages of mapped files too) and is stored. An error keeps the
/// mount, so that nothing is lost.
Result<> store(const std::string& directory) {
  const UniqueFd root(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return fail_errno(errno, "{}", directory);
  if (syncfs(root.get()) == 0 && fsync(root.get()) == 0) return {};
  const int code = errno;
  char reason[4096];
  const ssize_t size = fgetxattr(root.get(), "user._Error", reason, sizeof reason);
  return fail(code, "{} stays mounted, as not all can be stored: {}", directory,
              size > 0 ? std::string_view(reason, static_cast<size_t>(size)) : std::strerror(code));
}

/// Waits for the daemon's word.
Result<> wait_for(const UniqueFd& listening) {
  const UniqueFd daemon(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!daemon) return fail_errno(errno, "the daemon does not answer");
  std::string said;
  char part[1024];
  for (;;) {
    const ssize_t count = read(daemon.get(), part, sizeof part);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    said.append(part, static_cast<size_t>(count));
  }
  if (said == kWell) return {};
  while (said.ends_with('\n')) said.pop_back();
  return fail(EIO, "{}", said.empty() ? "the daemon ended without a word: what was not stored is lost" : said);
}

}  // namespace

NotedHelper::NotedHelper(const std::string& source, std::string mountpoint) {
  if (geteuid() != 0 || access("/sbin/umount.fuse.codecfs", X_OK) != 0) return;
  // --fake: only the note is made.
  if (run({"mount", "--fake", "-i", "--no-canonicalize", "-t", "fuse.codecfs", "-o", "rw,uhelper=fuse.codecfs",
           source.c_str(), mountpoint.c_str()},
          true) == 0)
    mountpoint_ = std::move(mountpoint);
}

NotedHelper::~NotedHelper() {
  if (!mountpoint_.empty()) run({"umount", "--fake", "-i", mountpoint_.c_str()}, true);
}

Result<> Farewell::listen_to(std::string_view name) {
  sockaddr_un address;
  CODECFS_ASSIGN(const socklen_t length, make_address(name, address));
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener || connect(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
    return fail_errno(errno, "the socket of umount");
  const std::lock_guard lock(mutex_);
  constexpr size_t kMost = 16;
  if (listeners_.size() >= kMost) return fail(EBUSY, "{} programs wait for the end of this mount already", kMost);
  listeners_.push_back(std::move(listener));
  return {};
}

void Farewell::tell(const Result<>& ended) {
  const std::string text = ended ? std::string(kWell) : ended.error().reason + "\n";
  const std::lock_guard lock(mutex_);
  for (const UniqueFd& listener : listeners_) (void)send(listener.get(), text.data(), text.size(), MSG_NOSIGNAL);
  listeners_.clear();
}

bool unmount_unused(const std::string& directory) {
  if (geteuid() == 0) return run({"umount", "-i", "--", directory.c_str()}, true) == 0;
  return run({"fusermount3", "-u", "--", directory.c_str()}, true) == 0;
}

int run_umount_helper(int argc, const char* const* argv) {
  std::string directory;
  bool lazy = false;
  bool force = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.size() > 1 && argument[0] == '-') {
      lazy |= argument.find('l') != argument.npos;
      force |= argument.find('f') != argument.npos;
      if (argument == "-t" || argument == "-N" || argument == "-O") ++i;
    } else if (directory.empty()) {
      directory = argument;
    } else {
      directory.clear();
      break;
    }
  }
  if (directory.empty()) {
    std::fprintf(stderr, "usage: umount.fuse.codecfs DIRECTORY [-flnrv]\n");
    return 1;
  }
  if (!lazy && !force) {
    if (const Result<> stored = store(directory); !stored) return complain(stored.error().reason);
  }

  std::string name = fmt::format("codecfs-umount-{}-", getpid());
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) == sizeof random) name += fmt::format("{:016x}", random);
  sockaddr_un address;
  const Result<socklen_t> length = make_address(name, address);
  const UniqueFd listening(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool heard = length && listening &&
                     bind(listening.get(), reinterpret_cast<sockaddr*>(&address), *length) == 0 &&
                     listen(listening.get(), 1) == 0 &&
                     setxattr(directory.c_str(), kFarewellXattr.data(), name.data(), name.size(), 0) == 0;
  if (const int code = run_umount(directory, lazy); code != 0) return code;
  // A mount that was detached lives until its files are closed: nobody waits for that.
  if (!heard || lazy) return 0;
  const Result<> ended = wait_for(listening);
  return ended ? 0 : complain(ended.error().reason);
}

}  // namespace codecfs::fs
