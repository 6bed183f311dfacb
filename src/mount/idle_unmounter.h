#pragma once
// -o idle=SECONDS: the mount ends by itself when nobody has used it for so long.

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <thread>

#include "fs/kernel/operations.h"

namespace codecfs::mount {

/// While it lives, looks whether the mount is used: a request came, or a file or directory is open. What the kernel
/// answers from its memory does not count; what it calls busy (a current directory, a mapping) does. Nothing is
/// unmounted that would lose something: before, everything is stored.
class IdleUnmounter {
 public:
  IdleUnmounter(fs::Mount& mount, std::chrono::seconds after);
  /// Ends without unmounting.
  ~IdleUnmounter() = default;
  IdleUnmounter(const IdleUnmounter&) = delete;
  IdleUnmounter& operator=(const IdleUnmounter&) = delete;

 private:
  void run(const std::stop_token& stop);
  bool end();

  fs::Mount& mount_;
  const std::optional<dev_t> device_;  // of the mount
  const std::chrono::seconds after_;
  std::jthread thread_;
};

}  // namespace codecfs::mount
