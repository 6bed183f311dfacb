#include "mount/unmount.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <ranges>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mount_table.h"
#include "base/unique_fd.h"
#include "fs/kernel/unmount_notifier.h"
#include "mount/mount_path.h"
#include "mount/mount_users.h"
#include "mount/progress_line.h"
#include "mount/wait_notice.h"

namespace codecfs::mount {
namespace {

constexpr int kFailed = 32;  // umount(8)'s exit code

/// Runs a program and returns its exit code.
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

/// Runs umount without this helper. Returns its exit code.
int run_umount(const std::string& directory, bool lazy) {
  // -i: do not call this helper again.
  if (geteuid() == 0) return run({"umount", "-i", lazy ? "-l" : "--", directory.c_str()}, false);
  return run({"fusermount3", lazy ? "-uz" : "-u", "--", directory.c_str()}, false);
}

/// After umount has failed. Names the processes that keep the mount busy, if there are any.
std::unexpected<Error> stays_mounted(const std::string& directory) {
  const std::string users = processes_using(directory);
  if (users.empty()) return fail(EBUSY, "{} stays mounted", directory);
  return fail(EBUSY,
              "{} stays mounted, as it is in use by {}; end these processes or their use of it, then unmount "
              "again",
              directory, users);
}

/// EBUSY if the mount has files that are neither chunk nor metadata, which exist in memory only.
Result<> nothing_is_lost(const std::string& directory) {
  std::string paths(size_t{64} << 10, '\0');
  const ssize_t size = getxattr(directory.c_str(), fs::kNotStoredXattr, paths.data(), paths.size());
  if (size <= 0) return {};  // there are none, or the daemon is dead
  paths.resize(static_cast<size_t>(size));
  constexpr size_t kMaxNamed = 10;
  std::string named;
  size_t count = 0;
  for (const auto line : paths | std::views::split('\n'))
    if (++count <= kMaxNamed)
      named += fmt::format("{}'{}'", count == 1 ? "" : ", ", std::string_view(line.begin(), line.end()));
  return fail(EBUSY,
              "{} stays mounted, as these files are neither chunks nor metadata and would be lost: {}{}; copy them to "
              "another place or remove them, then unmount again",
              directory, named, count > kMaxNamed ? " and more (user._NotStored of the mount point names them)" : "");
}

/// Makes the kernel write back dirty pages and the daemon store everything. On an error the mount stays, so that no
/// data is lost.
Result<> store(const std::string& directory) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  // Syncing any directory stores everything. This one can be opened without the source, which may be damaged or rest.
  UniqueFd root(open((directory + "/.codecfs").c_str(), kFlags));
  if (!root && errno == ENOENT) root = UniqueFd(open(directory.c_str(), kFlags));
  if (!root) return fail_errno(errno, "{}", directory);
  std::optional<ProgressLine> progress(directory);
  if (syncfs(root.get()) == 0 && fsync(root.get()) == 0) {
    progress.reset();
    return nothing_is_lost(directory);
  }
  const int code = errno;
  progress.reset();
  char reason[4096];
  const ssize_t size = fgetxattr(root.get(), "user._Error", reason, sizeof reason);
  return fail(code, "{} stays mounted, because not all data can be stored: {}", directory,
              size > 0 ? std::string_view(reason, static_cast<size_t>(size)) : std::strerror(code));
}

/// Receives the daemon's final status.
class Listener {
 public:
  /// Registers with the daemon. Must be created before the unmount.
  explicit Listener(const std::string& directory) : socket_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    std::string name = fmt::format("codecfs-umount-{}-", getpid());
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) == sizeof random) name += fmt::format("{:016x}", random);
    sockaddr_un address;
    const Result<socklen_t> length = fs::make_socket_address(name, address);
    is_known_ = length && socket_ && bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), *length) == 0 &&
                listen(socket_.get(), 1) == 0 &&
                getxattr(directory.c_str(), (std::string(fs::kUnmountXattr) + name).c_str(), nullptr, 0) >= 0;
  }

  /// Waits for the status. Returns at once if the daemon is dead or does not support this. EBUSY if the daemon goes on,
  /// as `place` is mounted elsewhere, too.
  [[nodiscard]] Result<> wait(const MountEntry& place) const {
    if (!is_known_) return {};
    const UniqueFd daemon(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!daemon) return fail_errno(errno, "the daemon does not answer");
    std::string said;
    CODECFS_TRY(wait_for_end(daemon.get(), place, said));
    {
      const WaitNotice notice(fmt::format("waiting for the daemon of {}, which stores what was written", place.path));
      while (receive(daemon.get(), said)) continue;
    }
    // A daemon of an earlier version does not report this.
    if (said.starts_with(fs::UnmountNotifier::kUnmounted)) said.erase(0, fs::UnmountNotifier::kUnmounted.size());
    if (said == fs::UnmountNotifier::kStored) return {};
    while (said.ends_with('\n')) said.pop_back();
    return fail(EIO, "{}", said.empty() ? "the daemon ended without a word: what was not stored is lost" : said);
  }

 private:
  /// False at the end.
  static bool receive(int daemon, std::string& said) {
    char part[1024];
    const ssize_t count = read(daemon, part, sizeof part);
    if (count > 0) said.append(part, static_cast<size_t>(count));
    return count > 0 || (count < 0 && errno == EINTR);
  }

  /// Waits until the kernel has told the daemon that nothing has the mount any more.
  static Result<> wait_for_end(int daemon, const MountEntry& place, std::string& said) {
    using std::chrono::seconds;
    constexpr seconds kSilent{1};
    constexpr seconds kForCopies{10};
    constexpr seconds kForUnknown{60};
    const auto began = std::chrono::steady_clock::now();
    bool has_told = false;
    while (said.empty()) {
      pollfd event{daemon, POLLIN, 0};
      const int count = poll(&event, 1, 500);
      if (count > 0 && !receive(daemon, said)) return {};
      const auto waited = std::chrono::steady_clock::now() - began;
      if (count > 0 || waited < kSilent) continue;
      const std::string copies = other_mounts_of(place.device);
      if (!std::exchange(has_told, true))
        WaitNotice::print(fmt::format("{} is unmounted here; waiting for {}", place.path,
                                      copies.empty() ? "its daemon to end" : "the end of its mount " + copies));
      if (!copies.empty() && waited >= kForCopies)
        return fail(
            EBUSY,
            "{} is unmounted here, but it is still mounted {}: its daemon goes on, and has the source open, until "
            "it is unmounted there, too",
            place.path, copies);
      if (waited >= kForUnknown)
        return fail(
            EBUSY,
            "{} is unmounted here, but its daemon goes on: it serves a request, or processes that cannot be seen "
            "from here have a copy of the mount or a file in it",
            place.path);
    }
    return {};
  }

  UniqueFd socket_;
  bool is_known_ = false;
};

/// The top mount at a path. EINVAL if it is not a codecfs mount.
Result<MountEntry> mount_of_ours(const std::string& directory) {
  CODECFS_ASSIGN(const std::string path, path_of_mount(directory));
  std::optional<MountEntry> mount = mount_at(path);
  if (!mount || mount->type != "fuse.codecfs") return fail(EINVAL, "{}: no codecfs mount at this path", directory);
  return *std::move(mount);
}

std::string waiting_for_daemon(const std::string& directory) {
  return fmt::format("waiting for the daemon of {} to store what was written; if this is interrupted, {} stays mounted",
                     directory, directory);
}

}  // namespace

NotedHelper::NotedHelper(const std::string& source, std::string mountpoint) {
  if (geteuid() != 0 || access("/sbin/umount.fuse.codecfs", X_OK) != 0) return;
  // --fake: only adds the utab entry.
  if (run({"mount", "--fake", "-i", "--no-canonicalize", "-t", "fuse.codecfs", "-o", "rw,uhelper=fuse.codecfs",
           source.c_str(), mountpoint.c_str()},
          true) == 0)
    mountpoint_ = std::move(mountpoint);
}

NotedHelper::~NotedHelper() {
  if (!mountpoint_.empty()) run({"umount", "--fake", "-i", mountpoint_.c_str()}, true);
}

bool detach_mount(const std::string& directory) {
  if (geteuid() == 0) return run({"umount", "-i", "-l", "--", directory.c_str()}, true) == 0;
  return run({"fusermount3", "-uz", "--", directory.c_str()}, true) == 0;
}

Result<int> unmount_for_umount(const std::string& directory, bool lazy, bool force) {
  std::optional<WaitNotice> notice(waiting_for_daemon(directory));
  if (!lazy && !force) CODECFS_TRY(store(directory));
  MountEntry place = mount_at(directory).value_or(MountEntry());
  place.path = directory;
  const Listener listener(directory);
  notice.reset();
  const int code = run_umount(directory, lazy);
  // A detached mount lives until its files are closed: do not wait.
  if (code == 0 && !lazy) CODECFS_TRY(listener.wait(place));
  if (code != 0 && !force && !processes_using(directory).empty()) return stays_mounted(directory);
  return code;
}

Result<> unmount(const std::string& directory) {
  CODECFS_ASSIGN(const MountEntry place, mount_of_ours(directory));
  std::optional<WaitNotice> notice(waiting_for_daemon(place.path));
  const Result<> stored = store(place.path);
  // If the daemon is dead, only the mount is left to remove.
  if (!stored && stored.error().code != ENOTCONN) return stored;
  const Listener listener(place.path);
  notice.reset();
  if (run_umount(place.path, false) != 0) return stays_mounted(place.path);
  return listener.wait(place);
}

}  // namespace codecfs::mount
