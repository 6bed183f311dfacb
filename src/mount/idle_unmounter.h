#pragma once
// -o idle=SECONDS: unmounts after this time without use.

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <thread>

#include "fs/kernel/operations.h"

namespace codecfs::mount {

/// During its lifetime, monitors the use of the mount: requests, and open files and directories. Requests that the
/// kernel answers from its caches do not count; a working directory or mapping, which makes the mount busy, does.
/// Everything is stored before the unmount, and a mount that would lose something stays.
class IdleUnmounter {
 public:
  IdleUnmounter(fs::Mount& mount, std::chrono::seconds after);
  /// Stops without unmounting.
  ~IdleUnmounter() = default;
  IdleUnmounter(const IdleUnmounter&) = delete;
  IdleUnmounter& operator=(const IdleUnmounter&) = delete;

 private:
  void run(const std::stop_token& stop);
  bool end();

  fs::Mount& mount_;
  const std::optional<dev_t> device_;  // device number of the mount
  const std::chrono::seconds after_;
  std::jthread thread_;
};

}  // namespace codecfs::mount
