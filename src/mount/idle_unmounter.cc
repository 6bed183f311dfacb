#include "mount/idle_unmounter.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>

#include "base/interruptible_sleep.h"
#include "base/log.h"
#include "mount/unmount.h"

namespace codecfs::mount {
namespace {

/// The device of the mount at a path, without a stat, which would be a request to this daemon.
std::optional<dev_t> device_at(const std::string& path) {
  struct statx status{};
  if (statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &status) != 0) return std::nullopt;
  return makedev(status.stx_dev_major, status.stx_dev_minor);
}

}  // namespace

IdleUnmounter::IdleUnmounter(fs::Mount& mount, std::chrono::seconds after)
    : mount_(mount),
      device_(device_at(mount.mountpoint)),
      after_(after),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void IdleUnmounter::run(const std::stop_token& stop) {
  using Clock = std::chrono::steady_clock;
  const auto interval =
      std::min<std::chrono::milliseconds>(std::chrono::milliseconds(after_) / 4, std::chrono::seconds(5));
  auto used = Clock::now();
  while (sleep_unless_stopped(stop, interval)) {
    const bool open = mount_.files.any() || mount_.directories.any();
    if (mount_.used.exchange(false) || open) {
      used = Clock::now();
    } else if (Clock::now() - used >= after_ && !stop.stop_requested()) {
      if (end()) return;
      used = Clock::now();  // retry after the same time
    }
  }
}

bool IdleUnmounter::end() {
  if (const std::vector<std::string> names = mount_.filesystem.context().files_not_stored(); !names.empty()) {
    log::warning("the mount is idle but stays, because unmounting would lose {} (neither chunk nor metadata)",
                 names.front());
    return false;
  }
  if (const Result<> stored = mount_.filesystem.sync_all(); !stored) {
    log::warning("the mount is idle but stays, because not all data could be stored: {}", stored.error().reason);
    return false;
  }
  if (!device_ || device_at(mount_.mountpoint) != device_) return false;  // another filesystem is mounted over it
  // The kernel checks again: EBUSY if the mount is in use by now.
  if (mount_.used || !unmount_unused(mount_.mountpoint)) return false;
  log::info("unmounted after {} s without use", after_.count());
  return true;
}

}  // namespace codecfs::mount
