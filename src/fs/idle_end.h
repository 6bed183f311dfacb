#pragma once
// -o idle=SECONDS: the mount ends by itself when nobody has used it for so long.

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <thread>

#include "fs/operations.h"

namespace codecfs::fs {

/// While it lives, looks whether the mount is used: a request came, or a file or directory is open. What the kernel
/// answers from its memory does not count; what it calls busy (a current directory, a mapping) does. Nothing is
/// unmounted that would lose something: before, everything is stored.
class IdleEnd {
 public:
  IdleEnd(Mount& mount, std::chrono::seconds after);
  /// Ends without unmounting.
  ~IdleEnd() = default;
  IdleEnd(const IdleEnd&) = delete;
  IdleEnd& operator=(const IdleEnd&) = delete;

 private:
  void run(const std::stop_token& stop);
  bool end();

  Mount& mount_;
  const std::optional<dev_t> device_;  // of the mount
  const std::chrono::seconds after_;
  std::jthread thread_;
};

}  // namespace codecfs::fs
